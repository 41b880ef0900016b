/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose signatures count: a list of keys that must all sign, or a trust.toml with a threshold,
 * validity and revoked keys.
 *
 * Judging has no shortcut: each signature is verified with the key it names, or tried with all, and
 * a signature that claims a trusted key but does not fit makes the whole untrusted, although enough
 * others may be good. Somebody changed something, and that is what a verifier wants to know.
 */
#include "internal.h"

#include "base.h"
#include "phrase.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* KEYS_MAX is also the number of bits in which keys that have counted are kept (judge_one). */
enum { TRUST_BYTES_MAX = 1 << 20, KEYS_MAX = 64 };
#define FOREVER INT64_MAX

/* A key of the policy. The dates are kept as they were written, too, for messages. */
struct trusted_key {
    struct twin_key *key;
    char *name;
    int64_t from_ns, until_ns; /* valid from <= t < until */
    char *from, *until;        /* as written; NULL: none */
    char *revoked;             /* the reason; NULL: is not */
};

/* need signatures of `count` keys. The last place of the array stays free: a key that add_key()
 * refuses is put there to be freed. */
struct twin_trust {
    struct trusted_key key[KEYS_MAX];
    size_t count, need;
    char *path;         /* of the file; NULL: of none */
    int64_t changed_ns; /* the newest date that the file has; INT64_MIN: none */
};

void twin_trust_free(struct twin_trust *t)
{
    if (!t)
        return;
    tw_free(t->path);
    for (size_t i = 0; i < KEYS_MAX; i++) {
        struct trusted_key *k = &t->key[i];
        twin_key_close(k->key);
        tw_free(k->name);
        tw_free(k->from);
        tw_free(k->until);
        tw_free(k->revoked);
    }
    tw_free(t);
}

/* Appends a key; t takes over its name, key and dates, also on error. */
static int add_key(struct twin_trust *t, const struct trusted_key *k, struct twin_error *err)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->key[i].key->id, k->key->id) == 0) {
            t->key[KEYS_MAX - 1] = *k; /* freed with the rest; not counted */
            return twin_error_set(
                err, TWIN_EINVAL,
                "the keys \"%s\" and \"%s\" are one and the same: it would count twice",
                t->key[i].name, k->name);
        }
    t->key[t->count++] = *k;
    return 0;
}

int twin_trust_keys(char *const *paths, size_t count, struct twin_trust **out,
                    struct twin_error *err)
{
    struct twin_trust *t = tw_calloc(1, sizeof *t);
    int rc = t ? 0 : tw_no_memory(err, "for the trusted keys");
    if (rc == 0 && count >= KEYS_MAX)
        rc = twin_error_set(err, TWIN_ELIMIT, "%zu keys: at most %d", count, KEYS_MAX - 1);
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct trusted_key k = {.from_ns = INT64_MIN, .until_ns = FOREVER};
        rc = twin_key_read_public(paths[i], &k.key, err);
        if (rc == 0 && !(k.name = tw_strdup(paths[i]))) {
            twin_key_close(k.key);
            rc = tw_no_memory(err, "for the trusted keys");
        }
        rc = rc ? rc : add_key(t, &k, err);
    }
    if (rc != 0) {
        twin_trust_free(t);
        return rc;
    }
    t->need = count;
    *out = t;
    return 0;
}

/* ---- trust.toml */

/* What the reader of trust.toml knows between two lines. */
struct reading {
    struct twin_trust *t;
    const char *path;
    char *folder;
    size_t tables;
    bool need_given;
};

/* Reads 2026-11-21 or 2026-11-21T08:00:00Z. sscanf alone would take signs, blanks and a day like 30
 * February, so the length, the characters and the calendar are checked as well. */
int twin_trust_time(const char *text, int64_t *ns)
{
    struct tm tm = {0}, back;
    int n = 0, m = 0;
    const int fields = sscanf(text, "%4d-%2d-%2d%nT%2d:%2d:%2dZ%n", &tm.tm_year, &tm.tm_mon,
                              &tm.tm_mday, &n, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &m);
    const size_t length = strlen(text);
    if (!((fields == 3 && n == 10 && length == 10) || (fields == 6 && m == 20 && length == 20)) ||
        strpbrk(text, " +"))
        return TWIN_EINVAL;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    back = tm;
    const time_t t = timegm(&back);
    if (back.tm_year != tm.tm_year || back.tm_mon != tm.tm_mon || back.tm_mday != tm.tm_mday ||
        back.tm_hour != tm.tm_hour || back.tm_min != tm.tm_min || back.tm_sec != tm.tm_sec)
        return TWIN_EINVAL;      /* 2026-02-30 */
    if (t < 0 || t > 9000000000) /* 1970 to 2255: what 64 bits of nanoseconds hold */
        return TWIN_EINVAL;
    *ns = (int64_t)t * 1000000000;
    return 0;
}

/* A policy is one table; a second one could only contradict it. */
static int begin_policy(void *user, size_t line, struct twin_error *err)
{
    struct reading *r = user;
    return r->tables++ == 0
               ? 0
               : twin_error_set(err, TWIN_EFORMAT,
                                "%s: line %zu: expected one table [[trust]], found another",
                                r->path, line);
}

/* How many of the keys must sign. Whether there are as many is known when all lines are read. */
static int read_need(struct reading *r, const struct tw_toml_value *v, size_t line,
                     struct twin_error *err)
{
    if (v->type != TW_TOML_NUMBER || !(v->number >= 1) || v->number > KEYS_MAX ||
        v->number != (double)(size_t)v->number)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: line %zu: need: expected a number of keys from 1 on", r->path,
                              line);
    r->t->need = (size_t)v->number;
    r->need_given = true;
    return 0;
}

/* Copies a text; 0 or TWIN_ENOMEM. */
static int set_text(char **to, const char *text, struct twin_error *err)
{
    *to = tw_strdup(text);
    return *to ? 0 : tw_no_memory(err, "for the trusted keys");
}

/* One field of a key (file, from, until, revoked) into k, which the caller frees. A revoked key
 * needs a reason: it is what a verifier is shown. */
static int read_field(const struct reading *r, const char *key, const char *field,
                      const char *value, size_t line, struct trusted_key *k, struct twin_error *err)
{
    int rc = 0;
    const bool from = strcmp(field, "from") == 0, until = strcmp(field, "until") == 0;
    if (strcmp(field, "file") == 0) {
        char *path = tw_path_join(r->folder, value);
        rc = !path ? tw_no_memory(err, "for the trusted keys")
                   : twin_key_read_public(path, &k->key, err);
        tw_free(path);
        return rc;
    }
    if (strcmp(field, "revoked") == 0)
        return *value ? set_text(&k->revoked, value, err)
                      : twin_error_set(err, TWIN_EFORMAT,
                                       "%s: line %zu: %s: revoked: expected the reason, found \"\"",
                                       r->path, line, key);
    if (!from && !until)
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: line %zu: %s: expected file, from, until or revoked, found \"%s\"", r->path, line,
            key, field);
    if (twin_trust_time(value, from ? &k->from_ns : &k->until_ns) != 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: line %zu: %s: %s: expected a day or time in UTC (2026-11-21, "
                              "2026-11-21T08:00:00Z), found \"%.40s\"",
                              r->path, line, key, field, value);
    return set_text(from ? &k->from : &k->until, value, err);
}

/* One line of the table: `need`, or a key under the name that is shown for it. Fields are checked
 * for repetition first, as the TOML reader only looks at keys of a table. */
static int read_key(void *user, const char *key, const struct tw_toml_value *v, size_t line,
                    struct twin_error *err)
{
    struct reading *r = user;
    struct trusted_key k = {.from_ns = INT64_MIN, .until_ns = FOREVER};
    int rc = 0;
    if (strcmp(key, "need") == 0)
        return read_need(r, v, line, err);
    if (v->type != TW_TOML_TABLE)
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: line %zu: %s: expected {file = \"KEY.pub\"}, with from, until or revoked", r->path,
            line, key);
    if (r->t->count + 1 >= KEYS_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s: line %zu: more than %d keys", r->path, line,
                              KEYS_MAX - 1);
    for (size_t i = 0; i + 1 < v->count && rc == 0; i += 2)
        for (size_t j = 0; j < i && rc == 0; j += 2)
            if (strcmp(v->text[i], v->text[j]) == 0)
                rc = twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s: %s stands there twice",
                                    r->path, line, key, v->text[i]);
    for (size_t i = 0; i + 1 < v->count && rc == 0; i += 2)
        rc = read_field(r, key, v->text[i], v->text[i + 1], line, &k, err);
    if (rc == 0 && !k.key)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s: expected file = \"KEY.pub\"",
                            r->path, line, key);
    if (rc == 0 && k.from_ns >= k.until_ns)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s: is never valid: from %s until %s",
                            r->path, line, key, k.from, k.until);
    if (rc == 0 && set_text(&k.name, key, err) == 0)
        return add_key(r->t, &k, err);
    twin_key_close(k.key);
    tw_free(k.from);
    tw_free(k.until);
    tw_free(k.revoked);
    return rc ? rc : TWIN_ENOMEM;
}

/* What can never be met (more keys needed than there are) is an error of the file, not a verdict
 * about each envelope. */
int tw_trust_parse(char *text, size_t n, const char *path, struct twin_trust **out,
                   struct twin_error *err)
{
    const char *slash = strrchr(path, '/');
    struct reading r = {tw_calloc(1, sizeof *r.t), path,
                        slash ? tw_strndup(path, (size_t)(slash - path) + 1) : tw_strdup("."), 0,
                        false};
    const struct tw_toml_handler handler = {"trust", begin_policy, read_key, &r};
    int rc = r.t && r.folder ? 0 : tw_no_memory(err, "for the trusted keys");
    if (rc == 0 && strlen(text) != n)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: a NUL byte in it: not TOML", path);
    rc = rc ? rc : tw_toml_read(text, path, &handler, err);
    if (rc == 0 && (!r.need_given || r.t->count == 0))
        rc = twin_error_set(
            err, TWIN_EFORMAT,
            "%s: expected [[trust]] with need = NUMBER and at least one key, found %zu key%s%s",
            path, r.t->count, tw_plural_s(r.t->count), r.need_given ? "" : " and no need");
    if (rc == 0 && r.t->need > r.t->count)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: need = %zu, but %zu key%s: nothing could ever be trusted", path,
                            r.t->need, r.t->count, tw_plural_s(r.t->count));
    tw_free(r.folder);
    if (rc != 0)
        twin_trust_free(r.t);
    else
        *out = r.t;
    return rc;
}

/* The newest of the dates that it has. */
static int64_t date_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return INT64_MIN;
    const struct timespec t = st.st_mtim.tv_sec > st.st_ctim.tv_sec ? st.st_mtim : st.st_ctim;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int twin_trust_read(const char *path, struct twin_trust **out, struct twin_error *err)
{
    char *text;
    size_t n;
    int rc = tw_read_file(path, TRUST_BYTES_MAX, &text, &n, err);
    if (rc != 0)
        return rc;
    rc = tw_trust_parse(text, n, path, out, err);
    tw_free(text);
    if (rc != 0)
        return rc;
    (*out)->changed_ns = date_of(path);
    if (((*out)->path = tw_strdup(path)))
        return 0;
    twin_trust_free(*out);
    *out = NULL;
    return tw_no_memory(err, "reading %s", path);
}

/* ---- the time of now */

enum { SKEW_S = 300 }; /* clocks of file servers */

/* This machine's, whatever clock the agent of a pinned job answers with: the kernel dates a new
 * file. */
static int64_t machine_ns(void)
{
    struct stat st;
    const int fd = memfd_create("twinrun-clock", MFD_CLOEXEC);
    const bool dated = fd >= 0 && fstat(fd, &st) == 0;
    if (fd >= 0)
        close(fd);
    return dated ? (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec : tw_realtime_ns();
}

int twin_trust_now(const struct twin_trust *t, int64_t *now_ns, struct twin_error *err)
{
    bool limited = false;
    *now_ns = machine_ns();
    for (size_t i = 0; t && i < t->count; i++)
        limited |= t->key[i].until != NULL || t->key[i].from != NULL;
    if (!limited || !t->path || t->changed_ns <= *now_ns + SKEW_S * INT64_C(1000000000))
        return 0;
    char now[32], changed[32];
    tw_utc_time(*now_ns, false, now);
    tw_utc_time(t->changed_ns, false, changed);
    return twin_error_set(err, TWIN_EINVAL,
                          "expected a clock that is right, found that it says %s here, and %s was "
                          "changed at %s: by such a clock a key that has run out would be good; "
                          "set the clock; twinrun verify --at TIME takes a time at which the "
                          "signature was there",
                          now, t->path, changed);
}

/* ---- judging */

const char *twin_signature_state_name(enum twin_signature_state s)
{
    assert((unsigned)s <= TWIN_SIGNATURE_TWICE);
    static const char *const names[] = {"good",          "wrong",   "unknown-key", "expired",
                                        "not-yet-valid", "revoked", "twice"};
    return names[s];
}

/* The key with this id; NULL: none of ours. */
static const struct trusted_key *by_id(const struct twin_trust *t, const char *keyid)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->key[i].key->id, keyid) == 0)
            return &t->key[i];
    return NULL;
}

/* The state and its sentence. format has exactly one %s. */
static void say_state(struct twin_judged *j, enum twin_signature_state state, const char *format,
                      const char *value)
{
    j->state = state;
    snprintf(j->why, sizeof j->why, format, value);
}

/* The trusted key that made the signature; NULL: none, and j says why not. A key id is a hint that
 * nobody signed: it may be another tool's name for the key, so without one all keys are tried. In
 * an envelope of ours a changed id is a change like any other. */
static const struct trusted_key *maker(const struct twin_trust *t, const struct twin_envelope *e,
                                       const struct twin_signature *s, const char *pae, size_t n,
                                       struct twin_judged *j)
{
    const struct trusted_key *named = by_id(t, s->keyid);
    if (named) {
        j->name = named->name;
        if (twin_key_verify(named->key, pae, n, s->bytes, s->length)) {
            const bool either = e->foreign || e->either_s;
            if (either || tw_key_signature_is_canonical(named->key, s->bytes, s->length))
                return named;
            say_state(
                j, TWIN_SIGNATURE_WRONG,
                "of the two forms of this signature it is the other one%s: changed on its way, or "
                "made by another tool (--foreign takes it)",
                "");
            return NULL;
        }
        say_state(j, TWIN_SIGNATURE_WRONG, "it does not fit the bytes: they, or it, were changed%s",
                  "");
        return NULL;
    }
    for (size_t i = 0; i < t->count; i++)
        if (twin_key_verify(t->key[i].key, pae, n, s->bytes, s->length)) {
            j->name = t->key[i].name;
            if (e->foreign)
                return &t->key[i];
            say_state(j, TWIN_SIGNATURE_WRONG,
                      "its key id was changed: the key that made it has the id %.64s",
                      t->key[i].key->id);
            return NULL;
        }
    say_state(j, TWIN_SIGNATURE_UNKNOWN, "%s", "no key that is trusted made it");
    return NULL;
}

/* Fills j for one signature. Why a good one does not count is said in the order in which it
 * matters: a revoked key is never called merely expired. counted: a bit for each key that has
 * counted already. */
static void judge_one(const struct twin_trust *t, const struct twin_envelope *e,
                      const struct twin_signature *s, const char *pae, size_t n, int64_t at_ns,
                      uint64_t *counted, struct twin_judged *j)
{
    j->keyid = s->keyid;
    j->name = "";
    const struct trusted_key *k = maker(t, e, s, pae, n, j);
    if (!k)
        return;
    assert(k - t->key < 64);
    const uint64_t bit = (uint64_t)1 << (k - t->key);
    if (k->revoked)
        say_state(j, TWIN_SIGNATURE_REVOKED, "the key is revoked: %.120s", k->revoked);
    else if (at_ns >= k->until_ns)
        say_state(j, TWIN_SIGNATURE_EXPIRED, "the key is valid until %s", k->until);
    else if (at_ns < k->from_ns)
        say_state(j, TWIN_SIGNATURE_NOT_YET, "the key is valid from %s on", k->from);
    else if (*counted & bit)
        say_state(j, TWIN_SIGNATURE_TWICE, "%s", "the same key's signature counts already");
    else {
        say_state(j, TWIN_SIGNATURE_GOOD, "%s", "");
        *counted |= bit;
    }
}

/* The PAE is made once, of the envelope's own bytes, and each signature is held against it. */
int twin_trust_judge(const struct twin_trust *t, const struct twin_envelope *e, int64_t at_ns,
                     struct twin_trust_verdict *out, struct twin_error *err)
{
    size_t n, wrong = 0;
    uint64_t counted = 0;
    memset(out, 0, sizeof *out);
    char *pae = twin_pae(e->type, e->payload, e->payload_bytes, &n);
    out->judged = tw_calloc(e->signature_count + 1, sizeof *out->judged);
    if (!pae || !out->judged) {
        tw_free(pae);
        tw_free(out->judged);
        out->judged = NULL;
        return tw_no_memory(err, "for the trusted keys");
    }
    out->needed = t->need;
    out->judged_count = e->signature_count;
    for (size_t i = 0; i < e->signature_count; i++) {
        judge_one(t, e, &e->signature[i], pae, n, at_ns, &counted, &out->judged[i]);
        out->good += out->judged[i].state == TWIN_SIGNATURE_GOOD;
        wrong += out->judged[i].state == TWIN_SIGNATURE_WRONG;
    }
    tw_free(pae);
    out->trusted = out->good >= out->needed && out->needed > 0 && wrong == 0;
    if (wrong)
        snprintf(out->why, sizeof out->why, "%zu of %zu signature%s %s wrong", wrong,
                 e->signature_count, tw_plural_s(e->signature_count), wrong == 1 ? "is" : "are");
    else if (!out->trusted)
        snprintf(out->why, sizeof out->why, "it needs %zu signature%s that count%s, and has %zu",
                 out->needed, tw_plural_s(out->needed), out->needed == 1 ? "s" : "", out->good);
    return 0;
}

void twin_trust_verdict_free(struct twin_trust_verdict *v)
{
    tw_free(v->judged);
    memset(v, 0, sizeof *v);
}
