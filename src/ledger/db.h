/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LEDGER_DB_H
#define TW_LEDGER_DB_H
/* One set of SQL for two databases: what SQLite and PostgreSQL both say. Parameters are $1, $2, ...
 * in the order of their first use. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum tw_db_type { TW_DB_NULL, TW_DB_INT, TW_DB_REAL, TW_DB_TEXT };
struct tw_db_value {
    enum tw_db_type type;
    int64_t i;
    double d;
    const char *s;
};
#define TW_INT(x) ((struct tw_db_value){.type = TW_DB_INT, .i = (int64_t)(x)})
#define TW_REAL(x) ((struct tw_db_value){.type = TW_DB_REAL, .d = (x)})
#define TW_TEXT(x) ((struct tw_db_value){.type = TW_DB_TEXT, .s = (x)})

/* Values live as long as the call. Non-zero ends the query with that value. */
typedef int tw_db_row_fn(void *user, const struct tw_db_value *row, size_t n);

struct tw_db;
struct tw_db_ops {
    void (*close)(struct tw_db *db);
    /* Exclusive among writers: the second waits. TWIN_EBUSY when it waited too long. */
    int (*begin)(struct tw_db *db, struct twin_error *err);
    int (*commit)(struct tw_db *db, struct twin_error *err);
    void (*rollback)(struct tw_db *db);
    int (*run)(struct tw_db *db, const char *sql, const struct tw_db_value *arg, size_t n,
               tw_db_row_fn *each, void *user, struct twin_error *err);
    /* Is there a table of this name? */
    int (*has_table)(struct tw_db *db, const char *name, bool *yes, struct twin_error *err);
};
/* fresh: it was made by this open */
struct tw_db {
    const struct tw_db_ops *ops;
    char *name;
    bool fresh;
};

/* path: of the file; made when missing. */
int tw_db_sqlite(const char *path, struct tw_db **out, struct twin_error *err);
int tw_db_postgres(const char *url, struct tw_db **out, struct twin_error *err);

/* schema.c: brings a database to TWIN_LEDGER_SCHEMA. upto: stop at an older version (tests). */
int tw_schema_migrate(struct tw_db *db, int upto, struct twin_error *err);
#endif
