/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a replay gave the same as the package says, in words and as JSON. The last line is the
 * verdict; what differs between the two worlds is told only where the result differs, since then it
 * may be why. */
#include "replay_words.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include "src/report/report.h"

#include <assert.h>

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

/* The image that ran, and whether that is the one that the package names. */
static void print_image(FILE *out, const json_t *container)
{
    const json_t *image = json_object_get(container, "image");
    const char *ran = json_string_value(json_object_get(image, "ran"));
    const char *package = json_string_value(json_object_get(image, "package"));
    const char *recorded = json_string_value(json_object_get(image, "recorded"));
    tw_put_to(out, "  image       %s, by %s\n", ran,
              json_string_value(json_object_get(container, "engine")));
    if (!package)
        tw_put_to(out, "              the package names no image: whether the run was made in this "
                       "one is not known\n");
    else if (json_is_false(json_object_get(image, "same")))
        tw_put_to(out, "              not the image that the package names, %s\n", package);
    else if (json_is_null(json_object_get(image, "same")))
        tw_put_to(out, "              fetched by the digest that the package names; that it is its "
                       "image was not seen here\n");
    else if (json_is_true(json_object_get(image, "moved")))
        tw_put_to(out, "              the package names it, and the run's record another one, %s\n",
                  recorded);
    else if (recorded && json_is_null(json_object_get(image, "moved")))
        tw_put_to(out,
                  "              as the package names it; the run's record names %s: the same "
                  "image in another form, or another one\n",
                  recorded);
    else if (recorded)
        tw_put_to(out, "              as the package and the run's own record name it\n");
    else
        tw_put_to(out, "              as the package names it; the run's record names no image\n");
}

/* The things of one kind that no image fixes, as one line. same: json_true, json_false, json_null.
 */
static void print_outside(FILE *out, const json_t *list, json_type same, const char *head)
{
    struct tw_buf b = {0};
    const json_t *item;
    size_t i;
    json_array_foreach (list, i, item) {
        const char *was = json_string_value(json_object_get(item, "package"));
        const char *is = json_string_value(json_object_get(item, "here"));
        if (json_typeof(json_object_get(item, "same")) != same)
            continue;
        tw_buf_print_safe(&b, "%s%s", b.len ? ", " : "",
                          json_string_value(json_object_get(item, "what")));
        if (same == JSON_FALSE)
            tw_buf_print_safe(&b, " (%.60s in the package, %.60s here)", was, is);
    }
    char *text = b.len ? tw_buf_steal(&b) : NULL;
    if (text)
        tw_put_to(out, "  %s%s\n", head, text);
    tw_free(text);
    tw_buf_free(&b);
}

static void print_container(FILE *out, const json_t *container)
{
    const json_t *outside = json_object_get(container, "outside");
    if (!container)
        return;
    print_image(out, container);
    print_outside(out, outside, JSON_FALSE, "no image fixes it, and it differs: ");
    print_outside(out, outside, JSON_TRUE, "no image fixes it, and it is the same: ");
    print_outside(out, outside, JSON_NULL, "no image fixes it, and it is not known: ");
}

/* How each outcome is called: the last word of the text and its sentence, and the word in JSON. */
static const struct {
    const char *word, *sentence, *json;
} outcome_words[] = {
    [TW_REPLAY_SAME] = {"REPRODUCED", "bit for bit what the package says", "same"},
    [TW_REPLAY_WITHIN_TOLERANCE] = {"REPRODUCED WITHIN TOLERANCE",
                                    "not bit for bit, but within the stated tolerance",
                                    "within-tolerance"},
    [TW_REPLAY_DIFFERS] = {"DIFFERS", "what came out is not what the package says", "differ"},
    [TW_REPLAY_INCONCLUSIVE] = {"INCONCLUSIVE",
                                "what was seen does not suffice to say that the same came out",
                                "inconclusive"},
    [TW_REPLAY_FAILED] = {"FAILED", "what came out could not be held against what the package says",
                          "failed"},
};

json_t *tw_replay_json(const struct tw_replayed *r, const json_t *environment)
{
    const struct twin_run *const runs[2] = {r->was, r->now};
    struct twin_report report = {.verdict = r->v, .runs = runs, .run_count = 2, .verb = "replay"};
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    json_t *verdict = twin_report_json(&report, &text, &err) == 0 ? json_loads(text, 0, NULL)
                                                                  : NULL;
    tw_free(text);
    json_t *container = r->container ? json_incref(r->container) : json_null();
    return json_pack("{s:s, s:s, s:o, s:O, s:O, s:O, s:o, s:o}", "schema", "twinrun.replay/1",
                     "outcome", outcome_words[r->outcome].json, "run", tw_json_text(r->now->dir),
                     "environment_differences", environment, "checkpoints", r->checkpoints, "world",
                     r->world, "container", container, "verdict", verdict);
}

void tw_replay_text(FILE *out, const struct tw_replayed *r, enum tw_replay_outcome came_to)
{
    assert((size_t)came_to < sizeof outcome_words / sizeof *outcome_words);
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
    print_container(out, r->container);
    tw_put_to(out, "\n%s  %s\n", outcome_words[came_to].word, outcome_words[came_to].sentence);
}
