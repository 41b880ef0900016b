/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which run is in a package, and did it make the artifact? A package holds what was observed in
 * data/expected: run.json names the files that the job wrote, by their bytes, and checkpoints.json
 * those that hold tensors, by these. A replay is held against the same two, so a package whose run
 * made the artifact is one whose replay makes it again or fails.
 *
 * And who signed it? The signature holds the tag manifest, that the manifest, and that the payload:
 * so a package is what its signers signed when each of its files is in one of the two lists.
 */
#include "registry_inside.h"

#include "base.h"
#include "json_load.h"
#include "sha256.h"

#include <jansson.h>
#include <string.h>

enum { LIST_BYTES = 64 << 20 };

/* A file of the package's folder, if it is still what was stored of it. */
static int read_file(const char *folder, const struct tw_artifact_file *f, char **text, size_t *n,
                     struct twin_error *err)
{
    char *full = tw_path_join(folder, f->path), hex[65];
    int rc = full ? tw_read_file(full, LIST_BYTES, text, n, err)
                  : tw_no_memory(err, "reading %s", folder);
    if (rc == 0 && (!tw_sha256_of(*text, *n, hex) || strcmp(hex, f->sha256) != 0)) {
        rc = twin_error_set(err, TWIN_EFORMAT, "%s changed while it was read", full);
        tw_free(*text);
        *text = NULL;
    }
    tw_free(full);
    return rc;
}

/* The JSON of a file of the package; NULL with 0 where the package has no such file. */
static int read_json(struct tw_store *s, const char *folder, const struct tw_artifact *package,
                     const char *path, json_t **out, struct twin_error *err)
{
    char *text = NULL;
    size_t n = 0;
    const struct tw_artifact_file *f = NULL;
    *out = NULL;
    for (size_t i = 0; i < package->count && !f; i++)
        if (strcmp(package->file[i].path, path) == 0)
            f = &package->file[i];
    if (!f)
        return 0;
    int rc = folder ? read_file(folder, f, &text, &n, err)
                    : tw_store_read_content(s, f->sha256, LIST_BYTES, &text, &n, err);
    if (rc == 0 && !(*out = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL)))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s of the package is no JSON", path);
    tw_free(text);
    return rc;
}

/* The files of a list, each by the digest that stands under `key`. Entries without one say nothing:
 * the run's record has them, too, of files that could not be read. */
static int take_files(const json_t *list, const char *key, const char *algorithm,
                      struct twin_subjects *out, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
        const json_t *f = json_array_get(list, i);
        const char *digest = json_string_value(json_object_get(f, key));
        if (tw_is_hex(digest, 64))
            rc = twin_subjects_add(out, "", algorithm, digest, err);
    }
    return rc;
}

int tw_package_check(struct tw_store *s, const char *folder, const struct tw_artifact *package,
                     const char *shown, const struct tw_artifact *a, struct twin_error *err)
{
    struct twin_subjects made = {0};
    json_t *run = NULL, *checkpoints = NULL;
    int rc = read_json(s, folder, package, "data/expected/run.json", &run, err);
    rc = rc ? rc
            : read_json(s, folder, package, "data/expected/checkpoints.json", &checkpoints, err);
    rc = rc ? rc : take_files(json_object_get(run, "files"), "sha256", "sha256", &made, err);
    rc = rc ? rc : take_files(checkpoints, "content", "twinrunContent1", &made, err);
    if (rc == 0 && !tw_subjects_hold(&made, "", 0, a))
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s is of a run that made other files than those of the artifact",
                            shown);
    twin_subjects_free(&made);
    json_decref(run);
    json_decref(checkpoints);
    return rc;
}

/* ---- who signed it */

#define TAG_MANIFEST "tagmanifest-sha256.txt"
#define MANIFEST "manifest-sha256.txt"
#define SIGNATURE "signature.dsse.json"

/* A file of the package as it lies in the store. TWIN_ENOENT: it has none of this name. */
static int read_text(struct tw_store *s, const struct tw_artifact *package, const char *path,
                     char **text, size_t *n, const struct tw_artifact_file **file,
                     struct twin_error *err)
{
    *file = NULL;
    for (size_t i = 0; i < package->count && !*file; i++)
        if (strcmp(package->file[i].path, path) == 0)
            *file = &package->file[i];
    return *file ? tw_store_read_content(s, (*file)->sha256, LIST_BYTES, text, n, err)
                 : twin_error_set(err, TWIN_ENOENT, "the package has no %s", path);
}

/* Lines "SHA256  PATH" into the set, path -> digest. */
static int take_manifest(const char *text, json_t *set, struct twin_error *err)
{
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\n");
        char hex[65] = "";
        if (n > 66 && n < 66 + 4096 && line[64] == ' ' && line[65] == ' ')
            memcpy(hex, line, 64);
        char *path = tw_is_hex(hex, 64) ? tw_strndup(line + 66, n - 66) : NULL;
        if (!path)
            return twin_error_set(err, TWIN_EFORMAT,
                                  "a manifest of the package: expected lines of a SHA-256, two "
                                  "blanks and a path");
        const int failed = json_object_set_new(set, path, json_string(hex));
        tw_free(path);
        if (failed)
            return twin_error_set(err, TWIN_EFORMAT, "a path of the package is no UTF-8");
        line += n + (line[n] == '\n');
    }
    return 0;
}

/* Does fetch.txt, lines "URL LENGTH PATH", say that the file is elsewhere? Only data may be. */
static bool is_elsewhere(const char *fetch, const char *path)
{
    const size_t n = strlen(path);
    if (!tw_starts(path, "data/data/"))
        return false;
    for (const char *line = fetch; *line;) {
        const char *end = line + strcspn(line, "\n");
        const char *at = memchr(line, ' ', (size_t)(end - line));
        at = at ? memchr(at + 1, ' ', (size_t)(end - at - 1)) : NULL;
        if (at && (size_t)(end - at - 1) == n && memcmp(at + 1, path, n) == 0)
            return true;
        line = end + (*end == '\n');
    }
    return false;
}

/* Is each file that was signed for there, or by fetch.txt elsewhere? */
static int check_all_there(struct tw_store *s, const struct tw_artifact *package, json_t *set,
                           struct twin_error *err)
{
    const struct tw_artifact_file *file;
    const char *path;
    json_t *digest;
    char *fetch = NULL;
    size_t n = 0;
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = read_text(s, package, "fetch.txt", &fetch, &n, &file, &why);
    if (rc != 0 && file)
        return twin_error_set(err, rc, "%s", why.message);
    rc = 0;
    for (size_t i = 0; i < package->count; i++)
        json_object_del(set, package->file[i].path);
    json_object_foreach (set, path, digest)
        if (rc == 0 && !(fetch && is_elsewhere(fetch, path)))
            rc = twin_error_set(err, TWIN_EFORMAT, "its %.80s, which was signed, is not there",
                                path);
    tw_free(fetch);
    return rc;
}

/* Is each file, but for the tag manifest and the signature, one that was signed for; and is each
 * that was signed for there? */
static int check_files(struct tw_store *s, const struct tw_artifact *package, const char *tags,
                       struct twin_error *err)
{
    const struct tw_artifact_file *file;
    json_t *set = json_object();
    char *text = NULL;
    size_t n = 0;
    int rc = set ? take_manifest(tags, set, err) : tw_no_memory(err, "reading a package");
    const char *listed = json_string_value(json_object_get(set, MANIFEST));
    rc = rc ? rc : read_text(s, package, MANIFEST, &text, &n, &file, err);
    if (rc == 0 && (!listed || strcmp(listed, file->sha256) != 0))
        rc = twin_error_set(err, TWIN_EFORMAT, "its %s is not the one of the tag manifest",
                            MANIFEST);
    rc = rc ? rc : take_manifest(text, set, err);
    for (size_t i = 0; i < package->count && rc == 0; i++) {
        const struct tw_artifact_file *f = &package->file[i];
        const char *digest = json_string_value(json_object_get(set, f->path));
        if (strcmp(f->path, TAG_MANIFEST) == 0 || strcmp(f->path, SIGNATURE) == 0)
            continue;
        if (!digest || strcmp(digest, f->sha256) != 0)
            rc = twin_error_set(err, TWIN_EFORMAT, "its %.80s is not what was signed", f->path);
    }
    rc = rc ? rc : check_all_there(s, package, set, err);
    tw_free(text);
    json_decref(set);
    return rc;
}

/* Does the envelope sign for a tag manifest of this digest, and nothing else? */
static int check_statement(const struct twin_envelope *env, const char *sha256,
                           struct twin_error *err)
{
    struct twin_statement st = {0};
    int rc = twin_statement_parse(env, SIGNATURE, &st, err);
    bool same = rc == 0 && strcmp(st.predicate_type, TWIN_PREDICATE_SIGNED) == 0 &&
                st.subjects.count == 1 && strcmp(st.subjects.item[0].name, TAG_MANIFEST) == 0 &&
                st.subjects.item[0].digest_count == 1;
    if (same) {
        const struct twin_subject_digest *d = &st.subjects.item[0].digest[0];
        same = strcmp(d->algorithm, "sha256") == 0 && strcmp(d->value, sha256) == 0;
    }
    if (rc == 0 && !same)
        rc = twin_error_set(err, TWIN_EFORMAT, "its signature is about another package");
    twin_statement_free(&st);
    return rc;
}

/* How many different keys that are trusted signed the envelope; none where one signature is wrong.
 */
static size_t count_keys(const struct twin_trust_verdict *v)
{
    size_t count = 0;
    for (size_t i = 0; i < v->judged_count; i++) {
        bool seen = v->judged[i].state != TWIN_SIGNATURE_GOOD;
        if (v->judged[i].state == TWIN_SIGNATURE_WRONG)
            return 0;
        for (size_t j = 0; j < i && !seen; j++)
            seen = v->judged[j].state == TWIN_SIGNATURE_GOOD &&
                   strcmp(v->judged[j].keyid, v->judged[i].keyid) == 0;
        count += !seen;
    }
    return count;
}

int tw_package_signers(struct tw_store *s, const struct tw_artifact *package,
                       const struct twin_trust *trust, int64_t at_ns, size_t *count,
                       struct twin_error *err)
{
    const struct tw_artifact_file *tags_file, *file;
    struct twin_envelope env = {0};
    struct twin_trust_verdict v = {0};
    char *text = NULL, *tags = NULL;
    size_t n = 0;
    *count = 0;
    int rc = read_text(s, package, SIGNATURE, &text, &n, &file, err);
    rc = rc ? rc : read_text(s, package, TAG_MANIFEST, &tags, &n, &tags_file, err);
    rc = rc ? rc : twin_envelope_parse(text, strlen(text), SIGNATURE, false, &env, err);
    rc = rc ? rc : check_statement(&env, tags_file->sha256, err);
    rc = rc ? rc : check_files(s, package, tags, err);
    rc = rc ? rc : twin_trust_judge(trust, &env, at_ns, &v, err);
    if (rc == 0 && (*count = count_keys(&v)) == 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "nobody who is trusted signed it: %s", v.why);
    twin_trust_verdict_free(&v);
    twin_envelope_free(&env);
    tw_free(tags);
    tw_free(text);
    return rc;
}
