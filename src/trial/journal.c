/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder that a long series of runs is kept in, and its log (journal.h says what for). A line
 * is on the disk before anything is decided by its run, so a crash costs at most the run that was
 * going on.
 */
#include "journal.h"

#include "base.h"
#include "json_load.h"
#include "json_text.h"

#include "src/launch/redact.h"
#include "src/launch/run.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of a log that is read again. */
#define LOG_CAP ((size_t)256 << 20)

int tw_journal_add(struct tw_journal *j, json_t *line, struct twin_error *err)
{
    char *dumped = line ? json_dumps(line, JSON_COMPACT) : NULL;
    char *text = dumped ? tw_printf("%s\n", dumped) : NULL;
    int rc = text ? 0 : tw_no_memory(err, "for the log of a series");
    if (rc == 0 && (tw_write_all(j->fd, text, strlen(text)) != 0 || fdatasync(j->fd) != 0))
        rc = twin_error_system(err, "cannot write %s/log.jsonl", j->folder);
    tw_free(text);
    free(dumped);
    json_decref(line);
    return rc;
}

/* Hands every line of a log to the caller; cuts off a last line without an end, so that what is
 * added stands on a line of its own. */
static int read_log(const char *path, tw_journal_line *line, void *user, struct twin_error *err)
{
    char *data = NULL;
    size_t bytes = 0, at = 0, number = 1;
    int rc = tw_read_file(path, LOG_CAP, &data, &bytes, err);
    for (; rc == 0 && at < bytes; number++) {
        const char *end = memchr(data + at, '\n', bytes - at);
        if (!end)
            break;
        json_t *j = tw_json_load(data + at, (size_t)(end - data) - at, JSON_REJECT_DUPLICATES,
                                 NULL);
        rc = j ? line(user, j, err) : TWIN_EFORMAT;
        if (rc == TWIN_EFORMAT)
            twin_error_set(err, TWIN_EFORMAT, "%s: line %zu is not one that twinrun wrote there",
                           path, number);
        json_decref(j);
        at = (size_t)(end - data) + 1;
    }
    if (rc == 0 && at < bytes && truncate(path, (off_t)at) != 0)
        rc = twin_error_system(err, "cannot cut the torn end of %s", path);
    tw_free(data);
    return rc;
}

/* Is this object what is looked for? */
typedef bool match_fn(const json_t *found, const json_t *wanted);

/* The same thing: the same command under the same options. */
static bool is_equal(const json_t *found, const json_t *wanted)
{
    return json_equal(found, wanted);
}

/* Whatever the other options are: has it every member of `wanted`, and none of the name of a null?
 */
static bool is_like(const json_t *found, const json_t *wanted)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)wanted, name, value) {
        const json_t *has = json_object_get(found, name);
        if (json_is_null(value) ? has != NULL : !has || !json_equal(has, value))
            return false;
    }
    return true;
}

/* Does NAME in the folder hold such an object? */
static bool is_of(const char *folder, const char *name, match_fn *match, const json_t *wanted)
{
    char *path = tw_path_join(folder, name);
    json_t *found = path ? json_load_file(path, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool is = found && match(found, wanted);
    json_decref(found);
    tw_free(path);
    return is;
}

/* The newest such folder; NULL: none. Their names begin with the time. */
static char *find_folder(const char *all, const char *name, match_fn *match, const json_t *wanted)
{
    DIR *d = opendir(all);
    char *best = NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        char *folder = e->d_name[0] != '.' ? tw_path_join(all, e->d_name) : NULL;
        bool newer = folder && (!best || strcmp(folder, best) > 0) &&
                     is_of(folder, name, match, wanted);
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

char *tw_journal_newest(const char *home, const char *kind, const char *name, const json_t *alike)
{
    char *all = tw_path_join(home, kind);
    char *folder = all && alike ? find_folder(all, name, is_like, alike) : NULL;
    tw_free(all);
    return folder;
}

/* Writes a file of the folder, whole or not at all. */
static int write_text(const char *folder, const char *name, const char *text,
                      struct twin_error *err)
{
    char *path = tw_path_join(folder, name);
    int rc = path && text ? tw_write_file_atomic(path, text, strlen(text), err)
                          : tw_no_memory(err, "for the log of a series");
    tw_free(path);
    return rc;
}

/* NAME comes last: a folder without it is found by nobody. */
static int make_folder(struct tw_journal *j, const char *home, const char *all,
                       const struct tw_journal_of *of, struct twin_error *err)
{
    char stamp[32], *what = json_dumps(of->what, JSON_INDENT(1));
    tw_utc_stamp(tw_realtime_ns(), stamp);
    j->folder = tw_printf("%s/%s-%d", all, stamp, (int)getpid());
    int rc = j->folder ? twin_home_make(home, err) : tw_no_memory(err, "for the log of a series");
    rc = rc ? rc : tw_mkdirs(j->folder, err);
    if (rc == 0)
        rc = write_text(j->folder, "plan.txt", of->plan, err);
    if (rc == 0)
        rc = write_text(j->folder, of->name, what, err);
    free(what);
    return rc;
}

int tw_journal_open(struct tw_journal *j, const char *home, const struct tw_journal_of *of,
                    tw_journal_line *line, void *user, struct twin_error *err)
{
    char *all = tw_path_join(home, of->kind), *path = NULL;
    int rc = all && of->what ? 0 : tw_no_memory(err, "for the log of a series");
    if (rc == 0 && of->resume) {
        j->folder = find_folder(all, of->name, is_equal, of->what);
        if (!j->folder)
            rc = twin_error_set(err, TWIN_ENOENT, "no %s in %s; start one without --resume",
                                of->thing, all);
    } else if (rc == 0) {
        rc = make_folder(j, home, all, of, err);
    }
    if (rc == 0 && !(path = tw_path_join(j->folder, "log.jsonl")))
        rc = tw_no_memory(err, "for the log of a series");
    if (rc == 0 && of->resume && access(path, F_OK) == 0)
        rc = read_log(path, line, user, err);
    if (rc == 0 && (j->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) < 0)
        rc = twin_error_system(err, "cannot open %s", path);
    tw_free(path);
    tw_free(all);
    return rc;
}

void tw_journal_close(struct tw_journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    tw_free(j->folder);
    *j = (struct tw_journal){NULL, -1};
}

/* The command as the log may keep it, without secrets. An empty list: there was no redactor, so
 * that nothing is safe to write. */
json_t *tw_journal_argv(const char *home, char *const *argv)
{
    json_t *list = json_array();
    struct twin_redactor *redactor = NULL;
    size_t argc = 0;
    while (argv[argc])
        argc++;
    twin_redactor_open(home, &redactor, NULL);
    char **safe = redactor ? twin_redact_argv(redactor, argv, argc) : NULL;
    for (size_t i = 0; safe && i < argc; i++)
        json_array_append_new(list, tw_json_text(safe[i]));
    twin_redact_free(safe);
    twin_redactor_close(redactor);
    return list;
}
