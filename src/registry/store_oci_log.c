/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a registry in a container registry. That knows no "only if there is none", and a tag
 * can be pushed again over another one. So no tag of the log is ever pushed with another meaning:
 * each says in its name which manifest it is for.
 *
 *     log-00000007-SHA256        entry 7; two of them are a fork, which every reader sees
 *     try-00000007-01-a-SHA256   entry 7, round 1: somebody wants this one
 *     try-00000007-01-b-SHA256   ... and has seen that another one is wanted, too
 *     try-00000007-01-c-SHA256   ... and has seen no other
 *
 * Who writes an entry first agrees with all others who write one, by these tags and the list of
 * tags alone ("commit-adopt": Gafni, Round-by-round fault detectors, PODC 1998). In a round each
 * tags a, lists, tags b or c, and lists again. Of two c in one round both are of one manifest,
 * since who tagged his a later has seen both. Who sees nothing but one c has it decided: everybody
 * who looks later sees that c, and goes on with it. So two different entries are never decided,
 * whoever is killed or stopped meanwhile, and for however long. All that is asked of the registry
 * is that a list has the tags that were pushed before it was asked for. Who does not find his own
 * tag there stops; a registry that hides only those of others is found by the fork.
 */
#include "store_oci.h"

#include "registry.h"
#include "sha256.h"

#include "json_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { ROUNDS = 40 };
static const char ENVELOPE_TYPE[] = "application/vnd.in-toto+dsse";

/* ---- reading */

uint64_t tw_oci_entry_number(const char *name)
{
    char again[40];
    const uint64_t n = strtoull(name, NULL, 10);
    snprintf(again, sizeof again, "%08" PRIu64 ".dsse.json", n);
    return n >= 1 && n <= TW_REGISTRY_ENTRIES_MAX && strcmp(again, name) == 0 ? n : 0;
}

/* "log-00000007-SHA256" -> the number and the digest. False: another tag. */
static bool parse_entry(const char *tag, struct tw_oci_entry *out)
{
    char number[9];
    if (strncmp(tag, "log-", 4) != 0 || strlen(tag) != 4 + 8 + 1 + 64 || tag[12] != '-' ||
        !tw_is_hex(tag + 13, 64))
        return false;
    snprintf(number, sizeof number, "%.8s", tag + 4);
    memcpy(out->manifest, tag + 13, 65);
    return tw_parse_u64(number, TW_REGISTRY_ENTRIES_MAX, &out->number) == 0 && out->number > 0;
}

/* What takes the entries of a listing. */
struct taking {
    struct tw_oci *s;
    struct twin_error *err;
};

static int take_entry(void *user, const char *tag)
{
    struct taking *t = user;
    struct tw_oci_entry e;
    if (!parse_entry(tag, &e))
        return 0;
    struct tw_oci_entry *list = tw_reallocarray(t->s->entry, t->s->entries + 1,
                                                sizeof *t->s->entry);
    if (!list)
        return tw_no_memory(t->err, "listing %s", t->s->spec);
    t->s->entry = list;
    list[t->s->entries++] = e;
    return 0;
}

int tw_oci_log_list(struct tw_oci *s, struct twin_error *err)
{
    struct taking t = {s, err};
    s->entries = 0;
    return tw_oci_tags(s, take_entry, &t, err);
}

/* The entry's manifest; NULL: it is not there. *other: another one of that number, a fork. */
static const char *find_entry(const struct tw_oci *s, uint64_t number, const char **other)
{
    const char *found = NULL;
    *other = NULL;
    for (size_t i = 0; i < s->entries; i++) {
        const struct tw_oci_entry *e = &s->entry[i];
        if (e->number != number)
            continue;
        if (found && strcmp(found, e->manifest) != 0)
            *other = e->manifest;
        else
            found = e->manifest;
    }
    return found;
}

/* Which blob is the layer of this manifest? */
static int layer_of(const char *text, size_t n, const char *manifest, char sha256[65],
                    struct twin_error *err)
{
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *layer = json_array_get(json_object_get(o, "layers"), 0);
    const char *digest = json_string_value(json_object_get(layer, "digest"));
    int rc = digest && tw_starts(digest, "sha256:") && tw_is_hex(digest + 7, 64)
                 ? 0
                 : twin_error_set(err, TWIN_EFORMAT,
                                  "the manifest %.12s: expected a layer with a digest of SHA-256",
                                  manifest);
    if (rc == 0)
        memcpy(sha256, digest + 7, 65);
    json_decref(o);
    return rc;
}

/* By its digest, which it has. */
static int get_by_digest(struct tw_oci *s, const char *manifest, struct tw_buf *text,
                         struct twin_error *err)
{
    char reference[80], found[65];
    snprintf(reference, sizeof reference, "sha256:%.64s", manifest);
    int rc = tw_oci_get_manifest(s, reference, text, found, err);
    if (rc == 0 && strcmp(found, manifest) != 0)
        rc = tw_store_damaged(&s->head, manifest, found, err);
    return rc;
}

int tw_oci_log_get(struct tw_oci *s, uint64_t number, size_t cap, char **data, size_t *bytes,
                   struct twin_error *err)
{
    struct tw_buf text = {0};
    char blob[65];
    const char *other, *manifest = find_entry(s, number, &other);
    int rc = manifest ? 0 : tw_oci_log_list(s, err);
    if (rc != 0)
        return rc;
    if (!(manifest = find_entry(s, number, &other)))
        return twin_error_set(err, TWIN_ENOENT, "%s: there is no entry %" PRIu64, s->spec, number);
    if (other)
        return twin_error_set(err, TWIN_EFORMAT,
                              "entry %" PRIu64 " is there twice (tags log-%08" PRIu64
                              "-%.12s... and -%.12s...): the log is forked, since the container "
                              "registry gave somebody an old list of its tags, or somebody "
                              "wrote past twinrun",
                              number, number, manifest, other);
    rc = get_by_digest(s, manifest, &text, err);
    rc = rc ? rc : layer_of(text.data, text.len, manifest, blob, err);
    rc = rc ? rc : tw_oci_get_blob(s, blob, cap, data, bytes, err);
    tw_buf_free(&text);
    return rc;
}

/* ---- writing */

/* What the tags say of one entry and one round. */
struct view {
    uint64_t number;
    unsigned round;
    const char *ours;   /* the tag that must be there; NULL: none */
    const char *wanted; /* the manifest that we are for in this round */
    bool has_ours;      /* it is there */
    bool others_want;   /* an a of another one */
    bool others_said;   /* a b or c that is not a c of ours */
    char committed[65]; /* of a c; "": there is none */
    char decided[65];   /* in the log; "": not yet */
    bool forked;        /* two of them */
};

static void try_tag(uint64_t number, unsigned round, char step, const char *manifest,
                    char out[TW_OCI_TAG_BYTES])
{
    snprintf(out, TW_OCI_TAG_BYTES, "try-%08" PRIu64 "-%02u-%c-%.64s", number, round, step,
             manifest);
}

static int look_at_tag(void *user, const char *tag)
{
    struct view *v = user;
    struct tw_oci_entry e;
    char begin[32];
    v->has_ours |= v->ours && strcmp(tag, v->ours) == 0;
    if (parse_entry(tag, &e) && e.number == v->number) {
        v->forked |= *v->decided && strcmp(v->decided, e.manifest) != 0;
        memcpy(v->decided, e.manifest, sizeof v->decided);
        return 0;
    }
    const int n = snprintf(begin, sizeof begin, "try-%08" PRIu64 "-%02u-", v->number, v->round);
    if (strncmp(tag, begin, (size_t)n) != 0 || strlen(tag) != (size_t)n + 2 + 64 ||
        !tw_is_hex(tag + n + 2, 64))
        return 0;
    const bool same = strcmp(tag + n + 2, v->wanted) == 0;
    if (tag[n] == 'a')
        v->others_want |= !same;
    else
        v->others_said |= !same || tag[n] != 'c';
    if (tag[n] == 'c')
        memcpy(v->committed, tag + n + 2, sizeof v->committed);
    return 0;
}

static int look(struct tw_oci *s, struct view *v, struct twin_error *err)
{
    const struct view fresh = {
        .number = v->number, .round = v->round, .ours = v->ours, .wanted = v->wanted};
    *v = fresh;
    int rc = tw_oci_tags(s, look_at_tag, v, err);
    if (rc == 0 && v->ours && !v->has_ours)
        rc = twin_error_set(err, TWIN_EIO,
                            "%s: the registry said that it took the tag %.40s..., and does not "
                            "list it: it gives old data, or lost it",
                            s->spec, v->ours);
    return rc;
}

/* An entry on its way into the log. */
struct proposal {
    struct tw_oci *s;
    uint64_t number;
    char mine[65], now[65]; /* manifests: ours, and the one that we are for */
    struct tw_buf text;     /* of `now` */
    bool maybe;             /* ours may yet come into the log */
};

/* Pushes a tag, and looks what is there then. A push whose answer was lost may have been done: what
 * lies there decides. */
static int push_and_look(struct proposal *p, const char *tag, struct view *v,
                         struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    v->ours = tag;
    v->wanted = p->now;
    int rc = tw_oci_put_manifest(p->s, tag, p->text.data, p->text.len, &why);
    if (rc != 0) {
        v->ours = NULL;
        struct view there = *v;
        there.ours = tag;
        if (look(p->s, &there, NULL) != 0)
            return twin_error_set(err, rc, "%s", why.message);
        *v = there;
        return 0;
    }
    return look(p->s, v, err);
}

/* From here on for another manifest. */
static int turn_to(struct proposal *p, const char *manifest, struct twin_error *err)
{
    if (strcmp(p->now, manifest) == 0)
        return 0;
    p->text.len = 0;
    memcpy(p->now, manifest, sizeof p->now);
    return get_by_digest(p->s, manifest, &p->text, err);
}

/* Two who go in step would disagree again and again. */
static void wait_some(unsigned round)
{
    unsigned char r = 0;
    (void)!getrandom(&r, sizeof r, 0);
    const struct timespec t = {0, (long)(r % 64 + 1) * 1000000L * (long)(round < 10 ? round : 10)};
    nanosleep(&t, NULL);
}

/* One round. *decided: v->decided, or p->now, is the entry. */
static int one_round(struct proposal *p, struct view *v, bool *decided, struct twin_error *err)
{
    char tag[TW_OCI_TAG_BYTES];
    try_tag(p->number, v->round, 'a', p->now, tag);
    int rc = push_and_look(p, tag, v, err);
    if (rc != 0 || *v->decided)
        return rc;
    const char step = v->others_want ? 'b' : 'c';
    p->maybe |= step == 'c' && strcmp(p->now, p->mine) == 0;
    try_tag(p->number, v->round, step, p->now, tag);
    rc = push_and_look(p, tag, v, err);
    if (rc != 0 || *v->decided)
        return rc;
    *decided = step == 'c' && !v->others_said;
    return *decided || !*v->committed ? 0 : turn_to(p, v->committed, err);
}

/* Brings what was decided into the log, unless somebody has. */
static int publish(struct proposal *p, struct view *v, struct twin_error *err)
{
    char tag[TW_OCI_TAG_BYTES];
    snprintf(tag, sizeof tag, "log-%08" PRIu64 "-%.64s", p->number, p->now);
    return push_and_look(p, tag, v, err);
}

static int agree(struct proposal *p, struct twin_error *err)
{
    struct view v = {.number = p->number, .round = 1, .wanted = p->now};
    bool decided = false;
    int rc = look(p->s, &v, err);
    for (unsigned round = 1; rc == 0 && !*v.decided && !decided && round <= ROUNDS; round++) {
        if (round > 1)
            wait_some(round);
        v.round = round;
        rc = one_round(p, &v, &decided, err);
    }
    if (rc == 0 && decided && !*v.decided)
        rc = publish(p, &v, err);
    if (rc != 0)
        return rc;
    if (!*v.decided)
        return twin_error_set(err, p->maybe ? TWIN_EIO : TWIN_EBUSY,
                              "%s: others write entry %" PRIu64 " at the same time, again and "
                              "again; look at the log, and try again",
                              p->s->spec, p->number);
    p->maybe = false;
    if (v.forked)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: entry %" PRIu64 " is there twice: the log is "
                              "forked; look at it with verify",
                              p->s->spec, p->number);
    return strcmp(v.decided, p->mine) == 0
               ? 0
               : twin_error_set(err, TWIN_EBUSY, "%s: entry %" PRIu64 " is there already",
                                p->s->spec, p->number);
}

int tw_oci_log_put(struct tw_oci *s, uint64_t number, const void *data, size_t bytes,
                   struct twin_error *err)
{
    struct proposal p = {.s = s, .number = number};
    struct twin_error why = TWIN_ERROR_INIT;
    char blob[65], title[40], value[24];
    snprintf(title, sizeof title, "%08" PRIu64 ".dsse.json", number);
    snprintf(value, sizeof value, "%" PRIu64, number);
    int rc = tw_sha256_of(data, bytes, blob) ? 0 : tw_no_memory(err, "for an entry");
    rc = rc ? rc : tw_oci_put_blob(s, data, bytes, blob, title, err);
    rc = rc ? rc
            : tw_oci_manifest(s, TW_OCI_TYPE_ENTRY, ENVELOPE_TYPE, blob, bytes, title,
                              "twinrun.entry", value, &p.text, err);
    if (rc == 0 && !tw_sha256_of(p.text.data, p.text.len, p.mine))
        rc = tw_no_memory(err, "for an entry");
    if (rc == 0) {
        memcpy(p.now, p.mine, sizeof p.now);
        rc = agree(&p, &why);
        if (rc != 0)
            twin_error_set(err, rc, "%s%s", why.message,
                           p.maybe ? "; the entry may come into the log" TW_LOG_MAYBE : "");
    }
    tw_buf_free(&p.text);
    return rc;
}
