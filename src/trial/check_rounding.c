/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check --a --b --explain rounding: is what differs rounding, or another computation? One more run
 * of each arm records every operation of its first step with its values
 * (python/twinrun/_agent/rounding.py); python/twinrun/_rounding judges them and says so in one JSON
 * object. Whatever comes of it becomes notes: the verdict on the bits stands.
 */
#include "check.h"

#include "capture.h"
#include "run_state.h"

#include "base.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JUDGE_SECONDS = 3600 };

int tw_check_explain_fits(const struct tw_check_asked *a, const struct tw_check_beside *b,
                          struct twin_error *err)
{
    if (!a->explain)
        return 0;
    if (strcmp(a->explain, "rounding") != 0)
        return twin_error_set(err, TWIN_EINVAL, "--explain: expected rounding, found %s",
                              a->explain);
    if (!b->a || !b->b)
        return twin_error_set(err, TWIN_EINVAL,
                              "--explain rounding holds two commands against each other; write: "
                              "twinrun check --explain rounding --a 'python old.py' --b 'python "
                              "new.py'");
    if (a->engine.on)
        return twin_error_set(err, TWIN_EINVAL,
                              "--explain rounding records here: it does not go with --on");
    return 0;
}

/* One run of an arm that records its operations. *out is the caller's. */
static int record_arm(struct tw_check *c, int arm, struct twin_run **out)
{
    char *env[] = {tw_printf("TWINRUN_ROUNDING=%llu", (unsigned long long)c->args.transplant_limit),
                   NULL};
    const char *label = arm == 0 ? "rounding-a" : "rounding-b";
    struct twin_launch_options o = tw_check_launch_options(c, arm, label);
    o.level = TWIN_LEVEL_OPS;
    o.window_last = 0;
    o.max_steps = 1;
    o.env = env;
    if (!env[0])
        return tw_front_trouble(c->series.front, &(struct twin_error){.code = TWIN_ENOMEM},
                                "check");
    int rc = tw_check_launch(c, &o, label, false, out);
    tw_free(env[0]);
    return rc;
}

/* What the judge printed for two runs; NULL: err says why there is nothing. */
static json_t *judge_runs(const struct twin_run *a, const struct twin_run *b,
                          struct twin_error *err)
{
    struct twin_parts parts;
    json_t *answer = NULL;
    char *text = NULL;
    int status = 0;
    if (twin_parts_find(&parts, err) != 0)
        return NULL;
    char *python = tw_find_python(NULL);
    char *folder = parts.python_dir ? tw_path_join(parts.python_dir, "twinrun/_rounding") : NULL;
    char *argv[] = {python, folder, a->dir, b->dir, NULL};
    if (!python || !folder)
        twin_error_set(err, TWIN_ENOENT, "the Python half (package twinrun) was not found");
    else if (tw_capture(argv, JUDGE_SECONDS, &text, &status, err) == 0 &&
             !(answer = json_loads(text, 0, NULL)))
        twin_error_set(err, TWIN_EIO,
                       "the operations were recorded and could not be judged: expected a Python "
                       "with PyTorch as python3 of PATH, found %s (wait status %d)",
                       python, status);
    free(text);
    tw_free(folder);
    tw_free(python);
    twin_parts_free(&parts);
    return answer;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static long long count_of(const json_t *counts, const char *key)
{
    return (long long)json_integer_value(json_object_get(counts, key));
}

/* What the ranks of the two arms have in common where these have not as many. */
static void note_ranks(struct twin_verdict *v, const json_t *ranks)
{
    long long a = count_of(ranks, "a");
    long long b = count_of(ranks, "b");
    if (a == b)
        return;
    twin_verdict_note(v,
                      "rounding: A has %lld rank%s and B %lld: %lld operations of B were held "
                      "against A's as rows of a batch or parts of a loss; %lld add to a sum over "
                      "the ranks and were judged by what they lead to",
                      a, a == 1 ? "" : "s", b, count_of(ranks, "rows"), count_of(ranks, "adds"));
}

/* Appends where an operation was called: "model.py:3 in forward, called at train.py:9 in main". */
static void put_place(struct tw_buf *b, const json_t *operation)
{
    for (const char *at = text_of(operation, "site"), *end; at; at = end ? end + 1 : NULL) {
        end = strchr(at, '\n');
        tw_buf_printf(b, "%.*s%s", (int)(end ? (size_t)(end - at) : strlen(at)), at,
                      end ? ", called at " : "");
    }
}

/* The finding: what B computes, how far off it is, and what A has there. many: B has ranks. */
static void note_finding(struct twin_verdict *v, const json_t *finding, bool many)
{
    const json_t *other = json_object_get(finding, "instead_of");
    const json_t *times = json_object_get(finding, "times");
    char far[64] = "";
    char rank[32] = "";
    if (!other)
        other = json_object_get(finding, "first_in_a");
    if (json_is_number(times))
        snprintf(far, sizeof far, " (%.3g times the bound)", json_number_value(times));
    if (many)
        snprintf(rank, sizeof rank, ", rank %lld", count_of(finding, "rank"));
    struct tw_buf mine = {0}, theirs = {0};
    put_place(&mine, finding);
    put_place(&theirs, other);
    twin_verdict_note(v, "beyond rounding: %s of B at %s%s%s: %s", text_of(finding, "operation"),
                      mine.data ? mine.data : "", rank, far, text_of(finding, "why"));
    if (other)
        twin_verdict_note(v, "in its place A has %s at %s", text_of(other, "operation"),
                          theirs.data ? theirs.data : "");
    tw_buf_free(&mine);
    tw_buf_free(&theirs);
}

/* Keeps in the verdict what notes say, with the folders of the two runs; the judge has kept all of
 * it, operation by operation, as rounding.json in B's. */
static void keep_answer(struct twin_verdict *v, json_t *answer, const char *a, const char *b)
{
    if (json_object_get(answer, "failed"))
        return;
    if (json_object_get(answer, "unkept"))
        twin_verdict_note(v, "rounding: what was found of each operation could not be kept: %s",
                          text_of(answer, "unkept"));
    json_object_del(answer, "unkept");
    json_object_set_new(answer, "runs", json_pack("[s,s]", tw_base_name(a), tw_base_name(b)));
    char *text = json_dumps(answer, JSON_COMPACT | JSON_REAL_PRECISION(17));
    v->rounding = text ? tw_strdup(text) : NULL;
    free(text);
}

static void note_answer(struct twin_verdict *v, const json_t *answer)
{
    const json_t *counts = json_object_get(answer, "counts");
    const json_t *finding = json_object_get(answer, "finding");
    const json_t *notes = json_object_get(answer, "notes");
    if (json_object_get(answer, "failed")) {
        twin_verdict_note(v, "rounding or bug: not known: %s", text_of(answer, "failed"));
        return;
    }
    twin_verdict_note(v,
                      "rounding or bug, first step: %s; operations of B: %lld equal, %lld "
                      "rounding, %lld between values that A has, %lld not known, %lld behind the "
                      "finding",
                      text_of(answer, "outcome"), count_of(counts, "equal"),
                      count_of(counts, "rounding"), count_of(counts, "inside"),
                      count_of(counts, "not known"), count_of(counts, "after"));
    if (json_is_object(finding))
        note_finding(v, finding, count_of(json_object_get(answer, "ranks"), "b") > 1);
    note_ranks(v, json_object_get(answer, "ranks"));
    for (size_t i = 0; i < json_array_size(notes); i++)
        twin_verdict_note(v, "rounding: %s", json_string_value(json_array_get(notes, i)));
}

void tw_check_rounding(struct tw_check *c)
{
    struct twin_run *run[2] = {NULL, NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    if (!c->args.explain || !c->series.v || c->series.v->outcome != TWIN_DIFFER)
        return;
    if (record_arm(c, 0, &run[0]) == 0 && record_arm(c, 1, &run[1]) == 0) {
        json_t *answer = judge_runs(run[0], run[1], &err);
        if (answer) {
            note_answer(c->series.v, answer);
            keep_answer(c->series.v, answer, run[0]->dir, run[1]->dir);
        }
        if (!answer)
            twin_verdict_note(c->series.v, "rounding or bug: not known: %s", err.message);
        json_decref(answer);
    }
    twin_run_free(run[0]);
    twin_run_free(run[1]);
}
