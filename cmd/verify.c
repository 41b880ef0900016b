/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun verify: is it still what it was said to be? */
#include "verify.h"

#include "options.h"
#include "say.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_verify_args, f)

static const struct tw_option options[] = {
    {"key", 'k', TW_OPT_LIST, "PUB", NULL, "Trust", "a public key (PEM) that must have signed; may be repeated: each must have", FIELD(keys)},
    {"trust", 't', TW_OPT_FILE, "FILE", NULL, "Trust", "a trust.toml: k of n keys, their validity, revoked ones", FIELD(trust)},
    {"at", 0, TW_OPT_STRING, "TIME", NULL, "Trust", "check validity against this time (UTC: 2026-11-21 or 2026-11-21T08:00:00Z), at which you know the signature to have existed", FIELD(at)},
    {"foreign", 0, TW_OPT_FLAG, NULL, NULL, "Trust", "also take an envelope in the form of another tool: any JSON, both base64 alphabets, other key ids", FIELD(foreign)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"ENVELOPE --key PUB SUBJECT...", "ENVELOPE --trust FILE SUBJECT...", NULL};
static const struct tw_pair exits[] = {
    {"0", "verified"},
    {"1", "failed: a signature that is wrong or does not count, something that is not what was signed"},
    {"2", "trouble: bad use, a file that cannot be read or is not in its form"},
    {"3", "inconclusive: the signatures are good, but something signed was not given to compare"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun verify model.pt.dsse.json --key team.pub model.pt", "is this the file that the team signed?"},
    {"twinrun verify data.dsse.json --trust trust.toml data", "did two of three sign this folder, with keys that are valid now?"},
    {NULL, NULL},
};

/* The first kind that takes the target for its own verifies it. */
static const struct tw_verify_kind *const kinds[] = {&tw_verify_signed};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const struct tw_verify_kind *kind_of(const char *target, struct twin_error *err)
{
    struct stat st;
    char head[4097];
    ssize_t n = 0;
    int fd = open(target, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0 || (!S_ISDIR(st.st_mode) && (n = tw_pread_all(fd, head, sizeof head - 1, 0)) < 0)) {
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
    for (size_t i = 0; i < KINDS; i++)
        tw_buf_printf(&names, "%s%s", i == 0 ? "" : i + 1 == KINDS ? " or " : ", ", kinds[i]->name);
    twin_error_set(err, TWIN_EFORMAT, "%s: expected %s, found %s", target, names.data ? names.data : "?", S_ISDIR(st.st_mode) ? "another folder" : "another file");
    tw_buf_free(&names);
    return NULL;
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
    const struct tw_verify_kind *kind = kind_of(given.items[0], &err);
    if (!kind)
        return tw_trouble(&err, "verify");
    if (given.count > kind->most)
        return tw_bad_use("verify", "%s takes at most %zu operands, found %zu", kind->name, kind->most, given.count);
    return kind->verify(given.items, given.count, &a);
}

const struct tw_command tw_command_verify = {
    "verify",
    "is it what was signed, and by whom?",
    synopsis,
    "ENVELOPE holds what twinrun sign wrote: the digests of a file, of a folder's files or of a run, and signatures over them. All of this must hold: "
    "it is in its one canonical form; the signatures that are asked for are there and fit its bytes; each thing that was signed is given as a SUBJECT and has the "
    "digest that was signed; a folder has no file besides. What is not trusted is not read.\n\n"
    "No trusted timestamp is in an envelope: validity of keys is checked against this machine's clock, or against --at.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
