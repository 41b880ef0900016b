/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LEDGER_DB_H
#define TW_LEDGER_DB_H
/*
 * One set of SQL for two databases: what SQLite and PostgreSQL both say. ledger.c and schema.c
 * write statements and run them through struct tw_db_ops; db_sqlite.c and db_postgres.c are the two
 * tables of functions behind it.
 *
 * Parameters are $1, $2, ... in the order of their first use, because SQLite numbers them so.
 * PostgreSQL wants to know the type of each: a parameter is cast where it is not compared with a
 * column. What only one of the two knows (triggers, upserts, sequences) is not used.
 *
 * Functions that return int give 0 or a TWIN_E*: TWIN_EBUSY (others hold the database for too
 * long), TWIN_EFORMAT (damaged, or not ours), TWIN_EIO, TWIN_ENOMEM.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

#include "src/ledger/ledger.h"

/* The types that our columns have; TW_DB_NULL: no value. */
enum tw_db_type { TW_DB_NULL, TW_DB_INT, TW_DB_REAL, TW_DB_TEXT };
/* A parameter of a statement, or a cell of a row. The field that belongs to the type counts; of a
 * cell s is never NULL. */
struct tw_db_value {
    enum tw_db_type type;
    int64_t i;
    double d;
    const char *s;
};
/* A parameter of each type; TW_TEXT borrows its text until the statement has run. */
#define TW_INT(x) ((struct tw_db_value){.type = TW_DB_INT, .i = (int64_t)(x)})
#define TW_REAL(x) ((struct tw_db_value){.type = TW_DB_REAL, .d = (x)})
#define TW_TEXT(x) ((struct tw_db_value){.type = TW_DB_TEXT, .s = (x)})

/* Is called for each row of a result; n: its columns. The values live as long as the call. Non-zero
 * ends the query, which then returns that value. */
typedef int tw_db_row_fn(void *user, const struct tw_db_value *row, size_t n);

enum { TW_DB_MARK_BYTES = 64 };
struct tw_db;
/* What a database can do. begin, commit and rollback belong to one transaction; a statement outside
 * of them is one by itself. */
struct tw_db_ops {
    void (*close)(struct tw_db *db);
    /* Exclusive among writers: the second one waits until the first has ended. TWIN_EBUSY when it
     * waited too long. After a failure no transaction is open. */
    int (*begin)(struct tw_db *db, struct twin_error *err);
    /* For who reads: until commit or rollback all statements see the database as it was at the
     * first one. Nobody waits for it. */
    int (*begin_to_read)(struct tw_db *db, struct twin_error *err);
    int (*commit)(struct tw_db *db, struct twin_error *err);
    /* Fine when no transaction is open. */
    void (*rollback)(struct tw_db *db);
    /* Runs one statement with n parameters. each is called for each row; NULL: rows are passed
     * over. */
    int (*run)(struct tw_db *db, const char *sql, const struct tw_db_value *arg, size_t n,
               tw_db_row_fn *each, void *user, struct twin_error *err);
    /* Is there a table of this name? */
    int (*has_table)(struct tw_db *db, const char *name, bool *yes, struct twin_error *err);
    /* A mark that is another one after others have written, and costs next to nothing. It may be
     * another one though nobody wrote to our tables. TWIN_EIO: what was opened is not there any
     * more. */
    int (*change)(struct tw_db *db, char mark[TW_DB_MARK_BYTES], struct twin_error *err);
};
/* An open database: the first part of struct sqlite or struct postgres. name: for messages, without
 * credentials. fresh: the file was made by this open. */
struct tw_db {
    const struct tw_db_ops *ops;
    char *name;
    bool fresh;
};

/* Open a database; *out is closed with ops->close, and NULL on failure. path: of the file, made
 * when it is missing. read_only: nothing can be written, and nothing is made. A build without the
 * library gives TWIN_EUNSUPPORTED. */
int tw_db_sqlite(const char *path, bool read_only, struct tw_db **out, struct twin_error *err);
int tw_db_postgres(const char *url, bool read_only, struct tw_db **out, struct twin_error *err);

/* The database of an open ledger, for the other files of the room; and a put as a transaction of
 * its own unless the caller has one open. */
struct tw_db *tw_ledger_db(struct twin_ledger *l);
int tw_ledger_begin_put(struct twin_ledger *l, struct twin_error *err);
int tw_ledger_finish_put(struct twin_ledger *l, int rc, struct twin_error *err);

/* Copies of the texts of one statement, which live until it has run: databases hold text, so other
 * bytes become \xNN. failed: there was no memory, or more texts than there is room for. */
struct tw_ledger_texts {
    char *s[16];
    size_t n;
    bool failed;
};
/* A copy of s as a database can hold it; NULL becomes "". Owned by t. */
const char *tw_ledger_text(struct tw_ledger_texts *t, const char *s);
/* Runs a statement with n values, which may hold texts of t, and frees these. TWIN_ENOMEM, and
 * nothing was run, when one of them could not be made. */
int tw_ledger_insert(struct twin_ledger *l, const char *sql, const struct tw_db_value *v, size_t n,
                     struct tw_ledger_texts *t, struct twin_error *err);

/* The columns of a run, in the order in which tw_ledger_run_of() reads them. */
#define TW_LEDGER_COLUMNS                                                                      \
    "id, version, recorded_ns, home, name, label, command, host, state, exit_code, start_ns, " \
    "wall_s, steps, records, dropped, gone, data_root, argv"
enum { TW_LEDGER_COLUMN_COUNT = 18 };
/* A row of these columns as a record, whose texts are the row's. */
struct twin_ledger_run tw_ledger_run_of(const struct tw_db_value *row);

/* Brings a database to schema version upto (TWIN_LEDGER_SCHEMA but in tests) in one transaction;
 * one that is there already is left as it is. TWIN_EVERSION: it is of a newer twinrun. */
int tw_schema_migrate(struct tw_db *db, int upto, struct twin_error *err);
/* For who only reads: TWIN_EVERSION unless it has schema TWIN_LEDGER_SCHEMA. */
int tw_schema_check(struct tw_db *db, struct twin_error *err);

/* The columns of facts as twin_ledger_history reads them behind those of a run, and a row of both
 * as records. False: the run has no facts. */
#define TW_LEDGER_FACTS                                                           \
    "project, family, contributor, sweep, inputs, ci, snapshots, deterministic, " \
    "nondeterministic, "                                                          \
    "loss"
enum { TW_LEDGER_FACT_COUNT = 11 }; /* run_id is the first */
bool tw_ledger_facts_of(const struct tw_db_value *row, struct twin_ledger_facts *out);

/* The columns of an event, and a row of them as a record. */
#define TW_LEDGER_EVENT \
    "id, time_ns, kind, outcome, subject, project, family, contributor, run_id, recorded_ns"
enum { TW_LEDGER_EVENT_COUNT = 10 };
struct twin_ledger_event tw_ledger_event_of(const struct tw_db_value *row);

/* The columns of a comparison x and of one of its runs c, and a walk over rows of them, which have
 * to come comparison by comparison, in the order of c.place. */
#define TW_LEDGER_COMPARED                                                                        \
    "x.id, x.verb, x.command, x.outcome, x.first, x.cause, x.layer, x.time_ns, x.first_step, "    \
    "x.repeats, x.checkpoints, x.checkpoints_same, x.checkpoints_unknown, x.checkpoints_missing," \
    " c.run_id, c.agreed, x.recorded_ns"
int tw_ledger_walk_compared(struct twin_ledger *l, const char *sql, const struct tw_db_value *v,
                            size_t n, twin_ledger_comparison_fn *each, void *user,
                            struct twin_error *err);
#endif
