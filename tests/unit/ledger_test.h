/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEDGER_TEST_H
#define LEDGER_TEST_H
/* A ledger for each test: a file, or a schema of PostgreSQL when TW_LEDGER_TEST_URL names a server
 * (tests/agents/test_ledger.py starts one); runs to put into it, and what a walk over it saw. */
#include "src/ledger/ledger.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "base.h"
#include "db.h"

static char home[64];
static char *url; /* of this test's schema; NULL: SQLite */

static inline struct tw_db *raw(void)
{
    struct tw_db *db = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = tw_path_join(home, "ledger.db");
    if ((url ? tw_db_postgres(url, false, &db, &err) : tw_db_sqlite(path, false, &db, &err)) != 0)
        fail_msg("%s", err.message);
    tw_free(path);
    return db;
}

static inline void sql(struct tw_db *db, const char *text)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (db->ops->run(db, text, NULL, 0, NULL, NULL, &err) != 0)
        fail_msg("%s: %s", text, err.message);
}

static inline int fresh(void **state)
{
    static int number;
    const char *server = getenv("TW_LEDGER_TEST_URL");
    (void)state;
    snprintf(home, sizeof home, "/tmp/twin-ledger-XXXXXX");
    assert_non_null(mkdtemp(home));
    if (!server)
        return 0;
    struct tw_db *db = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    char text[100];
    if (tw_db_postgres(server, false, &db, &err) != 0)
        fail_msg("%s", err.message);
    snprintf(text, sizeof text, "CREATE SCHEMA t%d_%d", (int)getpid(), ++number);
    sql(db, text);
    db->ops->close(db);
    url = tw_printf("%s%coptions=-csearch_path%%3Dt%d_%d", server, strchr(server, '?') ? '&' : '?',
                    (int)getpid(), number);
    return 0;
}

static inline int done(void **state)
{
    (void)state;
    tw_remove_tree(home, NULL, NULL);
    tw_free(url);
    url = NULL;
    return 0;
}

static inline struct twin_ledger *opened(void)
{
    struct twin_ledger *l = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_ledger_open(home, url, &l, &err) != 0)
        fail_msg("twin_ledger_open: %s", err.message);
    return l;
}

static inline const char *id_of(int n, char id[33])
{
    snprintf(id, 33, "%032x", n + 1);
    return id;
}

static inline struct twin_ledger_run run_of(int n, char id[33])
{
    return (struct twin_ledger_run){.id = id_of(n, id),
                                    .name = "2026-11-21T08-00-00Z-run-00000001",
                                    .label = "run",
                                    .command = "python train.py",
                                    .argv = "[\"python\"]",
                                    .host = "h",
                                    .state = "ok",
                                    .start_ns = 1000 + n,
                                    .wall_s = 1.5,
                                    .steps = 10,
                                    .records = 100};
}

struct seen {
    size_t n;
    struct twin_ledger_run last;
    char state[64], command[64], cause[64], first[64], data_root[16];
    int64_t step, start;
    size_t runs;
    uint64_t bytes;
};

static inline int see_run(void *user, const struct twin_ledger_run *r)
{
    struct seen *s = user;
    s->n++;
    s->last = *r;
    s->start = r->start_ns;
    snprintf(s->state, sizeof s->state, "%s", r->state);
    snprintf(s->command, sizeof s->command, "%s", r->command);
    return 0;
}

static inline int see_comparison(void *user, const struct twin_ledger_comparison *c)
{
    struct seen *s = user;
    s->n++;
    s->runs = c->run_count;
    s->step = c->first_step;
    snprintf(s->state, sizeof s->state, "%s", c->outcome);
    snprintf(s->cause, sizeof s->cause, "%s", c->cause);
    snprintf(s->first, sizeof s->first, "%s", c->first);
    return 0;
}

static inline int see_artifact(void *user, const struct twin_ledger_artifact *a)
{
    struct seen *s = user;
    s->n++;
    s->bytes += a->bytes;
    return 0;
}

/* What a walk over runs with facts, and over events, found. */
struct counted {
    size_t runs, bare, events;
    char project[64], subject[64];
    double loss;
    int64_t calls;
};

static inline int see_history(void *user, const struct twin_ledger_run *r,
                              const struct twin_ledger_facts *f)
{
    struct counted *c = user;
    assert_non_null(r->id);
    c->runs++;
    c->bare += f == NULL;
    if (f) {
        snprintf(c->project, sizeof c->project, "%s", f->project);
        c->loss = f->loss;
        c->calls = f->nondeterministic;
    }
    return 0;
}

#endif
