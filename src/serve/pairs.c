/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that wait for comparisons, two at a time, and the last results. A result is kept
 * until others need its room; that two runs could not be compared is remembered for a minute, so
 * that a page that asks again and again costs nothing.
 */
#include "pair.h"

#include "answer.h"
#include "thread.h"
#include "workers.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, WAITING = 32, KEPT = 8, FAULT_S = 60 };
#define KEPT_BYTES ((size_t)256 << 20)

/* A result, or why there is none. */
struct kept {
    char *key;                 /* NULL: free */
    struct serve_field *field; /* of a comparison */
    json_t *report;            /* of a postmortem */
    size_t bytes;              /* of memory, about */
    int status;
    const char *why; /* static */
    uint64_t used, until_ns;
};

struct serve_pairs {
    void (*done)(void *user, struct serve_job *job);
    void *user;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[THREADS];
    size_t threads;
    bool stop;
    struct serve_job *jobs, **jobs_end;
    size_t waiting;
    struct kept kept[KEPT];
    uint64_t uses;
    const char *making[THREADS]; /* keys */
};

/* ---- what is kept; with the lock */

static void forget(struct kept *k)
{
    tw_free(k->key);
    serve_field_free(k->field);
    json_decref(k->report);
    *k = (struct kept){.key = NULL};
}

static struct kept *find(struct serve_pairs *p, const char *key)
{
    for (size_t i = 0; i < KEPT; i++) {
        struct kept *k = &p->kept[i];
        if (!k->key || strcmp(k->key, key) != 0)
            continue;
        if (k->status != 200 && tw_monotonic_ns() > k->until_ns) {
            forget(k);
            return NULL;
        }
        k->used = ++p->uses;
        return k;
    }
    return NULL;
}

/* Makes room by forgetting what was used longest ago. */
static struct kept *room_for(struct serve_pairs *p, size_t bytes)
{
    for (;;) {
        struct kept *oldest = NULL, *empty = NULL;
        size_t held = 0;
        for (size_t i = 0; i < KEPT; i++) {
            struct kept *k = &p->kept[i];
            held += k->bytes;
            if (!k->key)
                empty = k;
            else if (!oldest || k->used < oldest->used)
                oldest = k;
        }
        if (empty && (held + bytes <= KEPT_BYTES || !oldest))
            return empty;
        forget(oldest);
    }
}

/* Takes what `made` holds. NULL: no memory. */
static struct kept *keep(struct serve_pairs *p, const char *key, struct kept *made)
{
    made->key = tw_strdup(key);
    if (!made->key) {
        forget(made);
        return NULL;
    }
    struct kept *k = room_for(p, made->bytes);
    *k = *made;
    k->used = ++p->uses;
    k->until_ns = tw_monotonic_ns() + (uint64_t)FAULT_S * 1000000000;
    return k;
}

/* ---- an answer; with the lock, since a tree of JSON belongs to one thread at a time */

/* The members of an object, and the end of that in which they stand. */
static void put_members(json_t *object, struct tw_buf *b)
{
    struct tw_buf whole = {0};
    serve_put_json(json_incref(object), &whole);
    tw_buf_puts(b, ",");
    if (whole.failed)
        b->failed = whole.failed;
    else
        tw_buf_puts(b, whole.data + 1);
    tw_buf_free(&whole);
}

static void show(const struct kept *k, struct serve_job *job)
{
    const struct serve_query *q = &job->query;
    const struct serve_pair *pair = job->pair;
    const struct serve_view view = {.rows = (size_t)q->rows,
                                    .columns = (size_t)q->columns,
                                    .from = (uint32_t)q->from,
                                    .to = (uint32_t)q->to,
                                    .tensor = *q->tensor ? q->tensor : NULL};
    job->status = k ? k->status : 500;
    if (!k || k->status != 200) {
        serve_error(k ? k->why : "no memory", &job->body);
        return;
    }
    tw_buf_printf(&job->body, "{\"schema\":\"twinrun.%s/1\",\"verdict\":",
                  k->report ? "postmortem" : "compared");
    serve_put_json(json_incref(pair->verdict), &job->body);
    tw_buf_puts(&job->body, ",\"runs\":");
    serve_put_json(json_incref(pair->runs), &job->body);
    tw_buf_printf(&job->body, ",\"other\":%zu", pair->other);
    if (k->report) {
        put_members(k->report, &job->body);
        return;
    }
    tw_buf_puts(&job->body, ",\"compared\":");
    serve_put_json(json_incref(k->field->head), &job->body);
    tw_buf_puts(&job->body, ",\"heatmap\":");
    serve_field_reduce(k->field, &view, &job->body);
    tw_buf_puts(&job->body, "}");
}

/* ---- the threads */

static bool is_over(void *user)
{
    struct serve_pairs *p = user;
    pthread_mutex_lock(&p->lock);
    const bool stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return stop;
}

static bool is_made(const struct serve_pairs *p, const char *key)
{
    for (size_t i = 0; i < THREADS; i++)
        if (p->making[i] && strcmp(p->making[i], key) == 0)
            return true;
    return false;
}

/* Without the lock, and without a key. */
static struct kept run_child(struct serve_pairs *p, struct serve_job *job)
{
    char ended[40];
    struct tw_buf b = {0};
    struct kept k = {.key = NULL};
    k.status = serve_child_run(job->pair->argv, &job->pair->facts, is_over, p, &b, &k.why, ended);
    if (k.status == 200 && job->query.route == SERVE_POSTMORTEM) {
        k.report = serve_postmortem_read(b.data, b.len);
        k.bytes = 4 * b.len;
    } else if (k.status == 200) {
        k.field = serve_field_read(b.data, b.len);
        k.bytes = k.field ? k.field->bytes : 0;
    }
    if (k.status == 200 && !k.field && !k.report) {
        k.status = 503;
        k.why = "the comparison ended without a result";
    }
    tw_buf_free(&b);
    if (k.status != 200)
        serve_job_say(job, k.why, ended);
    return k;
}

/* Compares, unless another thread does that already: then its result is waited for. Called and left
 * with the lock. NULL: no memory, or the end. */
static struct kept *make(struct serve_pairs *p, struct serve_job *job)
{
    size_t me = 0;
    while (!p->stop && is_made(p, job->pair->key))
        pthread_cond_wait(&p->changed, &p->lock);
    struct kept *k = p->stop ? NULL : find(p, job->pair->key);
    if (k || p->stop)
        return k;
    while (p->making[me])
        me++;
    p->making[me] = job->pair->key;
    pthread_mutex_unlock(&p->lock);
    struct kept made = run_child(p, job);
    pthread_mutex_lock(&p->lock);
    p->making[me] = NULL;
    pthread_cond_broadcast(&p->changed);
    return keep(p, job->pair->key, &made);
}

static void *work(void *user)
{
    struct serve_pairs *p = user;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->jobs && !p->stop)
            pthread_cond_wait(&p->changed, &p->lock);
        if (p->stop)
            break;
        struct serve_job *job = p->jobs;
        p->jobs = job->next;
        if (!p->jobs)
            p->jobs_end = &p->jobs;
        p->waiting--;
        job->next = NULL;
        show(make(p, job), job);
        pthread_mutex_unlock(&p->lock);
        p->done(p->user, job);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

enum serve_pairs_answer serve_pairs_ask(struct serve_pairs *p, struct serve_job *job)
{
    enum serve_pairs_answer a = SERVE_PAIRS_LATER;
    pthread_mutex_lock(&p->lock);
    const struct kept *k = find(p, job->pair->key);
    if (k) {
        show(k, job);
        a = SERVE_PAIRS_ANSWERED;
    } else if (p->waiting >= WAITING) {
        a = SERVE_PAIRS_FULL;
    } else {
        job->next = NULL;
        *p->jobs_end = job;
        p->jobs_end = &job->next;
        p->waiting++;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return a;
}

struct serve_pairs *serve_pairs_start(void (*done)(void *user, struct serve_job *job), void *user)
{
    struct serve_pairs *p = tw_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->done = done;
    p->user = user;
    p->jobs_end = &p->jobs;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    while (p->threads < THREADS && serve_thread_start(&p->thread[p->threads], work, p))
        p->threads++;
    if (p->threads == THREADS)
        return p;
    serve_pairs_stop(p);
    return NULL;
}

void serve_pairs_stop(struct serve_pairs *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->threads; i++)
        pthread_join(p->thread[i], NULL);
    while (p->jobs) {
        struct serve_job *next = p->jobs->next;
        serve_job_free(p->jobs);
        p->jobs = next;
    }
    for (size_t i = 0; i < KEPT; i++)
        forget(&p->kept[i]);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    tw_free(p);
}
