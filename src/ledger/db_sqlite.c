/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger in a file of SQLite, in WAL mode: readers and one writer work at the same time. Behind
 * struct tw_db_ops (db.h). Built without SQLite, tw_db_sqlite only says so.
 *
 * The file may have been made by anybody, so it is opened in SQLite's defensive mode, and nothing
 * that it holds (triggers, functions of a schema) is run.
 */
#include "db.h"

#ifdef TWIN_HAVE_SQLITE
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

/* How long a statement waits for others (20 s), and how often the switch to WAL is tried, 20 ms
 * apart. */
enum { WAIT_MS = 20000, BEGIN_TRIES = 50 };

/* db first: a struct tw_db * of ours is a struct sqlite *. */
struct sqlite {
    struct tw_db db;
    sqlite3 *handle;
    dev_t device; /* of the file that was opened */
    ino_t inode;
};

/* What SQLite's result means to callers. Extended codes have the plain one in their lowest byte. */
static int code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return TWIN_EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_SCHEMA:
    /* our statements are right, so the tables are not ours */
    case SQLITE_ERROR: return TWIN_EFORMAT;
    case SQLITE_NOMEM: return TWIN_ENOMEM;
    default: return TWIN_EIO;
    }
}

/* What to do about it; "": SQLite's message says all. */
static const char *advice(const struct sqlite *s, int rc)
{
    if (code_of(rc) == TWIN_EFORMAT)
        return "; when it is moved away, a new one is made from the run folders";
    /* who only reads writes, too: 32 KiB beside it, by which readers and writers know each other */
    if (s->handle && sqlite3_extended_errcode(s->handle) == SQLITE_IOERR_SHMSIZE)
        return ": no room for its -shm file, which also who only reads needs; is the disk full?";
    return "";
}

/* An error with SQLite's own message. handle is NULL only when there was no memory for it. */
static int failed_call(struct sqlite *s, int rc, struct twin_error *err)
{
    return twin_error_set(err, code_of(rc), "%s: %s%s", s->db.name,
                          s->handle ? sqlite3_errmsg(s->handle) : sqlite3_errstr(rc),
                          advice(s, rc));
}

static void close_sqlite(struct tw_db *db)
{
    struct sqlite *s = (struct sqlite *)db;
    sqlite3_close(s->handle);
    tw_free(db->name);
    tw_free(s);
}

/* Gives a parameter its value; the text is copied. */
static int bind(sqlite3_stmt *statement, int at, const struct tw_db_value *v)
{
    switch (v->type) {
    case TW_DB_INT: return sqlite3_bind_int64(statement, at, v->i);
    case TW_DB_REAL: return sqlite3_bind_double(statement, at, v->d);
    case TW_DB_TEXT: return sqlite3_bind_text(statement, at, v->s, -1, SQLITE_TRANSIENT);
    default: return sqlite3_bind_null(statement, at);
    }
}

/* A cell. What is no number and not null is read as text. */
static struct tw_db_value column(sqlite3_stmt *statement, int at)
{
    struct tw_db_value v = {0};
    switch (sqlite3_column_type(statement, at)) {
    case SQLITE_INTEGER: v.type = TW_DB_INT; break;
    case SQLITE_FLOAT: v.type = TW_DB_REAL; break;
    case SQLITE_NULL: break;
    default: v.type = TW_DB_TEXT;
    }
    v.i = sqlite3_column_int64(statement, at);
    v.d = sqlite3_column_double(statement, at);
    const unsigned char *text = v.type == TW_DB_TEXT ? sqlite3_column_text(statement, at) : NULL;
    v.s = text ? (const char *)text : "";
    return v;
}

/* At most 32 columns are handed on; no statement has as many. */
static int run_sqlite(struct tw_db *db, const char *sql, const struct tw_db_value *arg, size_t n,
                      tw_db_row_fn *each, void *user, struct twin_error *err)
{
    enum { COLUMNS = 32 };
    struct sqlite *s = (struct sqlite *)db;
    struct tw_db_value row[COLUMNS];
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(s->handle, sql, -1, &statement, NULL), stopped = 0;
    for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
        rc = bind(statement, (int)i + 1, &arg[i]);
    while (rc == SQLITE_OK && !stopped && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        int columns = sqlite3_column_count(statement);
        columns = columns < COLUMNS ? columns : COLUMNS;
        for (int i = 0; i < columns; i++)
            row[i] = column(statement, i);
        stopped = each ? each(user, row, (size_t)columns) : 0;
        rc = SQLITE_OK;
    }
    /* asked before finalize, which forgets the message */
    int code = rc == SQLITE_OK || rc == SQLITE_DONE ? 0 : failed_call(s, rc, err);
    sqlite3_finalize(statement);
    return code ? code : stopped;
}

/* A writer that reads first and writes then could meet another one that did the same, and both
 * would wait for each other. IMMEDIATE says at once that this is a writer, so the second one waits
 * here. */
static int begin_sqlite(struct tw_db *db, struct twin_error *err)
{
    return run_sqlite(db, "BEGIN IMMEDIATE", NULL, 0, NULL, NULL, err);
}

/* Without IMMEDIATE this is a reader, whose view begins with its first statement. */
static int begin_to_read_sqlite(struct tw_db *db, struct twin_error *err)
{
    return run_sqlite(db, "BEGIN", NULL, 0, NULL, NULL, err);
}

static int commit_sqlite(struct tw_db *db, struct twin_error *err)
{
    return run_sqlite(db, "COMMIT", NULL, 0, NULL, NULL, err);
}

/* Autocommit is off while a transaction is open. */
static void rollback_sqlite(struct tw_db *db)
{
    if (!sqlite3_get_autocommit(((struct sqlite *)db)->handle))
        run_sqlite(db, "ROLLBACK", NULL, 0, NULL, NULL, NULL);
}

static int found_row(void *user, const struct tw_db_value *row, size_t n)
{
    (void)row;
    *(bool *)user = n > 0;
    return 0;
}

static int has_table_sqlite(struct tw_db *db, const char *name, bool *yes, struct twin_error *err)
{
    *yes = false;
    return run_sqlite(db, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
                      &TW_TEXT(name), 1, found_row, yes, err);
}

static int take_version(void *user, const struct tw_db_value *row, size_t n)
{
    snprintf(user, TW_DB_MARK_BYTES, "%lld", n ? (long long)row[0].i : 0);
    return 0;
}

/* A file that was removed or replaced lives on for who has it open, and nobody writes to it. */
static int change_sqlite(struct tw_db *db, char mark[TW_DB_MARK_BYTES], struct twin_error *err)
{
    const struct sqlite *s = (const struct sqlite *)db;
    struct stat st;
    if (stat(db->name, &st) != 0)
        return twin_error_system(err, "%s is gone", db->name);
    if (st.st_dev != s->device || st.st_ino != s->inode)
        return twin_error_set(err, TWIN_EIO, "%s was replaced by another file", db->name);
    return run_sqlite(db, "PRAGMA data_version", NULL, 0, take_version, mark, err);
}

/* SQLite behind db.h; the order is that of struct tw_db_ops. */
static const struct tw_db_ops ops = {close_sqlite,     begin_sqlite,    begin_to_read_sqlite,
                                     commit_sqlite,    rollback_sqlite, run_sqlite,
                                     has_table_sqlite, change_sqlite};

/* Limits and protections, then WAL mode. synchronous = NORMAL: a power failure may lose the last
 * records, which can be had from the run folders again, and never damages the file. 64 MiB: most
 * bytes of one value. Small pages: an empty table or index takes one, twice over while it is in the
 * journal, and the user's limit on file sizes (ulimit -f) holds for a ledger, too. */
static int settings(struct sqlite *s, bool read_only, struct twin_error *err)
{
    sqlite3_busy_timeout(s->handle, WAIT_MS);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_limit(s->handle, SQLITE_LIMIT_LENGTH, 64 << 20);
    if (read_only) /* WAL is on, or was never asked for */
        return 0;
    /* of a file that is there already nothing changes */
    int rc = run_sqlite(&s->db, "PRAGMA page_size = 1024", NULL, 0, NULL, NULL, err);
    if (rc != 0)
        return rc;
    rc = TWIN_EBUSY;
    struct twin_error last = TWIN_ERROR_INIT;
    /* Where two processes switch a new file to WAL at once, one is told "locked" without being made
     * to wait. */
    for (int i = 0; i < BEGIN_TRIES && rc == TWIN_EBUSY; i++) {
        last = (struct twin_error)TWIN_ERROR_INIT;
        rc = run_sqlite(&s->db, "PRAGMA journal_mode = WAL", NULL, 0, NULL, NULL, &last);
        if (rc == TWIN_EBUSY)
            usleep(20000);
    }
    if (rc != 0)
        return twin_error_set(err, rc, "%s", last.message);
    return run_sqlite(&s->db, "PRAGMA synchronous = NORMAL", NULL, 0, NULL, NULL, err);
}

/* fresh is asked before the file is opened, which makes it. */
int tw_db_sqlite(const char *path, bool read_only, struct tw_db **out, struct twin_error *err)
{
    struct stat st = {.st_size = 0};
    struct sqlite *s = tw_calloc(1, sizeof *s);
    *out = NULL;
    if (!s || !(s->db.name = tw_strdup(path))) {
        tw_free(s);
        return tw_no_memory(err, "opening %s", path);
    }
    s->db.ops = &ops;
    s->db.fresh = stat(path, &st) != 0 && errno == ENOENT;
    if (s->db.fresh && read_only) {
        close_sqlite(&s->db);
        return twin_error_set(err, TWIN_ENOENT, "there is no %s", path);
    }
    const int mode = read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(path, &s->handle, mode, NULL);
    rc = rc == SQLITE_OK ? settings(s, read_only, err) : failed_call(s, rc, err);
    if (rc == 0 && stat(path, &st) == 0) {
        s->device = st.st_dev;
        s->inode = st.st_ino;
    }
    if (rc == 0)
        *out = &s->db;
    else
        close_sqlite(&s->db);
    return rc;
}
#else
int tw_db_sqlite(const char *path, bool read_only, struct tw_db **out, struct twin_error *err)
{
    (void)read_only;
    *out = NULL;
    return twin_error_set(
        err, TWIN_EUNSUPPORTED,
        "no ledger in %s: this twinrun was built without SQLite (package libsqlite3-dev)", path);
}
#endif
