/* SPDX-License-Identifier: Apache-2.0 */
/* One run that is compared with none: do its ranks hold equal weights that they should? */
#include "replicas.h"

int twin_compare_replicas(const struct twin_run *run, bool equal_too, char ***texts, size_t *count,
                          struct twin_error *err)
{
    static const struct twin_compare_options none;
    struct tw_cmp c = {.o = &none};
    struct tw_texts found = {0};
    struct tw_side side = {0};
    struct twin_verdict *unused = NULL;
    *texts = NULL;
    *count = 0;
    c.v = tw_verdict_new(&c, 1);
    if (!c.v)
        return tw_no_memory(err, "comparing the ranks of a run");
    int rc = tw_side_open(&c, run, 0, &side, err);
    if (rc == 0) {
        tw_replicas_told(&c, &side, equal_too, &found);
        tw_side_close(&side);
    }
    if (rc == 0 && c.oom)
        rc = tw_no_memory(err, "comparing the ranks of a run");
    if (rc == 0) {
        *texts = found.s;
        *count = found.n;
        found = (struct tw_texts){0};
    }
    tw_texts_free(&found);
    rc = tw_cmp_close(&c, rc, &unused);
    twin_verdict_free(unused);
    return rc;
}
