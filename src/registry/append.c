/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes entries. An entry is made for the registry as it was read; whether that is still how it
 * stands is decided by the store alone: the next number can be taken once. Who comes second is told
 * so, and nothing of his is written.
 */
#include "registry_inside.h"

#include "base.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { POLICY_BYTES = 1 << 20 };
static const int64_t SECOND_NS = 1000000000;

int tw_registry_may_add(const struct tw_registry *r, enum tw_entry_kind kind,
                        struct twin_error *err)
{
    if (!r->judged)
        return twin_error_set(
            err, TWIN_EINVAL,
            "nothing is added to a registry whose signatures were not judged: expected "
            "--trust FILE or --pub PUB");
    for (size_t i = 0; i < r->faults; i++) {
        /* A fault of a signature is of an entry that was read all the same. */
        const bool of_signature = r->fault[i].entry > 0 && r->fault[i].entry <= r->count;
        if (kind != TW_ENTRY_VOUCH || !of_signature)
            return twin_error_set(err, TWIN_EFORMAT,
                                  "%s: nothing was written, since %s (twinrun registry verify says "
                                  "all)",
                                  tw_store_name(r->store), r->fault[i].what);
    }
    return 0;
}

int tw_registry_current(const struct tw_registry *r, struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char name[TW_LOG_NAME_BYTES], *text = NULL;
    size_t n = 0;
    tw_log_name(r->count + 1, name);
    int rc = tw_store_get(r->store, name, TW_REGISTRY_ENTRY_BYTES, &text, &n, &why);
    tw_free(text);
    if (rc == TWIN_ENOENT)
        return 0;
    if (rc != 0 && rc != TWIN_ELIMIT && rc != TWIN_EFORMAT)
        return twin_error_set(err, rc, "%s", why.message);
    return twin_error_set(err, TWIN_EBUSY, "%s: somebody added entry %zu meanwhile; try again",
                          tw_store_name(r->store), r->count + 1);
}

/* This machine's clock: an entry with the date that a job is shown would let a key count that has
 * run out, or force that date on all entries behind it. */
static int64_t this_second(void)
{
    int64_t now_ns = 0;
    twin_trust_now(NULL, &now_ns, NULL);
    return now_ns / SECOND_NS * SECOND_NS;
}

/* A clock that runs behind that of whoever wrote last must not make the time fall. */
static int64_t time_of_next(const struct tw_registry *r)
{
    const int64_t now = this_second();
    const int64_t last = r->count ? r->entry[r->count - 1].time_ns : 0;
    return now > last ? now : last;
}

/* Signs, and puts the envelope under the entry's number. */
static int write_entry(struct tw_store *s, struct tw_entry *e, const char *const *keys,
                       size_t key_count, struct twin_error *err)
{
    struct twin_envelope env = {0};
    char name[TW_LOG_NAME_BYTES], *text = NULL;
    size_t n = 0;
    tw_log_name(e->number, name);
    int rc = tw_entry_envelope(e, &env, err);
    for (size_t i = 0; i < key_count && rc == 0; i++) {
        struct twin_key *k = NULL;
        rc = twin_key_open(keys[i], &k, err);
        rc = rc ? rc : twin_envelope_sign(&env, k, err);
        twin_key_close(k);
    }
    rc = rc ? rc : twin_envelope_text(&env, &text, &n, err);
    if (rc == 0 && n > TW_REGISTRY_ENTRY_BYTES)
        rc = twin_error_set(err, TWIN_ELIMIT, "the entry has %zu bytes, at most %d are taken", n,
                            TW_REGISTRY_ENTRY_BYTES);
    if (rc == 0 && !tw_sha256_of(text, n, e->digest))
        rc = tw_no_memory(err, "for an entry");
    rc = rc ? rc : tw_store_put(s, name, text, n, err);
    twin_envelope_free(&env);
    tw_free(text);
    return rc;
}

/* The entry's own copy for the registry in memory. */
static int copy_entry(const struct tw_entry *e, struct tw_entry *out, struct twin_error *err)
{
    *out = *e;
    out->model = e->model ? tw_strdup(e->model) : NULL;
    out->why = tw_strdup(e->why ? e->why : "");
    out->signers = tw_strdup(e->signers ? e->signers : "");
    out->details = json_incref(e->details);
    return out->why && out->signers && (!e->model || out->model)
               ? 0
               : tw_no_memory(err, "for an entry");
}

int tw_registry_append(struct tw_registry *r, struct tw_entry *e, const char *const *keys,
                       size_t key_count, struct twin_error *err)
{
    struct tw_entry kept = {0};
    int rc = tw_registry_may_add(r, e->kind, err);
    if (rc == 0 && key_count == 0)
        rc = twin_error_set(err, TWIN_EINVAL, "an entry needs a key that signs it: --key KEY");
    if (rc == 0 && r->count >= TW_REGISTRY_ENTRIES_MAX)
        rc = twin_error_set(err, TWIN_ELIMIT, "%s: %d entries: it is full", tw_store_name(r->store),
                            TW_REGISTRY_ENTRIES_MAX);
    if (rc != 0)
        return rc;
    e->number = r->count + 1;
    memcpy(e->previous, tw_registry_head(r), strlen(tw_registry_head(r)) + 1);
    e->time_ns = time_of_next(r);
    /* Applied first: what does not fit is never written. */
    rc = copy_entry(e, &kept, err);
    if (rc == 0)
        rc = tw_registry_take(r, &kept, err);
    else
        tw_entry_free(&kept);
    rc = rc ? rc : write_entry(r->store, e, keys, key_count, err);
    if (rc == 0)
        memcpy(r->entry[r->count - 1].digest, e->digest, sizeof e->digest);
    return rc;
}

int tw_store_put_read(struct tw_store *s, const char *path, const char *text, size_t n,
                      char sha256[65], struct twin_error *err)
{
    if (!tw_sha256_of(text, n, sha256))
        return tw_no_memory(err, "reading %s", path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return twin_error_system(err, "cannot open %s", path);
    const int rc = tw_store_put_content(s, fd, sha256, n, path, err);
    close(fd);
    return rc;
}

int tw_policy_store(struct tw_store *s, const char *path, char sha256[65], struct twin_error *err)
{
    char *text = NULL;
    size_t n = 0;
    int rc = tw_read_file(path, POLICY_BYTES, &text, &n, err);
    rc = rc ? rc : tw_store_put_read(s, path, text, n, sha256, err);
    tw_free(text);
    return rc;
}

int tw_registry_make(const char *where, const char *policy, const struct tw_strings *recipients,
                     const char *why, const char *const *keys, size_t key_count,
                     struct twin_error *err)
{
    struct tw_store *s = NULL;
    unsigned char id[32];
    char digest[65];
    struct tw_entry e = {.number = 1, .kind = TW_ENTRY_OPEN, .why = (char *)(uintptr_t)why};
    if (key_count == 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "a registry needs a key that opens it: --key KEY "
                              "(twinrun sign --new-key KEY makes one)");
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return twin_error_system(err, "no random number for the registry");
    tw_hex(id, sizeof id, e.artifact);
    e.time_ns = this_second();
    json_t *seal = NULL;
    int rc = recipients->count ? tw_store_seal_parse(recipients, &seal, err) : 0;
    if (rc == 0 && (policy || seal) && !(e.details = json_object()))
        rc = tw_no_memory(err, "for an entry");
    rc = rc ? rc : tw_store_open(where, true, &s, err);
    if (rc == 0 && policy) {
        rc = tw_policy_store(s, policy, digest, err);
        if (rc == 0 && json_object_set_new(e.details, "policy", json_string(digest)) != 0)
            rc = tw_no_memory(err, "for an entry");
    }
    if (rc == 0 && seal && json_object_set(e.details, "seal", seal) != 0)
        rc = tw_no_memory(err, "for an entry");
    rc = rc ? rc : write_entry(s, &e, keys, key_count, err);
    json_decref(e.details);
    json_decref(seal);
    tw_store_close(s);
    return rc;
}
