/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that read the ledger. A ledger that goes away is tried again every second, and what
 * was known stays.
 *
 * When the watcher looks again: once a second it asks for the ledger's mark, which costs next to
 * nothing, and makes a new snapshot where the mark is another one, or the last snapshot is a minute
 * old (windows move on). A million runs take seconds each time, so it has a share of all time
 * (share.h): what waits for it is looked at later.
 */
#include "workers.h"

#include "answer.h"
#include "incidents.h"
#include "pair.h"
#include "search.h"
#include "share.h"
#include "thread.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_S = 1, OLD_S = 60, JOBS_MOST = 512, WHY_MAX = 360 };
static const int64_t SECOND_NS = 1000000000;

struct serve_workers {
    const struct tw_serve_options *o;
    struct serve_end end;
    pthread_cond_t asked;
    pthread_t watcher, asker;
    bool watches, asks; /* these threads run */
    int wake[2];
    struct serve_pairs *pairs;
    /* behind the lock of the end */
    bool up;
    size_t waiting;
    struct serve_job *jobs, **jobs_end, *done, **done_end;
    struct serve_news *news, **news_end;
    struct serve_state *fresh, *old;
    struct serve_incidents *incidents; /* to be told; NULL: taken */
    char said[400];
    /* of the watcher alone */
    struct tw_slo_counted high;
    struct twin_ledger *ledger;
    struct tw_slo_kept *kept; /* what it says */
    char mark[TWIN_LEDGER_MARK_BYTES];
    uint64_t made_at_ns; /* of the monotonic clock */
    struct serve_share share;
    bool loaded; /* the last look read everything */
    struct serve_seen seen;
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
    pthread_mutex_lock(&w->end.lock);
    if (up != w->up)
        snprintf(w->said, sizeof w->said, "%s%.*s",
                 up ? "the ledger can be read again" : "the ledger cannot be read: ", WHY_MAX,
                 up ? "" : why);
    const bool changed = up != w->up;
    w->up = up;
    pthread_mutex_unlock(&w->end.lock);
    if (changed)
        wake(w);
}

void serve_workers_take(struct serve_workers *w, struct serve_taken *out)
{
    char bytes[64];
    while (read(w->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
    pthread_mutex_lock(&w->end.lock);
    *out = (struct serve_taken){.state = w->fresh, .done = w->done, .news = w->news, .up = w->up};
    memcpy(out->said, w->said, sizeof out->said);
    w->said[0] = '\0';
    w->fresh = NULL;
    w->done = NULL;
    w->done_end = &w->done;
    w->news = NULL;
    w->news_end = &w->news;
    pthread_mutex_unlock(&w->end.lock);
}

void serve_workers_drop(struct serve_workers *w, struct serve_state *s)
{
    pthread_mutex_lock(&w->end.lock);
    struct serve_state *before = w->old;
    w->old = s;
    pthread_mutex_unlock(&w->end.lock);
    serve_state_free(before);
}

static void free_incidents(struct serve_incidents *s)
{
    if (s)
        serve_incidents_free(s);
    tw_free(s);
}

struct serve_incidents *serve_workers_take_incidents(struct serve_workers *w)
{
    pthread_mutex_lock(&w->end.lock);
    struct serve_incidents *s = w->incidents;
    w->incidents = NULL;
    pthread_mutex_unlock(&w->end.lock);
    return s;
}

/* ---- news */

/* Hands news to the thread of the clients, with the lock. */
static void hand_news(struct serve_workers *w, const struct serve_news_list *news)
{
    if (!news->first)
        return;
    *w->news_end = news->first;
    w->news_end = news->end;
}

static void publish(struct serve_workers *w, const struct serve_news_list *news)
{
    if (!news->first)
        return;
    pthread_mutex_lock(&w->end.lock);
    hand_news(w, news);
    pthread_mutex_unlock(&w->end.lock);
    wake(w);
}

static void add_event(void *workers, char *event)
{
    struct serve_news *n = serve_news_of(event);
    if (n)
        publish(workers, &(struct serve_news_list){n, &n->next});
}

/* ---- the watcher */

/* By a clock that nobody sets: a wall clock put back by an hour would keep a snapshot for one. */
static bool is_old(const struct serve_workers *w)
{
    return tw_monotonic_ns() - w->made_at_ns > (uint64_t)OLD_S * SECOND_NS;
}

/* A copy of its incidents, for who tells them; NULL: nobody does. */
static int copy_incidents(const struct serve_workers *w, const struct serve_state *s,
                          struct serve_incidents **out)
{
    *out = w->o->alertmanager ? tw_calloc(1, sizeof **out) : NULL;
    if (!w->o->alertmanager)
        return 0;
    const int rc = *out ? serve_incidents_copy(&s->incidents, *out) : TWIN_ENOMEM;
    if (rc == 0)
        return 0;
    free_incidents(*out);
    *out = NULL;
    return rc;
}

/* Of this thread, which is less than what passed where the machine is busy with others. */
static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A mark may change without new records: then the snapshot that is shown is as good as another.
 * News are handed over with it, so that who asks because of them finds them in it. */
static int make_snapshot(struct serve_workers *w, struct serve_news_list *news,
                         struct twin_error *err)
{
    struct serve_state *s = NULL;
    const struct tw_slo_history *h;
    enum tw_slo_look what;
    const int64_t now_ns = tw_realtime_ns();
    const uint64_t from = tw_monotonic_ns();
    int rc = tw_slo_kept_look(w->kept, w->ledger, now_ns, &h, &what, err);
    const uint64_t held = tw_monotonic_ns();
    const double before_s = processor_s();
    const bool stays = rc == 0 && what == TW_SLO_LOOK_SAME && !is_old(w);
    const struct serve_incident_rules rules = serve_incident_rules_of(w->o);
    const struct serve_making m = {w->ledger, h, w->o->targets, &rules, &w->high, now_ns};
    struct serve_incidents *incidents = NULL;
    if (rc == 0 && !stays)
        rc = serve_state_make(&m, &s, err);
    if (rc == 0 && s && (rc = copy_incidents(w, s, &incidents)) != 0) {
        serve_state_free(s);
        rc = tw_no_memory(err, "for incidents");
    }
    const uint64_t until = tw_monotonic_ns();
    /* the database works while we wait for it; everything is read once in hours, and counts only
     * where it is each time */
    const bool once = rc == 0 && what == TW_SLO_LOOK_LOADED && !w->loaded;
    serve_share_spend(&w->share, once ? 0 : (double)(held - from) / 1e9);
    serve_share_spend(&w->share, processor_s() - before_s);
    w->loaded = rc == 0 ? what == TW_SLO_LOOK_LOADED : w->loaded;
    if (rc != 0 || stays)
        return rc;
    s->seconds = (double)(until - from) / 1e9;
    w->made_at_ns = until;
    pthread_mutex_lock(&w->end.lock);
    struct serve_state *unread = w->fresh, *old = w->old;
    struct serve_incidents *untold = w->incidents;
    w->fresh = s;
    w->old = NULL;
    w->incidents = incidents;
    hand_news(w, news);
    *news = (struct serve_news_list){.first = NULL};
    pthread_mutex_unlock(&w->end.lock);
    wake(w);
    serve_state_free(unread);
    serve_state_free(old);
    free_incidents(untold);
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
    if (rc == 0 && (changed || is_old(w))) {
        if (!serve_share_may(&w->share, (int64_t)tw_monotonic_ns()))
            return 0; /* the mark stays the old one */
        struct serve_news_list news;
        const uint64_t from = tw_monotonic_ns();
        rc = serve_news_look(&w->seen, w->ledger, tw_realtime_ns(), &news, err);
        serve_share_spend(&w->share, (double)(tw_monotonic_ns() - from) / 1e9);
        rc = rc ? rc : make_snapshot(w, &news, err);
        publish(w, &news);
    }
    if (rc == 0) {
        memcpy(w->mark, mark, sizeof mark);
        return 0;
    }
    twin_ledger_close(w->ledger);
    w->ledger = NULL;
    tw_slo_kept_forget(w->kept); /* it may be another one when it is back */
    return rc;
}

static void *watch(void *user)
{
    struct serve_workers *w = user;
    struct twin_error first = TWIN_ERROR_INIT;
    set_up(w, look(w, &first) == 0, first.message);
    serve_searches_look(&w->searches, w->o->home, add_event, w);
    for (;;) {
        if (serve_end_rest(&w->end, LOOK_S * SECOND_NS))
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
    pthread_mutex_lock(&w->end.lock);
    *w->done_end = job;
    w->done_end = &job->next;
    pthread_mutex_unlock(&w->end.lock);
    wake(w);
}

static struct serve_job *next_job(struct serve_workers *w)
{
    pthread_mutex_lock(&w->end.lock);
    while (!w->jobs && !w->end.stop)
        pthread_cond_wait(&w->asked, &w->end.lock);
    struct serve_job *job = w->end.stop ? NULL : w->jobs;
    if (job) {
        w->jobs = job->next;
        if (!w->jobs)
            w->jobs_end = &w->jobs;
        w->waiting--;
        job->next = NULL;
    }
    pthread_mutex_unlock(&w->end.lock);
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
    pthread_mutex_lock(&w->end.lock);
    const bool room = w->waiting < JOBS_MOST;
    if (room) {
        job->next = NULL;
        *w->jobs_end = job;
        w->jobs_end = &job->next;
        w->waiting++;
        pthread_cond_signal(&w->asked);
    }
    pthread_mutex_unlock(&w->end.lock);
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
    tw_free(j->who);
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
    serve_end_tell(&w->end);
    pthread_mutex_lock(&w->end.lock); /* the asker looks at the end before it waits */
    pthread_cond_broadcast(&w->asked);
    pthread_mutex_unlock(&w->end.lock);
    if (w->watches)
        pthread_join(w->watcher, NULL);
    if (w->asks)
        pthread_join(w->asker, NULL);
    serve_pairs_stop(w->pairs);
    free_jobs(w->jobs);
    free_jobs(w->done);
    serve_news_free(w->news);
    serve_state_free(w->fresh);
    serve_state_free(w->old);
    free_incidents(w->incidents);
    twin_ledger_close(w->ledger);
    tw_slo_kept_free(w->kept);
    tw_slo_counted_free(&w->high);
    serve_seen_free(&w->seen);
    for (int i = 0; i < 2; i++)
        if (w->wake[i] >= 0)
            close(w->wake[i]);
    pthread_cond_destroy(&w->asked);
    serve_end_destroy(&w->end);
    tw_free(w);
}

static int start_threads(struct serve_workers *w, struct twin_error *err)
{
    w->watches = serve_thread_start(&w->watcher, watch, w);
    w->pairs = w->watches ? serve_pairs_start(hand_over, w) : NULL;
    w->asks = w->pairs && serve_thread_start(&w->asker, ask, w);
    return w->asks ? 0 : twin_error_set(err, TWIN_EIO, "no thread can be started");
}

int serve_workers_start(const struct tw_serve_options *o, struct serve_workers **out, int *fd,
                        struct twin_error *err)
{
    struct serve_workers *w = tw_calloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return tw_no_memory(err, "for the server");
    w->o = o;
    w->up = true;
    w->wake[0] = w->wake[1] = -1;
    w->jobs_end = &w->jobs;
    w->done_end = &w->done;
    w->news_end = &w->news;
    serve_end_init(&w->end);
    serve_share_init(&w->share, (int64_t)tw_monotonic_ns());
    pthread_cond_init(&w->asked, NULL);
    int rc = pipe2(w->wake, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : twin_error_system(err, "no pipe");
    if (rc == 0 && !(w->kept = tw_slo_kept_new()))
        rc = tw_no_memory(err, "for the server");
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
