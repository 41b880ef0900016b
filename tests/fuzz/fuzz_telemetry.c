/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as files of telemetry: rows of steps hang together, and each process has a slow stretch
 * within its steps, or none, and a sentence. */
#include "dips.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool yes)
{
    if (!yes)
        abort();
}

static void look_at(const struct twin_telemetry_process *p)
{
    struct twin_dip d;
    uint64_t steps = p->row[0].first;
    for (size_t i = 0; i < p->rows; i++) {
        must(p->row[i].first == steps && p->row[i].steps > 0 && p->row[i].seconds > 0);
        steps += p->row[i].steps;
    }
    must(steps == p->steps);
    /* enough for every branch, and inputs are many */
    if (tw_dip_find(p, (struct tw_effort){99, 99}, &d, NULL) != 0)
        return;
    must(d.outcome != TWIN_DIP_FOUND || (d.first <= d.last && d.last < p->steps && d.slower > 0 &&
                                         twin_cause_name(d.cause)[0] != '?'));
    char *sentence = twin_dip_sentence(&d);
    must(!sentence || *sentence);
    tw_free(sentence);
}

static void compare(const struct twin_telemetry *t)
{
    struct twin_uneven u;
    if (twin_uneven_find(t, &u, NULL) != 0)
        return;
    must(u.outcome != TWIN_UNEVEN_FOUND ||
         (u.slower > 0 && u.slow_ranks > 0 && u.slow_ranks < u.ranks + 1 &&
          twin_telemetry_rank(t, u.rank)));
    char *sentence = twin_uneven_sentence(&u);
    must(!sentence || *sentence);
    tw_free(sentence);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tw_table *list = NULL;
    size_t count = 0;
    char *text = size < 1 << 20 ? malloc(size + 1) : NULL;
    struct twin_telemetry *t = calloc(1, sizeof *t);
    if (text && t) {
        memcpy(text, data, size);
        text[size] = '\0';
        if (tw_tables_parse("fuzz", text, size, &list, &count, NULL) == 0 &&
            tw_telemetry_arrange(list, count, t, NULL) == 0) {
            for (size_t i = 0; i < t->processes; i++)
                look_at(&t->process[i]);
            compare(t);
        }
    }
    tw_tables_free(list, count);
    twin_telemetry_free(t);
    free(text);
    return 0;
}
