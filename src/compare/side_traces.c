/* SPDX-License-Identifier: Apache-2.0 */
/* The traces that agents write beside those of the ranks (agents/common/side_trace.h): opened, and
 * what they lack counted. */
#include "internal.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* The number that the rank has in the comparison, where the launchers numbered one mesh otherwise.
 */
static int32_t rank_as_compared(const struct tw_side *side, int32_t own)
{
    for (size_t i = 0; i < side->count; i++)
        if (side->proc[i].own_rank == own)
            return side->proc[i].rank;
    return own;
}

static void open_trace(struct tw_cmp *c, struct tw_side_traces *b, const char *path,
                       const char *lost_key)
{
    struct twin_trace *t = NULL;
    uint64_t n = 0;
    /* one without an end was cut off with its process: what is sealed before that is whole */
    if (twin_trace_open(path, &t, NULL) != 0 || twin_trace_definitions(t, NULL) != 0 ||
        (twin_trace_info(t)->closed && twin_trace_verify(t, NULL) != 0) ||
        !tw_cmp_room(c, &b->item, b->count, &b->room, sizeof *b->item)) {
        b->unread = true;
        twin_trace_close(t);
        return;
    }
    const struct twin_trace_info *info = twin_trace_info(t);
    const char *lost = twin_trace_note_of(t, lost_key);
    b->item[b->count++] = (struct tw_side_trace){t, rank_as_compared(b->side, info->rank)};
    b->lost += info->dropped + info->lost;
    if (lost && tw_parse_u64(lost, UINT64_MAX, &n) == 0)
        b->lost += n;
    b->unread |= !info->closed;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

void tw_side_traces_open(struct tw_cmp *c, const struct tw_side *side, const char *name,
                         const char *lost_key, struct tw_side_traces *out)
{
    char *folder = tw_path_join(side->run->dir, name), **path = NULL;
    size_t n = 0, room = 0;
    *out = (struct tw_side_traces){.side = side};
    c->oom |= !folder;
    DIR *d = folder ? opendir(folder) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (tw_ends(e->d_name, ".twt") && tw_cmp_room(c, &path, n, &room, sizeof *path) &&
            (path[n] = tw_cmp_text(c, "%s/%s", folder, e->d_name)))
            n++;
    if (d)
        closedir(d);
    if (n)
        qsort(path, n, sizeof *path, by_name);
    for (size_t i = 0; i < n; i++) {
        open_trace(c, out, path[i], lost_key);
        tw_free(path[i]);
    }
    tw_free(path);
    tw_free(folder);
}

void tw_side_traces_free(struct tw_side_traces *b)
{
    for (size_t i = 0; i < b->count; i++)
        twin_trace_close(b->item[i].trace);
    tw_free(b->item);
}
