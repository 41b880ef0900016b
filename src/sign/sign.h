/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_SIGN_H
#define TWIN_SIGN_H
/*
 * Signatures: keys, DSSE envelopes, in-toto statements, trust. docs/signing.md says what each form
 * means, docs/internals/signing.md why.
 *
 * The way of a signature that is checked: bytes -> twin_envelope_parse -> twin_trust_judge (whose
 * signatures are good, and are they enough) -> twin_statement_parse of the very bytes that were
 * verified -> twin_subjects_match with what lies on the disk. No step stands for a later one.
 *
 * Thread safety: an object belongs to one thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct json_t;      /* jansson's */
struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

/* ---- keys (key.c, key_pkcs11.c, key_vault.c) */

/* The kinds of keys that sign and verify here. The numbers are places in a table of key.c and are
 * written nowhere. */
enum twin_key_algorithm { TWIN_KEY_P256, TWIN_KEY_P384, TWIN_KEY_P521, TWIN_KEY_ED25519 };
/* ecdsa-p256|ecdsa-p384|ecdsa-p521|ed25519 */
const char *twin_key_algorithm_name(enum twin_key_algorithm a);
int twin_key_algorithm_parse(const char *s, enum twin_key_algorithm *out); /* TWIN_EINVAL */

/* A key that was opened: the public half always, and for one that signs the means to do so. It
 * belongs to one thread at a time; twin_key_close frees it and closes the token or server behind
 * it. */
struct twin_key;
/*
 * A key that signs: the path of a PEM file with a private key (PKCS#8, SEC 1; encrypted: passphrase
 * from $TWINRUN_KEY_PASSPHRASE, or the first line of the file that $TWINRUN_KEY_PASSPHRASE_FILE
 * names), "pkcs11:..." (RFC 7512), or "vault:[MOUNT/]NAME[?version=N]". TWIN_ENOENT, TWIN_EIO,
 * TWIN_EFORMAT (not such a key, wrong passphrase), TWIN_EUNSUPPORTED (algorithm; a library that is
 * not there).
 */
int twin_key_open(const char *spec, struct twin_key **out, struct twin_error *err);
/* A private key of any algorithm in a PEM file, for other uses than signatures; a passphrase as for
 * twin_key_open. OpenSSL's EVP_PKEY_free ends it. */
int twin_key_read_private(const char *path, struct evp_pkey_st **out, struct twin_error *err);
/* A key that only verifies: the path of a PEM file with a public key. A private key there is
 * refused by name. */
int twin_key_read_public(const char *path, struct twin_key **out, struct twin_error *err);
/* Writes a new private key to path (mode 0600) and its public half to path.pub; nothing is ever
 * replaced (TWIN_EIO). */
int twin_key_new(const char *path, enum twin_key_algorithm a, struct twin_error *err);
void twin_key_close(struct twin_key *k);

/* SHA-256, lower-case hex, of the public key's PEM text: what `openssl pkey -pubin -in KEY.pub |
 * sha256sum` prints. */
const char *twin_key_id(const struct twin_key *k);
const char *twin_key_pem(const struct twin_key *k); /* public half */
enum twin_key_algorithm twin_key_algorithm(const struct twin_key *k);

/* ECDSA: DER, over SHA-256, -384 or -512 by the curve; Ed25519: 64 bytes. *signature is malloc'ed
 * (tw_free). Each is verified before it is given out. */
int twin_key_sign(struct twin_key *k, const void *data, size_t n, unsigned char **signature,
                  size_t *bytes, struct twin_error *err);
bool twin_key_verify(const struct twin_key *k, const void *data, size_t n,
                     const unsigned char *signature, size_t bytes);

/* ---- envelopes: DSSE 1.0.2 (envelope.c) */

#define TWIN_PAYLOAD_INTOTO "application/vnd.in-toto+json"
#define TWIN_ENVELOPE_MAX ((size_t)64 << 20) /* bytes of an envelope, or of the payload of one */

/* One signature of an envelope. keyid is a hint that nobody signed; "" where none was given. bytes
 * are of whatever form the key's algorithm has (twin_key_sign). */
struct twin_signature {
    char *keyid;
    unsigned char *bytes;
    size_t length;
};
/* A DSSE envelope: a typed payload and the signatures over both. It owns all that it points to;
 * payload ends in a NUL byte that does not count. twin_envelope_free frees it. */
struct twin_envelope {
    char *type;
    char *payload;
    size_t payload_bytes;
    struct twin_signature *signature;
    size_t signature_count;
    bool foreign;  /* read as such: key ids need not be ours */
    bool either_s; /* of a form in which ECDSA signatures need not have the lower s */
};

/* What is signed: "DSSEv1 28 application/vnd.in-toto+json 5 hello". malloc'ed; NULL: no memory. */
char *twin_pae(const char *type, const void *payload, size_t payload_bytes, size_t *bytes);
int twin_envelope_make(const char *type, const void *payload, size_t n, struct twin_envelope *out,
                       struct twin_error *err);
/* adds one; TWIN_EINVAL: that key has signed already */
int twin_envelope_sign(struct twin_envelope *e, struct twin_key *k, struct twin_error *err);
/* The one text of it: canonical JSON (RFC 8785) and a newline. malloc'ed. */
int twin_envelope_text(const struct twin_envelope *e, char **text, size_t *bytes,
                       struct twin_error *err);
/*
 * Of the text of an envelope; `name` stands in messages. Only that one text is taken, and with the
 * in-toto type only a payload in canonical JSON; foreign: any JSON, both base64 alphabets, fields
 * that are not known. TWIN_EFORMAT (with what was expected and found), TWIN_ELIMIT.
 */
int twin_envelope_parse(const char *text, size_t n, const char *name, bool foreign,
                        struct twin_envelope *out, struct twin_error *err);
/* The same of an object that was read from JSON: always foreign. */
int twin_envelope_from_json(const struct json_t *object, const char *name,
                            struct twin_envelope *out, struct twin_error *err);
void twin_envelope_free(struct twin_envelope *e);

/* ---- trust (trust.c): which keys count, and how many of them are needed */

/* A policy: the keys whose signatures count, until when, and how many of them are needed. Read-only
 * once it is made. */
struct twin_trust;
/* Each of these public keys must have signed. */
int twin_trust_keys(char *const *paths, size_t count, struct twin_trust **out,
                    struct twin_error *err);
/* A trust.toml (docs/signing.md): k of n, validity, revoked keys. Paths in it are relative to its
 * folder. */
int twin_trust_read(const char *path, struct twin_trust **out, struct twin_error *err);
void twin_trust_free(struct twin_trust *t);
/*
 * The time by which keys are judged now: that of this machine, whatever clock this process is shown
 * (run --pin clock). t may be NULL. TWIN_EINVAL: a key of t has an end or a beginning, and the
 * clock stands before t's file was last changed, so it is wrong, and nobody knows by how much.
 */
int twin_trust_now(const struct twin_trust *t, int64_t *now_ns, struct twin_error *err);
/* A day or time in UTC, 2026-11-21 or 2026-11-21T08:00:00Z, in ns since 1970. TWIN_EINVAL. */
int twin_trust_time(const char *text, int64_t *ns);

/* What became of one signature. Only GOOD counts; only WRONG is evidence of a change and makes the
 * whole untrusted, whatever else there is. */
enum twin_signature_state {
    TWIN_SIGNATURE_GOOD, /* counts */
    /* of a key that is trusted, but not of these bytes: the whole is refused */
    TWIN_SIGNATURE_WRONG,
    TWIN_SIGNATURE_UNKNOWN, /* no key that is trusted made it: neither good nor bad */
    /* good, but does not count */
    TWIN_SIGNATURE_EXPIRED,
    TWIN_SIGNATURE_NOT_YET,
    TWIN_SIGNATURE_REVOKED,
    TWIN_SIGNATURE_TWICE /* good, but another one of the same key counts already */
};
/* good|wrong|unknown-key|expired|not-yet-valid|revoked|twice */
const char *twin_signature_state_name(enum twin_signature_state s);

/* The judgement of one signature. name is the key's in the policy, "" when the key is unknown; why
 * is a sentence for people, empty for a good one. */
struct twin_judged {
    const char *keyid, *name;
    enum twin_signature_state state;
    char why[160];
};
/* The judgement of an envelope: of each signature, and of all of them together. Needs
 * twin_trust_verdict_free; envelope and policy have to live as long. */
struct twin_trust_verdict {
    bool trusted; /* `good` >= `needed`, and none is wrong */
    size_t good, needed;
    /* one for each signature of the envelope, in its order; borrow from envelope and trust */
    struct twin_judged *judged;
    size_t judged_count;
    char why[256]; /* when not trusted: a sentence */
};
/*
 * Judges the signatures over the envelope's type and payload. at_ns: the time (since 1970) against
 * which validity is checked; no trusted timestamp is in an envelope, so it is the verifier's clock,
 * or when he knows it to have existed. Findings are in *out, errors are TWIN_ENOMEM only.
 */
int twin_trust_judge(const struct twin_trust *t, const struct twin_envelope *e, int64_t at_ns,
                     struct twin_trust_verdict *out, struct twin_error *err);
void twin_trust_verdict_free(struct twin_trust_verdict *v);

/* ---- statements: in-toto Statement v1 (statement.c) */

#define TWIN_PREDICATE_SIGNED "urn:twinrun:signed:1"         /* a file or a folder */
#define TWIN_PREDICATE_REPRODUCED "urn:twinrun:reproduced:1" /* two runs */
#define TWIN_PREDICATE_SLSA "https://slsa.dev/provenance/v1" /* a run */
#define TWIN_PREDICATE_MODEL "https://model_signing/signature/v1.0"

/* One digest of a subject, such as "sha256" and its value in lower-case hex. A subject may have
 * several under different algorithms. */
struct twin_subject_digest {
    char *algorithm, *value;
};
/* One thing that a statement is about: a file by its relative path, as a rule. name is "" where the
 * statement gives none. */
struct twin_subject {
    char *name;
    struct twin_subject_digest *digest;
    size_t digest_count;
};
/* A list of subjects that grows by twin_subjects_add. It starts zeroed, owns its texts, and is
 * freed by twin_subjects_free, which leaves it empty and usable. */
struct twin_subjects {
    struct twin_subject *item;
    size_t count, room;
};
/* Adds one with one digest; another digest of the last one: twin_subjects_digest. */
int twin_subjects_add(struct twin_subjects *s, const char *name, const char *algorithm,
                      const char *value, struct twin_error *err);
int twin_subjects_digest(struct twin_subjects *s, const char *algorithm, const char *value,
                         struct twin_error *err);
void twin_subjects_free(struct twin_subjects *s);

/* An in-toto statement that was read: about which subjects something is said, and what (the
 * predicate, a reference of its own). Only one whose envelope is trusted should be read. */
struct twin_statement {
    char *predicate_type;
    struct twin_subjects subjects;
    struct json_t *predicate;
};
/* The payload of a statement, in canonical JSON. predicate is borrowed. */
int twin_statement_text(const struct twin_subjects *s, const char *predicate_type,
                        const struct json_t *predicate, char **text, size_t *bytes,
                        struct twin_error *err);
/* The same, in an envelope that nobody has signed yet. */
int twin_statement_envelope(const struct twin_subjects *s, const char *predicate_type,
                            const struct json_t *predicate, struct twin_envelope *out,
                            struct twin_error *err);
/* Reads the payload of an envelope, which should be a trusted one; name stands in messages.
 * TWIN_EFORMAT: it is no in-toto Statement v1, or a name or a digest is longer than any that is
 * taken; TWIN_ENOMEM. On an error out is empty. */
int twin_statement_parse(const struct twin_envelope *e, const char *name,
                         struct twin_statement *out, struct twin_error *err);
void twin_statement_free(struct twin_statement *s);

/* ---- subjects: what lies on the disk (subject.c) */

/* SHA-256 of a regular file (no link); name is what the subject is called. */
int twin_subject_file(const char *path, const char *name, struct twin_subjects *s,
                      struct twin_error *err);
/* Of each regular file below, by relative path in the order of bytes, read side by side; special
 * files are errors. Links, too, unless `links`: then those to files below the same folder are
 * followed. skip: relative paths left out with all below them. */
int twin_subject_folder(const char *path, const char *const *skip, size_t skip_count, bool links,
                        struct twin_subjects *s, struct twin_error *err);

/* How what lies on the disk departs from what was signed. */
enum twin_subject_change { TWIN_SUBJECT_CHANGED, TWIN_SUBJECT_MISSING, TWIN_SUBJECT_ADDED };
/* Calls visit for each signed subject that is not found or has another digest, and for each found
 * one that was not signed. Digests are compared under each algorithm that both have; a pair without
 * a common one counts as changed. by_name false: the only signed one goes with the only found one.
 * Returns the number of visits. */
size_t twin_subjects_match(const struct twin_subjects *signed_ones,
                           const struct twin_subjects *found, bool by_name,
                           void (*visit)(void *user, enum twin_subject_change c,
                                         const struct twin_subject *signed_one,
                                         const struct twin_subject *found),
                           void *user);

/* ---- OpenSSF model signatures, as the client model_signing writes and reads them (model.c) */

/* The statement about a folder, which nobody has signed yet. but: a path in it that is left out
 * (the signature); NULL: none. Git's files are left out, too. */
int twin_model_envelope(const char *folder, const char *but, struct twin_envelope *out,
                        struct twin_error *err);
/* The bundle (application/vnd.dev.sigstore.bundle.v0.3+json) of an envelope that one ECDSA key has
 * signed. malloc'ed. */
int twin_bundle_text(const struct twin_envelope *e, char **text, size_t *bytes,
                     struct twin_error *err);
/* Of a bundle with a public key's signature; one of a certificate: TWIN_EUNSUPPORTED. The key's
 * hint becomes the signature's key id. */
int twin_bundle_parse(const char *text, size_t n, const char *name, struct twin_envelope *out,
                      struct twin_error *err);
/* Compares the folder with a statement of type TWIN_PREDICATE_MODEL, by its own rules (what is left
 * out, links). *changes: number of visits. */
int twin_model_match(const struct twin_statement *st, const char *name, const char *folder,
                     const char *but,
                     void (*visit)(void *user, enum twin_subject_change c,
                                   const struct twin_subject *signed_one,
                                   const struct twin_subject *found),
                     void *user, size_t *changes, struct twin_error *err);

/* ---- runs (run.c) */

#define TWIN_RUN_ENVELOPE "run.dsse.json" /* where a run's own statement lies in its folder */

struct twin_run;
struct twin_verdict;
struct twin_compare_options;
/*
 * What a run left: "ID/PATH" of each file of its folder (SHA-256; of traces also twinrunValues1,
 * the hash over all that was observed, in which there is no time), and "ID/files/PATH" of each file
 * that the job wrote, by the digest in run.json. contents: of those that still lie where they were
 * written and hold tensors also twinrunContent1 (src/snapshot/content.h). Without, for comparing: a
 * trace that cannot be read has its SHA-256, which tells that it was changed.
 */
int twin_run_subjects(const struct twin_run *r, bool contents, struct twin_subjects *s,
                      struct twin_error *err);
/* Its provenance (SLSA v1), not yet signed. TWIN_ENOENT: it has no provenance.json; TWIN_EBUSY: it
 * has not ended. */
int twin_run_envelope(const struct twin_run *r, struct twin_envelope *out, struct twin_error *err);
/*
 * Compares runs[1..] with runs[0]. Where they are the same, or within o's tolerance, *out states so
 * of all of them, not yet signed; else out->payload is NULL. The verdict is given in both cases
 * (twin_verdict_free). TWIN_EINVAL: one run twice; errors of twin_compare.
 */
int twin_reproduced_envelope(const struct twin_run *const *runs, size_t n,
                             const struct twin_compare_options *o, struct twin_verdict **verdict,
                             struct twin_envelope *out, struct twin_error *err);
#endif
