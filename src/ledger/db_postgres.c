/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger in PostgreSQL, shared by several machines, through libpq. Behind struct tw_db_ops
 * (db.h). Built without libpq, tw_db_postgres only says so.
 *
 * The address may hold a password. It is never shown: the name for messages is put together of
 * host, port and database, libpq's messages are searched for the password, and an address that
 * cannot be read is not quoted.
 */
#include "db.h"

#include "base.h"

#ifdef TWIN_HAVE_POSTGRES
#include <dlfcn.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types of results (pg_type.dat): all that our columns and expressions have. LOCK: the number of
 * our advisory lock, "twnr" in ASCII. */
enum { INT8 = 20, INT4 = 23, FLOAT8 = 701, LOCK = 0x74776e72 };

/* What we call of libpq. It is loaded when a ledger in PostgreSQL is opened: it brings Kerberos and
 * LDAP along, which no other command should wait for, and a machine may do without it. */
static struct {
    __typeof__(PQclear) *PQclear;
    __typeof__(PQconnectdbParams) *PQconnectdbParams;
    __typeof__(PQconninfoFree) *PQconninfoFree;
    __typeof__(PQconninfoParse) *PQconninfoParse;
    __typeof__(PQerrorMessage) *PQerrorMessage;
    __typeof__(PQexecParams) *PQexecParams;
    __typeof__(PQfinish) *PQfinish;
    __typeof__(PQfreemem) *PQfreemem;
    __typeof__(PQftype) *PQftype;
    __typeof__(PQgetisnull) *PQgetisnull;
    __typeof__(PQgetvalue) *PQgetvalue;
    __typeof__(PQnfields) *PQnfields;
    __typeof__(PQntuples) *PQntuples;
    __typeof__(PQresultErrorField) *PQresultErrorField;
    __typeof__(PQresultErrorMessage) *PQresultErrorMessage;
    __typeof__(PQresultStatus) *PQresultStatus;
    __typeof__(PQsetNoticeProcessor) *PQsetNoticeProcessor;
    __typeof__(PQstatus) *PQstatus;
    __typeof__(PQtransactionStatus) *PQtransactionStatus;
} pq;

/* What is missing of libpq; "" when nothing is. Written once, by load. */
static char missing[96] = "";

/* The library stays loaded: a connection to it may outlive the one that loaded it. */
static void load(void)
{
    const struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"PQclear", &pq.PQclear},
        {"PQconnectdbParams", &pq.PQconnectdbParams},
        {"PQconninfoFree", &pq.PQconninfoFree},
        {"PQconninfoParse", &pq.PQconninfoParse},
        {"PQerrorMessage", &pq.PQerrorMessage},
        {"PQexecParams", &pq.PQexecParams},
        {"PQfinish", &pq.PQfinish},
        {"PQfreemem", &pq.PQfreemem},
        {"PQftype", &pq.PQftype},
        {"PQgetisnull", &pq.PQgetisnull},
        {"PQgetvalue", &pq.PQgetvalue},
        {"PQnfields", &pq.PQnfields},
        {"PQntuples", &pq.PQntuples},
        {"PQresultErrorField", &pq.PQresultErrorField},
        {"PQresultErrorMessage", &pq.PQresultErrorMessage},
        {"PQresultStatus", &pq.PQresultStatus},
        {"PQsetNoticeProcessor", &pq.PQsetNoticeProcessor},
        {"PQstatus", &pq.PQstatus},
        {"PQtransactionStatus", &pq.PQtransactionStatus},
    };
    void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(missing, sizeof missing, "it is reached by libpq, which is not there");
    for (size_t i = 0; library && i < sizeof wanted / sizeof wanted[0]; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol)
            snprintf(missing, sizeof missing, "the libpq of this machine has no %s",
                     wanted[i].name);
        memcpy(wanted[i].to, &symbol, sizeof symbol);
    }
}

static int need_libpq(struct twin_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return *missing ? twin_error_set(err, TWIN_EUNSUPPORTED,
                                     "no ledger in PostgreSQL: %s (Debian: libpq5)", missing)
                    : 0;
}

/* db first: a struct tw_db * of ours is a struct postgres *. password: to be found in messages; ""
 * when there is none. */
struct postgres {
    struct tw_db db;
    PGconn *c;
    char *password;
};

/* Makes libpq's message one line, and replaces the password by stars wherever it may have got into
 * it. */
static void clean(char *message, const char *password)
{
    for (char *p = message; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    for (size_t n = strlen(message); n > 0 && message[n - 1] == ' ';)
        message[--n] = '\0';
    size_t n = password ? strlen(password) : 0;
    for (char *p = n ? strstr(message, password) : NULL; p; p = strstr(p, password))
        memset(p, '*', n);
}

/* An error with libpq's message. state: SQLSTATE, NULL when there is none. 55P03, 57014, 40001 and
 * 40P01: a lock or the statement took too long, or two transactions met; class 42 but 42501 (no
 * permission): tables or columns that are not ours. */
static int failed_call(struct postgres *p, const char *message, const char *state,
                       struct twin_error *err)
{
    char text[700];
    snprintf(text, sizeof text, "%s", message ? message : "");
    clean(text, p->password);
    bool busy = state && (strcmp(state, "55P03") == 0 || strcmp(state, "57014") == 0 ||
                          strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0);
    /* not ours, or damaged */
    bool tables = state && strncmp(state, "42", 2) == 0 && strcmp(state, "42501") != 0;
    int code = tables ? TWIN_EFORMAT : TWIN_EIO;
    if (busy)
        code = TWIN_EBUSY;
    return twin_error_set(err, code, "%s: %s", p->db.name, text);
}

static void close_postgres(struct tw_db *db)
{
    struct postgres *p = (struct postgres *)db;
    pq.PQfinish(p->c);
    tw_free(p->password);
    tw_free(db->name);
    tw_free(p);
}

/* A cell; libpq gives all values as text, and the type of the column says what they are. */
static struct tw_db_value cell_of(const PGresult *r, int row, int column)
{
    struct tw_db_value v = {.s = ""};
    if (pq.PQgetisnull(r, row, column))
        return v;
    v.s = pq.PQgetvalue(r, row, column);
    Oid type = pq.PQftype(r, column);
    if (type == INT8 || type == INT4)
        v.type = TW_DB_INT;
    else
        v.type = type == FLOAT8 ? TW_DB_REAL : TW_DB_TEXT;
    v.i = v.type == TW_DB_INT ? strtoll(v.s, NULL, 10) : 0;
    v.d = v.type == TW_DB_TEXT ? 0 : strtod(v.s, NULL);
    return v;
}

/* Parameters go as text, without types: the server takes the types from the statement. %.17g gives
 * back each double exactly. The result is whole in memory before the first row is handed on. */
static int run_postgres(struct tw_db *db, const char *sql, const struct tw_db_value *arg, size_t n,
                        tw_db_row_fn *each, void *user, struct twin_error *err)
{
    enum { ARGUMENTS = 32 };
    struct postgres *p = (struct postgres *)db;
    char number[ARGUMENTS][32];
    const char *text[ARGUMENTS];
    for (size_t i = 0; i < n && i < ARGUMENTS; i++) {
        if (arg[i].type == TW_DB_INT)
            snprintf(number[i], sizeof number[i], "%lld", (long long)arg[i].i);
        else if (arg[i].type == TW_DB_REAL)
            snprintf(number[i], sizeof number[i], "%.17g", arg[i].d);
        if (arg[i].type == TW_DB_NULL)
            text[i] = NULL;
        else
            text[i] = arg[i].type == TW_DB_TEXT ? arg[i].s : number[i];
    }
    PGresult *r = pq.PQexecParams(p->c, sql, (int)n, NULL, text, NULL, NULL, 0);
    ExecStatusType status = pq.PQresultStatus(r);
    int stopped = 0;
    int rc = 0;
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        rc = failed_call(p, r ? pq.PQresultErrorMessage(r) : pq.PQerrorMessage(p->c),
                         r ? pq.PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL, err);
    struct tw_db_value row[ARGUMENTS];
    int columns = pq.PQnfields(r);
    for (int i = 0; rc == 0 && each && !stopped && i < pq.PQntuples(r); i++) {
        for (int k = 0; k < columns && k < ARGUMENTS; k++)
            row[k] = cell_of(r, i, k);
        stopped = each(user, row, (size_t)columns);
    }
    pq.PQclear(r);
    return rc ? rc : stopped;
}

/* Also ends a transaction in which a statement has failed. */
static void rollback_postgres(struct tw_db *db)
{
    struct postgres *p = (struct postgres *)db;
    PGTransactionStatusType t = pq.PQtransactionStatus(p->c);
    if (t == PQTRANS_INTRANS || t == PQTRANS_INERROR)
        run_postgres(db, "ROLLBACK", NULL, 0, NULL, NULL, NULL);
}

/* Writers take turns, as with SQLite: then the next version of a record, and the next schema, are
 * not chosen twice. The advisory lock is held until the transaction ends. */
static int begin_postgres(struct tw_db *db, struct twin_error *err)
{
    int rc = run_postgres(db, "BEGIN", NULL, 0, NULL, NULL, err);
    if (rc == 0)
        rc = run_postgres(db, "SELECT pg_advisory_xact_lock(CAST($1 AS BIGINT))", &TW_INT(LOCK), 1,
                          NULL, NULL, err);
    if (rc != 0)
        rollback_postgres(db);
    return rc;
}

/* The view begins with the first statement behind BEGIN. */
static int begin_to_read_postgres(struct tw_db *db, struct twin_error *err)
{
    return run_postgres(db, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL, 0, NULL, NULL,
                        err);
}

static int commit_postgres(struct tw_db *db, struct twin_error *err)
{
    return run_postgres(db, "COMMIT", NULL, 0, NULL, NULL, err);
}

static int found_row(void *user, const struct tw_db_value *row, size_t n)
{
    (void)row;
    *(bool *)user = n > 0;
    return 0;
}

static int has_table_postgres(struct tw_db *db, const char *name, bool *yes, struct twin_error *err)
{
    *yes = false;
    return run_postgres(db,
                        "SELECT 1 FROM information_schema.tables WHERE table_schema = "
                        "current_schema() AND table_name = $1",
                        &TW_TEXT(name), 1, found_row, yes, err);
}

static int take_position(void *user, const struct tw_db_value *row, size_t n)
{
    snprintf(user, TW_DB_MARK_BYTES, "%s", n ? row[0].s : "");
    return 0;
}

/* The position of the log that every write goes through: of all databases of the server, so it may
 * move without us. */
static int change_postgres(struct tw_db *db, char mark[TW_DB_MARK_BYTES], struct twin_error *err)
{
    return run_postgres(db,
                        "SELECT CAST(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
                        "ELSE pg_current_wal_insert_lsn() END AS TEXT)",
                        NULL, 0, take_position, mark, err);
}

/* PostgreSQL behind db.h; the order is that of struct tw_db_ops. */
static const struct tw_db_ops ops = {close_postgres,     begin_postgres,    begin_to_read_postgres,
                                     commit_postgres,    rollback_postgres, run_postgres,
                                     has_table_postgres, change_postgres};

/* The value of a part of the address; "" when it is not given. */
static const char *option(const PQconninfoOption *o, const char *key)
{
    for (; o && o->keyword; o++)
        if (strcmp(o->keyword, key) == 0)
            return o->val ? o->val : "";
    return "";
}

/* libpq would print notices of the server to stderr. */
static void no_notice(void *user, const char *message) /* libpq would print it */
{
    (void)user;
    (void)message;
}

/* postgresql://host:port/name: what may be shown. */
static char *shown_name(const PQconninfoOption *o)
{
    const char *host = option(o, "host"), *port = option(o, "port"), *name = option(o, "dbname");
    char *text = tw_printf("postgresql://%s%s%s/%s", host, *port ? ":" : "", port, name);
    char *safe = text ? tw_printable(text, strlen(text)) : NULL;
    tw_free(text);
    return safe;
}

/* Connects with all parts of the address; the caller frees the result with PQfinish, also when the
 * connection failed. Without a limit of the user's it waits for 5 s, so that no command hangs on a
 * ledger. */
static PGconn *connect_to(PQconninfoOption *o)
{
    enum { MOST = 64 };
    const char *key[MOST + 3], *value[MOST + 3];
    int n = 0;
    for (PQconninfoOption *x = o; x->keyword && n < MOST; x++) {
        if (!x->val || strcmp(x->keyword, "connect_timeout") == 0)
            continue;
        key[n] = x->keyword;
        value[n++] = x->val;
    }
    key[n] = "connect_timeout";
    value[n++] = *option(o, "connect_timeout") ? option(o, "connect_timeout") : "5";
    if (!*option(o, "application_name")) {
        key[n] = "application_name";
        value[n++] = "twinrun";
    }
    key[n] = value[n] = NULL;
    return pq.PQconnectdbParams(key, value, 0);
}

/* A wait for a lock ends after 20 s, as with SQLite, and a statement after 60 s. */
int tw_db_postgres(const char *url, bool read_only, struct tw_db **out, struct twin_error *err)
{
    *out = NULL;
    int rc = need_libpq(err);
    if (rc != 0)
        return rc;
    char *why = NULL;
    PQconninfoOption *o = pq.PQconninfoParse(url, &why);
    pq.PQfreemem(why); /* it may quote the password */
    if (!o)
        return twin_error_set(
            err, TWIN_EINVAL,
            "the ledger's address cannot be read; expected "
            "postgresql://[USER[:PASSWORD]@][HOST][:PORT]/NAME, special characters as %%XX");
    struct postgres *p = tw_calloc(1, sizeof *p);
    if (!p || !(p->db.name = shown_name(o)) || !(p->password = tw_strdup(option(o, "password")))) {
        if (p)
            tw_free(p->db.name);
        tw_free(p);
        pq.PQconninfoFree(o);
        return tw_no_memory(err, "opening the ledger");
    }
    p->db.ops = &ops;
    p->c = connect_to(o);
    pq.PQconninfoFree(o);
    if (pq.PQstatus(p->c) != CONNECTION_OK)
        rc = failed_call(p, p->c ? pq.PQerrorMessage(p->c) : "out of memory", NULL, err);
    if (rc == 0) {
        pq.PQsetNoticeProcessor(p->c, no_notice, NULL);
        rc = run_postgres(&p->db, "SET lock_timeout = '20s'", NULL, 0, NULL, NULL, err);
    }
    if (rc == 0)
        rc = run_postgres(&p->db, "SET statement_timeout = '60s'", NULL, 0, NULL, NULL, err);
    if (rc == 0 && read_only)
        rc = run_postgres(&p->db, "SET default_transaction_read_only = on", NULL, 0, NULL, NULL,
                          err);
    if (rc == 0)
        *out = &p->db;
    else
        close_postgres(&p->db);
    return rc;
}
#else
int tw_db_postgres(const char *url, bool read_only, struct tw_db **out, struct twin_error *err)
{
    (void)read_only;
    (void)url; /* it may hold a password */
    *out = NULL;
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "no ledger in PostgreSQL: this twinrun was built without libpq's header "
                          "(package libpq-dev)");
}
#endif
