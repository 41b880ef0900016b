/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun verify: says whether a file, folder, run or package is still what it was said to be.
 *
 * What a target is, is told from the target: the first row of kinds[] that takes it for its own
 * verifies it (verify_data.c, verify_package.c, verify_signed.c). Only --precision is about a run,
 * and is asked for by its option.
 */
#include "options.h"
#include "precision_words.h"
#include "runs.h"
#include "say.h"
#include "terminal.h"
#include "verify.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_verify_args, f)

static const struct tw_option options[] = {
    {"quick", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "do not read files again that look as they did when they were last read", FIELD(quick)},
    {"key", 'k', TW_OPT_LIST, "PUB", NULL, "Signatures",
     "a public key (PEM) that must have signed; each one must have", FIELD(keys)},
    {"trust", 't', TW_OPT_FILE, "FILE", NULL, "Signatures",
     "a trust.toml: k of n keys, their validity, revoked ones", FIELD(trust)},
    {"at", 0, TW_OPT_STRING, "TIME", NULL, "Signatures",
     "check validity against this time (UTC: 2026-11-21 or 2026-11-21T08:00:00Z), at which you "
     "know the signature to have existed",
     FIELD(at)},
    {"foreign", 0, TW_OPT_FLAG, NULL, NULL, "Signatures",
     "also take an envelope in the form of another tool: any JSON, both base64 alphabets, other "
     "key ids",
     FIELD(foreign)},
    {"precision", 'p', TW_OPT_FILE, "FILE", NULL, "Precision",
     "the target is a run: did its types, autocast regions, gradient scaling and switches keep to "
     "this policy (docs/precision.md)?",
     FIELD(precision)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Signatures",
     "folder that holds the runs (default: $TWINRUN_HOME, else .twinrun)", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {
    "SNAPSHOT [DIR] [options]",      "PACKAGE [--key PUB]",  "FILE.dvc|dvc.lock [options]",
    "POINTER [FILE] [options]",      "DIR [options]",        "ENVELOPE --key PUB SUBJECT",
    "ENVELOPE --trust FILE SUBJECT", "RUN --precision FILE", NULL};
static const struct tw_pair exits[] = {
    {"0", "everything is as recorded; the precision policy was kept"},
    {"1", "something is not: each thing is named; or a signature is wrong, or does not count; or "
          "the policy was broken"},
    {"2", "trouble: bad use, a target that is damaged or of an unknown kind, a file that cannot be "
          "read"},
    {"3", "inconclusive: the signatures are good, but what they are about was not given; or the "
          "run does not show all that the policy speaks of"},
    {"130", "interrupted"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun verify data.snapshot", "does the folder data still hold what the manifest says?"},
    {"twinrun verify data.snapshot /mnt/copy", "does another one?"},
    {"twinrun verify data.dvc", "is the data what DVC's file says?"},
    {"twinrun verify ~/.cache/huggingface/hub/models--gpt2",
     "are the downloaded files what their names say?"},
    {"twinrun verify model.pt.dsse.json --key team.pub model.pt",
     "is this the file that the team signed?"},
    {"twinrun verify run.dsse.json --key ci.pub RUN",
     "a run's provenance: is its folder what it was then?"},
    {"twinrun verify run.dsse.json --key ci.pub model.pt",
     "is this checkpoint one that the signed run wrote?"},
    {"twinrun verify data.dsse.json --trust trust.toml data",
     "did two of three sign this folder, with keys that are valid now?"},
    {"twinrun verify last --precision policy.toml",
     "did the last run keep to the precision policy?"},
    {NULL, NULL},
};

/* The first kind that takes the target for its own verifies it. */
static const struct tw_verify_kind *const kinds[] = {&tw_verify_package,     &tw_verify_snapshot,
                                                     &tw_verify_dvc,         &tw_verify_lfs,
                                                     &tw_verify_huggingface, &tw_verify_signed};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Opened without waiting (a pipe has no writer) and without making a terminal ours. NULL: err says
 * what was expected. */
static const struct tw_verify_kind *kind_of(const char *target, struct twin_error *err)
{
    struct stat st;
    char head[4097];
    ssize_t n = 0;
    int fd = open(target, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0 ||
        (!S_ISDIR(st.st_mode) && (n = tw_pread_all(fd, head, sizeof head - 1, 0)) < 0)) {
        twin_error_system(err, "cannot read %s", target);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    close(fd);
    head[n] = '\0';
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i]->is(target, S_ISDIR(st.st_mode) ? NULL : head, (size_t)n))
            return kinds[i];
    struct tw_buf names = {0};
    for (size_t i = 0; i < KINDS; i++) {
        if (i > 0)
            tw_buf_puts(&names, i + 1 == KINDS ? " or " : ", ");
        tw_buf_puts(&names, kinds[i]->name);
    }
    twin_error_set(err, TWIN_EFORMAT, "%s: expected %s, found %s", target,
                   names.data ? names.data : "?",
                   S_ISDIR(st.st_mode) ? "another folder" : "another file");
    tw_buf_free(&names);
    return NULL;
}

/* ---- a run, held against a policy of precisions */

/* Did the run keep to it? The exit code. */
static int verify_precision(const char *target, const struct tw_verify_args *a)
{
    static const int codes[] = {TW_EXIT_SAME, TW_EXIT_DIFFER, TW_EXIT_INCONCLUSIVE,
                                TW_EXIT_INCONCLUSIVE};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_precision_policy *p;
    struct twin_precision_verdict v;
    if (twin_precision_read(a->precision, &p, &err) != 0)
        return tw_trouble(&err, "verify: no policy");
    char *home = tw_home(a->home);
    struct twin_run *run = home ? tw_run_open(home, target) : NULL;
    int rc = run ? twin_precision_check(p, run, &v, &err) : TW_EXIT_TROUBLE;
    if (run && rc != 0)
        rc = tw_trouble(&err, "verify: the run was not judged");
    if (run && rc == 0) {
        if (a->json)
            rc = tw_json_print(tw_precision_json(&v, a->precision, run));
        else if (tw_precision_text(stdout, &v, a->precision, run) != 0)
            rc = tw_trouble(NULL, "verify: no memory for the answer");
        rc = rc ? rc : codes[v.outcome];
        twin_precision_verdict_free(&v);
    }
    twin_run_free(run);
    tw_free(home);
    twin_precision_free(p);
    return rc;
}

static int run(int argc, char **argv)
{
    struct tw_verify_args a = {0};
    struct tw_operands given;
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_options_parse(&tw_command_verify, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    if (given.count == 0)
        return tw_bad_use("verify", "expected what is to be verified, found nothing");
    tw_progress_setup(a.quiet);
    /* A policy is about one run, and about nothing that other kinds have. */
    if (a.precision && (given.count > 1 || a.keys.count || a.trust || a.at || a.foreign || a.quick))
        return tw_bad_use(
            "verify", "--precision takes one run and goes with --home, --json and --quiet only");
    if (a.precision)
        return verify_precision(given.items[0], &a);
    const struct tw_verify_kind *kind = kind_of(given.items[0], &err);
    if (!kind)
        return tw_trouble(&err, "verify");
    /* Whom one trusts must not be asked for and then not looked at. */
    if (kind != &tw_verify_package && kind != &tw_verify_signed &&
        (a.keys.count || a.trust || a.at || a.foreign))
        return tw_bad_use(
            "verify", "--key, --trust, --at and --foreign are for signatures; there are none in %s",
            given.items[0]);
    if (given.count > kind->most)
        return tw_bad_use("verify", "%s takes at most %zu operands, found %zu", kind->name,
                          kind->most, given.count);
    return kind->verify(given.items, given.count, &a);
}

const struct tw_command tw_command_verify = {
    "verify",
    "say whether a file, folder, run or package is still what it was said to be",
    synopsis,
    "A snapshot's manifest: every file of the folder is read and compared; each that was added, is "
    "missing or has changed is named. The folder is the manifest's name without .snapshot unless "
    "DIR is given. Other permission bits, or a link where a file was, are noted and do not "
    "count.\n\n"
    "A package of twinrun pack: every file is held against its manifest, and nothing may lie there "
    "besides: no link, no file that is not listed. With --key or --trust its signature must be "
    "there, too. Nothing of a package is executed.\n\n"
    "Data of other tools, each by its own digest: outputs and dependencies of a .dvc file or "
    "dvc.lock (MD5); a pointer of Git LFS against FILE or the object in .git/lfs; a folder of "
    "Hugging Face's cache, or one snapshot in it, whose blobs are named by their hashes.\n\n"
    "An envelope of twinrun sign: all of this must hold. It is in its one canonical form; the "
    "signatures that are asked for are there and fit its bytes; the SUBJECT has the digests that "
    "were signed; a folder holds no file besides. What is not trusted is not read. No trusted "
    "timestamp is in an envelope: validity of keys is checked against this machine's clock, or "
    "against --at.\n\n"
    "A run, with --precision: each rule of the policy is kept, broken (with step, tensor and "
    "source line), or unknown because the run does not show what it speaks of.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
