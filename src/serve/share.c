/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <assert.h>

void serve_share_init(struct serve_share *s, int64_t now_ns)
{
    *s = (struct serve_share){.saved_s = SERVE_SHARE_SAVED_S, .seen_ns = now_ns};
}

bool serve_share_may(struct serve_share *s, int64_t now_ns)
{
    assert(now_ns >= s->seen_ns);
    s->saved_s += (double)(now_ns - s->seen_ns) / 1e9 / SERVE_SHARE_OF;
    if (s->saved_s > SERVE_SHARE_SAVED_S)
        s->saved_s = SERVE_SHARE_SAVED_S;
    s->seen_ns = now_ns;
    return s->saved_s > 0;
}

void serve_share_spend(struct serve_share *s, double seconds)
{
    assert(seconds >= 0);
    s->saved_s -= seconds;
}
