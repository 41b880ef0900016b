/* SPDX-License-Identifier: Apache-2.0 */
/* What is signed, by whom, and where it goes. */
#include "signing.h"

#include "found.h"

#include "base.h"

#include "src/launch/run.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- statements */

static int statement_of(const char *path, bool folder, struct twin_envelope *out,
                        struct twin_error *err)
{
    struct twin_subjects s = {0};
    int rc = folder ? tw_signed_folder(path, NULL, &s, err)
                    : twin_subject_file(path, tw_base_name(path), &s, err);
    if (rc == 0 && s.count == 0)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: expected files, found none: there is nothing to sign", path);
    json_t *predicate = json_pack("{s:s}", "kind", folder ? "folder" : "file");
    if (rc == 0 && !predicate)
        rc = tw_no_memory(err, "for a statement");
    else if (rc == 0)
        rc = twin_statement_envelope(&s, TWIN_PREDICATE_SIGNED, predicate, out, err);
    json_decref(predicate);
    twin_subjects_free(&s);
    return rc;
}

/* A signature that lies in the folder that it is about is no part of the model. */
static int model_of(const char *folder, const char *out, struct twin_envelope *e,
                    struct twin_error *err)
{
    char *but = tw_signed_inside(folder, out);
    int rc = twin_model_envelope(folder, but, e, err);
    tw_free(but);
    return rc;
}

static int read_envelope(const char *path, struct twin_envelope *out, struct twin_error *err)
{
    char *text;
    size_t n;
    int rc = tw_read_file(path, TWIN_ENVELOPE_MAX, &text, &n, err);
    if (rc != 0)
        return rc;
    rc = twin_envelope_parse(text, n, path, false, out, err);
    tw_free(text);
    return rc;
}

/* ---- files */

/* FOLDER/ -> FOLDER.dsse.json */
static char *beside(const char *path, const char *suffix)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return tw_printf("%.*s%s", (int)n, path, suffix);
}

/* r: the run that the target stands for; NULL: none. */
static char *path_for(const struct tw_signing *s, const struct twin_run *r)
{
    if (s->out)
        return tw_strdup(s->out);
    if (s->add)
        return tw_strdup(s->target);
    if (r)
        return tw_path_join(r->dir, TWIN_RUN_ENVELOPE);
    return beside(s->target, s->model ? ".sig" : ".dsse.json");
}

int tw_signing_prepare(const struct tw_signing *s, struct twin_envelope *e, char **path,
                       struct twin_error *err)
{
    struct stat st;
    struct twin_run *r = NULL;
    const bool is_folder = stat(s->target, &st) == 0 && S_ISDIR(st.st_mode);
    int rc = s->add || s->model ? 0 : tw_signed_run(s->home, s->target, &r, err);
    *path = rc == 0 ? path_for(s, r) : NULL;
    if (rc == 0 && !*path)
        rc = tw_no_memory(err, "for the name of an envelope");
    else if (rc == 0 && s->add)
        rc = read_envelope(s->target, e, err);
    else if (rc == 0 && s->model)
        rc = model_of(s->target, *path, e, err);
    else if (rc == 0 && r)
        rc = twin_run_envelope(r, e, err);
    else if (rc == 0)
        rc = statement_of(s->target, is_folder, e, err);
    twin_run_free(r);
    return rc;
}

int tw_signing_text(const struct twin_envelope *e, bool model, char **text, size_t *bytes,
                    struct twin_error *err)
{
    return model ? twin_bundle_text(e, text, bytes, err) : twin_envelope_text(e, text, bytes, err);
}

int tw_signing_write(const char *path, const char *text, size_t bytes, bool replace,
                     struct twin_error *err)
{
    if (!replace && access(path, F_OK) == 0)
        return twin_error_set(
            err, TWIN_EIO,
            "%s is there already: -o FILE writes elsewhere, --add adds a signature to it", path);
    return tw_write_file_atomic(path, text, bytes, err);
}

/* ---- signatures */

int tw_envelope_sign_all(struct twin_envelope *e, const char *const *keys, size_t count, bool model,
                         struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct twin_key *k = NULL;
        rc = twin_key_open(keys[i], &k, err);
        if (rc == 0 && model && twin_key_algorithm(k) == TWIN_KEY_ED25519)
            rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                                "%s: model signatures are made with ECDSA keys, found ed25519",
                                keys[i]);
        rc = rc ? rc : twin_envelope_sign(e, k, err);
        twin_key_close(k);
    }
    return rc;
}

/* ---- runs that agreed */

int tw_signing_reproduced(const char *home, char *const *names, size_t count,
                          const struct twin_compare_options *o, struct twin_verdict **v,
                          struct twin_envelope *e, struct twin_error *err)
{
    struct twin_run **runs = tw_calloc(count, sizeof *runs);
    int rc = runs ? 0 : tw_no_memory(err, "for %zu runs", count);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = tw_signed_run(home, names[i], &runs[i], err);
        if (rc == 0 && !runs[i])
            rc = twin_error_set(err, TWIN_EINVAL,
                                "%s: expected a run, found a file or another folder", names[i]);
    }
    if (rc == 0)
        rc = twin_reproduced_envelope((const struct twin_run *const *)runs, count, o, v, e, err);
    for (size_t i = 0; runs && i < count; i++)
        twin_run_free(runs[i]);
    tw_free(runs);
    return rc;
}
