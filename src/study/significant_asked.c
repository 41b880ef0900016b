/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the words of the options to a question: metric, kind of question, level, margin and floor. A
 * floor is a size in the unit of the values, but a share where the answer is a ratio; which of them
 * a person wrote is told by the percent sign, and must fit the question.
 */
#include "significant_asked.h"

#include "significant_sets.h"

#include "base.h"
#include "json_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLOOR_BYTES_MAX = 16 << 20 };

/* A finite number >= 0; with a percent sign a hundredth of it. */
static bool amount(const char *s, double *out, bool *percent)
{
    char *end;
    *out = strtod(s, &end);
    *percent = strcmp(end, "%") == 0;
    if (*percent)
        *out /= 100;
    return end != s && (*percent || *end == '\0') && isfinite(*out) && *out >= 0;
}

/* Is the answer to the question a ratio? */
static bool answers_by_ratio(enum twin_question question)
{
    return question == TWIN_ASK_SPEED || question == TWIN_ASK_VARIANCE;
}

/* ---- floor */

/* The relative spread in what twinrun spread --json printed into a file: of one sum, or of a
 * vector. */
static int read_floor(const char *path, double *relative, struct twin_error *err)
{
    json_error_t where = {.text = "it cannot be read"};
    char *text = NULL;
    size_t n = 0;
    bool read = tw_read_file(path, FLOOR_BYTES_MAX, &text, &n, NULL) == 0;
    json_t *j = read ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, &where) : NULL;
    tw_free(text);
    const char *schema = json_string_value(json_object_get(j, "schema"));
    const json_t *of_sum = json_object_get(json_object_get(j, "sum"), "floor_relative");
    const json_t *of_vector = json_object_get(j, "floor_relative_l2");
    const json_t *found = of_sum ? of_sum : of_vector;
    int rc = 0;
    if (!schema || strcmp(schema, "twinrun.spread/1") != 0 || !json_is_number(found) ||
        !(json_number_value(found) >= 0))
        rc = twin_error_set(
            err, TWIN_EINVAL,
            "--floor: %s: expected what twinrun spread --json prints, with a relative "
            "floor in it%s%s",
            path, j ? "" : "; it is not JSON: ", j ? "" : where.text);
    else
        *relative = json_number_value(found);
    json_decref(j);
    return rc;
}

/* A file of that name, or else a number. *is_share: it has a percent sign. */
static int understand_floor(const char *floor, struct tw_significant *s, bool *is_share,
                            struct twin_error *err)
{
    s->floor_file = access(floor, F_OK) == 0 ? floor : NULL;
    if (s->floor_file)
        return read_floor(floor, &s->floor_relative, err);
    if (amount(floor, &s->asked.floor, is_share))
        return 0;
    return twin_error_set(err, TWIN_EINVAL,
                          "--floor: expected a number from 0 on, percent, or a file of twinrun "
                          "spread --json, found \"%s\"",
                          floor);
}

/* Does the floor fit the question? */
static int check_floor(const struct tw_significant *s, bool is_share, struct twin_error *err)
{
    const bool ratio = answers_by_ratio(s->asked.question);
    if (!s->floor_file && s->asked.floor > 0 && ratio != is_share)
        return twin_error_set(
            err, TWIN_EINVAL,
            ratio ? "--floor: the answer to this question is a ratio: expected percent, as in "
                    "--floor 0.5%%"
                  : "--floor: expected a number in the unit of the values, found percent");
    if ((s->floor_file || s->asked.floor > 0) &&
        (s->asked.question == TWIN_ASK_WITHIN || s->asked.question == TWIN_ASK_BITWISE))
        return twin_error_set(err, TWIN_EINVAL, "--floor does not go with this question");
    return 0;
}

int tw_significant_floor_in_units(struct tw_significant *s, struct twin_error *err)
{
    double median;
    s->asked.floor = s->floor_relative;
    if (answers_by_ratio(s->asked.question) || s->floor_relative == 0)
        return 0;
    if (twin_stats_median(s->set[0].x, s->set[0].n, &median) != 0)
        return twin_error_set(err, TWIN_ENOMEM, "no memory for so many values");
    s->asked.floor *= fabs(median);
    return 0;
}

/* ---- question */

/* --question or --within; without either speed is asked of times, else the metric. */
static int understand_question(const struct tw_significant_words *words, struct tw_significant *s,
                               struct twin_error *err)
{
    bool percent;
    if (words->within) {
        s->asked.question = TWIN_ASK_WITHIN;
        if (!amount(words->within, &s->asked.margin, &percent) || !(s->asked.margin > 0))
            return twin_error_set(err, TWIN_EINVAL,
                                  "--within: expected percent, as in --within 5%%, found \"%s\"",
                                  words->within);
        s->asked.margin = 1 + (percent ? s->asked.margin : s->asked.margin / 100);
    } else if (!words->question) {
        s->asked.question = tw_measure_is_time(s) ? TWIN_ASK_SPEED : TWIN_ASK_METRIC;
    }
    return 0;
}

/* The word of --question, which goes alone. */
static int read_question(const struct tw_significant_words *words, struct tw_significant *s,
                         struct twin_error *err)
{
    if (!words->question)
        return 0;
    if (words->within)
        return twin_error_set(err, TWIN_EINVAL,
                              "--within is a question of its own: it does not go with --question");
    const bool within = strcmp(words->question, "within") == 0;
    if (!within && twin_question_parse(words->question, &s->asked.question) == 0)
        return 0;
    return twin_error_set(err, TWIN_EINVAL,
                          "--question: expected metric, speed, variance or bitwise, found \"%s\"%s",
                          words->question, within ? "; --within PERCENT asks that" : "");
}

static int read_alpha(const char *alpha, struct tw_significant *s, struct twin_error *err)
{
    bool percent;
    if (amount(alpha, &s->asked.alpha, &percent) && s->asked.alpha > 0 && s->asked.alpha < .5)
        return 0;
    return twin_error_set(err, TWIN_EINVAL,
                          "--alpha: expected a number above 0 and below 0.5, found \"%s\"", alpha);
}

int tw_significant_understand(const struct tw_significant_words *words, struct tw_significant *s,
                              struct twin_error *err)
{
    bool floor_is_share = false;
    int rc = tw_measure_parse(words->metric, &s->measure, err);
    /* a floor's file is complained of before the question, its number behind it */
    if (rc == 0 && access(words->floor, F_OK) == 0)
        rc = understand_floor(words->floor, s, &floor_is_share, err);
    rc = rc ? rc : read_question(words, s, err);
    rc = rc ? rc : read_alpha(words->alpha, s, err);
    if (rc == 0 && !s->floor_file)
        rc = understand_floor(words->floor, s, &floor_is_share, err);
    rc = rc ? rc : understand_question(words, s, err);
    return rc ? rc : check_floor(s, floor_is_share, err);
}
