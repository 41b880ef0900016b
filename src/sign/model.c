/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSF model signatures (https://github.com/ossf/model-signing-spec): a Sigstore bundle around a
 * DSSE envelope around an in-toto statement whose predicate lists the files, and whose one subject
 * has the SHA-256 of their digests in a row. */
#include "internal.h"
#include "jcs.h"

#include "base.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The one form of bundle that is written, and the only one that is read. */
#define BUNDLE "application/vnd.dev.sigstore.bundle.v0.3+json"
/* What the client leaves out of a model's folder, too. */
static const char *const git_paths[] = {".git", ".gitattributes", ".github", ".gitignore"};
enum { GIT_PATHS = sizeof git_paths / sizeof git_paths[0], IGNORED_MAX = 1024 };

/* SHA-256 over the raw digests (32 bytes each) in the order of the list: the value of the one
 * subject. Each has to be 64 hex digits. */
static int root_of(const struct twin_subjects *s, char out[65], struct twin_error *err)
{
    struct tw_buf all = {0};
    for (size_t i = 0; i < s->count; i++) {
        unsigned char raw[32];
        const char *hex = s->item[i].digest[0].value;
        const bool fine = tw_unhex(hex, sizeof raw, raw);
        assert(fine); /* is_digest() was asked, or we made it */
        (void)fine;
        tw_buf_append(&all, raw, sizeof raw);
    }
    int rc = all.failed ? tw_no_memory(err, "for a model's signature") : 0;
    if (rc == 0)
        tw_sign_sha256(all.data, all.len, out);
    tw_buf_free(&all);
    return rc;
}

/* ---- writing */

/* The predicate that the client expects: how the files were hashed, what was left out, and each
 * file with its digest. NULL: no memory, or a name is no UTF-8. */
static json_t *predicate_of(const struct twin_subjects *files, const char *but)
{
    json_t *ignored = json_array(), *resources = json_array();
    bool whole = true;
    for (size_t i = 0; i < GIT_PATHS; i++)
        whole = json_array_append_new(ignored, json_string(git_paths[i])) == 0 && whole;
    if (but)
        whole = json_array_append_new(ignored, json_string(but)) == 0 && whole;
    for (size_t i = 0; i < files->count; i++)
        whole = json_array_append_new(resources,
                                      json_pack("{s:s, s:s, s:s}", "name", files->item[i].name,
                                                "algorithm", "sha256", "digest",
                                                files->item[i].digest[0].value)) == 0 &&
                whole;
    json_t *o = json_pack("{s:{s:s, s:s, s:b, s:o}, s:o}", "serialization", "method", "files",
                          "hash_type", "sha256", "allow_symlinks", 0, "ignore_paths", ignored,
                          "resources", resources);
    if (!whole) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* The last part of where the folder really lies: `.` has a name, too. */
static char *name_of(const char *folder)
{
    char *real = realpath(folder, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    char *out = NULL;
    if (slash)
        out = tw_strdup(slash[1] ? slash + 1 : "model");
    free(real);
    return out;
}

/* The signature will lie in the folder it is about, so its place (`but`) is left out and listed as
 * such. */
int twin_model_envelope(const char *folder, const char *but, struct twin_envelope *out,
                        struct twin_error *err)
{
    const char *skip[GIT_PATHS + 1];
    struct twin_subjects files = {0}, root = {0};
    char hex[65], *name = name_of(folder);
    json_t *predicate = NULL;
    memcpy(skip, git_paths, sizeof git_paths);
    skip[GIT_PATHS] = but ? but : "";
    int rc = twin_subject_folder(folder, skip, GIT_PATHS + 1, false, &files, err);
    if (rc == 0 && files.count == 0)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: expected files, found none: there is nothing to sign", folder);
    rc = rc ? rc : root_of(&files, hex, err);
    if (rc == 0)
        rc = name ? twin_subjects_add(&root, name, "sha256", hex, err)
                  : tw_no_memory(err, "for a model's signature");
    if (rc == 0 && !(predicate = predicate_of(&files, but)))
        rc = twin_error_set(
            err, TWIN_EFORMAT,
            "%s: a file's name is no UTF-8, which a signature needs; or there is no memory",
            folder);
    rc = rc ? rc : twin_statement_envelope(&root, TWIN_PREDICATE_MODEL, predicate, out, err);
    json_decref(predicate);
    twin_subjects_free(&files);
    twin_subjects_free(&root);
    tw_free(name);
    return rc;
}

/* The client reads a key's bundle with one signature and no transparency log; an inclusion proof
 * would be another material. */
int twin_bundle_text(const struct twin_envelope *e, char **text, size_t *bytes,
                     struct twin_error *err)
{
    struct tw_buf b = {0};
    if (e->signature_count != 1 || !e->signature[0].keyid[0])
        return twin_error_set(err, TWIN_EINVAL, "a bundle takes one signature, found %zu",
                              e->signature_count);
    char *payload = tw_base64(e->payload, e->payload_bytes);
    char *sig = tw_base64(e->signature[0].bytes, e->signature[0].length);
    json_t *o = payload && sig ? json_pack("{s:s, s:{s:{s:s}, s:[]}, s:{s:s, s:s, s:[{s:s, s:s}]}}",
                                           "mediaType", BUNDLE, "verificationMaterial", "publicKey",
                                           "hint", e->signature[0].keyid, "tlogEntries",
                                           "dsseEnvelope", "payload", payload, "payloadType",
                                           e->type, "signatures", "sig", sig, "keyid", "")
                               : NULL;
    int rc = o ? tw_jcs_write(o, &b, err) : tw_no_memory(err, "for a model's signature");
    tw_buf_puts(&b, "\n");
    *bytes = b.len;
    if (rc == 0 && !(*text = tw_buf_steal(&b)))
        rc = tw_no_memory(err, "for a model's signature");
    json_decref(o);
    tw_buf_free(&b);
    tw_free(payload);
    tw_free(sig);
    return rc;
}

/* ---- reading */

/* Says what was expected and found, with the code that tells damage (TWIN_EFORMAT) from forms that
 * others can read (TWIN_EUNSUPPORTED). */
static int refuse_model(struct twin_error *err, int code, const char *name, const char *expected,
                        const char *found)
{
    found = found ? found : "nothing";
    char *safe = tw_printable(found, strlen(found) < 80 ? strlen(found) : 80);
    int rc = twin_error_set(err, code, "%s: expected %s, found %s", name, expected,
                            safe ? safe : "?");
    tw_free(safe);
    return rc;
}

/* Which material it has is looked at before anything else: the error should name the tool that can
 * verify it. */
int twin_bundle_parse(const char *text, size_t n, const char *name, struct twin_envelope *out,
                      struct twin_error *err)
{
    struct twin_error own = TWIN_ERROR_INIT;
    err = err ? err : &own;
    memset(out, 0, sizeof *out);
    if (n > TWIN_ENVELOPE_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s: a bundle of %zu bytes: at most %zu are read",
                              name, n, TWIN_ENVELOPE_MAX);
    json_t *o = tw_sign_json(text, n, name, err);
    if (!o)
        return err->code;
    const char *type = json_string_value(json_object_get(o, "mediaType"));
    const json_t *material = json_object_get(o, "verificationMaterial");
    const json_t *key = json_object_get(material, "publicKey");
    const json_t *envelope = json_object_get(o, "dsseEnvelope");
    const char *hint = json_string_value(json_object_get(key, "hint"));
    int rc = 0;
    if (!type || strcmp(type, BUNDLE) != 0)
        rc = refuse_model(err, TWIN_EFORMAT, name, "mediaType " BUNDLE, type);
    else if (json_object_get(material, "certificate") ||
             json_object_get(material, "x509CertificateChain"))
        rc = refuse_model(err, TWIN_EUNSUPPORTED, name, "a public key's signature",
                          "a certificate's (Sigstore): the model_signing client verifies it");
    else if (!json_is_object(key))
        rc = refuse_model(err, TWIN_EFORMAT, name, "verificationMaterial.publicKey", "none");
    else if (!envelope)
        rc = refuse_model(err, TWIN_EUNSUPPORTED, name, "a dsseEnvelope",
                          json_object_get(o, "messageSignature") ? "a messageSignature" : "none");
    rc = rc ? rc : twin_envelope_from_json(envelope, name, out, err);
    if (rc == 0 && out->signature_count != 1)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected one signature in a bundle, found %zu",
                            name, out->signature_count);
    /* the hash of the key, as our own key ids are: it must be the one that signed */
    if (rc == 0 && hint && *hint) {
        tw_free(out->signature[0].keyid);
        out->signature[0].keyid = tw_strdup(hint);
        out->foreign = false;
        out->either_s = true; /* the client takes what its library makes */
        rc = out->signature[0].keyid ? 0 : tw_no_memory(err, "for a model's signature");
    }
    json_decref(o);
    if (rc != 0)
        twin_envelope_free(out);
    return rc;
}

/* "a/b": neither absolute nor out of the folder. */
static bool is_below(const char *name)
{
    for (const char *part = name;; part += strcspn(part, "/") + 1) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (part[n] == '\0')
            return true;
    }
}

/* Reads the list of files into out and checks the subject against it: the subject is what in-toto's
 * tools look at, and it must speak of the same files. */
static int read_resources(const struct twin_statement *st, const char *name,
                          struct twin_subjects *out, struct twin_error *err)
{
    const json_t *list = json_object_get(st->predicate, "resources");
    char root[65];
    int rc = json_is_array(list) && json_array_size(list) > 0
                 ? 0
                 : refuse_model(err, TWIN_EFORMAT, name,
                                "predicate.resources with at least one file", "none");
    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
        const json_t *one = json_array_get(list, i);
        const char *path = json_string_value(json_object_get(one, "name"));
        const char *algorithm = json_string_value(json_object_get(one, "algorithm"));
        const char *digest = json_string_value(json_object_get(one, "digest"));
        if (!path || !is_below(path))
            rc = refuse_model(err, TWIN_EFORMAT, name, "names of files below the model's folder",
                              path);
        else if (!algorithm || strcmp(algorithm, "sha256") != 0)
            rc = refuse_model(err, TWIN_EUNSUPPORTED, name, "SHA-256 of each file", algorithm);
        else if (!tw_is_hex(digest, 64))
            rc = refuse_model(err, TWIN_EFORMAT, name, "64 hex digits for each file", digest);
        else
            rc = twin_subjects_add(out, path, "sha256", digest, err);
    }
    rc = rc ? rc : root_of(out, root, err);
    if (rc == 0 && (st->subjects.count != 1 ||
                    strcmp(st->subjects.item[0].digest[0].algorithm, "sha256") != 0 ||
                    strcmp(st->subjects.item[0].digest[0].value, root) != 0))
        rc = refuse_model(err, TWIN_EFORMAT, name,
                          "one subject with the SHA-256 of the files' digests",
                          st->subjects.count == 1 ? st->subjects.item[0].digest[0].value
                                                  : "another number of them");
    return rc;
}

/* Appends the paths left out, as we compare them: without ./ before and / behind. The caller frees
 * the copies, also after an error. */
static int read_ignored(const json_t *serialization, const char *name, char **list, size_t *count,
                        struct twin_error *err)
{
    const json_t *ignored = json_object_get(serialization, "ignore_paths");
    if (json_array_size(ignored) > IGNORED_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s: %zu paths are left out: at most %d", name,
                              json_array_size(ignored), IGNORED_MAX);
    for (size_t i = 0; i < json_array_size(ignored); i++) {
        const char *path = json_string_value(json_array_get(ignored, i));
        while (path && tw_starts(path, "./"))
            path += 2;
        if (!path)
            return refuse_model(err, TWIN_EFORMAT, name, "ignore_paths that are texts",
                                "another value");
        size_t n = strlen(path);
        while (n > 0 && path[n - 1] == '/')
            n--;
        if (!(list[*count] = tw_strndup(path, n)))
            return tw_no_memory(err, "for a model's signature");
        ++*count;
    }
    return 0;
}

/* Compared by the statement's own rules, which are signed: the folder as it is now has no say in
 * what is left out. */
int twin_model_match(const struct twin_statement *st, const char *name, const char *folder,
                     const char *but,
                     void (*visit)(void *user, enum twin_subject_change c,
                                   const struct twin_subject *signed_one,
                                   const struct twin_subject *found),
                     void *user, size_t *changes, struct twin_error *err)
{
    const json_t *serialization = json_object_get(st->predicate, "serialization");
    const char *method = json_string_value(json_object_get(serialization, "method"));
    const char *hash = json_string_value(json_object_get(serialization, "hash_type"));
    struct twin_subjects files = {0}, found = {0};
    char *skip[IGNORED_MAX + 1] = {NULL};
    size_t skip_count = 0;
    int rc = 0;
    if (!method || strcmp(method, "files") != 0)
        rc = refuse_model(err, TWIN_EUNSUPPORTED, name, "the method \"files\"", method);
    else if (!hash || strcmp(hash, "sha256") != 0)
        rc = refuse_model(err, TWIN_EUNSUPPORTED, name, "the hash_type \"sha256\"", hash);
    rc = rc ? rc : read_resources(st, name, &files, err);
    rc = rc ? rc : read_ignored(serialization, name, skip, &skip_count, err);
    if (rc == 0 && but && !(skip[skip_count++] = tw_strdup(but)))
        rc = tw_no_memory(err, "for a model's signature");
    rc = rc ? rc
            : twin_subject_folder(folder, (const char *const *)skip, skip_count,
                                  json_is_true(json_object_get(serialization, "allow_symlinks")),
                                  &found, err);
    if (rc == 0)
        *changes = twin_subjects_match(&files, &found, true, visit, user);
    for (size_t i = 0; i < IGNORED_MAX + 1; i++)
        tw_free(skip[i]);
    twin_subjects_free(&files);
    twin_subjects_free(&found);
    return rc;
}
