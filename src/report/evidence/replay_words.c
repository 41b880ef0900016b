/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a replay gave the same as the package says, in words and as JSON. */
#include "replay_words.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include "src/report/report.h"

/* The first of the things in which the worlds differ. */
static void print_worlds(FILE *out, const json_t *list)
{
    enum { SHOWN = 6 };
    for (size_t i = 0; i < json_array_size(list) && i < SHOWN; i++) {
        const json_t *d = json_array_get(list, i);
        const char *was = json_string_value(json_object_get(d, "package"));
        const char *is = json_string_value(json_object_get(d, "here"));
        tw_put_to(out, "  %-7s  %s: %.60s in the package, %.60s here\n", i ? "" : "world",
                  json_string_value(json_object_get(d, "what")), was ? was : "nothing",
                  is ? is : "nothing");
    }
    if (json_array_size(list) > SHOWN)
        tw_put_to(out, "           and %zu more (--json lists all)\n",
                  json_array_size(list) - SHOWN);
}

/* The word of the last line, and its sentence below. */
static const char *last_word(enum tw_replay_outcome came_to, enum twin_verdict_outcome outcome)
{
    if (came_to == TW_REPLAY_DIFFERS)
        return "DIFFERS";
    if (came_to == TW_REPLAY_INCONCLUSIVE)
        return "INCONCLUSIVE";
    return outcome == TWIN_SAME ? "REPRODUCED" : "REPRODUCED WITHIN TOLERANCE";
}

/* What the word means, in a sentence. */
static const char *last_sentence(enum tw_replay_outcome came_to, enum twin_verdict_outcome outcome)
{
    if (came_to == TW_REPLAY_DIFFERS)
        return "what came out is not what the package says";
    if (came_to == TW_REPLAY_INCONCLUSIVE)
        return "what was seen does not suffice to say that the same came out";
    return outcome == TWIN_SAME ? "bit for bit what the package says"
                                : "not bit for bit, but within the stated tolerance";
}

/* The outcome for programs. */
static const char *outcome_word(enum tw_replay_outcome came_to, enum twin_verdict_outcome outcome)
{
    if (came_to == TW_REPLAY_DIFFERS)
        return "differ";
    if (came_to == TW_REPLAY_INCONCLUSIVE)
        return "inconclusive";
    return outcome == TWIN_SAME ? "same" : "within-tolerance";
}

json_t *tw_replay_json(const struct tw_replayed *r, const json_t *environment)
{
    const struct twin_run *const runs[2] = {r->was, r->now};
    struct twin_report report = {.verdict = r->v, .runs = runs, .run_count = 2, .verb = "replay"};
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    json_t *verdict = twin_report_json(&report, &text, &err) == 0 ? json_loads(text, 0, NULL)
                                                                  : NULL;
    tw_free(text);
    return json_pack("{s:s, s:s, s:o, s:O, s:O, s:O, s:o}", "schema", "twinrun.replay/1", "outcome",
                     outcome_word(r->outcome, r->v->outcome), "run", tw_json_text(r->now->dir),
                     "environment_differences", environment, "checkpoints", r->checkpoints, "world",
                     r->world, "verdict", verdict);
}

void tw_replay_text(FILE *out, const struct tw_replayed *r, enum tw_replay_outcome came_to)
{
    const bool same = came_to == TW_REPLAY_SAME || came_to == TW_REPLAY_WITHIN_TOLERANCE;
    for (size_t i = 0; i < json_array_size(r->checkpoints); i++) {
        const json_t *c = json_array_get(r->checkpoints, i);
        tw_put_to(out, "  %-10s  %s: tensors %s\n", i ? "" : "checkpoint",
                  json_string_value(json_object_get(c, "path")),
                  json_string_value(json_object_get(c, "outcome")));
    }
    if (r->now->exit_code != r->was->exit_code)
        tw_put_to(out, "  exit        %d in the package, %d here\n", r->was->exit_code,
                  r->now->exit_code);
    if (!same)
        print_worlds(out, r->world);
    tw_put_to(out, "\n%s  %s\n", last_word(came_to, r->v->outcome),
              last_sentence(came_to, r->v->outcome));
}
