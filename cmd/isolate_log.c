/* SPDX-License-Identifier: Apache-2.0 */
/* A search folder, <home>/searches/<UTC time>-<pid>/: search.json (what is searched), plan.txt (criteria, written before the first
 * run), log.jsonl (one line for each run, on the disk before anything is decided by it). */
#include "isolate.h"

#include "json.h"
#include "say.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <twin/redact.h>
#include <unistd.h>

#define LOG_CAP ((size_t)64 << 20)

static json_t *hex(uint64_t v)
{
    char text[17];
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(v >> (56 - 8 * i));
    tw_hex(bytes, sizeof bytes, text);
    return json_string(text);
}

static uint64_t from_hex(const json_t *j)
{
    const char *s = json_string_value(j);
    return s ? strtoull(s, NULL, 16) : 0;
}

/* ---- one run */

static json_t *set_json(const struct twin_search_set *set)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof set->word / sizeof set->word[0]; i++)
        json_array_append_new(list, hex(set->word[i]));
    return list;
}

static struct twin_search_set set_read(const json_t *j)
{
    struct twin_search_set set = {{0}};
    for (size_t i = 0; i < sizeof set.word / sizeof set.word[0]; i++)
        set.word[i] = from_hex(json_array_get(j, i));
    return set;
}

static json_t *entry_json(const struct tw_isolate *c, const struct twin_search_entry *e)
{
    const struct twin_search_result *r = &e->result;
    const struct tw_isolate_made *made = tw_isolate_made(c, e->number), unknown = {0};
    made = made ? made : &unknown;
    return json_pack("{s:i, s:i, s:o, s:i, s:b, s:i, s:I, s:I, s:o, s:o, s:f, s:f, s:o, s:i, s:b, s:o}", "number", (int)e->number, "purpose", (int)e->purpose,
                     "world", hex(e->world), "status", (int)r->status, "parted", (int)r->parted, "layer",
                     (int)r->layer, "step", (json_int_t)r->step, "steps", (json_int_t)r->steps, "run", hex(r->handle), "agrees", hex(r->agrees), "seconds", r->seconds, "wall_s", made->wall_s,
                     "same", set_json(&r->same), "vote", (int)r->vote, "whole", (int)made->whole, "pinned", set_json(&made->pinned));
}

static int integer(const json_t *j, const char *key, json_int_t low, json_int_t high, json_int_t *out)
{
    const json_t *v = json_object_get(j, key);
    *out = json_integer_value(v);
    return json_is_integer(v) && *out >= low && *out <= high ? 0 : TWIN_EFORMAT;
}

static int entry_read(const json_t *j, struct twin_search_entry *e)
{
    struct twin_search_result *r = &e->result;
    json_int_t number, purpose, status, layer, step, steps, vote;
    *e = (struct twin_search_entry){0};
    if (integer(j, "number", 1, UINT32_MAX, &number) || integer(j, "purpose", 0, TWIN_FOR_VOTE, &purpose) ||
        integer(j, "status", 0, TWIN_NOT_ENDED, &status) || integer(j, "layer", -1, TWIN_SEARCH_LAYERS - 1, &layer) ||
        integer(j, "step", 0, UINT32_MAX, &step) || integer(j, "steps", 0, INT64_MAX, &steps) ||
        integer(j, "vote", 0, TWIN_VOTE_HARDWARE, &vote) || !json_is_number(json_object_get(j, "seconds")))
        return TWIN_EFORMAT;
    e->number = (uint32_t)number;
    e->purpose = (uint32_t)purpose;
    e->world = from_hex(json_object_get(j, "world"));
    r->status = (enum twin_search_status)status;
    r->parted = json_is_true(json_object_get(j, "parted"));
    r->layer = (int32_t)layer;
    r->step = (uint32_t)step;
    r->steps = (uint64_t)steps;
    r->handle = from_hex(json_object_get(j, "run"));
    r->agrees = from_hex(json_object_get(j, "agrees"));
    r->seconds = json_number_value(json_object_get(j, "seconds"));
    r->vote = (enum twin_search_vote)vote;
    r->same = set_read(json_object_get(j, "same"));
    return 0;
}

int tw_isolate_log_save(void *user, const struct twin_search_entry *entry, struct twin_error *err)
{
    struct tw_isolate *c = user;
    json_t *j = entry_json(c, entry);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL, *line = text ? tw_printf("%s\n", text) : NULL;
    int rc = 0;
    if (!line)
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory");
    else if (tw_write_all(c->log_fd, line, strlen(line)) != 0 || fdatasync(c->log_fd) != 0)
        rc = twin_error_system(err, "cannot write %s/log.jsonl", c->folder);
    tw_free(line);
    free(text);
    json_decref(j);
    return rc;
}

/* A last line that a crash cut off is dropped: its run is made again. */
static int read_log(struct tw_isolate *c, const char *path, struct twin_error *err)
{
    char *data = NULL;
    size_t bytes = 0, at = 0;
    int rc = tw_read_file(path, LOG_CAP, &data, &bytes, err);
    while (rc == 0 && at < bytes) {
        struct twin_search_entry e;
        const char *end = memchr(data + at, '\n', bytes - at);
        if (!end)
            break;
        json_t *j = json_loadb(data + at, (size_t)(end - data) - at, JSON_REJECT_DUPLICATES, NULL);
        rc = j && entry_read(j, &e) == 0 ? twin_search_log_add(&c->log, &e, err)
                                         : twin_error_set(err, TWIN_EFORMAT, "%s: line %zu is not a run of a search", path, c->log.count + 1);
        if (rc == 0 && json_object_get(j, "whole"))
            rc = tw_isolate_made_add(c, &(struct tw_isolate_made){.number = e.number, .whole = json_is_true(json_object_get(j, "whole")),
                                              .wall_s = json_number_value(json_object_get(j, "wall_s")), .pinned = set_read(json_object_get(j, "pinned"))});
        json_decref(j);
        at = (size_t)(end - data) + 1;
    }
    if (rc == 0 && at < bytes && truncate(path, (off_t)at) != 0)
        rc = twin_error_system(err, "cannot cut the torn end of %s", path);
    tw_free(data);
    return rc;
}

/* ---- what is searched */

static json_t *describe(const struct tw_isolate *c)
{
    json_t *argv = json_array(), *factors = json_array(), *ignored = json_array();
    struct twin_redactor *redactor = NULL;
    size_t argc = 0;
    while (c->argv[argc])
        argc++;
    twin_redactor_open(c->home, &redactor, NULL);
    char **safe = redactor ? twin_redact_argv(redactor, c->argv, argc) : NULL;
    for (size_t i = 0; safe && i < argc; i++)
        json_array_append_new(argv, tw_json_text(safe[i]));
    twin_redact_free(safe);
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(factors, tw_json_text(c->candidate[i].id));
    for (size_t i = 0; i < c->args.ignore.count; i++)
        json_array_append_new(ignored, tw_json_text(c->args.ignore.items[i]));
    char *cwd = tw_path_absolute(".", NULL);
    json_t *j = json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:b, s:I}", "schema", "twinrun.search/1", "argv", argv, "cwd", tw_json_text(cwd), "factors",
                          factors, "steps", (json_int_t)c->args.steps, "ignore", ignored, "text", (int)c->args.text, "jobs",
                          (json_int_t)c->args.jobs); /* the order of the runs hangs on it */
    tw_free(cwd);
    if (c->arms) {
        char *a = redactor ? twin_redact(redactor, c->args.a, NULL) : NULL, *b = redactor ? twin_redact(redactor, c->args.b, NULL) : NULL;
        json_object_set_new(j, "a", tw_json_text(a));
        json_object_set_new(j, "b", tw_json_text(b));
        tw_free(a);
        tw_free(b);
        json_object_set_new(j, "held", tw_json_text(c->args.pin ? c->args.pin : ""));
    }
    twin_redactor_close(redactor);
    return j;
}

static bool is_it(const char *folder, const json_t *wanted)
{
    char *path = tw_path_join(folder, "search.json");
    json_t *found = path ? json_load_file(path, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool equal = found && json_equal(found, wanted);
    json_decref(found);
    tw_free(path);
    return equal;
}

/* The newest search folder for the same thing; NULL: none. Their names begin with the time. */
static char *find(const char *all, const json_t *wanted)
{
    DIR *d = opendir(all);
    char *best = NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        char *folder = e->d_name[0] != '.' ? tw_path_join(all, e->d_name) : NULL;
        bool newer = folder && (!best || strcmp(folder, best) > 0) && is_it(folder, wanted);
        if (newer) {
            tw_free(best);
            best = folder;
        } else {
            tw_free(folder);
        }
    }
    if (d)
        closedir(d);
    return best;
}

static int write_text(const char *folder, const char *name, const char *text, struct twin_error *err)
{
    char *path = tw_path_join(folder, name);
    int rc = path && text ? tw_write_file_atomic(path, text, strlen(text), err) : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    tw_free(path);
    return rc;
}

static int make_folder(struct tw_isolate *c, const char *all, const json_t *what, struct twin_error *err)
{
    char stamp[32], *text = json_dumps(what, JSON_INDENT(1)), *plan = twin_search_plan_text(&c->plan);
    tw_utc_stamp(tw_realtime_ns(), stamp);
    c->folder = tw_printf("%s/%s-%d", all, stamp, (int)getpid());
    int rc = c->folder ? tw_mkdirs(c->folder, err) : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (rc == 0)
        rc = write_text(c->folder, "plan.txt", plan, err);
    if (rc == 0)
        rc = write_text(c->folder, "search.json", text, err);
    free(text);
    free(plan);
    return rc;
}

int tw_isolate_log_open(struct tw_isolate *c, struct twin_error *err)
{
    char *all = tw_path_join(c->home, "searches"), *path = NULL;
    json_t *what = describe(c);
    int rc = all && what ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (rc == 0 && c->args.resume) {
        c->folder = find(all, what);
        if (!c->folder)
            rc = twin_error_set(err, TWIN_ENOENT, "no search of this job with these factors and options in %s; start one without --resume", all);
    } else if (rc == 0) {
        rc = make_folder(c, all, what, err);
    }
    if (rc == 0 && !(path = tw_path_join(c->folder, "log.jsonl")))
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (rc == 0 && c->args.resume && access(path, F_OK) == 0)
        rc = read_log(c, path, err);
    if (rc == 0 && (c->log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) < 0)
        rc = twin_error_system(err, "cannot open %s", path);
    json_decref(what);
    tw_free(path);
    tw_free(all);
    return rc;
}
