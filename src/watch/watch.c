/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs of a home, most of which have ended long ago: each is loaded once to find that out, and
 * then only its name is kept. The home is listed again when its folder has changed, and now and
 * then anyway; in between only runs that go on are looked at.
 */
#include "watch_inside.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SECOND_NS INT64_C(1000000000)
/* SETTLE: a new run folder gets its run.json somewhat later than it appears, and the file system's
 * clock is not ours. AGAIN: whatever its time says. */
enum { SETTLE_S = 5, AGAIN_S = 10 };

/* A run folder of the home. */
struct entry {
    char *dir;
    bool done;            /* it does not go on: never looked at again */
    bool unreadable;      /* tried again when the home is listed */
    struct tw_watched *x; /* NULL: it was never seen going on */
};

struct tw_watch {
    char *home, *runs;
    const struct twin_run *against;
    struct entry *entry; /* the newest first */
    size_t count, unreadable;
    struct tw_watched **order; /* as they are shown */
    size_t shown, running;
    struct timespec changed;
    int64_t changed_ns, listed_ns; /* when the change was seen first; our monotonic clock */
};

struct tw_watch *tw_watch_open(const char *home, const struct twin_run *against)
{
    struct tw_watch *w = tw_calloc(1, sizeof *w);
    if (w)
        *w = (struct tw_watch){
            .home = tw_path_absolute(home, NULL), .against = against, .listed_ns = -1};
    if (w && w->home)
        w->runs = tw_path_join(w->home, "runs");
    if (w && w->runs)
        return w;
    tw_watch_close(w);
    return NULL;
}

static void free_entries(struct entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tw_watched_free(e[i].x);
        tw_free(e[i].dir);
    }
    tw_free(e);
}

void tw_watch_close(struct tw_watch *w)
{
    if (!w)
        return;
    free_entries(w->entry, w->count);
    tw_free(w->order);
    tw_free(w->runs);
    tw_free(w->home);
    tw_free(w);
}

/* Is the home to be listed? */
static bool is_due(struct tw_watch *w)
{
    struct stat st = {0};
    const int64_t now = (int64_t)tw_monotonic_ns();
    if (stat(w->runs, &st) == 0 &&
        (st.st_mtim.tv_sec != w->changed.tv_sec || st.st_mtim.tv_nsec != w->changed.tv_nsec)) {
        w->changed = st.st_mtim;
        w->changed_ns = now;
        return true;
    }
    return w->listed_ns < 0 || now - w->changed_ns < SETTLE_S * SECOND_NS ||
           now - w->listed_ns > AGAIN_S * SECOND_NS;
}

static int by_dir(const void *x, const void *y)
{
    const struct entry *const *a = x, *const *b = y;
    return strcmp((*a)->dir, (*b)->dir);
}

/* Moves what is known of folders that are still there from the old list to the new one. */
static bool carry_over(struct entry *old, size_t count, struct entry *new, size_t n)
{
    struct entry **sorted = tw_calloc(count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = &old[i];
    if (sorted && count > 1)
        qsort(sorted, count, sizeof *sorted, by_dir);
    for (size_t i = 0; sorted && count && i < n; i++) {
        const struct entry *key = &new[i];
        struct entry **found = bsearch(&key, sorted, count, sizeof *sorted, by_dir);
        if (!found)
            continue;
        new[i].x = (*found)->x;
        new[i].done = (*found)->done;
        (*found)->x = NULL;
    }
    tw_free(sorted);
    return sorted != NULL;
}

static int list_home(struct tw_watch *w, struct twin_error *err)
{
    char **dirs = NULL;
    size_t n = 0;
    int rc = twin_run_list(w->home, &dirs, &n, err);
    if (rc != 0)
        return rc;
    struct entry *list = tw_calloc(n + 1, sizeof *list);
    struct tw_watched **order = tw_calloc(n + 1, sizeof *order);
    for (size_t i = 0; i < n; i++) {
        if (list)
            list[i].dir = dirs[i];
        else
            tw_free(dirs[i]);
    }
    tw_free(dirs);
    if (!list || !order || !carry_over(w->entry, w->count, list, n)) {
        if (list)
            free_entries(list, n);
        tw_free(order);
        return tw_no_memory(err, "for %zu runs", n);
    }
    free_entries(w->entry, w->count);
    tw_free(w->order);
    w->entry = list;
    w->count = n;
    w->order = order;
    w->shown = w->running = 0;
    w->listed_ns = (int64_t)tw_monotonic_ns();
    return 0;
}

/* A folder that vanished meanwhile leaves the list with the next listing. */
static int look_at_entry(struct tw_watch *w, struct entry *e, bool only, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct twin_run *run = NULL;
    if (e->done)
        return 0;
    int rc = twin_run_load(e->dir, &run, &why);
    if (rc == TWIN_ENOMEM)
        return tw_no_memory(err, "looking at %s", e->dir);
    if (rc != 0) {
        e->unreadable = rc != TWIN_ENOENT;
        if (e->x)
            e->x->f.running = false;
        if (e->x)
            e->x->f.state = e->unreadable ? "unreadable" : "removed";
        return 0;
    }
    e->unreadable = false;
    if (!e->x && !run->in_progress) {
        e->done = true;
        twin_run_free(run);
        return 0;
    }
    if (!e->x && !(e->x = tw_watched_new(run))) {
        twin_run_free(run);
        return tw_no_memory(err, "looking at %s", e->dir);
    }
    e->done = !run->in_progress;
    tw_watched_look(e->x, run, w->against, only);
    return 0;
}

int tw_watch_look(struct tw_watch *w, bool only, struct twin_error *err)
{
    int rc = is_due(w) ? list_home(w, err) : 0;
    for (size_t i = 0; rc == 0 && i < w->count; i++)
        rc = look_at_entry(w, &w->entry[i], only, err);
    w->shown = w->running = w->unreadable = 0;
    for (int running = 1; running >= 0; running--)
        for (size_t i = 0; i < w->count; i++)
            if (w->entry[i].x && w->entry[i].x->f.running == (running != 0)) {
                w->order[w->shown++] = w->entry[i].x;
                w->running += running != 0;
            }
    for (size_t i = 0; i < w->count; i++)
        w->unreadable += w->entry[i].unreadable;
    return rc;
}

size_t tw_watch_count(const struct tw_watch *w)
{
    return w->shown;
}

struct tw_flight *tw_watch_at(const struct tw_watch *w, size_t i)
{
    return &w->order[i]->f;
}

size_t tw_watch_running(const struct tw_watch *w)
{
    return w->running;
}

size_t tw_watch_unreadable(const struct tw_watch *w)
{
    return w->unreadable;
}
