/* SPDX-License-Identifier: Apache-2.0 */
/* The experiment with two commands, in words and as JSON: what the change does to speed, to a
 * metric, and to the bits. Three answers, none of which follows from another: a change may be
 * faster, train to the same loss, and still give other bits. */
#include "significant_report.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include <string.h>

/* Are the last weights of the runs of one arm, and of both, the same? */
static void put_bits(struct tw_buf *b, const struct tw_experiment *x)
{
    for (int arm = 0; arm < 2; arm++) {
        const size_t n = tw_bits_classes(&x->bits[arm]);
        tw_buf_printf(b, "%s: ", arm ? "; B" : "A");
        if (n == 0)
            tw_buf_puts(b, "no weights were seen");
        else if (x->bits[arm].runs == 1)
            tw_buf_puts(b, "weights of one run only");
        else if (n == 1)
            tw_buf_printf(b, "one set of weights, bit for bit, in %zu runs", x->bits[arm].runs);
        else
            tw_buf_printf(b, "%zu different sets of weights in %zu runs", n, x->bits[arm].runs);
    }
    if (tw_bits_classes(&x->bits[0]) == 1 && tw_bits_classes(&x->bits[1]) == 1)
        tw_buf_puts(b, strcmp(x->bits[0].weights[0], x->bits[1].weights[0]) == 0
                           ? "; A's are B's, bit for bit"
                           : "; A's are not B's");
}

/* Why the metric was not asked. */
static void put_not_asked(FILE *out, const struct tw_experiment *x)
{
    const struct tw_set *set = x->metric.set[0].n ? &x->metric.set[1] : &x->metric.set[0];
    tw_put_to(out, "NOT ASKED   %s; -m 'printed:REGEX' reads a number that the job prints\n",
              set->left_out_count ? set->left_out[0] : "no run has it");
}

int tw_experiment_text(FILE *out, const struct tw_experiment *x)
{
    struct tw_buf bits = {0};
    char *speed = tw_significant_line(&x->speed);
    char *metric = x->no_metric ? NULL : tw_significant_line(&x->metric);
    put_bits(&bits, x);
    tw_put_to(out, "speed       %s\nmetric      %s\nbits        %s\n", speed ? speed : "",
              metric ? metric : "NOT ASKED", bits.data ? bits.data : "");
    tw_buf_free(&bits);
    tw_free(speed);
    tw_free(metric);
    tw_put_to(out, "\n== speed: what a %s takes\n\n",
              x->speed.measure.metric == TW_METRIC_STEP ? "step" : "run");
    int rc = tw_significant_text(out, &x->speed);
    tw_put_to(out, "\n== metric: %s\n\n", x->metric.measure.text);
    if (rc == 0 && x->no_metric)
        put_not_asked(out, x);
    else if (rc == 0)
        rc = tw_significant_text(out, &x->metric);
    char *where = tw_remote_text(&x->on);
    if (where)
        tw_put_to(out, "\nengine      %s%s\n", where,
                  x->apart ? "; the two runs of a round were made wherever it put them, so that "
                             "what differs between nodes may be in the figures"
                           : "; both runs of a round on one node");
    tw_free(where);
    tw_put_to(out, "\norder       drawn in each round of one run of A and one of B, seed %llu\n",
              (unsigned long long)x->asked.seed);
    return rc;
}

json_t *tw_experiment_json(const struct tw_experiment *x)
{
    struct tw_buf bits = {0};
    put_bits(&bits, x);
    json_t *speed = tw_significant_json(&x->speed);
    json_t *metric = x->no_metric ? json_null() : tw_significant_json(&x->metric);
    const bool both = tw_bits_classes(&x->bits[0]) == 1 && tw_bits_classes(&x->bits[1]) == 1;
    json_t *j = json_pack(
        "{s:s, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:o, s:o}, s:I}", "schema", "twinrun.significant/1",
        "speed", speed, "metric", metric, "bits", "a_runs", (json_int_t)x->bits[0].runs,
        "a_classes", (json_int_t)tw_bits_classes(&x->bits[0]), "b_runs",
        (json_int_t)x->bits[1].runs, "b_classes", (json_int_t)tw_bits_classes(&x->bits[1]), "equal",
        both ? json_boolean(strcmp(x->bits[0].weights[0], x->bits[1].weights[0]) == 0)
             : json_null(),
        "text", tw_json_text(bits.data), "seed", (json_int_t)x->asked.seed);
    char *where = tw_remote_text(&x->on);
    if (where)
        json_object_set_new(j, "engine",
                            json_pack("{s:o, s:b}", "text", tw_json_text(where),
                                      "rounds_on_one_node", (int)!x->apart));
    tw_free(where);
    tw_buf_free(&bits);
    return j;
}
