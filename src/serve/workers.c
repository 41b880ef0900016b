/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that read the ledger. A ledger that goes away is tried again every second, and what
 * was known stays.
 *
 * When the watcher looks again: once a second it asks for the ledger's mark, which costs next to
 * nothing, and makes a new snapshot where the mark is another one, or the last snapshot is a minute
 * old (windows move on). It rests four times as long as a snapshot took, so that even a million
 * runs cost a fifth of a processor at most.
 */
#include "workers.h"

#include "answer.h"
#include "incidents.h"
#include "pair.h"
#include "search.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_S = 1, OLD_S = 60, REST = 4, JOBS_MOST = 512, NEWS_MOST = 2000, WHY_MAX = 360 };
static const int64_t SECOND_NS = 1000000000;
/* Writers' clocks may be off by that much, and a transaction may take that long. */
static const int64_t OVERLAP_NS = (int64_t)3600 * 1000000000;

struct serve_workers {
    const struct tw_serve_options *o;
    pthread_mutex_t lock;
    pthread_cond_t asked, stopping;
    pthread_t watcher, asker;
    bool watches, asks; /* these threads run */
    int wake[2];
    struct serve_pairs *pairs;
    /* behind the lock */
    bool stop, up;
    size_t waiting;
    struct serve_job *jobs, **jobs_end, *done, **done_end;
    struct serve_news *news, **news_end;
    struct serve_state *fresh, *old;
    char said[400];
    /* of the watcher alone */
    struct tw_slo_counted high;
    struct twin_ledger *ledger;
    char mark[TWIN_LEDGER_MARK_BYTES];
    int64_t made_ns;
    double took_s;
    char (*seen)[33]; /* sorted ids of what is not new any more */
    size_t seen_count;
    bool primed;
    struct serve_searches searches;
};

/* ---- the boxes */

/* The pipe does not block: when it is full, the other thread knows already. */
static void wake(struct serve_workers *w)
{
    const ssize_t n = write(w->wake[1], "x", 1);
    (void)n;
}

/* Keeps for the log that the ledger went away, or came back. */
static void set_up(struct serve_workers *w, bool up, const char *why)
{
    pthread_mutex_lock(&w->lock);
    if (up != w->up)
        snprintf(w->said, sizeof w->said, "%s%.*s",
                 up ? "the ledger can be read again" : "the ledger cannot be read: ", WHY_MAX,
                 up ? "" : why);
    const bool changed = up != w->up;
    w->up = up;
    pthread_mutex_unlock(&w->lock);
    if (changed)
        wake(w);
}

void serve_workers_take(struct serve_workers *w, struct serve_taken *out)
{
    char bytes[64];
    while (read(w->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
    pthread_mutex_lock(&w->lock);
    *out = (struct serve_taken){.state = w->fresh, .done = w->done, .news = w->news, .up = w->up};
    memcpy(out->said, w->said, sizeof out->said);
    w->said[0] = '\0';
    w->fresh = NULL;
    w->done = NULL;
    w->done_end = &w->done;
    w->news = NULL;
    w->news_end = &w->news;
    pthread_mutex_unlock(&w->lock);
}

void serve_workers_drop(struct serve_workers *w, struct serve_state *s)
{
    pthread_mutex_lock(&w->lock);
    struct serve_state *before = w->old;
    w->old = s;
    pthread_mutex_unlock(&w->lock);
    serve_state_free(before);
}

/* ---- news */

/* What one look found: all ids within the overlap, and the events of those that are new. */
struct looking {
    struct serve_workers *w;
    char (*id)[33];
    size_t count, room;
    struct serve_news *first, **end;
    size_t fresh;
};

static int by_id(const void *x, const void *y)
{
    return strcmp(x, y);
}

/* Notes an id. 1: it is new; 0: it is not; TWIN_ENOMEM. */
static int note(struct looking *k, const char *id)
{
    if (k->count == k->room) {
        const size_t room = k->room ? 2 * k->room : 64;
        char(*grown)[33] = tw_reallocarray(k->id, room, sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        k->id = grown;
        k->room = room;
    }
    snprintf(k->id[k->count++], sizeof *k->id, "%s", id);
    const struct serve_workers *w = k->w;
    const bool known = w->seen_count &&
                       bsearch(k->id[k->count - 1], w->seen, w->seen_count, sizeof *w->seen, by_id);
    k->fresh += !known;
    return !known && w->primed;
}

/* Takes text, which may be NULL for want of memory. NULL: no memory. */
static struct serve_news *news_of(char *text)
{
    struct serve_news *n = text ? tw_calloc(1, sizeof *n) : NULL;
    if (n)
        n->text = text;
    else
        tw_free(text);
    return n;
}

static int add_news(struct looking *k, char *text)
{
    struct serve_news *n = news_of(text);
    if (!n)
        return TWIN_ENOMEM;
    *k->end = n;
    k->end = &n->next;
    return 0;
}

/* Hands news to the thread of the clients; end: where the next one would be hung. */
static void publish(struct serve_workers *w, struct serve_news *first, struct serve_news **end)
{
    pthread_mutex_lock(&w->lock);
    *w->news_end = first;
    w->news_end = end;
    pthread_mutex_unlock(&w->lock);
    wake(w);
}

static int see_run(void *user, const struct twin_ledger_run *r, const struct twin_ledger_facts *f)
{
    const int fresh = note(user, r->id);
    return fresh > 0 ? add_news(user, serve_run_event(r, f)) : fresh;
}

static int see_verdict(void *user, const struct twin_ledger_comparison *c)
{
    const int fresh = note(user, c->id);
    return fresh > 0 ? add_news(user, serve_verdict_event(c)) : fresh;
}

static void free_news(struct serve_news *n)
{
    while (n) {
        struct serve_news *next = n->next;
        tw_free(n->text);
        tw_free(n);
        n = next;
    }
}

/* All that is within the overlap is read each time, so what was seen the last time is all that has
 * to be remembered. */
static int look_for_news(struct serve_workers *w, struct twin_error *err)
{
    struct looking k = {.w = w};
    k.end = &k.first;
    int rc = twin_ledger_news(w->ledger, tw_realtime_ns() - OVERLAP_NS, NEWS_MOST, see_run,
                              see_verdict, &k, err);
    if (rc == 0 && w->primed && k.fresh >= NEWS_MOST) {
        /* some were cut off: clients have to read the lists again */
        free_news(k.first);
        k.first = tw_calloc(1, sizeof *k.first);
        k.end = k.first ? &k.first->next : &k.first;
    }
    if (rc != 0) {
        free_news(k.first);
        tw_free(k.id);
        return rc == TWIN_ENOMEM ? tw_no_memory(err, "for what is new") : rc;
    }
    if (k.count)
        qsort(k.id, k.count, sizeof *k.id, by_id);
    tw_free(w->seen);
    w->seen = k.id;
    w->seen_count = k.count;
    w->primed = true;
    if (k.first)
        publish(w, k.first, k.end);
    return 0;
}

static void add_event(void *workers, char *event)
{
    struct serve_news *n = news_of(event);
    if (n)
        publish(workers, n, &n->next);
}

/* ---- the watcher */

/* Waits for so long, or until the end: true. */
static bool rest(struct serve_workers *w, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t all = until.tv_nsec + ns % SECOND_NS;
    until.tv_sec += ns / SECOND_NS + all / SECOND_NS;
    until.tv_nsec = all % SECOND_NS;
    pthread_mutex_lock(&w->lock);
    int rc = 0;
    while (!w->stop && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&w->stopping, &w->lock, &until);
    const bool stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return stop;
}

static int make_snapshot(struct serve_workers *w, struct twin_error *err)
{
    struct serve_state *s = NULL;
    const int64_t now_ns = tw_realtime_ns();
    int rc = serve_state_make(w->ledger, w->o->targets, now_ns, &w->high, &s, err);
    if (rc != 0)
        return rc;
    w->took_s = s->seconds;
    w->made_ns = now_ns;
    pthread_mutex_lock(&w->lock);
    struct serve_state *unread = w->fresh, *old = w->old;
    w->fresh = s;
    w->old = NULL;
    pthread_mutex_unlock(&w->lock);
    wake(w);
    serve_state_free(unread);
    serve_state_free(old);
    return 0;
}

/* Can the ledger be read at all? A wrong address is an error at once. */
static int look_at_first(struct serve_workers *w, struct twin_error *err)
{
    char mark[TWIN_LEDGER_MARK_BYTES];
    int rc = twin_ledger_open_to_read(w->o->home, w->o->ledger, &w->ledger, err);
    return rc ? rc : twin_ledger_change(w->ledger, mark, err);
}

/* One look at the ledger. */
static int look(struct serve_workers *w, struct twin_error *err)
{
    char mark[TWIN_LEDGER_MARK_BYTES] = "";
    int rc = 0;
    if (!w->ledger) {
        rc = twin_ledger_open_to_read(w->o->home, w->o->ledger, &w->ledger, err);
        w->mark[0] = '\0';
    }
    rc = rc ? rc : twin_ledger_change(w->ledger, mark, err);
    const bool changed = strcmp(mark, w->mark) != 0;
    if (rc == 0 && (changed || tw_realtime_ns() - w->made_ns > OLD_S * SECOND_NS)) {
        rc = look_for_news(w, err);
        rc = rc ? rc : make_snapshot(w, err);
    }
    if (rc == 0) {
        memcpy(w->mark, mark, sizeof mark);
        return 0;
    }
    twin_ledger_close(w->ledger);
    w->ledger = NULL;
    return rc;
}

static void *watch(void *user)
{
    struct serve_workers *w = user;
    struct twin_error first = TWIN_ERROR_INIT;
    set_up(w, look(w, &first) == 0, first.message);
    serve_searches_look(&w->searches, w->o->home, add_event, w);
    for (;;) {
        const int64_t pause = (int64_t)(REST * w->took_s * 1e9);
        if (rest(w, pause > LOOK_S * SECOND_NS ? pause : LOOK_S * SECOND_NS))
            return NULL;
        struct twin_error err = TWIN_ERROR_INIT;
        set_up(w, look(w, &err) == 0, err.message);
        serve_searches_look(&w->searches, w->o->home, add_event, w);
    }
}

/* ---- the asker */

static int status_of(int rc)
{
    if (rc == 0)
        return 200;
    if (rc == TWIN_ENOENT)
        return 404;
    return rc == TWIN_ENOMEM ? 500 : 503;
}

/* What the live page asks of one verdict. False: the ledger cannot be read. */
static bool answer_page(struct twin_ledger *l, struct serve_workers *w, struct serve_job *job,
                        struct twin_error *err)
{
    const char *why = "";
    job->status = serve_is_of_pair(job->query.route)
                      ? serve_pair_find(l, w->o, &job->query, &job->pair, &why, err)
                      : serve_search_answer(l, w->o->home, &job->query, &job->body, &why, err);
    if (job->status == 0 && err->code == 0)
        err->code = TWIN_EIO;
    if (job->status == 0 || job->status == 200)
        return job->status != 0;
    if (job->status == 410)
        serve_job_say(job, why, "");
    tw_buf_free(&job->body);
    job->body = (struct tw_buf){0};
    serve_error(job->status == 500 ? "no memory" : why, &job->body);
    return true;
}

/* What is wrong with the ledger goes to the log, and no client is told. */
static void answer_from(struct twin_ledger **l, struct serve_workers *w, struct serve_job *job)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char mark[TWIN_LEDGER_MARK_BYTES];
    int rc = *l ? twin_ledger_change(*l, mark, &err) : 0;
    if (rc != 0) { /* another one may be there by now */
        twin_ledger_close(*l);
        *l = NULL;
        err = (struct twin_error)TWIN_ERROR_INIT;
    }
    rc = *l ? 0 : twin_ledger_open_to_read(w->o->home, w->o->ledger, l, &err);
    const bool opened = rc == 0;
    const bool paged = serve_is_of_pair(job->query.route) || job->query.route == SERVE_SEARCH;
    if (rc == 0 && paged && answer_page(*l, w, job, &err))
        return;
    rc = rc == 0 && paged ? err.code : rc;
    if (rc == 0 && job->query.route == SERVE_INCIDENT_LIST)
        rc = serve_incidents_answer(*l, w->o, tw_realtime_ns(), &job->body, &err);
    else
        rc = rc ? rc : serve_answer(*l, &job->query, &job->body, &err);
    job->status = status_of(rc);
    if (!opened && job->status == 404)
        job->status = 503; /* it is the ledger that is not there */
    if (job->status == 200)
        return;
    tw_buf_free(&job->body);
    job->body = (struct tw_buf){0};
    if (job->status == 404)
        serve_error(err.message, &job->body);
    else
        serve_error("the ledger cannot be read now", &job->body);
    if (job->status == 503) {
        twin_ledger_close(*l);
        *l = NULL;
        set_up(w, false, err.message);
    }
}

/* A job that ended, for the thread of the clients. */
static void hand_over(void *workers, struct serve_job *job)
{
    struct serve_workers *w = workers;
    pthread_mutex_lock(&w->lock);
    *w->done_end = job;
    w->done_end = &job->next;
    pthread_mutex_unlock(&w->lock);
    wake(w);
}

static struct serve_job *next_job(struct serve_workers *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->jobs && !w->stop)
        pthread_cond_wait(&w->asked, &w->lock);
    struct serve_job *job = w->stop ? NULL : w->jobs;
    if (job) {
        w->jobs = job->next;
        if (!w->jobs)
            w->jobs_end = &w->jobs;
        w->waiting--;
        job->next = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    return job;
}

/* What is to be compared first takes its time, and is handed over by another thread: false. */
static bool ask_pairs(struct serve_workers *w, struct serve_job *job)
{
    const enum serve_pairs_answer a = serve_pairs_ask(w->pairs, job);
    if (a == SERVE_PAIRS_FULL) {
        job->status = 503;
        serve_error("too many comparisons are waiting", &job->body);
    }
    return a != SERVE_PAIRS_LATER;
}

static void *ask(void *user)
{
    struct serve_workers *w = user;
    struct twin_ledger *l = NULL;
    for (struct serve_job *job = next_job(w); job; job = next_job(w)) {
        answer_from(&l, w, job);
        if (!job->pair || ask_pairs(w, job))
            hand_over(w, job);
    }
    twin_ledger_close(l);
    return NULL;
}

bool serve_workers_ask(struct serve_workers *w, struct serve_job *job)
{
    pthread_mutex_lock(&w->lock);
    const bool room = w->waiting < JOBS_MOST;
    if (room) {
        job->next = NULL;
        *w->jobs_end = job;
        w->jobs_end = &job->next;
        w->waiting++;
        pthread_cond_signal(&w->asked);
    }
    pthread_mutex_unlock(&w->lock);
    return room;
}

/* ---- start and end */

void serve_job_say(struct serve_job *j, const char *why, const char *how)
{
    snprintf(j->said, sizeof j->said, "the runs of verdict %s were not compared: %s%s%s%s",
             j->query.name, why, *how ? " (" : "", how, *how ? ")" : "");
}

void serve_job_free(struct serve_job *j)
{
    tw_buf_free(&j->body);
    serve_pair_free(j->pair);
    tw_free(j);
}

static void free_jobs(struct serve_job *j)
{
    while (j) {
        struct serve_job *next = j->next;
        serve_job_free(j);
        j = next;
    }
}

void serve_workers_stop(struct serve_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->asked);
    pthread_cond_broadcast(&w->stopping);
    pthread_mutex_unlock(&w->lock);
    if (w->watches)
        pthread_join(w->watcher, NULL);
    if (w->asks)
        pthread_join(w->asker, NULL);
    serve_pairs_stop(w->pairs);
    free_jobs(w->jobs);
    free_jobs(w->done);
    free_news(w->news);
    serve_state_free(w->fresh);
    serve_state_free(w->old);
    twin_ledger_close(w->ledger);
    tw_slo_counted_free(&w->high);
    tw_free(w->seen);
    for (int i = 0; i < 2; i++)
        if (w->wake[i] >= 0)
            close(w->wake[i]);
    pthread_cond_destroy(&w->asked);
    pthread_cond_destroy(&w->stopping);
    pthread_mutex_destroy(&w->lock);
    tw_free(w);
}

/* The threads take no signals: those are for the thread of the clients. */
static int start_threads(struct serve_workers *w, struct twin_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    w->watches = pthread_create(&w->watcher, NULL, watch, w) == 0;
    w->pairs = w->watches ? serve_pairs_start(hand_over, w) : NULL;
    w->asks = w->pairs && pthread_create(&w->asker, NULL, ask, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return w->asks ? 0 : twin_error_set(err, TWIN_EIO, "no thread can be started");
}

int serve_workers_start(const struct tw_serve_options *o, struct serve_workers **out, int *fd,
                        struct twin_error *err)
{
    struct serve_workers *w = tw_calloc(1, sizeof *w);
    pthread_condattr_t clock;
    *out = NULL;
    if (!w)
        return tw_no_memory(err, "for the server");
    w->o = o;
    w->up = true;
    w->wake[0] = w->wake[1] = -1;
    w->jobs_end = &w->jobs;
    w->done_end = &w->done;
    w->news_end = &w->news;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->asked, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->stopping, &clock);
    pthread_condattr_destroy(&clock);
    int rc = pipe2(w->wake, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : twin_error_system(err, "no pipe");
    rc = rc ? rc : look_at_first(w, err);
    rc = rc ? rc : start_threads(w, err);
    if (rc != 0) {
        serve_workers_stop(w);
        return rc;
    }
    *fd = w->wake[0];
    *out = w;
    return 0;
}
