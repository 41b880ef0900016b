/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun sign: signs a file, a folder, a run, or that runs agreed; makes keys. What is signed and
 * where it goes is src/sign/signing.c's to say. Nothing is said to be signed before its envelope is
 * written.
 */
#include "say.h"
#include "options.h"

#include "base.h"
#include "phrase.h"
#include "signing.h"

#include "src/compare/compare.h"

#include <stdio.h>
#include <string.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct sign_args {
    struct tw_strings keys;
    const char *out, *new_key, *type;
    const char *tolerance, *home;
    bool public_key, add, model, reproduced, json;
};

#define FIELD(f) offsetof(struct sign_args, f)

static const struct tw_option options[] = {
    {"key", 'k', TW_OPT_LIST, "KEY", NULL, "Keys",
     "sign with it: a private key in a PEM file, pkcs11:..., or vault:NAME", FIELD(keys)},
    {"new-key", 0, TW_OPT_FILE, "PATH", NULL, "Keys", "make a key: PATH (private) and PATH.pub",
     FIELD(new_key)},
    {"type", 0, TW_OPT_STRING, "TYPE", "ecdsa-p256", "Keys",
     "of a new key: ecdsa-p256, ecdsa-p384, ecdsa-p521 or ed25519", FIELD(type)},
    {"public-key", 0, TW_OPT_FLAG, NULL, NULL, "Keys",
     "print the public half of --key, for those who verify", FIELD(public_key)},
    {"model", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "the operand is a folder with a model: write an OpenSSF model signature, which the client "
     "model_signing verifies",
     FIELD(model)},
    {"reproduced", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "the operands are runs: compare them, and state that they are the same, if they are",
     FIELD(reproduced)},
    {"tolerance", 0, TW_OPT_FILE, "FILE", NULL, "What",
     "with --reproduced: also runs within this tolerance (docs of check)", FIELD(tolerance)},
    {"add", 0, TW_OPT_FLAG, NULL, NULL, "What", "the operand is an envelope: add a signature to it",
     FIELD(add)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "What",
     "folder that holds the runs (default: $TWINRUN_HOME, else .twinrun)", FIELD(home)},
    {"out", 'o', TW_OPT_FILE, "FILE", NULL, "Output",
     "where to write (default: beside what is signed, with .dsse.json or, of a model, .sig behind "
     "its name; of a run, run.dsse.json in its folder); - for stdout",
     FIELD(out)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"FILE|FOLDER|RUN --key KEY [-o FILE]",
                                       "--model FOLDER --key KEY [-o FILE]",
                                       "--reproduced RUN RUN... --key KEY -o FILE",
                                       "--add ENVELOPE --key KEY",
                                       "--new-key PATH [--type TYPE]",
                                       "--public-key --key KEY",
                                       NULL};
static const struct tw_pair exits[] = {
    {"0", "signed"},
    {"1", "--reproduced: the runs differ; nothing was signed"},
    {"2",
     "trouble: bad use, a key that cannot sign, a file that cannot be read or is there already"},
    {"3", "--reproduced: it cannot be told whether the runs are the same; nothing was signed"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun sign --new-key team.key", "a key, and its public half in team.key.pub"},
    {"twinrun sign model.pt --key team.key", "a signature, in model.pt.dsse.json"},
    {"twinrun sign data --key team.key -o data.dsse.json",
     "each file of a folder, and that there are no others"},
    {"twinrun sign --model bert --key team.key",
     "a model's signature in bert.sig, for model_signing verify key"},
    {"twinrun sign model.pt --key "
     "'pkcs11:token=team;object=ci?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/"
     "run/pin'",
     "by a key that stays in its token"},
    {"twinrun sign model.pt --key vault:ci", "by a key that stays in a Vault"},
    {"twinrun sign last --key team.key",
     "how the last run came about (SLSA provenance), and all that it wrote"},
    {"twinrun sign --reproduced last~1 last --key team.key -o same.dsse.json",
     "that the last two runs are the same, if they are"},
    {"twinrun sign --add model.pt.dsse.json --key second.key",
     "a second signature in the same envelope"},
    {NULL, NULL},
};

/* ---- keys */

/* Makes a key and reads it again: a key that cannot be read is worth nothing. The exit code. */
static int new_key(const struct sign_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    enum twin_key_algorithm algorithm;
    struct twin_key *k = NULL;
    if (twin_key_algorithm_parse(a->type, &algorithm) != 0)
        return tw_bad_use(
            "sign", "--type: expected ecdsa-p256, ecdsa-p384, ecdsa-p521 or ed25519, found \"%s\"",
            a->type);
    int rc = twin_key_new(a->new_key, algorithm, &err);
    rc = rc ? rc : twin_key_open(a->new_key, &k, &err);
    if (rc != 0)
        return tw_trouble(&err, "no key was made");
    if (a->json)
        rc = tw_json_print(json_pack("{s:s, s:o, s:s, s:s}", "schema", "twinrun.sign/1", "key",
                                     tw_json_text(a->new_key), "type", a->type, "keyid",
                                     twin_key_id(k)));
    else
        tw_put("%s      private: keep it to yourself\n%s.pub  public: for those who verify\nkey id "
               "  %s (%s)\n",
               a->new_key, a->new_key, twin_key_id(k), a->type);
    twin_key_close(k);
    return rc;
}

/* Prints it as PEM: for keys in tokens and Vaults there is no file to copy. The exit code. */
static int public_key(const struct sign_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_key *k;
    if (a->keys.count != 1)
        return tw_bad_use("sign", "--public-key: expected one --key, found %zu", a->keys.count);
    if (twin_key_open(a->keys.items[0], &k, &err) != 0)
        return tw_trouble(&err, "no public key");
    tw_put_lines(stdout, twin_key_pem(k));
    twin_key_close(k);
    return 0;
}

/* ---- signing */

/* Says what was signed, and where that is. Nothing where the envelope itself is on stdout. */
static int report(const struct sign_args *a, const char *target, const char *path,
                  const struct twin_envelope *e)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < e->signature_count; i++)
        json_array_append_new(ids, tw_json_text(e->signature[i].keyid));
    /*
     * The last signature is the one that was just made; envelopes keep those of others before it.
     */
    if (a->json)
        return tw_json_print(json_pack("{s:s, s:o, s:o, s:o}", "schema", "twinrun.sign/1", "signed",
                                       tw_json_text(target), "envelope", tw_json_text(path),
                                       "keyids", ids));
    json_decref(ids);
    if (strcmp(path, "-") == 0)
        return 0;
    tw_put("signed  %s\n  in    %s, %zu signature%s\n  key   %s\n", target, path,
           e->signature_count, tw_plural_s(e->signature_count),
           e->signature[e->signature_count - 1].keyid);
    return 0;
}

/* To the file, or to stdout. */
static int write_out(const struct sign_args *a, const struct twin_envelope *e, const char *path,
                     struct twin_error *err)
{
    char *text;
    size_t n;
    int rc = tw_signing_text(e, a->model, &text, &n, err);
    if (rc != 0)
        return rc;
    if (strcmp(path, "-") != 0) {
        rc = tw_signing_write(path, text, n, a->add && !a->out, err);
    } else {
        /* exact bytes: an envelope for another program */
        size_t written = fwrite(text, 1, n, stdout);
        if (written != n || fflush(stdout) != 0)
            rc = twin_error_system(err, "cannot write to stdout");
    }
    tw_free(text);
    return rc;
}

/* Each key signs; written; said. The exit code. */
static int sign_envelope(const struct sign_args *a, const char *target, const char *path,
                         struct twin_envelope *e, struct twin_error *err)
{
    int rc = tw_envelope_sign_all(e, a->keys.items, a->keys.count, a->model, err);
    rc = rc ? rc : write_out(a, e, path, err);
    return rc ? tw_trouble(err, "nothing was signed") : report(a, target, path, e);
}

/* One target. The exit code. */
static int sign(const struct sign_args *a, const char *target)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_envelope e = {0};
    char *path = NULL;
    const struct tw_signing s = {
        .home = a->home, .target = target, .out = a->out, .add = a->add, .model = a->model};
    int rc = tw_signing_prepare(&s, &e, &path, &err);
    rc = rc ? tw_trouble(&err, "nothing was signed") : sign_envelope(a, target, path, &e, &err);
    twin_envelope_free(&e);
    tw_free(path);
    return rc;
}

/* ---- runs that agreed */

/* Runs that did not agree: no envelope, and the verdict's exit code. */
static int not_reproduced(const struct sign_args *a, const struct twin_verdict *v)
{
    /* A run that failed is no ground for a statement that anything was reproduced. */
    const char *why = "failed";
    int rc = TW_EXIT_TROUBLE;
    if (v->outcome == TWIN_DIFFER) {
        why = "differ";
        rc = TW_EXIT_DIFFER;
    } else if (v->outcome == TWIN_INCONCLUSIVE) {
        why = "cannot be told to be the same";
        rc = TW_EXIT_INCONCLUSIVE;
    }
    if (a->json) {
        int printed = tw_json_print(json_pack("{s:s, s:s, s:n}", "schema", "twinrun.sign/1",
                                              "outcome", twin_verdict_name(v->outcome),
                                              "envelope"));
        return printed ? printed : rc;
    }
    tw_say("nothing was signed: the runs %s; twinrun diff says where and why", why);
    return rc;
}

/* Compares the runs, and signs that they agree where they do. The exit code. */
static int reproduced(const struct sign_args *a, char *const *operands, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_envelope e = {0};
    struct twin_verdict *v = NULL;
    const struct twin_compare_options o = {.tolerance_file = a->tolerance};
    int rc = tw_signing_reproduced(a->home, operands, count, &o, &v, &e, &err);
    if (rc != 0)
        rc = tw_trouble(&err, "nothing was signed");
    else if (!e.payload)
        rc = not_reproduced(a, v);
    else
        rc = sign_envelope(a,
                           v->outcome == TWIN_SAME ? "that the runs are the same"
                                                   : "that the runs agree within the tolerance",
                           a->out, &e, &err);
    twin_verdict_free(v);
    twin_envelope_free(&e);
    return rc;
}

/* Which options go together. -1: they do; else the exit code of a complaint. */
static int refuse_options(const struct sign_args *a, const struct tw_operands *given)
{
    if ((a->new_key || a->public_key) && given->count > 0)
        return tw_bad_use("sign", "%s takes no operand, found \"%s\"",
                          a->new_key ? "--new-key" : "--public-key", given->items[0]);
    if (a->new_key && (a->keys.count || a->public_key))
        return tw_bad_use("sign",
                          "--new-key makes a key; it does not go with --key or --public-key");
    /* The rest is about signing. */
    if (a->new_key || a->public_key)
        return -1;
    if (a->reproduced ? given->count < 2 : given->count != 1)
        return tw_bad_use("sign",
                          a->reproduced ? "--reproduced: expected two runs or more, found %zu"
                                        : "expected one file, folder or run, found %zu",
                          given->count);
    if (a->keys.count == 0)
        return tw_bad_use("sign", "expected --key KEY; twinrun sign --new-key PATH makes one");
    if (a->tolerance && !a->reproduced)
        return tw_bad_use("sign", "--tolerance belongs to --reproduced");
    if (a->reproduced && (!a->out || a->add || a->model))
        return tw_bad_use("sign",
                          a->out ? "--reproduced does not go with --add or --model"
                                 : "--reproduced: expected -o FILE: it belongs to no single run");
    if (!a->reproduced && a->model && (a->add || a->keys.count != 1))
        return tw_bad_use("sign",
                          "--model: a model's signature is of one key, and nothing is added to it");
    return -1;
}

static int run(int argc, char **argv)
{
    struct sign_args a = {0};
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_sign, argc, argv, &a, &given);
    if (rc < 0)
        rc = refuse_options(&a, &given);
    if (rc >= 0)
        return rc;
    if (a.new_key)
        return new_key(&a);
    if (a.public_key)
        return public_key(&a);
    return a.reproduced ? reproduced(&a, given.items, given.count) : sign(&a, given.items[0]);
}

const struct tw_command tw_command_sign = {
    "sign",
    "sign a file, a folder, a run, or that runs are the same; make keys",
    synopsis,
    "Writes an envelope (DSSE) with an in-toto statement: the SHA-256 of the file, or of each file "
    "of the folder, and a signature over it. The thing itself is not changed. The same bytes give "
    "the same statement at any time. Of a run: SHA-256 of all that is in its folder and of the "
    "files that the job wrote, the hash over all that was observed, digests of checkpoints' "
    "tensors, and how it came about as SLSA provenance v1 (arguments and configuration; "
    "environment, seeds and topology; code, programs, data and libraries with their digests).\n\n"
    "An encrypted key's passphrase is taken from TWINRUN_KEY_PASSPHRASE, or from the first line of "
    "the file that TWINRUN_KEY_PASSPHRASE_FILE names; a new key is encrypted when one of them is "
    "set.\n\n"
    "A key in a token: pkcs11:token=LABEL;object=LABEL?module-path=LIBRARY&pin-source=file:PATH "
    "(RFC 7512; the library may also stand in TWINRUN_PKCS11_MODULE). A key in a HashiCorp Vault's "
    "transit engine: vault:[MOUNT/]NAME[?version=N], with VAULT_ADDR, VAULT_TOKEN (or "
    "VAULT_TOKEN_FILE, or ~/.vault-token), VAULT_NAMESPACE, VAULT_CACERT, VAULT_CAPATH and "
    "VAULT_CLIENT_TIMEOUT as in Vault's own client. Signatures that come back are verified before "
    "they are written.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
