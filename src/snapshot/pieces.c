/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of the tensors of a file, by several threads. A tensor is cut into pieces of a MiB, whose
 * digests make its own (content.h). A thread takes two pieces at a time, because two messages are
 * digested side by side in little more time than one (sha256.c).
 *
 * Pieces are given out in the file's order and their digests are put together in that order, so
 * result and first error are those of one thread. What cannot be read by several threads at once
 * (packed members, elements that lie apart, folders) is read under the lock, while others digest.
 */
#include "base.h"
#include "sha256.h"
#include "snapshot_inside.h"

#include "src/snapshot/content.h"

#include <pthread.h>
#include <string.h>

/* SLOTS: pieces that are given out and not yet put together. Each thread has two of them at most.
 */
enum { MOST_THREADS = 16, SLOTS = 8 * MOST_THREADS };

struct piece {
    uint64_t number; /* of it among all pieces */
    size_t tensor;
    uint64_t at, count; /* its first element, and how many */
    size_t bytes;
    bool last; /* of its tensor */
    bool read;
    unsigned char *data;
};

/* A piece in the order of all: its digest, once there is one. */
struct slot {
    size_t tensor, bytes;
    bool last, done;
    unsigned char digest[32];
};

struct line {
    struct twin_content *c;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    size_t next; /* tensor that the next piece is of */
    uint64_t at; /* its first element */
    uint64_t given, together;
    struct slot slot[SLOTS];
    size_t open; /* tensor that is being put together */
    struct tw_sha256 whole;
    bool failed; /* SHA-256 did */
    /* the first piece that could not be read, and why */
    bool stop;
    uint64_t stopped_at;
    struct twin_error err;
};

/* One thread's. */
struct worker {
    struct line *line;
    unsigned char *data[2];
    struct tw_sha256 sha[2];
};

void tw_take_text(struct tw_sha256 *s, const char *text)
{
    const uint64_t n = strlen(text);
    tw_sha256_add(s, &n, sizeof n);
    tw_sha256_add(s, text, n);
}

/* ---- put together, under the lock */

static void begin_tensor(struct line *k, size_t i)
{
    const struct twin_tensors_entry *e = twin_tensors_at(k->c->tensors, i);
    const uint64_t ndim = e->ndim;
    k->failed |= !tw_sha256_begin(&k->whole);
    tw_sha256_add(&k->whole, "twinrun.tensor/2", sizeof "twinrun.tensor/2");
    tw_take_text(&k->whole, e->name);
    tw_take_text(&k->whole, twin_dtype_name(e->dtype));
    tw_sha256_add(&k->whole, &ndim, sizeof ndim);
    for (uint32_t d = 0; d < e->ndim; d++)
        tw_sha256_add(&k->whole, &e->shape[d], sizeof e->shape[d]);
}

static void end_tensor(struct line *k, size_t i)
{
    struct twin_content_tensor *t = &k->c->tensor[i];
    t->entry = twin_tensors_at(k->c->tensors, i);
    t->index = i;
    k->failed |= !tw_sha256_end(&k->whole, t->digest);
    tw_hex(t->digest, 32, t->sha256);
}

/* All pieces from the first missing one on whose digests are there. */
static void put_together(struct line *k)
{
    for (; k->together < k->given && k->slot[k->together % SLOTS].done; k->together++) {
        struct slot *s = &k->slot[k->together % SLOTS];
        if (k->open != s->tensor)
            begin_tensor(k, k->open = s->tensor);
        if (s->bytes)
            tw_sha256_add(&k->whole, s->digest, sizeof s->digest);
        if (s->last)
            end_tensor(k, s->tensor);
    }
}

/* Of several errors that of the earliest piece counts; all before it were given out. */
static void stop_at(struct line *k, uint64_t number, const struct twin_error *err)
{
    if (k->stop && k->stopped_at < number)
        return;
    k->stop = true;
    k->stopped_at = number;
    k->err = *err;
}

/* ---- given out, under the lock */

/* False: there is none left. */
static bool next_piece(struct line *k, struct piece *p)
{
    if (k->next == k->c->count || k->stop)
        return false;
    const struct twin_tensors_entry *e = twin_tensors_at(k->c->tensors, k->next);
    const uint64_t size = e->count && !e->unreadable ? e->bytes / e->count : 1;
    const uint64_t most = TWIN_CONTENT_PIECE / size;
    p->number = k->given++;
    p->tensor = k->next;
    p->at = k->at;
    p->count = e->count - k->at < most ? e->count - k->at : most;
    p->bytes = p->count * size;
    p->last = k->at + p->count == e->count;
    k->at += p->count;
    if (p->last) {
        k->next++;
        k->at = 0;
    }
    k->slot[p->number % SLOTS] = (struct slot){p->tensor, p->bytes, p->last, false, {0}};
    return true;
}

static int read_piece(struct line *k, struct piece *p, struct twin_error *err)
{
    const struct twin_tensors_entry *e = twin_tensors_at(k->c->tensors, p->tensor);
    p->read = true;
    if (e->unreadable)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "tensor %s (%s): %s", e->name, e->stored_as,
                              e->unreadable);
    return twin_tensors_read(k->c->tensors, p->tensor, p->at, p->count, p->data, err);
}

/* Up to two pieces; those that only one thread at a time may read are read here. */
static size_t take(struct line *k, struct piece p[2])
{
    size_t n = 0;
    while (k->given - k->together > SLOTS - 2 && !k->stop)
        pthread_cond_wait(&k->moved, &k->lock);
    for (; n < 2 && next_piece(k, &p[n]); n++) {
        struct twin_error err = TWIN_ERROR_INIT;
        p[n].read = false;
        if (!twin_tensors_by_several(k->c->tensors, p[n].tensor) &&
            read_piece(k, &p[n], &err) != 0) {
            stop_at(k, p[n].number, &err);
            break;
        }
    }
    return n;
}

/* ---- threads */

/* Reads and digests the n pieces that were taken. False: one cannot be read. */
static bool digest(struct worker *w, struct piece p[2], size_t n, unsigned char digest[2][32])
{
    struct line *k = w->line;
    for (size_t i = 0; i < n; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        if (p[i].read || read_piece(k, &p[i], &err) == 0)
            continue;
        pthread_mutex_lock(&k->lock);
        stop_at(k, p[i].number, &err);
        pthread_mutex_unlock(&k->lock);
        return false;
    }
    bool fine = tw_sha256_begin(&w->sha[0]) && (n < 2 || tw_sha256_begin(&w->sha[1]));
    if (fine && n == 2)
        tw_sha256_add_two(&w->sha[0], p[0].data, p[0].bytes, &w->sha[1], p[1].data, p[1].bytes);
    else if (fine)
        tw_sha256_add(&w->sha[0], p[0].data, p[0].bytes);
    for (size_t i = 0; fine && i < n; i++)
        fine = tw_sha256_end(&w->sha[i], digest[i]);
    if (fine)
        return true;
    pthread_mutex_lock(&k->lock);
    k->failed = k->stop = true;
    pthread_mutex_unlock(&k->lock);
    return false;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct line *k = w->line;
    struct piece p[2] = {{.data = w->data[0]}, {.data = w->data[1]}};
    unsigned char made[2][32];
    pthread_mutex_lock(&k->lock);
    for (size_t n; !k->stop && (n = take(k, p)) > 0;) {
        pthread_mutex_unlock(&k->lock);
        const bool fine = digest(w, p, n, made);
        pthread_mutex_lock(&k->lock);
        for (size_t i = 0; fine && i < n; i++) {
            struct slot *s = &k->slot[p[i].number % SLOTS];
            memcpy(s->digest, made[i], sizeof s->digest);
            s->done = true;
        }
        put_together(k);
        pthread_cond_broadcast(&k->moved);
    }
    pthread_cond_broadcast(&k->moved);
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* More threads than pairs of pieces would have nothing to do. */
static unsigned useful(const struct twin_content *c, unsigned threads)
{
    uint64_t pairs = 1;
    for (size_t i = 0; i < c->count && pairs < MOST_THREADS; i++)
        pairs += twin_tensors_at(c->tensors, i)->bytes / (2 * TWIN_CONTENT_PIECE);
    const unsigned most = pairs < MOST_THREADS ? (unsigned)pairs : MOST_THREADS;
    return threads < most ? threads : most;
}

int tw_content_pieces(struct twin_content *c, unsigned threads, struct twin_error *err)
{
    pthread_t thread[MOST_THREADS];
    struct worker worker[MOST_THREADS] = {{.line = NULL}};
    const unsigned wanted = useful(c, threads);
    unsigned started = 1;
    bool room = true;
    struct line *k = tw_calloc(1, sizeof *k);
    if (!k)
        return tw_no_memory(err, "for the digests");
    k->c = c;
    k->open = SIZE_MAX;
    k->err = (struct twin_error)TWIN_ERROR_INIT;
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->moved, NULL);
    for (unsigned i = 0; i < wanted; i++) {
        worker[i].line = k;
        for (int n = 0; n < 2; n++)
            room = (worker[i].data[n] = tw_malloc(TWIN_CONTENT_PIECE)) && room;
    }
    /* this thread is the first worker */
    while (room && started < wanted &&
           pthread_create(&thread[started], NULL, work, &worker[started]) == 0)
        started++;
    if (room)
        work(&worker[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(thread[i], NULL);
    int rc = 0;
    if (!room)
        rc = tw_no_memory(err, "for the digests");
    else if (k->err.code)
        rc = twin_error_set(err, k->err.code, "%s", k->err.message);
    else if (k->failed)
        rc = tw_no_memory(err, "for SHA-256");
    for (unsigned i = 0; i < wanted; i++)
        for (int n = 0; n < 2; n++) {
            tw_free(worker[i].data[n]);
            tw_sha256_free(&worker[i].sha[n]);
        }
    tw_sha256_free(&k->whole);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->moved);
    tw_free(k);
    return rc;
}
