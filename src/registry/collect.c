/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may go. A content stays as long as anything names it: a version whose own contents are not
 * collected, evidence of any version (a package's files among it), the registry's policies. So the
 * set of what is needed is made first, as if the chosen versions were gone already, and all else
 * that lies in the store is what may go; what is young may belong to an entry that is being
 * written.
 */
#include "registry_inside.h"
#include "store_inside.h"

#include "base.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Digests as a set: jansson's hash table, whose keys they are. */
static int need(json_t *set, const char *sha256, struct twin_error *err)
{
    return json_object_set_new(set, sha256, json_true()) == 0 ? 0 : tw_no_memory(err, "collecting");
}

/* A file: what lies in the store for it. */
static int need_file(const struct tw_registry *r, json_t *set, const char *sha256,
                     struct twin_error *err)
{
    const char *sealed = tw_store_sealed_as(r->store, sha256);
    int rc = need(set, sha256, err);
    return rc == 0 && sealed ? need(set, sealed, err) : rc;
}

/* A manifest and its files. One that is lost or damaged names nothing that could be spared: an
 * error, since to go on would be to guess. */
static int need_artifact(struct tw_registry *r, json_t *set, const char *digest,
                         struct twin_error *err)
{
    struct tw_artifact a;
    if (json_object_get(set, digest))
        return 0;
    int rc = tw_artifact_read(r->store, digest, &a, err);
    if (rc != 0)
        return rc;
    rc = need(set, digest, err);
    for (size_t i = 0; i < a.count && rc == 0; i++)
        rc = need_file(r, set, a.file[i].sha256, err);
    tw_artifact_free(&a);
    return rc;
}

static int need_evidence(struct tw_registry *r, json_t *set, const struct tw_evidence *e,
                         struct twin_error *err)
{
    return strcmp(e->kind, "package") == 0 ? need_artifact(r, set, e->sha256, err)
                                           : need(set, e->sha256, err);
}

/* ---- which versions */

/* The newest `keep` versions that were in production stay: they are what a rollback goes to. */
static bool may_go(const struct tw_model *m, const struct tw_version *v, int64_t older_ns,
                   uint64_t keep)
{
    if (v->stage != TW_STAGE_RETIRED || v->hold || v->collected || v->moved_ns >= older_ns)
        return false;
    uint64_t newer = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct tw_version *w = &m->version[i];
        newer += w->was_production && w->stage == TW_STAGE_RETIRED && !w->collected &&
                 w->moved_by > v->moved_by;
    }
    return !v->was_production || newer >= keep;
}

static int choose_versions(struct tw_registry *r, int64_t older_ns, uint64_t keep, json_t *set,
                           struct tw_collection *out, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->models && rc == 0; i++) {
        const struct tw_model *m = &r->model[i];
        for (size_t j = 0; j < m->count && rc == 0; j++) {
            const struct tw_version *v = &m->version[j];
            if (may_go(m, v, older_ns, keep)) {
                void *list = tw_reallocarray(out->version, out->versions + 1, sizeof *out->version);
                if (!list)
                    return tw_no_memory(err, "collecting");
                out->version = list;
                out->version[out->versions].model = m->name;
                out->version[out->versions++].version = v->number;
            } else if (!v->collected) {
                rc = need_artifact(r, set, v->artifact, err);
            }
            for (size_t k = 0; k < v->evidence_count && rc == 0; k++)
                rc = need_evidence(r, set, &v->evidence[k], err);
        }
    }
    return rc;
}

/* Policies that entries name, and lists of what is sealed: of versions that are gone, too, since
 * contents of others may stand in them. */
static int need_policies(struct tw_registry *r, json_t *set, struct twin_error *err)
{
    int rc = *r->policy ? need(set, r->policy, err) : 0;
    for (size_t i = 0; i < r->sealed_count && rc == 0; i++)
        rc = need(set, r->sealed[i].sha256, err);
    for (size_t i = 0; i < r->count && rc == 0; i++) {
        const char *policy = json_string_value(json_object_get(r->entry[i].details, "policy"));
        if (policy && tw_is_hex(policy, 64))
            rc = need(set, policy, err);
    }
    return rc;
}

/* ---- which contents */

struct choosing {
    const json_t *needed, *chosen; /* digests that stay; those of the chosen versions */
    int64_t strays_ns;
    struct tw_collection *out;
    struct twin_error *err;
};

static int choose_content(void *user, const struct tw_store_piece *p)
{
    struct choosing *c = user;
    if (!tw_is_hex(p->name, 64) || json_object_get(c->needed, p->name))
        return 0;
    if (!json_object_get(c->chosen, p->name) && p->changed_ns >= c->strays_ns)
        return 0;
    void *list = tw_reallocarray(c->out->content, c->out->contents + 1, sizeof *c->out->content);
    if (!list)
        return tw_no_memory(c->err, "collecting");
    c->out->content = list;
    memcpy(c->out->content[c->out->contents++], p->name, 65);
    c->out->bytes += p->bytes;
    return 0;
}

/* The contents of the versions that go. One whose manifest cannot be read any more leaves its files
 * to be strays. */
static int chosen_contents(struct tw_registry *r, const struct tw_collection *c, json_t *set,
                           struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < c->versions && rc == 0; i++) {
        const struct tw_model *m = tw_registry_model(r, c->version[i].model);
        struct twin_error none = TWIN_ERROR_INIT;
        rc = need_artifact(r, set, m->version[c->version[i].version - 1].artifact, &none);
        if (rc == TWIN_ENOMEM)
            twin_error_set(err, rc, "%s", none.message);
        else
            rc = 0;
    }
    return rc;
}

int tw_collection_plan(struct tw_registry *r, int64_t older_ns, uint64_t keep, int64_t strays_ns,
                       struct tw_collection *out, struct twin_error *err)
{
    memset(out, 0, sizeof *out);
    json_t *needed = json_object(), *chosen = json_object();
    int rc = needed && chosen ? 0 : tw_no_memory(err, "collecting");
    const char *lost = tw_store_lists_lost(r->store);
    if (rc == 0 && lost)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "which contents are needed is not known, since a list of sealed ones "
                            "cannot be read: %s",
                            lost);
    rc = rc ? rc : choose_versions(r, older_ns, keep, needed, out, err);
    rc = rc ? rc : need_policies(r, needed, err);
    rc = rc ? rc : chosen_contents(r, out, chosen, err);
    struct choosing c = {needed, chosen, strays_ns, out, err};
    rc = rc ? rc : tw_store_list(r->store, "contents", choose_content, &c, err);
    json_decref(needed);
    json_decref(chosen);
    if (rc != 0)
        tw_collection_free(out);
    return rc;
}

void tw_collection_free(struct tw_collection *c)
{
    tw_free(c->version);
    tw_free(c->content);
    memset(c, 0, sizeof *c);
}

/* ---- are they all there? */

/* What the reading of all contents carries. */
struct checking {
    struct tw_registry *r;
    json_t *done; /* digests that were looked at */
    struct tw_contents_read *read;
    struct twin_error *err;
};

/* What is wrong with a content is a fault; that there is no memory, or no key, is our own. */
static int blame(struct checking *c, uint64_t entry, int rc, const struct twin_error *why)
{
    if (rc == TWIN_ENOMEM || rc == TWIN_EINVAL || rc == TWIN_EUNSUPPORTED)
        return twin_error_set(c->err, rc, "%s", why->message);
    return rc ? tw_registry_fault(c->r, entry, c->err, "entry %llu: %s", (unsigned long long)entry,
                                  why->message)
              : 0;
}

/* Reads one content through to nowhere, as it lies there. */
static int read_stored(struct checking *c, const char *sha256, uint64_t entry)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_sink nowhere = {.fd = -1};
    if (json_object_get(c->done, sha256))
        return 0;
    int rc = need(c->done, sha256, &why);
    rc = rc ? rc : tw_store_pour(c->r->store, sha256, &nowhere, &why);
    c->read->bytes += rc ? 0 : nowhere.bytes;
    return blame(c, entry, rc, &why);
}

/* One file: a sealed one is opened where somebody gave a key, and else only its ciphertext is
 * digested. */
static int read_file(struct checking *c, const char *sha256, uint64_t entry)
{
    const char *sealed = tw_store_sealed_as(c->r->store, sha256);
    struct twin_error why = TWIN_ERROR_INIT;
    uint64_t bytes = 0;
    if (!sealed)
        return read_stored(c, sha256, entry);
    if (json_object_get(c->done, sealed))
        return 0;
    c->read->sealed++;
    c->read->unopened += !tw_store_can_open(c->r->store);
    if (!tw_store_can_open(c->r->store))
        return read_stored(c, sealed, entry);
    int rc = need(c->done, sealed, &why);
    rc = rc ? rc : tw_store_get_content(c->r->store, sha256, -1, &why);
    if (rc == 0 && tw_store_content_bytes(c->r->store, sha256, &bytes, NULL) == 0)
        c->read->bytes += bytes;
    return blame(c, entry, rc, &why);
}

static int read_artifact_through(struct checking *c, const char *digest, uint64_t entry)
{
    struct tw_artifact a;
    struct twin_error why = TWIN_ERROR_INIT;
    if (json_object_get(c->done, digest))
        return 0;
    int rc = tw_artifact_read(c->r->store, digest, &a, &why);
    if (rc != 0)
        return blame(c, entry, rc, &why);
    rc = need(c->done, digest, c->err);
    for (size_t i = 0; i < a.count && rc == 0; i++)
        rc = read_file(c, a.file[i].sha256, entry);
    tw_artifact_free(&a);
    return rc;
}

static int check_version(struct checking *c, const struct tw_version *v)
{
    int rc = v->collected ? 0 : read_artifact_through(c, v->artifact, v->added_by);
    for (size_t i = 0; i < v->evidence_count && rc == 0; i++) {
        const struct tw_evidence *e = &v->evidence[i];
        rc = strcmp(e->kind, "package") == 0 ? read_artifact_through(c, e->sha256, e->entry)
                                             : read_stored(c, e->sha256, e->entry);
    }
    return rc;
}

int tw_registry_check_contents(struct tw_registry *r, struct tw_contents_read *read,
                               struct twin_error *err)
{
    struct checking c = {.r = r, .done = json_object(), .read = read, .err = err};
    int rc = c.done ? 0 : tw_no_memory(err, "reading a registry");
    memset(read, 0, sizeof *read);
    for (size_t i = 0; i < r->sealed_count && rc == 0; i++)
        rc = read_stored(&c, r->sealed[i].sha256, r->sealed[i].entry);
    for (size_t i = 0; i < r->models && rc == 0; i++)
        for (size_t j = 0; j < r->model[i].count && rc == 0; j++)
            rc = check_version(&c, &r->model[i].version[j]);
    if (rc == 0 && *r->policy)
        rc = read_stored(&c, r->policy, 1);
    json_decref(c.done);
    return rc;
}
