/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are single numbers of collectives all that differs? The two runs are compared once more without
 * them: when no other record differs, and none is unknown, a note says so, with the pattern of
 * --ignore that leaves them out. What the numbers mean is not known, so the verdict stays.
 */
#include "internal.h"
#include "scan.h"

#include <string.h>

/* May the name stand in a pattern and in a shell's quotes as it is? */
static bool is_plain(const char *name)
{
    return strlen(name) > 0 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                            "0123456789_") == strlen(name);
}

/* Is what differs without the numbers nothing but what the job printed or wrote? How that is judged
 * depends on whether records differ, so it is not asked here. */
static bool only_shown(const struct tw_pair_result *r)
{
    if (r->value)
        return false;
    for (size_t i = 0; i < r->origins.n; i++)
        if (r->origins.f[i].phase != TWIN_PHASE_OUTPUT ||
            (r->origins.f[i].kind != TWIN_KIND_LINE && r->origins.f[i].kind != TWIN_KIND_FILE))
            return false;
    return true;
}

int tw_numbers_tell(struct tw_cmp *c, struct tw_side *a, struct tw_side *b, struct twin_error *err)
{
    const struct twin_finding *f = c->v->first;
    struct tw_numbers n = {0};
    struct tw_pair_result r;
    if (!f || f->type != TWIN_FINDING_VALUE || f->phase != TWIN_PHASE_COLLECTIVE || c->o->arms ||
        c->tolerance)
        return 0;
    const size_t doubts = c->doubts;
    c->quick = true;
    c->numbers = &n;
    int rc = tw_pair_compare(c, a, b, &r, err);
    c->numbers = NULL;
    c->quick = false;
    if (rc != 0)
        return rc;
    const bool alone = n.count > 0 && only_shown(&r) && c->doubts == doubts;
    tw_pair_result_free(&r);
    if (!alone)
        return 0;
    const bool one = !n.several && is_plain(n.name);
    tw_cmp_note(c,
                "of all records of run %zu and run %zu only single floating-point numbers of %s "
                "differ, in steps %u to %u. They may be elapsed times, or results: that was not "
                "tried. If they are times: --ignore 'number:%u-%u:collective/*/%s'",
                a->index + 1, b->index + 1, one ? n.name : "collectives", n.first, n.last, n.first,
                n.last, one ? n.name : "*");
    return 0;
}
