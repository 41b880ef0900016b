/* SPDX-License-Identifier: Apache-2.0 */
/* A look at a folder of data with a person in front: how far the reading is, what cannot be read,
 * and how many differences a second look found. The reading itself knows no person; it calls what
 * tw_looking_options() gives it. */
#include "looking.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>
#include <string.h>

/* Files that cannot be read and are named; of more the number is told. */
enum { SHOWN_TROUBLES = 20 };

/* Shows how far the reading is. Non-zero: the person wants an end. */
static int show_progress(void *user, uint64_t files, uint64_t all_files, uint64_t bytes,
                         uint64_t all_bytes)
{
    const struct tw_looking *l = user;
    char line[200], done[16], of[16], n[32], all[32], left[24], bar[21];
    const double part = all_bytes ? (double)bytes / (double)all_bytes : 1;
    const double s = (double)(tw_monotonic_ns() - l->began_ns) / 1e9;
    for (int i = 0; i < 20; i++)
        bar[i] = i < (int)(part * 20) ? '#' : '-';
    bar[20] = '\0';
    int at = snprintf(line, sizeof line, "%s  [%s]  %s of %s  %s of %s files", l->what, bar,
                      tw_human_bytes(bytes, done), tw_human_bytes(all_bytes, of),
                      tw_human_count(files, n), tw_human_count(all_files, all));
    if (s > 1 && part > 0.01 && part < 1)
        snprintf(line + at, sizeof line - (size_t)at, "  about %s left",
                 tw_human_seconds(s / part * (1 - part), left));
    tw_front_progress(l->front, line);
    return tw_front_stops(l->front);
}

/* Says the first things that cannot be read. */
static void say_trouble(void *user, const char *path, const char *why)
{
    struct tw_looking *l = user;
    char *safe = tw_printable(path, strlen(path));
    if (l->troubles++ < SHOWN_TROUBLES)
        tw_front_say(l->front, "%s: %s", safe ? safe : "?", why);
    tw_free(safe);
}

struct twin_snapshot_options tw_looking_options(struct tw_looking *l, const struct tw_front *front,
                                                const char *what)
{
    *l = (struct tw_looking){.front = front, .what = what, .began_ns = tw_monotonic_ns()};
    return (struct twin_snapshot_options){
        .progress = show_progress, .trouble = say_trouble, .user = l};
}

/* An interruption is the person's own doing and needs no explanation. */
void tw_looking_failed(const struct tw_looking *l, const struct twin_error *err)
{
    tw_front_progress(l->front, NULL);
    if (err->code == TWIN_EINTR) {
        tw_front_say(l->front, "%s", err->message);
        return;
    }
    if (l->troubles > SHOWN_TROUBLES)
        tw_front_say(l->front, "and %zu more", l->troubles - SHOWN_TROUBLES);
    if (l->troubles)
        tw_front_say(
            l->front,
            "expected files that can be read, found %zu thing%s without a digest: see above",
            l->troubles, tw_plural_s(l->troubles));
    else
        tw_front_trouble(l->front, err, "no snapshot");
}

/* For twin_snapshot_compare, which counts. */
static int pass_over(void *user, const struct twin_snapshot_difference *d)
{
    (void)user, (void)d;
    return 0;
}

size_t tw_snapshot_count_differences(const struct twin_snapshot *was,
                                     const struct twin_snapshot *is)
{
    return twin_snapshot_compare(was, is, pass_over, NULL);
}

char *tw_snapshot_folder(const char *manifest)
{
    const size_t n = strlen(manifest), m = strlen(".snapshot");
    return n > m && tw_ends(manifest, ".snapshot") && manifest[n - m - 1] != '/'
               ? tw_strndup(manifest, n - m)
               : NULL;
}
