/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_WORKERS_H
#define TW_SERVE_WORKERS_H
/*
 * The two threads that read the ledger: the watcher, which keeps the snapshot and says what is new,
 * and the asker, which answers the API's questions one after the other. Each has a connection of
 * its own. What they have for the thread of the clients lies in boxes behind one lock; a byte in a
 * descriptor says that there is something.
 */
#include "news.h"
#include "query.h"
#include "serve.h"
#include "state.h"

#include "base.h"

/* A question. who: of the caller. status is 200, 404, 409, 410 (a run's folder is gone), 503
 * (the ledger cannot be read, a limit was reached), 500 (no memory). */
struct serve_job {
    struct serve_query query;
    struct serve_pair *pair; /* of a comparison: what is held against what */
    void *who;               /* freed with the job */
    int status;
    struct tw_buf body;
    char said[400]; /* for the log: why runs could not be compared; "" */
    struct serve_job *next;
};

/* Fills in `said`; how: more of it, or "". */
void serve_job_say(struct serve_job *j, const char *why, const char *how);
void serve_job_free(struct serve_job *j); /* not what `who` is */

struct serve_workers;
/* Opens the ledger before it returns, so that a wrong address or folder is an error at once. *fd:
 * readable when there is something to take. */
int serve_workers_start(const struct tw_serve_options *o, struct serve_workers **out, int *fd,
                        struct twin_error *err);
void serve_workers_stop(struct serve_workers *w);
/* False: too many questions wait. The job belongs to the workers until it is taken. */
bool serve_workers_ask(struct serve_workers *w, struct serve_job *job);

/* What is there; each belongs to the caller then, oldest first. */
struct serve_taken {
    struct serve_state *state; /* NULL: the old one still holds */
    struct serve_job *done;
    struct serve_news *news;
    bool up;
    char said[400]; /* the ledger went or came back: for the log; "" */
};
void serve_workers_take(struct serve_workers *w, struct serve_taken *out);
/* The incidents of the newest snapshot, for who tells an Alertmanager; NULL: those that were taken
 * last still hold. Belongs to the caller: serve_incidents_free and tw_free. */
struct serve_incidents *serve_workers_take_incidents(struct serve_workers *w);
/* Frees a snapshot that is not shown any more, in another thread. */
void serve_workers_drop(struct serve_workers *w, struct serve_state *s);

#endif
