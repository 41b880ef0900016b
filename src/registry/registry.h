/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_H
#define TW_REGISTRY_H
/*
 * The registry: which version of a model is a candidate, a canary, in production, retired, who said
 * so, and on what evidence. docs/registry.md, docs/internals/registry.md. Room: src/registry.
 *
 * There is one truth, the log: signed entries, each of which names the digest of the one before.
 * Stages, holds and evidence are what comes out when the log is read from its beginning; nothing
 * else is kept, so a killed promotion has happened or has not. An entry is an envelope (sign.h)
 * with a statement of type TW_REGISTRY_ENTRY. One whose signatures do not count is a fault, and as
 * long as there is one nothing is added to the registry or given out of it.
 *
 * Bytes of a registry are foreign: whatever they are, reading gives a registry with faults, or an
 * error. Thread safety: an object belongs to one thread at a time.
 */
#include "store.h"

#include "src/sign/sign.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct json_t;

#define TW_REGISTRY_ENTRY "urn:twinrun:registry-entry:1"
#define TW_REGISTRY_ARTIFACT "twinrun.artifact/1"
enum {
    TW_REGISTRY_NAME_BYTES = 128,       /* of a model's name */
    TW_REGISTRY_ENTRIES_MAX = 10000000, /* file names of entries have eight digits */
    TW_REGISTRY_ENTRY_BYTES = 1 << 20,
    TW_REGISTRY_MANIFEST_BYTES = 64 << 20,
};

/* ---- what an entry says (entry.c) */

enum tw_stage {
    TW_STAGE_CANDIDATE,
    TW_STAGE_CANARY,
    TW_STAGE_PRODUCTION,
    TW_STAGE_RETIRED,
    TW_STAGES
};
const char *tw_stage_name(enum tw_stage s); /* candidate|canary|production|retired */
bool tw_stage_parse(const char *name, enum tw_stage *out);

enum tw_entry_kind {
    TW_ENTRY_OPEN,    /* the first one: the registry begins */
    TW_ENTRY_ADD,     /* a version, as a candidate */
    TW_ENTRY_ATTACH,  /* evidence for it */
    TW_ENTRY_MOVE,    /* to another stage, by a policy or by a rollback */
    TW_ENTRY_CANARY,  /* what became of it as a canary */
    TW_ENTRY_HOLD,    /* its contents stay, whatever its stage */
    TW_ENTRY_RELEASE, /* they need not any more */
    TW_ENTRY_COLLECT, /* contents of a version are removed */
    TW_ENTRY_VOUCH,   /* for all entries before: for those whose keys do not count any more */
    TW_ENTRY_POLICY,  /* another promotion policy from here on */
    TW_ENTRY_KINDS
};
const char *tw_entry_kind_name(enum tw_entry_kind k);

/* One entry. It owns its texts; tw_entry_free. Texts are "" where they say nothing. */
struct tw_entry {
    uint64_t number; /* from 1 on */
    char previous[65];
    int64_t time_ns; /* full seconds since 1970, as whoever signed had them */
    enum tw_entry_kind kind;
    char *model;
    uint64_t version;       /* from 1 on; 0: of no version */
    char artifact[65];      /* of its manifest */
    enum tw_stage from, to; /* of MOVE */
    uint64_t displaced;     /* of MOVE to production or canary: the version that is retired by it */
    bool passed;            /* of CANARY */
    char *why;
    struct json_t *details; /* an object: "evidence" [{"kind", "sha256"}], "checks", "proof", ... */
    /* of its envelope, when it was read */
    char digest[65];
    char *signers; /* whose signatures counted; "" when not enough did */
};
void tw_entry_free(struct tw_entry *e);
/* The envelope of the entry, which nobody has signed yet. */
int tw_entry_envelope(const struct tw_entry *e, struct twin_envelope *out, struct twin_error *err);
/* Of an envelope; name stands in messages. TWIN_EFORMAT, TWIN_EVERSION (of a newer twinrun). */
int tw_entry_parse(const struct twin_envelope *env, const char *name, struct tw_entry *out,
                   struct twin_error *err);
/* 1 to 128 bytes of letters, digits and . _ - / with no empty part; parts do not begin with a
 * dot. */
bool tw_model_name_ok(const char *name);

/* ---- what comes out of the log (state.c) */

struct tw_evidence {
    char kind[24];   /* reproduced|signature|provenance|verdict|package */
    char sha256[65]; /* of its bytes; of a package, of its manifest */
    uint64_t entry;
};

struct tw_version {
    uint64_t number;
    char artifact[65];
    enum tw_stage stage;
    int64_t added_ns, moved_ns;
    uint64_t added_by, moved_by; /* entries */
    bool was_production;
    int canary; /* 1: passed, -1: failed, 0: not said since it became a canary */
    uint64_t canary_by;
    struct tw_evidence *evidence;
    size_t evidence_count;
    char *hold;         /* the reason; NULL: none */
    uint64_t collected; /* entry; 0: its contents should be here */
};

struct tw_model {
    char *name;
    struct tw_version *version; /* number i + 1 at i */
    size_t count;
    uint64_t production, canary; /* 0: none */
};

/* Something that is not as it should be. entry 0: of no single one. */
struct tw_fault {
    uint64_t entry;
    char *what;
};

/* A registry as its log has it. Entries behind a fault of the chain were not read. */
struct tw_registry {
    struct tw_store *store;
    char id[65];
    struct tw_entry *entry; /* number i + 1 at i */
    size_t count;
    struct tw_model *model; /* by name */
    size_t models;
    struct tw_fault *fault;
    size_t faults;
    struct tw_sealed_list {
        char sha256[65];
        uint64_t entry;
    } *sealed; /* lists of sealed contents, in the order of the log */
    size_t sealed_count;
    char policy[65];  /* digest of its promotion policy; "": none */
    bool judged;      /* somebody was named to be trusted */
    uint64_t vouched; /* entries up to this one are vouched for */
};

/*
 * Reads the log. trust NULL: signatures are looked at but not judged. Faults are in *out, errors
 * are for what cannot be read. TWIN_ENOENT: there is no registry. Needs tw_registry_close.
 */
int tw_registry_open(const char *where, const struct twin_trust *trust, struct tw_registry *out,
                     struct twin_error *err);
void tw_registry_close(struct tw_registry *r);
/* The digest of the last entry; "" of none. */
const char *tw_registry_head(const struct tw_registry *r);
const struct tw_model *tw_registry_model(const struct tw_registry *r, const char *name);
/* "NAME", "NAME@3", "NAME@production": *v NULL for the first. TWIN_ENOENT, TWIN_EINVAL. */
int tw_registry_find(const struct tw_registry *r, const char *spec, const struct tw_model **m,
                     const struct tw_version **v, struct twin_error *err);
/* For whom its files are sealed, as the first entry says it; NULL: they are not. */
const struct json_t *tw_registry_seal(const struct tw_registry *r);
/*
 * Before contents are brought or read: of a sealed registry reads the lists of what is sealed. One
 * that is lost or damaged is a fault only for tw_registry_check_contents: contents that no list
 * names are not found. identities: files of keys, borrowed.
 */
int tw_registry_unseal(struct tw_registry *r, const struct tw_strings *identities,
                       struct twin_error *err);
/* Lists what was sealed since, and names the list in the entry. */
int tw_sealed_into(struct tw_registry *r, struct tw_entry *e, struct twin_error *err);
/* One fault more; takes nothing over. 0 or TWIN_ENOMEM. */
int tw_registry_fault(struct tw_registry *r, uint64_t entry, struct twin_error *err,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Who remembers that entry `number` had this digest asks whether it still does: a log that was cut,
 * forked or written anew is a fault. */
int tw_registry_remember(struct tw_registry *r, uint64_t number, const char *digest,
                         const char *who, struct twin_error *err);

/* ---- writing (append.c) */

/* Makes a registry; policy: a file, or NULL; recipients: none, or for whom its files are sealed, as
 * tw_store_seal_parse has them. TWIN_EBUSY: there is one already. */
int tw_registry_make(const char *where, const char *policy, const struct tw_strings *recipients,
                     const char *why, const char *const *keys, size_t key_count,
                     struct twin_error *err);
/* May an entry of this kind be added? TWIN_EFORMAT names the first fault that stands against it;
 * TWIN_EINVAL: signatures were not judged. */
int tw_registry_may_add(const struct tw_registry *r, enum tw_entry_kind kind,
                        struct twin_error *err);
/* Is there no entry behind the last one that was read? TWIN_EBUSY: there is. */
int tw_registry_current(const struct tw_registry *r, struct twin_error *err);
/*
 * Signs and appends an entry that may be added (VOUCH goes also where only signatures are at
 * fault); number, previous and time are filled in. TWIN_EBUSY: somebody was faster, and r is out of
 * date: nothing was written.
 */
int tw_registry_append(struct tw_registry *r, struct tw_entry *e, const char *const *keys,
                       size_t key_count, struct twin_error *err);

/* ---- artifacts (artifact.c): a file or a folder as a manifest of its files' digests */

struct tw_artifact_file {
    char *path; /* below the folder; of a single file its name */
    uint64_t bytes;
    uint32_t mode; /* of permission only whether it may be run: 0644 or 0755 */
    char sha256[65];
    char content[65]; /* twinrunContent1 of a file of tensors; "" of others */
};
struct tw_artifact {
    struct tw_artifact_file *file; /* by path */
    size_t count;
    bool folder; /* else a single file */
    uint64_t bytes;
    char digest[65]; /* of its manifest: the name of the artifact */
};
void tw_artifact_free(struct tw_artifact *a);
/* Reads the path. Links and special files are errors, as in sign. */
int tw_artifact_take(const char *path, struct tw_artifact *out, struct twin_error *err);
/* Brings manifest and files into the store, which the caller holds. */
int tw_artifact_store(const struct tw_artifact *a, const char *path, struct tw_store *s,
                      struct twin_error *err);
/* From the store; digests are checked. */
int tw_artifact_read(struct tw_store *s, const char *digest, struct tw_artifact *out,
                     struct twin_error *err);
/* Writes it to a path that must not be there yet: whole, or not at all. Each file has been digested
 * when it is. */
int tw_artifact_restore(const struct tw_artifact *a, struct tw_store *s, const char *path,
                        struct twin_error *err);

/* ---- beside.c
 *
 * A folder beside `path`, which is not there yet, to be filled and put in its place whole. What a
 * process that was killed left there goes. */
struct tw_beside {
    char *temp;
    int root; /* it, opened */
};
/* Close it in any case. */
int tw_beside_open(struct tw_beside *p, const char *path, struct twin_error *err);
/* keep: it becomes `path`; else it is removed. rc: of what was done meanwhile, and returned where
 * nothing more goes wrong. */
int tw_beside_close(struct tw_beside *p, const char *path, bool keep, int rc,
                    struct twin_error *err);

/* The same as an OCI image layout (oci.c): name and tag are those of the image, whose config is the
 * artifact's manifest. */
int tw_artifact_oci(const struct tw_artifact *a, struct tw_store *s, const char *name,
                    const char *tag, const char *path, struct twin_error *err);

/* ---- evidence (evidence.c, package.c) */

/*
 * Brings evidence into the store: an envelope (a statement that runs agreed, a signature, the
 * provenance of a run), the JSON of a verdict, or a package's folder. An envelope must be about the
 * artifact, and so must a package: TWIN_EINVAL. *out says what it is.
 */
int tw_evidence_store(struct tw_store *s, const char *path, const struct tw_artifact *a,
                      struct tw_evidence *out, struct twin_error *err);
/* Did the run of this package, which lies in the store (and in the folder, if not NULL), make all
 * files of the artifact, by what it recorded of them? TWIN_EINVAL: it made others; `shown` stands
 * in messages. */
int tw_package_check(struct tw_store *s, const char *folder, const struct tw_artifact *package,
                     const char *shown, const struct tw_artifact *a, struct twin_error *err);
/* How many different trusted keys signed this package itself (pack --key). An error says why it is
 * none: TWIN_ENOENT, it is not signed; TWIN_EFORMAT, it is not what was signed, or nobody who is
 * trusted did. */
int tw_package_signers(struct tw_store *s, const struct tw_artifact *package,
                       const struct twin_trust *trust, int64_t at_ns, size_t *count,
                       struct twin_error *err);
/* Adds it to the details of an entry. */
int tw_evidence_into(struct tw_entry *e, const struct tw_evidence *v, struct twin_error *err);

/* What the evidence of a version amounts to, by those who are trusted. */
struct tw_evidence_sum {
    size_t runs;    /* different runs that made this very artifact and were found to agree */
    size_t within;  /* the same, and runs that agree within the tolerance with one that made it */
    size_t signers; /* different keys that signed the artifact */
    size_t provenances, packages, verdicts;
    size_t package_signers; /* of that package which the most keys signed */
    char unsigned_why[256]; /* why none of a package counts; "" */
    char trouble[256]; /* the first piece that could not be read or does not count, and why; "" */
};
/* tolerance: digest of the tolerance that is allowed; "": none. */
int tw_evidence_judge(struct tw_store *s, const struct tw_version *v, const struct tw_artifact *a,
                      const struct twin_trust *trust, int64_t at_ns, const char *tolerance,
                      struct tw_evidence_sum *out, struct twin_error *err);

/* ---- promotion (policy.c) */

/* Brings a policy's file into the store; its digest. */
int tw_policy_store(struct tw_store *s, const char *path, char sha256[65], struct twin_error *err);

/* One check of a policy, and what was found. */
struct tw_promotion_check {
    const char *name; /* "reproduced", "signed", ... */
    bool passed;
    char wanted[96], found[288];
};
enum { TW_PROMOTION_CHECKS_MAX = 12 };
struct tw_promotion {
    enum tw_stage to;
    uint64_t displaced;
    char policy[65];
    struct tw_promotion_check check[TW_PROMOTION_CHECKS_MAX];
    size_t count;
    bool passed;
};
/*
 * Holds a version against the policy text (changed by reading; its name stands in messages). No
 * table of the policy that fits this model and stage: TWIN_EINVAL, since nobody said what it takes.
 */
int tw_promotion_judge(struct tw_registry *r, const struct tw_model *m, const struct tw_version *v,
                       enum tw_stage to, char *policy, const char *policy_name,
                       const struct twin_trust *trust, int64_t now_ns, struct tw_promotion *out,
                       struct twin_error *err);
/* The checks as JSON: [{"check", "wanted", "found", "passed"}]. NULL: no memory. */
struct json_t *tw_promotion_json(const struct tw_promotion *p);

/* ---- what may go (collect.c) */

struct tw_collection {
    struct {
        const char *model;
        uint64_t version;
    } *version;
    size_t versions;
    char (*content)[65]; /* that no version, evidence or policy needs any more */
    size_t contents;
    uint64_t bytes;
};
/*
 * Retired versions that were moved there before older_ns, without hold, and not the newest `keep`
 * of those of their model that were in production. Then the contents that only they name, and those
 * that nobody names and that were brought before strays_ns.
 */
int tw_collection_plan(struct tw_registry *r, int64_t older_ns, uint64_t keep, int64_t strays_ns,
                       struct tw_collection *out, struct twin_error *err);
void tw_collection_free(struct tw_collection *c);

/* Reads every content that the log names: what is missing or damaged is a fault. Of sealed ones
 * without an identity the ciphertext is digested, and that is all. TWIN_EINVAL: no identity that
 * was given opens one. */
struct tw_contents_read {
    uint64_t bytes;
    size_t sealed, unopened; /* sealed contents; those of which only the ciphertext was read */
};
int tw_registry_check_contents(struct tw_registry *r, struct tw_contents_read *read,
                               struct twin_error *err);
#endif
