/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_METRICS_H
#define TW_SERVE_METRICS_H
/* A snapshot as Prometheus reads it. */
#include "state.h"

struct tw_buf;

/* Projects that were shown already. One that is new is shown with zeros first: a series that begins
 * at 1 has not increased, for who takes differences. */
struct serve_shown {
    char **name; /* sorted */
    size_t count, room;
    bool begun; /* what is there at the first time is not new */
};
void serve_shown_free(struct serve_shown *s);

/* What is known beside the snapshot. */
struct serve_live {
    const char *version;
    bool up;      /* the ledger could be read the last time */
    double age_s; /* of the snapshot */
    unsigned event_clients;
};

/* Appends all metrics in the text format 0.0.4, or in OpenMetrics 1.0.0 with exemplars. shown:
 * NULL: every project counts as shown. s NULL: nothing is known yet. b->failed says whether there
 * was memory. */
void serve_metrics(const struct serve_state *s, const struct serve_live *live, bool openmetrics,
                   struct serve_shown *shown, struct tw_buf *b);
/* The results of CI of one project alone, in the text format 0.0.4. False: it has none, and nothing
 * was appended. */
bool serve_metrics_of_ci(const struct tw_slo_project *p, struct tw_buf *b);

#endif
