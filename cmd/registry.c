/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun registry VERB: which version of a model is where, who said so, and on what evidence. The
 * log of signed entries and all rules are src/registry's; here are options in and words out.
 *
 * What this home has seen of a registry is kept in HOME/registries/ID: number and digest of the
 * last entry. So a log that was cut, forked or written anew since is noticed by whoever looked
 * before.
 */
#include "registry.h"

#include "runs.h"
#include "say.h"

#include "base.h"
#include "phrase.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIELD(f) offsetof(struct tw_registry_args, f)

static const struct tw_option options[] = {
    {"registry", 'r', TW_OPT_DIR, "DIR", NULL, "Where",
     "the registry's folder, s3://BUCKET/PREFIX, or oci://HOST:PORT/NAME, a container registry "
     "(default: $TWINRUN_REGISTRY)",
     FIELD(registry)},
    {"into", 'o', TW_OPT_FILE, "PATH", NULL, "Where",
     "of get and rollback: a path that is not there yet, for the artifact", FIELD(into)},
    {"oci", 0, TW_OPT_FLAG, NULL, NULL, "Where",
     "of get: write an OCI image layout, which skopeo and oras bring to a container registry",
     FIELD(oci)},
    {"encrypt", 0, TW_OPT_LIST, "RECIPIENT", NULL, "Encryption",
     "of init: files lie encrypted in the store, for age:RECIPIENT (the program age) or "
     "openssl:PUBKEY.pem (a public key of X25519 or RSA)",
     FIELD(encrypt)},
    {"identity", 'i', TW_OPT_LIST, "FILE", NULL, "Encryption",
     "opens them: an identity file of age, or a private key in a PEM file", FIELD(identities)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Where",
     "folder that keeps what was seen of the registry, and the ledger (default: $TWINRUN_HOME, "
     "else .twinrun)",
     FIELD(home)},
    {"key", 'k', TW_OPT_LIST, "KEY", NULL, "Signatures",
     "sign the entry with it: a private key in a PEM file, pkcs11:..., or vault:NAME", FIELD(keys)},
    {"trust", 't', TW_OPT_FILE, "FILE", NULL, "Signatures",
     "a trust.toml: k of n keys, their validity, revoked ones (default: "
     "$TWINRUN_REGISTRY_TRUST)",
     FIELD(trust)},
    {"pub", 0, TW_OPT_LIST, "PUB", NULL, "Signatures",
     "in place of --trust: a public key (PEM) that must have signed; each one must have",
     FIELD(trusted)},
    {"evidence", 'e', TW_OPT_LIST, "PATH", NULL, "What",
     "of add, attach and canary: an envelope of twinrun sign, the JSON of a verdict, or the folder "
     "of a package",
     FIELD(evidence)},
    {"policy", 'p', TW_OPT_FILE, "FILE", NULL, "What",
     "of init: what a promotion takes (docs/registry.md); of promote, where the registry has none "
     "of its own or with --dry-run",
     FIELD(policy)},
    {"to", 0, TW_OPT_STRING, "STAGE", NULL, "What",
     "of promote: canary or production (default: the next one)", FIELD(to)},
    {"why", 'm', TW_OPT_STRING, "TEXT", NULL, "What", "the reason, which the entry keeps",
     FIELD(why)},
    {"rerun", 0, TW_OPT_FLAG, NULL, NULL, "Rollback",
     "of rollback: replay the version's package, too, and go on only if the same comes out",
     FIELD(rerun)},
    {"data", 'd', TW_OPT_LIST, "DIR", NULL, "Rollback",
     "with --rerun: where the data are that the package names", FIELD(data)},
    {"environment", 0, TW_OPT_STRING, "HOW", NULL, "Rollback",
     "with --rerun: check, build or here, as for replay", FIELD(environment)},
    {"python", 0, TW_OPT_FILE, "PROGRAM", NULL, "Rollback",
     "with --rerun, and of mirror: the interpreter", FIELD(python)},
    {"pip-option", 0, TW_OPT_LIST, "OPTION", NULL, "Rollback", "with --rerun: hand this to pip",
     FIELD(pip)},
    {"container", 'c', TW_OPT_STRING, "ENGINE", NULL, "Rollback",
     "with --rerun: in the package's container image, as for replay", FIELD(container)},
    {"image", 0, TW_OPT_STRING, "IMAGE", NULL, "Rollback",
     "with --container: use this image, as for replay", FIELD(image)},
    {"fetch", 0, TW_OPT_FLAG, NULL, NULL, "Rollback",
     "with --rerun: download what the package names and does not hold", FIELD(fetch)},
    {"mlflow", 0, TW_OPT_STRING, "URL", NULL, "Mirror",
     "of mirror: the MLflow server whose aliases are held against the log", FIELD(mlflow)},
    {"push", 0, TW_OPT_FLAG, NULL, NULL, "Mirror",
     "of mirror: make MLflow say what the signed log says", FIELD(push)},
    {"pull", 0, TW_OPT_FLAG, NULL, NULL, "Mirror",
     "of mirror: promote what MLflow's aliases name, if the policy is met (--key signs)",
     FIELD(pull)},
    {"contents", 0, TW_OPT_FLAG, NULL, NULL, "Verify",
     "of verify: read every file of every version, too", FIELD(contents)},
    {"older-than", 0, TW_OPT_DAYS, "DAYS", "90", "Removal",
     "of gc: versions that have been retired for so long", FIELD(older)},
    {"keep", 0, TW_OPT_COUNT, "N", "3", "Removal",
     "of gc: the newest N of each model that were in production stay", FIELD(keep)},
    {"strays", 0, TW_OPT_DAYS, "DAYS", "1", "Removal",
     "of gc: contents that no entry names, and that were brought so long ago", FIELD(strays)},
    {"dry-run", 'n', TW_OPT_FLAG, NULL, NULL, "Output",
     "of promote and gc: say what would be done, and write nothing", FIELD(dry_run)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

/* ---- opening */

/* Whom to trust: --trust, --pub, or the environment. NULL with 0: nobody was named. */
static int trust_of(const struct tw_registry_args *a, struct twin_trust **out,
                    struct twin_error *err)
{
    const char *from = a->trust;
    *out = NULL;
    if (a->trust && a->trusted.count)
        return twin_error_set(err, TWIN_EINVAL, "--trust and --pub: expected one of them");
    if (!from && !a->trusted.count)
        from = getenv("TWINRUN_REGISTRY_TRUST");
    if (from && *from)
        return twin_trust_read(from, out, err);
    return a->trusted.count ? twin_trust_keys((char *const *)(uintptr_t)a->trusted.items,
                                              a->trusted.count, out, err)
                            : 0;
}

/* HOME/registries/ID; NULL: no memory, or no such home. */
static char *memory_path(const struct tw_registry_use *u)
{
    struct stat st;
    char *home = tw_home(u->a->home);
    char *path = home && stat(home, &st) == 0 ? tw_printf("%s/registries/%s", home, u->r.id) : NULL;
    tw_free(home);
    return path;
}

/* What this home has seen: "NUMBER DIGEST". A memory that cannot be read is a fault, too: it may be
 * what would have told. */
static int remember(struct tw_registry_use *u, struct twin_error *err)
{
    char *path = memory_path(u), *text = NULL, digest[65];
    struct twin_error why = TWIN_ERROR_INIT;
    unsigned long long number = 0;
    size_t n = 0;
    if (!path)
        return 0;
    int rc = tw_read_file(path, 4096, &text, &n, &why);
    if (rc == 0 &&
        (sscanf(text, "%20llu %64[0-9a-f]", &number, digest) != 2 || !tw_is_hex(digest, 64)))
        rc = tw_registry_fault(&u->r, 0, err, "%s: expected a number and a digest", path);
    else if (rc == 0)
        rc = tw_registry_remember(&u->r, number, digest, "this home", err);
    else if (rc == TWIN_ENOENT)
        rc = 0;
    else
        rc = tw_registry_fault(&u->r, 0, err, "%s", why.message);
    tw_free(text);
    tw_free(path);
    return rc;
}

/* Keeps the head, where nothing is wrong with what leads to it. Trouble is said and harms nothing
 * else: the entry is written. */
static void keep_memory(const struct tw_registry_use *u)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *path = memory_path(u), *folder = NULL;
    if (!path || u->r.faults > 0 || !u->r.judged || !u->r.count) {
        tw_free(path);
        return;
    }
    char *text = tw_printf("%zu %s\n", u->r.count, tw_registry_head(&u->r));
    folder = tw_strndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = text && folder ? tw_mkdirs(folder, &err) : tw_no_memory(&err, "for a registry");
    rc = rc ? rc : tw_write_file_atomic(path, text, strlen(text), &err);
    if (rc != 0)
        tw_say("what was seen of the registry is not kept: %s", err.message);
    tw_free(text);
    tw_free(folder);
    tw_free(path);
}

static const char *where(const struct tw_registry_args *a)
{
    const char *r = a->registry ? a->registry : getenv("TWINRUN_REGISTRY");
    return r && *r ? r : NULL;
}

int tw_registry_begin(const char *verb, const struct tw_registry_args *a, struct tw_registry_use *u)
{
    struct twin_error err = TWIN_ERROR_INIT;
    *u = (struct tw_registry_use){.a = a, .verb = verb};
    if (!where(a))
        return tw_bad_use("registry", "expected --registry DIR, or TWINRUN_REGISTRY");
    int rc = trust_of(a, &u->trust, &err);
    rc = rc ? rc : tw_registry_open(where(a), u->trust, &u->r, &err);
    if (rc != 0) {
        twin_trust_free(u->trust);
        return tw_trouble(&err, "registry %s", verb);
    }
    rc = remember(u, &err);
    if (rc == 0) {
        keep_memory(u);
        return -1;
    }
    tw_registry_end(u);
    return tw_trouble(&err, "registry %s", verb);
}

void tw_registry_end(struct tw_registry_use *u)
{
    tw_registry_close(&u->r);
    twin_trust_free(u->trust);
}

int tw_registry_put_json(const struct tw_registry_use *u, json_t *o)
{
    if (!u->told)
        return tw_json_print(o);
    return o && json_array_append_new(u->told, o) == 0
               ? 0
               : tw_trouble(NULL, "registry %s: no memory", u->verb);
}

int tw_registry_written(struct tw_registry_use *u, const char *said)
{
    const struct tw_entry *e = &u->r.entry[u->r.count - 1];
    keep_memory(u);
    char *subject = tw_printf("%s@%llu", e->model ? e->model : "registry",
                              (unsigned long long)e->version);
    if (subject)
        tw_ledger_note_event(u->a->home, "registry", u->verb, subject);
    tw_free(subject);
    if (u->a->json)
        return tw_registry_put_json(
            u, json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:I, s:s}", "schema", "twinrun.registry/1",
                         "verb", u->verb, "entry", (json_int_t)e->number, "digest", e->digest,
                         "kind", tw_entry_kind_name(e->kind), "model", tw_json_text(e->model),
                         "version", (json_int_t)e->version, "said", said));
    tw_put("%s\n  entry   %llu (%.12s)\n", said, (unsigned long long)e->number, e->digest);
    return 0;
}

/* ---- dispatch */

static int init(const struct tw_registry_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (!where(a))
        return tw_bad_use("registry", "init: expected --registry DIR, or TWINRUN_REGISTRY");
    int rc = tw_registry_make(where(a), a->policy, &a->encrypt, a->why ? a->why : "", a->keys.items,
                              a->keys.count, &err);
    if (rc == TWIN_EBUSY) {
        err = (struct twin_error)TWIN_ERROR_INIT;
        twin_error_set(&err, rc, "%s is a registry already", where(a));
    }
    if (rc != 0)
        return tw_trouble(&err, "registry init: nothing was made");
    if (a->json)
        return tw_json_print(json_pack("{s:s, s:s, s:o}", "schema", "twinrun.registry/1", "verb",
                                       "init", "registry", tw_json_text(where(a))));
    tw_put("registry %s\n  policy  %s\n", where(a),
           a->policy ? a->policy
                     : "none: promote takes "
                       "--policy FILE");
    return 0;
}

static const struct tw_registry_verb *find_verb(const char *name)
{
    const struct tw_registry_verb *const lists[] = {tw_registry_acts, tw_registry_views};
    for (size_t i = 0; i < 2; i++)
        for (const struct tw_registry_verb *v = lists[i]; v->name; v++)
            if (strcmp(v->name, name) == 0)
                return v;
    return NULL;
}

static int run(int argc, char **argv)
{
    struct tw_registry_args a = {0};
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_registry, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    const char *name = given.count ? given.items[0] : "";
    json_t *why = a.why ? json_string(a.why) : json_null();
    if (!why)
        return tw_bad_use("registry", "--why: expected text in UTF-8");
    json_decref(why);
    if (strcmp(name, "init") == 0 && given.count == 1)
        return init(&a);
    const struct tw_registry_verb *v = find_verb(name);
    if (!v)
        return tw_bad_use("registry",
                          "expected init, add, attach, promote, canary, retire, rollback, hold, "
                          "release, vouch, policy, gc, mirror, ls, show, log, get or "
                          "verify, found \"%s\"",
                          name);
    if (given.count - 1 < v->least || given.count - 1 > v->most)
        return tw_bad_use("registry", "%s: expected %zu to %zu operands behind it, found %zu", name,
                          v->least, v->most, given.count - 1);
    if (a.dry_run && strcmp(name, "promote") != 0 && strcmp(name, "gc") != 0)
        return tw_bad_use("registry", "%s knows no --dry-run: promote and gc do", name);
    if (a.encrypt.count)
        return tw_bad_use("registry", "%s knows no --encrypt: init does", name);
    if ((a.mlflow || a.push || a.pull) && strcmp(name, "mirror") != 0)
        return tw_bad_use("registry", "%s knows no --mlflow, --push, --pull: mirror does", name);
    if (a.oci && strcmp(name, "get") != 0)
        return tw_bad_use("registry", "%s knows no --oci: get does", name);
    if (v->writes && !a.keys.count && !a.dry_run)
        return tw_bad_use("registry", "%s writes an entry: expected --key KEY that signs it", name);
    return v->run(&a, given.items + 1, given.count - 1);
}

static const char *const synopsis[] = {"init --key KEY [--policy FILE]",
                                       "add MODEL PATH --key KEY [--evidence PATH]...",
                                       "attach MODEL@N --evidence PATH --key KEY",
                                       "promote MODEL[@N] --key KEY [--to STAGE] [--dry-run]",
                                       "canary MODEL passed|failed --key KEY",
                                       "rollback MODEL[@N] --into PATH --key KEY [--rerun]",
                                       "retire|hold|release MODEL@N --key KEY --why TEXT",
                                       "ls [MODEL]",
                                       "show MODEL@N|MODEL@STAGE",
                                       "log",
                                       "get MODEL@N|MODEL@STAGE --into PATH [--oci]",
                                       "verify [--contents]",
                                       "gc --key KEY [--older-than DAYS] [--keep N] [--dry-run]",
                                       "vouch --key KEY --why TEXT",
                                       "policy FILE --key KEY --why TEXT",
                                       "mirror [MODEL] --mlflow URL [--push|--pull --key KEY]",
                                       NULL};
static const struct tw_pair exits[] = {
    {"0", "done; verify: nothing is wrong"},
    {"1", "promote: the policy is not met, and nothing was promoted; verify: something is wrong; "
          "rollback --rerun: something else came out, and nothing was rolled back; mirror: MLflow "
          "does not say what the log says"},
    {"2", "trouble: bad use, a registry that cannot be read or that is not to be trusted, somebody "
          "else was faster; rollback --rerun: the version cannot be run again (its environment, "
          "image, data or package are not to be had, or its job fails), and nothing was rolled "
          "back"},
    {"3", "verify: the chain is whole, but nobody was named whose signatures count; rollback "
          "--rerun: it cannot be told whether the same came out"},
    {"130", "interrupted"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun registry init -r models --key team.key --policy promote.toml", "a new registry"},
    {"twinrun registry add -r models resnet model.pt --key ci.key --trust trust.toml -e "
     "same.dsse.json",
     "a version, with the statement that its runs agreed"},
    {"twinrun registry promote -r models resnet@3 --key ana.key --trust trust.toml",
     "to the next stage, if the policy is met"},
    {"twinrun registry rollback -r models resnet --into model.pt --key ana.key --trust trust.toml",
     "the version that was in production before, back, and proven to be it"},
    {"twinrun registry verify -r models --trust trust.toml --contents",
     "is the log whole, and is every file what it was?"},
    {NULL, NULL},
};

const struct tw_command tw_command_registry = {
    "registry",
    "promote, roll back and verify versions of models, by a signed log",
    synopsis,
    "A version is a file or a folder, named by the digest of what it holds. Its stage (candidate, "
    "canary, production, retired) is what a log of signed entries says, each of which names the "
    "digest of the one before: so an entry that was changed, taken away, put elsewhere or signed "
    "again is found by verify, and by every verb that writes. What a promotion takes stands in a "
    "policy: runs that agree, signatures, evidence, time as a canary.\n\n"
    "Of two who write at once one succeeds; the other is told what was added meanwhile, and has "
    "written nothing. A verb that is killed has done its work or has not.\n\n"
    "What this home has seen of a registry is kept in HOME/registries, so that a log that is "
    "shorter or another one than before is noticed, too, though its chain is whole.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
