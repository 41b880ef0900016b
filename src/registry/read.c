/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the log from its beginning: the signature of each entry is judged, its place in the chain
 * checked, and then it is applied. What is wrong becomes a fault.
 *
 * Two kinds of faults are told apart. A signature that does not count leaves the chain whole: what
 * the entry says is still read, since a later entry may vouch for it. A broken chain ends the
 * reading: nothing behind it can be put in its place.
 */
#include "registry_inside.h"

#include "base.h"
#include "sha256.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Faults beyond these say nothing new. */
enum { FAULTS_MAX = 200 };

void tw_log_name(uint64_t number, char out[TW_LOG_NAME_BYTES])
{
    snprintf(out, TW_LOG_NAME_BYTES, "log/%08llu.dsse.json", (unsigned long long)number);
}

int tw_registry_fault(struct tw_registry *r, uint64_t entry, struct twin_error *err,
                      const char *format, ...)
{
    va_list ap;
    if (r->faults >= FAULTS_MAX)
        return 0;
    struct tw_fault *list = tw_reallocarray(r->fault, r->faults + 1, sizeof *list);
    if (!list)
        return tw_no_memory(err, "reading a registry");
    r->fault = list;
    va_start(ap, format);
    char *what = tw_vprintf(format, ap);
    va_end(ap);
    if (!what)
        return tw_no_memory(err, "reading a registry");
    list[r->faults++] = (struct tw_fault){entry, what};
    return 0;
}

const char *tw_registry_head(const struct tw_registry *r)
{
    return r->count ? r->entry[r->count - 1].digest : "";
}

int tw_registry_take(struct tw_registry *r, struct tw_entry *e, struct twin_error *err)
{
    struct tw_entry *list = NULL;
    int rc = tw_state_apply(r, e, err);
    if (rc == 0 && !(list = tw_reallocarray(r->entry, r->count + 1, sizeof *list)))
        rc = tw_no_memory(err, "reading a registry");
    if (rc != 0) {
        tw_entry_free(e);
        return rc;
    }
    r->entry = list;
    list[r->count++] = *e;
    memset(e, 0, sizeof *e);
    return 0;
}

/* ---- the list of files */

/* The numbers that are there, and what lies there besides. */
struct listing {
    struct tw_registry *r;
    struct twin_error *err;
    uint64_t count, highest;
};

static int list_entry(void *user, const struct tw_store_piece *p)
{
    struct listing *l = user;
    char name[TW_LOG_NAME_BYTES];
    const uint64_t n = strtoull(p->name, NULL, 10);
    tw_log_name(n, name);
    if (n < 1 || n > TW_REGISTRY_ENTRIES_MAX || strcmp(name + strlen("log/"), p->name) != 0)
        return tw_registry_fault(l->r, 0, l->err, "log/%s is no entry of a registry", p->name);
    l->count++;
    if (n > l->highest)
        l->highest = n;
    return 0;
}

/* ---- one entry */

/* Whose signatures count, "team.pub, ana". NULL: no memory. */
static char *who_signed(const struct twin_trust_verdict *v)
{
    struct tw_buf b = {0};
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < v->judged_count; i++)
        if (v->judged[i].state == TWIN_SIGNATURE_GOOD)
            tw_buf_printf(&b, "%s%s", b.len ? ", " : "", v->judged[i].name);
    return tw_buf_steal(&b);
}

/* Why the signatures are not enough: what is wrong with one says more than their number. */
static const char *why_not(const struct twin_trust_verdict *v)
{
    for (size_t i = 0; i < v->judged_count; i++)
        if (*v->judged[i].why)
            return v->judged[i].why;
    return v->why;
}

/* Judges the signatures as of the time that the entry gives: a key that has run out since was good
 * then. That nobody dates an entry back is the chain's business: times never fall. */
static int judge(struct tw_registry *r, const struct twin_trust *trust,
                 const struct twin_envelope *env, struct tw_entry *e, struct twin_error *err)
{
    struct twin_trust_verdict v = {0};
    if (!trust) {
        e->signers = tw_strdup("");
        return e->signers ? 0 : tw_no_memory(err, "reading a registry");
    }
    int rc = twin_trust_judge(trust, env, e->time_ns, &v, err);
    if (rc == 0 && !v.trusted)
        rc = tw_registry_fault(r, e->number, err, "entry %llu is not to be trusted: %s",
                               (unsigned long long)e->number, why_not(&v));
    if (rc == 0 && !(e->signers = v.trusted ? who_signed(&v) : tw_strdup("")))
        rc = tw_no_memory(err, "reading a registry");
    /* Whoever vouches has looked at the chain up to here, whoever signed it. */
    if (rc == 0 && v.trusted && e->kind == TW_ENTRY_VOUCH)
        r->vouched = e->number;
    twin_trust_verdict_free(&v);
    return rc;
}

/* Does the entry stand where its number says, behind the one that it names? */
static int check_chain(const struct tw_registry *r, const struct tw_entry *e, uint64_t number,
                       struct twin_error *err)
{
    if (e->number != number)
        return twin_error_set(err, TWIN_EFORMAT, "entry %llu says that it is number %llu",
                              (unsigned long long)number, (unsigned long long)e->number);
    if (number == 1 && e->kind != TW_ENTRY_OPEN)
        return twin_error_set(err, TWIN_EFORMAT, "entry 1 does not open a registry");
    if (strcmp(e->previous, tw_registry_head(r)) != 0)
        return twin_error_set(err, TWIN_EFORMAT,
                              "entry %llu was written behind another entry %llu (%.12s) than is "
                              "here (%.12s): one was taken away, replaced or signed again",
                              (unsigned long long)number, (unsigned long long)number - 1,
                              e->previous, tw_registry_head(r));
    if (r->count && e->time_ns < r->entry[r->count - 1].time_ns)
        return twin_error_set(err, TWIN_EFORMAT, "entry %llu is dated before the one before it",
                              (unsigned long long)number);
    return 0;
}

/* Reads one. TWIN_EFORMAT, TWIN_EVERSION: the chain ends here. */
static int read_entry(struct tw_registry *r, uint64_t number, const struct twin_trust *trust,
                      struct twin_error *err)
{
    char name[TW_LOG_NAME_BYTES], *text = NULL;
    struct twin_envelope env = {0};
    struct tw_entry e = {0};
    size_t n = 0;
    tw_log_name(number, name);
    int rc = tw_store_get(r->store, name, TW_REGISTRY_ENTRY_BYTES, &text, &n, err);
    rc = rc ? rc : twin_envelope_parse(text, n, name, false, &env, err);
    rc = rc ? rc : tw_entry_parse(&env, name, &e, err);
    if (rc == 0 && !tw_sha256_of(text, n, e.digest))
        rc = tw_no_memory(err, "reading %s", name);
    rc = rc ? rc : check_chain(r, &e, number, err);
    rc = rc ? rc : judge(r, trust, &env, &e, err);
    if (rc == 0)
        rc = tw_registry_take(r, &e, err);
    else
        tw_entry_free(&e);
    twin_envelope_free(&env);
    tw_free(text);
    return rc;
}

/* What an entry can be at fault for; other errors are the machine's. */
static bool is_fault(int rc)
{
    return rc == TWIN_EFORMAT || rc == TWIN_EVERSION || rc == TWIN_ELIMIT || rc == TWIN_ENOENT;
}

static int read_log(struct tw_registry *r, const struct twin_trust *trust, struct twin_error *err)
{
    struct listing l = {.r = r, .err = err};
    int rc = tw_store_list(r->store, "log", list_entry, &l, err);
    if (rc == 0 && l.count == 0)
        rc = twin_error_set(err, TWIN_ENOENT,
                            "%s: there is no registry; twinrun registry init "
                            "makes one",
                            tw_store_name(r->store));
    for (uint64_t n = 1; n <= l.highest && rc == 0; n++) {
        struct twin_error why = TWIN_ERROR_INIT;
        int bad = read_entry(r, n, trust, &why);
        if (!bad)
            continue;
        if (!is_fault(bad))
            return twin_error_set(err, bad, "%s", why.message);
        rc = tw_registry_fault(r, n, err, "%s%s", why.message,
                               n < l.highest ? "; what follows was not read" : "");
        break;
    }
    return rc;
}

/* Faults of signatures up to the entry that vouches for them are none. */
static void drop_vouched(struct tw_registry *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->faults; i++) {
        const struct tw_fault f = r->fault[i];
        if (f.entry > 0 && f.entry < r->vouched)
            tw_free(f.what);
        else
            r->fault[kept++] = f;
    }
    r->faults = kept;
}

int tw_registry_open(const char *where, const struct twin_trust *trust, struct tw_registry *out,
                     struct twin_error *err)
{
    memset(out, 0, sizeof *out);
    out->judged = trust != NULL;
    int rc = tw_store_open(where, false, &out->store, err);
    rc = rc ? rc : read_log(out, trust, err);
    if (rc != 0)
        tw_registry_close(out);
    else
        drop_vouched(out);
    return rc;
}

void tw_registry_close(struct tw_registry *r)
{
    tw_state_free(r);
    for (size_t i = 0; i < r->count; i++)
        tw_entry_free(&r->entry[i]);
    tw_free(r->entry);
    for (size_t i = 0; i < r->faults; i++)
        tw_free(r->fault[i].what);
    tw_free(r->fault);
    tw_store_close(r->store);
    memset(r, 0, sizeof *r);
}

int tw_registry_remember(struct tw_registry *r, uint64_t number, const char *digest,
                         const char *who, struct twin_error *err)
{
    if (number > r->count)
        return tw_registry_fault(r, 0, err,
                                 "%s has seen entry %llu, and the log ends with entry %zu: it was "
                                 "cut, or this is an old copy",
                                 who, (unsigned long long)number, r->count);
    if (number > 0 && strcmp(r->entry[number - 1].digest, digest) != 0)
        return tw_registry_fault(r, 0, err,
                                 "%s has seen another entry %llu (%.12s) than is here (%.12s): the "
                                 "log was forked or written anew",
                                 who, (unsigned long long)number, digest,
                                 r->entry[number - 1].digest);
    return 0;
}

/* ---- what is sealed */

const json_t *tw_registry_seal(const struct tw_registry *r)
{
    return r->count ? json_object_get(r->entry[0].details, "seal") : NULL;
}

int tw_registry_unseal(struct tw_registry *r, const struct tw_strings *identities,
                       struct twin_error *err)
{
    const json_t *seal = tw_registry_seal(r);
    int rc = seal ? tw_store_seal(r->store, seal, identities, err) : 0;
    if (rc == 0 && !seal && identities->count)
        return twin_error_set(err, TWIN_EINVAL, "--identity: nothing in %s is sealed",
                              tw_store_name(r->store));
    for (size_t i = 0; i < r->sealed_count && rc == 0 && seal; i++) {
        struct twin_error why = TWIN_ERROR_INIT;
        int bad = tw_store_take_list(r->store, r->sealed[i].sha256, &why);
        if (is_fault(bad))
            tw_store_list_lost(r->store, why.message);
        else if (bad)
            rc = twin_error_set(err, bad, "%s", why.message);
    }
    return rc;
}

int tw_sealed_into(struct tw_registry *r, struct tw_entry *e, struct twin_error *err)
{
    char sha256[65];
    int rc = tw_store_put_list(r->store, sha256, err);
    if (rc != 0 || !*sha256)
        return rc;
    if (!e->details)
        e->details = json_object();
    return json_object_set_new(e->details, "sealed", json_string(sha256)) == 0
               ? 0
               : tw_no_memory(err, "for an entry");
}
