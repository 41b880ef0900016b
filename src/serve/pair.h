/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_PAIR_H
#define TW_SERVE_PAIR_H
/*
 * Comparisons for the live page: which folders a verdict is of, and the processes that compare them
 * again (child.h). Their results are kept, some of them, so that a view of one costs milliseconds.
 */
#include "query.h"
#include "serve.h"

#include <jansson.h>

struct tw_buf;
struct serve_job;

/* A verdict of the ledger with the folders of its runs. */
struct serve_pair {
    json_t *verdict, *runs;
    size_t other; /* place in the verdict's list, from 0 */
    char *key;    /* of the runs as they lie there now, and of what is asked about them */
    char *argv[4 + 2 * SERVE_CHILD_RUNS];
    struct tw_buf facts; /* for a postmortem: the checks on record, as JSON */
};
/* An HTTP status: 200 with *out; 404, 409, 410 with why, static; 0: *err says what is wrong with
 * the ledger. */
int serve_pair_find(struct twin_ledger *l, const struct tw_serve_options *o,
                    const struct serve_query *q, struct serve_pair **out, const char **why,
                    struct twin_error *err);
void serve_pair_free(struct serve_pair *p);

struct serve_pairs;
/* done gets each job that was asked, from a thread of its own, with status and body. NULL: no
 * memory or no thread. */
struct serve_pairs *serve_pairs_start(void (*done)(void *user, struct serve_job *job), void *user);
void serve_pairs_stop(struct serve_pairs *p); /* jobs that wait are freed */
/* Answers a job at once where what it needs is kept; else it will be done. False: too many wait. */
enum serve_pairs_answer { SERVE_PAIRS_ANSWERED, SERVE_PAIRS_LATER, SERVE_PAIRS_FULL };
enum serve_pairs_answer serve_pairs_ask(struct serve_pairs *p, struct serve_job *job);

#endif
