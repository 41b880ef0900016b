/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A search's journal, below <home>/searches: search.json says what is searched, plan.txt has the
 * criteria, `seed` that of the arrangements, and log.jsonl one line for each run. The journal
 * itself (src/trial/journal.c) writes, finds and reads; here is what its lines say.
 *
 * A line holds the search's own entry of a run, what this command knows of it besides (struct
 * tw_isolate_made), and what has been found out until then about clocks and blind spots. Handles,
 * digests and sets are written as hexadecimal texts, since JSON's numbers do not hold 64 bits for
 * every reader.
 */
#include "search_runs.h"

#include "json_text.h"

#include "base.h"

#include "src/launch/redact.h"
#include "twin/fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A set as a list of its 64-bit words. */
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

/* The clock experiments so far. Each line has all of them, so the last line that was read is
 * enough. */
static json_t *clock_json(const struct tw_isolate *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->clock_count; i++)
        json_array_append_new(list, json_pack("{s:o, s:[o, o], s:o}", "pinned",
                                              set_json(&c->clock[i].pinned), "runs",
                                              hex(c->clock[i].run[0]), hex(c->clock[i].run[1]),
                                              "text", tw_json_text(c->clock[i].text)));
    return list;
}

static void clock_read(struct tw_isolate *c, const json_t *list)
{
    for (size_t i = c->clock_count; i < json_array_size(list) && i < TW_ISOLATE_CLOCKS; i++) {
        const json_t *j = json_array_get(list, i), *runs = json_object_get(j, "runs");
        const char *text = json_string_value(json_object_get(j, "text"));
        c->clock[c->clock_count++] = (struct tw_isolate_clock){
            set_read(json_object_get(j, "pinned")),
            {from_hex(json_array_get(runs, 0)), from_hex(json_array_get(runs, 1))},
            text ? tw_strdup(text) : NULL};
    }
}

static json_t *entry_json(const struct tw_isolate *c, const struct twin_search_entry *e)
{
    const struct twin_search_result *r = &e->result;
    const struct tw_isolate_made *made = tw_isolate_made(c, e->number), unknown = {0};
    made = made ? made : &unknown;
    return json_pack(
        "{s:i, s:i, s:o, s:i, s:b, s:i, s:I, s:I, s:o, s:o, s:f, s:f, s:o, s:i, s:b, "
        "s:o, s:o, s:o, s:b, s:b, s:b}",
        "number", (int)e->number, "purpose", (int)e->purpose, "world", hex(e->world), "status",
        (int)r->status, "parted", (int)r->parted, "layer", (int)r->layer, "step",
        (json_int_t)r->step, "steps", (json_int_t)r->steps, "run", hex(r->handle), "agrees",
        hex(r->agrees), "seconds", r->seconds, "wall_s", made->wall_s, "same", set_json(&r->same),
        "vote", (int)r->vote, "whole", (int)made->whole, "pinned", set_json(&made->pinned),
        "unseen", c->unseen ? tw_json_text(c->unseen) : json_null(), "clock", clock_json(c),
        "not_sure", (int)r->unseen, "blind", (int)r->blind, "unjudged", (int)r->unjudged);
}

/* Sets *out to an integer that lies in the range. 0; TWIN_EFORMAT: there is none. */
static int read_integer(const json_t *j, const char *key, json_int_t low, json_int_t high,
                        json_int_t *out)
{
    const json_t *v = json_object_get(j, key);
    *out = json_integer_value(v);
    return json_is_integer(v) && *out >= low && *out <= high ? 0 : TWIN_EFORMAT;
}

/* TWIN_EFORMAT: a number is missing or outside of its range. Texts and flags that are missing count
 * as 0. */
static int entry_read(const json_t *j, struct twin_search_entry *e)
{
    struct twin_search_result *r = &e->result;
    json_int_t number, purpose, status, layer, step, steps, vote;
    *e = (struct twin_search_entry){0};
    if (read_integer(j, "number", 1, UINT32_MAX, &number) ||
        read_integer(j, "purpose", 0, TWIN_FOR_FREE, &purpose) ||
        read_integer(j, "status", 0, TWIN_NOT_ENDED, &status) ||
        read_integer(j, "layer", -1, TWIN_SEARCH_LAYERS - 1, &layer) ||
        read_integer(j, "step", 0, UINT32_MAX, &step) ||
        read_integer(j, "steps", 0, INT64_MAX, &steps) ||
        read_integer(j, "vote", 0, TWIN_VOTE_HARDWARE, &vote) ||
        !json_is_number(json_object_get(j, "seconds")))
        return TWIN_EFORMAT;
    e->number = (uint32_t)number;
    e->purpose = (uint32_t)purpose;
    e->world = from_hex(json_object_get(j, "world"));
    r->status = (enum twin_search_status)status;
    r->parted = json_is_true(json_object_get(j, "parted"));
    r->unseen = json_is_true(json_object_get(j, "not_sure"));
    r->blind = json_is_true(json_object_get(j, "blind"));
    r->unjudged = json_is_true(json_object_get(j, "unjudged"));
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
    return tw_journal_add(&c->journal, entry_json(c, entry), err);
}

/* Called for each line of a log that is gone on with. Lines without "whole" say nothing of the run
 * beside its result. */
static int read_line(void *user, const json_t *j, struct twin_error *err)
{
    struct tw_isolate *c = user;
    struct twin_search_entry e;
    if (entry_read(j, &e) != 0)
        return TWIN_EFORMAT;
    int rc = twin_search_log_add(&c->log, &e, err);
    if (rc == 0 && json_object_get(j, "whole"))
        rc = tw_isolate_made_add(
            c, &(struct tw_isolate_made){.number = e.number,
                                         .handle = e.result.handle,
                                         .whole = json_is_true(json_object_get(j, "whole")),
                                         .wall_s = json_number_value(json_object_get(j, "wall_s")),
                                         .pinned = set_read(json_object_get(j, "pinned"))});
    const char *unseen = json_string_value(json_object_get(j, "unseen"));
    clock_read(c, json_object_get(j, "clock"));
    if (rc == 0 && unseen && !c->unseen)
        c->unseen = tw_strdup(unseen);
    return rc;
}

/* ---- what is searched */

/* Of factors of one's own the ids say little: what is pinned and how stands in their file, which
 * may have been changed since. A digest of it; null where it can no longer be read. */
static json_t *factor_file_digest(const char *path)
{
    char *data = NULL;
    size_t bytes = 0;
    if (tw_read_file(path, TW_FACTOR_FILE_MAX, &data, &bytes, NULL) != 0)
        return json_null();
    struct twin_digest d = twin_digest_bytes(data, bytes, 0);
    tw_free(data);
    return json_pack("[o, o]", hex(d.a), hex(d.b));
}

/* What makes two searches the same: the journal goes on only where this object is equal. Commands
 * are written without the secrets in them. */
static json_t *describe_search(const struct tw_isolate *c)
{
    json_t *argv = tw_journal_argv(c->home, c->argv);
    json_t *factors = json_array();
    json_t *ignored = json_array();
    struct twin_redactor *redactor = NULL;
    twin_redactor_open(c->home, &redactor, NULL);
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(factors, tw_json_text(c->candidate[i].id));
    for (size_t i = 0; i < c->args.ignore.count; i++)
        json_array_append_new(ignored, tw_json_text(c->args.ignore.items[i]));
    char *cwd = tw_path_absolute(".", NULL);
    json_t *j = json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:b, s:I}", "schema", "twinrun.search/1",
                          "argv", argv, "cwd", tw_json_text(cwd), "factors", factors, "steps",
                          (json_int_t)c->args.steps, "ignore", ignored, "text", (int)c->args.text,
                          "jobs", (json_int_t)c->args.jobs); /* the runs' order depends on it */
    tw_free(cwd);
    if (c->args.factor_file)
        json_object_set_new(j, "factor_file", factor_file_digest(c->args.factor_file));
    if (c->args.no_clock)
        json_object_set_new(j, "no_clock", json_true());
    if (c->args.a) {
        char *a = redactor ? twin_redact(redactor, c->args.a, NULL) : NULL;
        char *b = redactor ? twin_redact(redactor, c->args.b, NULL) : NULL;
        json_object_set_new(j, "a", tw_json_text(a));
        json_object_set_new(j, "b", tw_json_text(b));
        tw_free(a);
        tw_free(b);
        json_object_set_new(j, "held", tw_json_text(c->args.pin ? c->args.pin : ""));
        if (c->args.through)
            json_object_set_new(j, "through", json_true());
    }
    twin_redactor_close(redactor);
    return j;
}

/* The seed of the arrangements is kept beside the log: the same runs in another order would be
 * another search. */
static int keep_seed(struct tw_isolate *c, struct twin_error *err)
{
    char text[32], *old = NULL, *path = tw_path_join(c->journal.folder, "seed");
    size_t bytes = 0;
    int rc = path ? 0 : tw_no_memory(err, "for the log of a search");
    if (!rc && c->args.resume && tw_read_file(path, sizeof text, &old, &bytes, NULL) == 0)
        c->plan.seed = strtoull(old, NULL, 10);
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)c->plan.seed);
    if (!rc && !old)
        rc = tw_write_file_atomic(path, text, strlen(text), err);
    tw_free(old);
    tw_free(path);
    return rc;
}

/* The seed has to be known before the search begins, and what earlier runs showed after the log was
 * read. */
int tw_isolate_log_open(struct tw_isolate *c, struct twin_error *err)
{
    json_t *what = describe_search(c);
    char *plan = twin_search_plan_text(&c->plan);
    const struct tw_journal_of of = {.kind = "searches",
                                     .name = "search.json",
                                     .what = what,
                                     .plan = plan,
                                     .resume = c->args.resume,
                                     .thing = "search of this job with these factors and options"};
    int rc = tw_journal_open(&c->journal, c->home, &of, read_line, c, err);
    if (rc == 0)
        rc = keep_seed(c, err);
    if (rc == 0)
        tw_isolate_recall(c);
    free(plan);
    json_decref(what);
    return rc;
}
