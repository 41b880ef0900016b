/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All repeats of one call: the lock, the ledger, and what the budget still allows.
 */
#include "shadow_inside.h"

#include "src/ledger/noted.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

const char *tw_shadow_outcome_name(enum tw_shadow_outcome o)
{
    static const char *const names[] = {[TW_SHADOW_SAME] = "same",
                                        [TW_SHADOW_DIVERGED] = "diverged",
                                        [TW_SHADOW_NOT_KNOWN] = "not-known",
                                        [TW_SHADOW_NOT_REPEATED] = "not-repeated",
                                        [TW_SHADOW_FAILED] = "failed",
                                        [TW_SHADOW_WOULD] = "would-repeat",
                                        [TW_SHADOW_LEFT] = "left"};
    _Static_assert(sizeof names / sizeof *names == TW_SHADOW_OUTCOMES, "a name for each outcome");
    assert((unsigned)o < TW_SHADOW_OUTCOMES);
    return names[o];
}

/* ---- the lock */

/* Held while this call is at work; the kernel gives it back when we die. -1: another call has it,
 * or *rc says what went wrong. */
static int take_lock(struct tw_shadow *s, int *rc, struct twin_error *err)
{
    char *folder = tw_path_join(s->home, "shadow"), *path = tw_path_join(s->home, "shadow/lock");
    int fd = -1;
    *rc = folder && path ? tw_mkdirs(folder, err) : tw_no_memory(err, "for a lock");
    if (*rc == 0 && (fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
        *rc = twin_error_system(err, "%s", path);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        s->busy = errno == EWOULDBLOCK;
        if (!s->busy)
            *rc = twin_error_system(err, "%s cannot be locked", path);
        close(fd);
        fd = -1;
    }
    tw_free(folder);
    tw_free(path);
    return fd;
}

/* ---- runs that go on */

/* Notes the first of them that is made on this machine. */
static void see_live(void *user, const char *dir, const struct twin_run *r,
                     const struct twin_error *err)
{
    struct tw_shadow *s = user;
    char host[256] = "";
    (void)err;
    gethostname(host, sizeof host - 1);
    if (r && r->in_progress && !s->going_on && strcmp(r->host, host) == 0)
        s->going_on = tw_strdup(tw_base_name(dir));
}

/* A repeat here is not begun beside a run that somebody waits for. */
static int look_for_live(struct tw_shadow *s, struct twin_error *err)
{
    struct twin_ledger *l = NULL;
    tw_free(s->going_on);
    s->going_on = NULL;
    int rc = tw_ledger_catch_up(s->home, s->url, see_live, s, &l, err);
    twin_ledger_close(l);
    return rc;
}

/* ---- rows */

static struct tw_shadow_row *add_row(struct tw_shadow *s, const struct shadow_run *r)
{
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 32;
        struct tw_shadow_row *grown = tw_reallocarray(s->row, room, sizeof *grown);
        if (!grown)
            return NULL;
        s->row = grown;
        s->room = room;
    }
    struct tw_shadow_row *row = &s->row[s->count++];
    *row = (struct tw_shadow_row){.name = tw_strdup(r->name),
                                  .command = tw_strdup(r->command),
                                  .project = tw_strdup(r->project),
                                  .outcome = TW_SHADOW_LEFT,
                                  .estimate_s = r->wall_s};
    snprintf(row->run, sizeof row->run, "%s", r->id);
    return row->name && row->command && row->project ? row : NULL;
}

/* Why the run has to wait for a later call; NULL: it need not. Static. */
static const char *has_to_wait(const struct tw_shadow *s, const struct shadow_run *r, uint64_t made)
{
    if (r->ended != SIZE_MAX && !s->asked.dry_run)
        return NULL; /* it only has to be compared */
    if (s->asked.most && made >= s->asked.most)
        return "the number of repeats is used up";
    if (r->wall_s > s->left_s)
        return "it takes longer than what is left of the budget";
    if (s->going_on && !tw_remote_is_on(s->on) && !s->asked.beside && !s->asked.dry_run)
        return "another run goes on on this machine";
    return NULL;
}

static int repeat_all(struct tw_shadow *s, struct shadow_runs *all, struct twin_error *err)
{
    const bool here = !tw_remote_is_on(s->on) && !s->asked.beside && !s->asked.dry_run;
    struct shadow_run *r;
    uint64_t made = 0;
    int rc = 0;
    while (rc == 0 && (r = tw_shadow_next(all, &s->asked))) {
        struct tw_shadow_row *row = add_row(s, r);
        r->done = true;
        if (!row)
            return tw_no_memory(err, "for the runs to repeat");
        if (s->interrupted || tw_front_stops(s->front)) {
            s->interrupted = true;
            row->why = tw_strdup("interrupted");
            continue;
        }
        const char *why = has_to_wait(s, r, made);
        if (here && !why) {
            rc = look_for_live(s, err);
            why = has_to_wait(s, r, made);
        }
        if (rc || why) {
            row->why = why ? tw_strdup(why) : NULL;
            continue;
        }
        rc = tw_shadow_repeat(s, all, r, row, err);
        const bool ran = row->outcome == TW_SHADOW_WOULD || row->took_s > 0;
        made += ran;
        if (ran)
            s->left_s -= row->took_s > 0 ? row->took_s : row->estimate_s;
        if (row->outcome == TW_SHADOW_SAME || row->outcome == TW_SHADOW_DIVERGED ||
            row->outcome == TW_SHADOW_WOULD)
            r->of->compared++;
    }
    return rc;
}

/* Draws, and says how many there are of which kind. */
static void count_runs(struct tw_shadow *s, struct shadow_runs *all)
{
    tw_shadow_draw(all, &s->asked);
    for (size_t i = 0; i < all->count; i++) {
        const struct shadow_run *r = &all->run[i];
        s->runs += tw_shadow_is_original(r);
        s->drawn += r->drawn;
        s->answered += r->drawn && r->answered;
        s->told += r->drawn && tw_shadow_is_told(r);
    }
}

int tw_shadow_make(struct tw_shadow *s, struct twin_error *err)
{
    enum { LOWEST = 19 };
    struct twin_ledger *l = NULL;
    struct shadow_runs all = {.count = 0};
    char *owner = tw_ledger_home(s->home, s->url);
    int rc, lock = take_lock(s, &rc, err);
    s->left_s = s->asked.budget_s;
    if (rc == 0 && lock < 0) {
        tw_free(owner);
        return 0;
    }
    if (rc == 0 && !owner)
        rc = tw_no_memory(err, "for the name of the home");
    rc = rc ? rc : tw_ledger_catch_up(s->home, s->url, see_live, s, &l, err);
    if (rc == 0 && !l)
        rc = twin_error_set(err, TWIN_ENOENT, "there is no ledger of %s", s->home);
    rc = rc ? rc : tw_shadow_runs_load(l, owner, &all, err);
    twin_ledger_close(l);
    if (rc == 0)
        count_runs(s, &all);
    /* whoever else works here goes first */
    if (rc == 0 && !tw_remote_is_on(s->on) && !s->asked.dry_run)
        setpriority(PRIO_PROCESS, 0, LOWEST);
    rc = rc ? rc : repeat_all(s, &all, err);
    for (size_t i = 0; i < s->count; i++)
        s->of[s->row[i].outcome]++;
    tw_shadow_runs_free(&all);
    tw_free(owner);
    if (lock >= 0)
        close(lock);
    return rc;
}

void tw_shadow_free(struct tw_shadow *s)
{
    for (size_t i = 0; i < s->count; i++) {
        char *const texts[] = {s->row[i].name, s->row[i].command, s->row[i].project, s->row[i].why,
                               s->row[i].repeat};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            tw_free(texts[k]);
    }
    tw_free(s->row);
    tw_free(s->going_on);
    s->row = NULL;
    s->going_on = NULL;
    s->count = s->room = 0;
}
