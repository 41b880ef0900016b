/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun replay: runs a package again in a fresh folder, and says whether the same came out.
 *
 * The order is what makes it safe: the package is verified into a private copy, only that copy is
 * used afterwards, and nothing of it is started before. Then code, data and environment are laid
 * out (src/package), the job is run as it was recorded, and what it computed is held against what
 * the first run did. A folder that was made for nothing is taken away again.
 */
#include "replay.h"
#include "say.h"
#include "options.h"
#include "verify.h"
#include "terminal.h"
#include "replay_words.h"
#include "runs.h"
#include "trial.h"
#include "verdict.h"
#include "verify_words.h"

#include "base.h"
#include "phrase.h"

#include "src/package/pack.h"
#include "src/package/package.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct tw_replay_args, f)

static const struct tw_option options[] = {
    {"into", 'o', TW_OPT_DIR, "FOLDER", NULL, "Where",
     "new folder to run it in (default: PACKAGE-replay beside the package)", FIELD(into)},
    {"data", 'd', TW_OPT_LIST, "DIR", NULL, "With what",
     "where the data are that the package names (NAME=DIR when it names several); they are "
     "verified first",
     FIELD(data)},
    {"fetch", 0, TW_OPT_FLAG, NULL, NULL, "With what",
     "download what the package names and does not hold: data of its fetch.txt, its image",
     FIELD(fetch)},
    {"environment", 'e', TW_OPT_STRING, "HOW", "check", "With what",
     "check: run only if the packages here are those of the lock list; build: make a fresh virtual "
     "environment from that list with pip; here: run with what is here, and name the differences",
     FIELD(environment)},
    {"python", 0, TW_OPT_FILE, "PROGRAM", NULL, "With what",
     "the interpreter to use, or to make the environment with (default: the one in PATH that fits "
     "best)",
     FIELD(python)},
    {"pip-option", 0, TW_OPT_LIST, "OPTION", NULL, "With what",
     "hand this to pip (--pip-option=--no-index --pip-option=--find-links=DIR)", FIELD(pip)},
    {"container", 'c', TW_OPT_STRING, "ENGINE", NULL, "Container",
     "run it in the image that the package names, by its digest: docker, podman, apptainer, bwrap "
     "(bubblewrap), chroot, or auto: the first of these that is here",
     FIELD(container)},
    {"image", 'i', TW_OPT_STRING, "IMAGE", NULL, "Container",
     "use this image: oci:DIR[:TAG] (a layout), or a reference that skopeo fetches; the verdict "
     "says when it is not the package's",
     FIELD(image)},
    {"gpus", 0, TW_OPT_STRING, "WHICH", "auto", "Container",
     "all, none, or auto: all where the recorded run had one", FIELD(gpus)},
    {"network", 0, TW_OPT_FLAG, NULL, NULL, "Container", "let the job use this machine's network",
     FIELD(network)},
    {"print", 0, TW_OPT_FLAG, NULL, NULL, "Container",
     "print the command lines that would start the container, and run nothing", FIELD(print)},
    {"tolerance", 't', TW_OPT_FILE, "FILE", NULL, "Comparison",
     "also judge by these tolerances; the bitwise verdict is shown too", FIELD(tolerance)},
    {"key", 'k', TW_OPT_LIST, "PUB", NULL, "Signatures",
     "a public key (PEM) that must have signed the package; each one must have", FIELD(keys)},
    {"trust", 0, TW_OPT_FILE, "FILE", NULL, "Signatures",
     "a trust.toml: k of n keys, their validity, revoked ones", FIELD(trust)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "print one JSON object; what the job prints goes to stderr", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {
    "PACKAGE [--into FOLDER] [--environment check|build|here] [--container ENGINE] [--data DIR] "
    "[options]",
    NULL};
static const struct tw_pair exits[] = {
    {"0", "the same came out, bit for bit or within the tolerance"},
    {"1", "something else came out; or the package is not what it was when it was made: nothing "
          "was run"},
    {"2", "trouble: bad use, data or packages that are not here, a program that cannot be started, "
          "a job that fails"},
    {"3", "inconclusive: what was seen does not suffice to say \"same\""},
    {"130", "interrupted"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun replay paper-table-2 --environment build", "in a fresh virtual environment"},
    {"twinrun replay paper-table-2 --data /mnt/mnist --key team.pub",
     "with data that are here, if the team signed it"},
    {"twinrun replay paper-table-2 --container podman",
     "in the container image that the run was made in"},
    {NULL, NULL},
};

/* ---- steps on the way */

void tw_replay_show_step(void *user, const char *what)
{
    (void)user;
    if (!tw_progress_on())
        return;
    char *safe = tw_printable(what, strnlen(what, 100)), line[160];
    snprintf(line, sizeof line, "replay: %s", safe ? safe : "");
    tw_progress_line(line);
    tw_free(safe);
}

/*
 * Verifies the package into a private copy in INTO, from which everything is used afterwards. -1,
 * or the exit code of a package that is not to be run.
 */
static int open_package(const struct tw_replay_args *a, const char *dir, const char *into,
                        char **copy, struct twin_bag_verdict *v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *trust = NULL;
    struct tw_verify_args keys = {.keys = a->keys, .trust = a->trust};
    int64_t at_ns = tw_realtime_ns();
    /* Without --key and --trust the package is held against its own manifest alone. */
    if ((a->keys.count || a->trust) && tw_signed_trust(&keys, &trust, &at_ns, &err) != 0)
        return tw_trouble(&err, "nothing was run");
    if (twin_replay_place(into, trust != NULL, copy, &err) != 0) {
        twin_trust_free(trust);
        return tw_trouble(&err, "replay: nothing was run");
    }
    int rc = tw_package_open(dir, trust, at_ns, *copy, v);
    twin_trust_free(trust);
    if (rc >= 0 || v->findings == 0)
        return rc;
    tw_stdout_reserve();
    tw_package_text(stdout, dir, v);
    tw_stdout_restore();
    tw_say("replay: the package is not what it was when it was made: nothing was run");
    return TW_EXIT_DIFFER;
}

int tw_replay_say_differences(const char *how, const struct twin_unpacked *u)
{
    enum { SHOWN = 12 };
    const json_t *differences = u->differences;
    size_t n = json_array_size(differences);
    if (n == 0)
        return -1;
    bool refuse = strcmp(how, "check") == 0;
    tw_say("replay: the environment here, of %s, is not the package's (%zu difference%s)%s",
           tw_text_or(u->python, "this machine"), n, tw_plural_s(n),
           refuse ? ": nothing was run" : "");
    for (size_t i = 0; i < n && i < SHOWN; i++)
        tw_put_to(stderr, "  %s\n", json_string_value(json_array_get(differences, i)));
    if (n > SHOWN)
        tw_put_to(stderr, "  and %zu more\n", n - SHOWN);
    if (!refuse)
        return -1;
    tw_put_to(stderr, "  try: --environment build (a fresh one from the lock list), or "
                      "--environment here (run all the same)\n");
    return TW_EXIT_TROUBLE;
}

/* ---- the run */

int tw_replay_launch(bool json, const struct twin_unpacked *u, const char *home,
                     struct twin_run **out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    /* What the first run did not have must not be there now. */
    for (char **v = u->unset; v && *v; v++)
        unsetenv(*v);
    if (chdir(u->cwd) != 0) {
        twin_error_system(&err, "%s", u->cwd);
        return tw_trouble(&err, "replay: nothing was run");
    }
    struct tw_trial t = {.front = NULL}; /* the terminal is the job's */
    struct twin_launch_options o = tw_replay_launch_options(u, home);
    tw_progress_clear();
    if (json)
        tw_stdout_reserve();
    int rc = tw_trial_make(&t, &o, &err);
    *out = t.run;
    tw_stdout_restore();
    return rc ? tw_trouble(&err, "replay: the job could not be run") : -1;
}

/* ---- the verdict */

/* The verdict of check, in its exit codes. */
static int exit_code(enum tw_replay_outcome outcome)
{
    static const int codes[] = {[TW_REPLAY_SAME] = TW_EXIT_SAME,
                                [TW_REPLAY_WITHIN_TOLERANCE] = TW_EXIT_SAME,
                                [TW_REPLAY_DIFFERS] = TW_EXIT_DIFFER,
                                [TW_REPLAY_INCONCLUSIVE] = TW_EXIT_INCONCLUSIVE,
                                [TW_REPLAY_FAILED] = TW_EXIT_TROUBLE};
    assert((size_t)outcome < sizeof codes / sizeof *codes);
    return codes[outcome];
}

int tw_replay_print(const struct tw_replay_args *a, const struct twin_unpacked *u,
                    const struct twin_run *now, const json_t *differences, json_t *container)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_replayed r;
    int failed = tw_replay_judge(u, now, a->tolerance, &r, &err);
    r.container = container;
    if (failed) {
        tw_replayed_free(&r);
        return tw_trouble(NULL, "replay: %s", err.message);
    }
    const struct twin_run *const runs[] = {r.was, now};
    /* A verdict that could not be printed is none. */
    enum tw_replay_outcome came_to = r.outcome;
    int bad = 0;
    if (a->json) {
        bad = tw_json_print(tw_replay_json(&r, differences));
    } else {
        struct tw_verdict_output out = {.verb = "replay"};
        if (tw_verdict_print(r.v, runs, 2, &out) == TW_EXIT_TROUBLE)
            came_to = TW_REPLAY_FAILED;
        tw_replay_text(stdout, &r, came_to);
    }
    tw_replayed_free(&r);
    return bad ? bad : exit_code(came_to);
}

/* Unpacks the verified copy, runs it and judges what came out. *started: the job may have run. */
static int run_copy(const struct tw_replay_args *a, const char *copy,
                    const struct twin_bag_verdict *verdict, const char *into, bool *started,
                    struct tw_replay_end *end)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_unpacked u;
    struct twin_run *now = NULL;
    struct twin_unpack_options o = {.into = into,
                                    .data = a->data.items,
                                    .fetch = a->fetch,
                                    .python = a->python,
                                    .build = strcmp(a->environment, "build") == 0,
                                    .pip = a->pip.items,
                                    .progress = tw_replay_show_step};
    int rc = twin_unpack(copy, verdict, &o, &u, &err);
    tw_progress_clear();
    if (rc) {
        end->missing = u.missing;
        return tw_trouble(&err, "replay: nothing was run");
    }
    rc = tw_replay_say_differences(a->environment, &u);
    *started = rc < 0;
    if (rc >= 0) {
        end->missing = "environment";
        end->differences = json_incref(u.differences);
    }
    if (rc < 0)
        rc = tw_replay_launch(a->json, &u, into, &now);
    if (rc < 0 && now->outcome == TWIN_RUN_NOT_STARTED) {
        end->missing = "program";
        rc = tw_bad_use("replay", "%s", now->message);
    } else if (rc < 0 && now->outcome == TWIN_RUN_INTERRUPTED) {
        rc = TW_EXIT_INTERRUPTED;
    }
    if (rc < 0) {
        if (!a->quiet)
            tw_say("replayed in %s", into);
        rc = tw_replay_print(a, &u, now, u.differences, NULL);
    }
    twin_run_free(now);
    twin_unpacked_free(&u);
    return rc;
}

/* The data are read, and the folder of the replay is written to, so it may not lie in them: it
 * would change them, and in a container they are read-only. -1, or the exit code. */
static int check_data(const struct tw_replay_args *a, const char *whole)
{
    for (size_t i = 0; i < a->data.count; i++) {
        const char *given = a->data.items[i], *sign = strchr(given, '=');
        char *real = tw_pk_real(".", sign ? sign + 1 : given);
        const bool inside = real && tw_pk_below(whole, real);
        tw_free(real);
        if (inside)
            return tw_bad_use("replay",
                              "--data %s: the folder of the replay, %s, lies in it: name another "
                              "with --into",
                              given, whole);
    }
    return -1;
}

/* With what has to be cleared away behind it. */
int tw_replay(const struct tw_replay_args *a, const char *dir, struct tw_replay_end *end)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_verdict verdict = {0};
    char *whole = twin_replay_folder(a->into, dir, &err), *copy = NULL;
    int rc = whole ? check_data(a, whole) : tw_bad_use("replay", "%s", err.message);
    /* Paths in options are relative to where we are now. */
    char *tolerance = a->tolerance ? tw_path_absolute(a->tolerance, &err) : NULL;
    struct tw_replay_args b = *a;
    const bool ours = whole && twin_replay_is_new(whole);
    bool started = false;
    b.tolerance = tolerance;
    *end = (struct tw_replay_end){.missing = NULL};
    if (rc < 0)
        rc = open_package(a, dir, whole, &copy, &verdict);
    if (rc < 0 && a->container)
        rc = tw_replay_contained(&b, dir, copy, &verdict, whole, &started, end);
    else if (rc < 0)
        rc = run_copy(&b, copy, &verdict, whole, &started, end);
    if (!started && copy)
        twin_replay_clear(whole, copy, ours);
    twin_bag_verdict_free(&verdict);
    tw_free(tolerance);
    tw_free(copy);
    tw_free(whole);
    if (!*end->said)
        snprintf(end->said, sizeof end->said, "%s", tw_said());
    return rc;
}

/* --print: verified where it lies, since nothing of it is used. The exit code. */
static int print_only(const struct tw_replay_args *a, const char *dir)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_verdict v = {0};
    char *into = twin_replay_folder(a->into, dir, &err);
    if (!into)
        return tw_bad_use("replay", "%s", err.message);
    int rc = tw_package_open(dir, NULL, 0, NULL, &v);
    if (rc < 0 && v.findings) {
        tw_package_text(stdout, dir, &v);
        rc = TW_EXIT_DIFFER;
    }
    if (rc < 0)
        rc = tw_replay_print_lines(a, dir, &v, into);
    twin_bag_verdict_free(&v);
    tw_free(into);
    return rc;
}

int tw_replay_check(const struct tw_replay_args *a)
{
    const char *how = a->environment;
    if (strcmp(how, "check") != 0 && strcmp(how, "build") != 0 && strcmp(how, "here") != 0)
        return tw_bad_use("replay", "--environment: expected check, build or here, found \"%s\"",
                          how);
    return tw_replay_container_check(a);
}

/* The answer where nothing was run, as JSON. The exit code. */
static int print_end(const struct tw_replay_end *end)
{
    json_t *differences = end->differences ? json_incref(end->differences) : json_array();
    json_t *o = json_pack("{s:s, s:s, s:o, s:s, s:o}", "schema", "twinrun.replay/1", "outcome",
                          "error", "message", tw_json_text(end->said), "missing", end->missing,
                          "differences", differences);
    tw_json_print(o);
    return TW_EXIT_TROUBLE;
}

static int run(int argc, char **argv)
{
    struct tw_replay_args a = {0};
    struct tw_replay_end end;
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_replay, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    if (given.count != 1)
        return tw_bad_use("replay", "expected one package, found %zu", given.count);
    if ((rc = tw_replay_check(&a)) >= 0)
        return rc;
    tw_progress_setup(a.quiet);
    if (!twin_package_is(given.items[0]))
        return tw_bad_use("replay", "%s: expected a package (twinrun pack makes one)",
                          given.items[0]);
    if (a.print)
        return print_only(&a, given.items[0]);
    rc = tw_replay(&a, given.items[0], &end);
    if (rc == TW_EXIT_TROUBLE && a.json && end.missing)
        rc = print_end(&end);
    json_decref(end.differences);
    return rc;
}

const struct tw_command tw_command_replay = {
    "replay",
    "run a package again in a fresh folder and say whether the same came out",
    synopsis,
    "Verifies the package first; nothing of it is started before. What was verified is copied into "
    "the new folder (verified/, mode 0700) and used from there: what happens to PACKAGE meanwhile "
    "changes nothing. Then, in that folder: the code from the git bundle at its commit with the "
    "recorded changes, the data (from the package, from DIR, or downloaded with --fetch), held "
    "against their snapshot, the environment, held against the lock list or built from it. The "
    "command runs there with the recorded variables, is recorded as the first run was, and "
    "compared with it: the verdict of twinrun check.\n\n"
    "With --container the job runs in the image that the package names, by its digest: without "
    "network, with the package and data mounted read-only, as your user. Each blob of the image is "
    "verified. What an image does not fix (kernel, processor, GPU, driver) is held against the "
    "recording and told with the verdict. docs/containers.md says what each engine does.\n\n"
    "This runs somebody's program with your rights. Verification says that it is the program that "
    "was packed, not that it is harmless.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
