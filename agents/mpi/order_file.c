/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order file, read and judged: by the agent inside of a job, and by the program that tries any
 * bytes (tests/fuzz/fuzz_order.c).
 */
#include "order_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "src/base/base.h"

static bool read_all(int fd, void *to, size_t bytes, off_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)to + done, bytes - done, at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool head_is_sound(const struct tw_order *o, off_t bytes)
{
    const struct tw_order_head *h = &o->head;
    if (memcmp(h->magic, TW_ORDER_MAGIC, sizeof h->magic) != 0 || h->version != TW_ORDER_VERSION ||
        h->comms > TW_ORDER_COMMS_MOST || h->matches > TW_ORDER_MATCHES_MOST ||
        h->ends > TW_ORDER_MATCHES_MOST || h->wait_ms > TW_ORDER_WAIT_MOST_MS)
        return false;
    uint64_t all = sizeof *h + (uint64_t)h->comms * sizeof *o->names +
                   ((uint64_t)h->matches + h->ends) * sizeof *o->matches;
    return bytes >= 0 && (uint64_t)bytes == all;
}

/* Does it name a message that there can be? */
static bool is_message(const struct tw_order *o, const struct tw_order_match *m)
{
    return m->comm < o->head.comms && m->source >= 0 && m->tag >= -1 && m->tag < TW_ORDER_TAGS;
}

static bool contents_are_sound(const struct tw_order *o)
{
    const unsigned any = TW_ORDER_ANY_SOURCE | TW_ORDER_ANY_TAG;
    for (uint32_t i = 0; i < o->head.comms; i++)
        if (!memchr(o->names[i], 0, sizeof o->names[i]))
            return false;
    for (uint32_t i = 0; i < o->head.matches; i++) {
        const struct tw_order_match *m = &o->matches[i];
        const bool none = m->open == 0 && m->source == TW_ORDER_NOBODY;
        const bool one = (m->open & any) && m->open <= (any | TW_ORDER_PROBED) && is_message(o, m);
        if (!none && !one)
            return false;
    }
    for (uint32_t i = 0; i < o->head.ends; i++)
        if (o->ends[i].open != 0 || !is_message(o, &o->ends[i]))
            return false;
    return true;
}

void tw_order_drop(struct tw_order *o)
{
    tw_free(o->names);
    tw_free(o->matches);
    *o = (struct tw_order){.names = NULL};
}

bool tw_order_load(int fd, struct tw_order *out)
{
    *out = (struct tw_order){.names = NULL};
    const off_t bytes = lseek(fd, 0, SEEK_END);
    if (bytes < (off_t)sizeof out->head || !read_all(fd, &out->head, sizeof out->head, 0) ||
        !head_is_sound(out, bytes)) {
        tw_order_drop(out);
        return false;
    }
    const struct tw_order_head *h = &out->head;
    const size_t names = h->comms * sizeof *out->names;
    const size_t matches = ((size_t)h->matches + h->ends) * sizeof *out->matches;
    out->names = tw_malloc(names + 1);
    out->matches = tw_malloc(matches + 1);
    if (out->names && out->matches) {
        out->ends = out->matches + h->matches;
        if (read_all(fd, out->names, names, sizeof *h) &&
            read_all(fd, out->matches, matches, (off_t)(sizeof *h + names)) &&
            contents_are_sound(out))
            return true;
    }
    tw_order_drop(out);
    return false;
}
