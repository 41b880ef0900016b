/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun drill: something goes wrong on purpose, in copies of the working folder, and it is seen
 * whether the proven state comes back. The drills are src/drill's; the outcome is an event of the
 * ledger, from which twinrun slo computes M8.
 */
#include "options.h"
#include "registry.h"
#include "replay.h"
#include "runs.h"
#include "say.h"
#include "terminal.h"

#include "base.h"
#include "json_text.h"

#include "src/drill/drill.h"
#include "src/launch/launch.h"
#include "src/sign/sign.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRUSTED_MAX = 8, IDENTITIES_MAX = 8 };

struct drill_args {
    const char *kind, *checkpoint, *resume, *home, *with, *requirements, *baseline, *trust;
    const char *registry, *mirror, *bad;
    const char *environment, *python, *container, *image;
    struct tw_strings trusted, identities, data, pip;
    bool rerun, fetch, json, quiet;
};

#define FIELD(f) offsetof(struct drill_args, f)

static const struct tw_option options[] = {
    {"checkpoint", 'c', TW_OPT_FILE, "FILE", NULL, "Drill",
     "the file that the job saves its state to, below the working folder", FIELD(checkpoint)},
    {"resume", 'r', TW_OPT_STRING, "CMD", NULL, "Drill",
     "shell command that goes on from that file, for preempt and corrupt", FIELD(resume)},
    {"with", 'w', TW_OPT_FILE, "PROGRAM", NULL, "Upgrade",
     "of upgrade: the interpreter of the new environment", FIELD(with)},
    {"requirements", 0, TW_OPT_FILE, "FILE", NULL, "Upgrade",
     "of upgrade, in place of --with: make the new environment by venv and pip install -r FILE",
     FIELD(requirements)},
    {"signed", 0, TW_OPT_FILE, "FILE", NULL, "Upgrade",
     "of upgrade: go on only if the first run makes the checkpoint that this envelope of twinrun "
     "sign is about",
     FIELD(baseline)},
    {"registry", 0, TW_OPT_DIR, "DIR", NULL, "Registry",
     "of rollback and registry-loss: the registry's folder, s3://BUCKET/PREFIX or "
     "oci://HOST:PORT/NAME, which is copied (default: $TWINRUN_REGISTRY)",
     FIELD(registry)},
    {"identity", 'i', TW_OPT_LIST, "FILE", NULL, "Registry",
     "of an encrypted registry: an identity file of age, or a private key in a PEM file, that "
     "opens "
     "it",
     FIELD(identities)},
    {"bad", 0, TW_OPT_FILE, "PATH", NULL, "Registry",
     "of rollback: what comes into production (default: the version that is there, with zeros in "
     "its second half)",
     FIELD(bad)},
    {"rerun", 0, TW_OPT_FLAG, NULL, NULL, "Registry",
     "of rollback: replay the version's package, too, and go on only if the same comes out",
     FIELD(rerun)},
    {"data", 'd', TW_OPT_LIST, "DIR", NULL, "Rerun",
     "with --rerun, as of registry rollback: where the data are that the package names",
     FIELD(data)},
    {"environment", 0, TW_OPT_STRING, "HOW", NULL, "Rerun",
     "with --rerun: check, build or here, as for replay", FIELD(environment)},
    {"python", 0, TW_OPT_FILE, "PROGRAM", NULL, "Rerun", "with --rerun: the interpreter",
     FIELD(python)},
    {"pip-option", 0, TW_OPT_LIST, "OPTION", NULL, "Rerun", "with --rerun: hand this to pip",
     FIELD(pip)},
    {"container", 0, TW_OPT_STRING, "ENGINE", NULL, "Rerun",
     "with --rerun: in the package's container image, as for replay", FIELD(container)},
    {"image", 0, TW_OPT_STRING, "IMAGE", NULL, "Rerun",
     "with --container: use this image, as for replay", FIELD(image)},
    {"fetch", 0, TW_OPT_FLAG, NULL, NULL, "Rerun",
     "with --rerun: download what the package names and does not hold", FIELD(fetch)},
    {"mirror", 0, TW_OPT_DIR, "DIR", NULL, "Registry",
     "of registry-loss: the mirror or backup that the registry is restored from", FIELD(mirror)},
    {"trust", 't', TW_OPT_FILE, "FILE", NULL, "Signatures",
     "a trust.toml: k of n keys, their validity, revoked ones (default of rollback and "
     "registry-loss: $TWINRUN_REGISTRY_TRUST)",
     FIELD(trust)},
    {"pub", 0, TW_OPT_LIST, "PUB", NULL, "Signatures",
     "in place of --trust: a public key (PEM) that must have signed", FIELD(trusted)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {
    "preempt|corrupt --checkpoint FILE --resume CMD [options] -- COMMAND [ARG...]",
    "node|clock --checkpoint FILE [options] -- COMMAND [ARG...]",
    "upgrade --checkpoint FILE --with PYTHON [options] -- COMMAND [ARG...]",
    "rollback MODEL --registry DIR --trust FILE [options] [-- CHECK {} [ARG...]]",
    "registry-loss --registry DIR --trust FILE [--mirror DIR]",
    NULL};
static const struct tw_pair exits[] = {
    {"0", "the proven state came back"},
    {"1", "it did not, or damage went unnoticed"},
    {"2", "trouble: bad use, or a job that is not fit for the drill; nothing is written down"},
    {"3", "the job, or the check, does not repeat itself, so nothing was shown; nothing is written "
          "down"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun drill preempt -c model.pt -r 'python train.py --resume' -- python train.py",
     "killed while it saves: does it come back?"},
    {"twinrun drill corrupt -c model.pt -r 'python train.py --resume' -- python train.py",
     "is a damaged checkpoint noticed?"},
    {"twinrun drill node -c model.pt -- python train.py",
     "an older instruction set: does it change the model?"},
    {"twinrun drill upgrade -c model.pt --with new/bin/python --signed model.pt.dsse.json --pub "
     "ci.key.pub -- python train.py",
     "another environment: what does it change, and is it rounding?"},
    {"twinrun drill clock -c model.pt -- python train.py",
     "wrong dates, another time zone, a clock that is set back: does it change the model?"},
    {"twinrun drill rollback resnet --registry models --trust trust.toml -- python evaluate.py {}",
     "a bad version in production of a copy: is it noticed, and does the old one come back?"},
    {"twinrun drill registry-loss --registry models --trust trust.toml --mirror /backup/models",
     "is each loss found, and does the registry come back from its mirror?"},
    {NULL, NULL},
};

static const char *outcome_word(enum tw_drill_outcome o)
{
    static const char *const words[] = {[TW_DRILL_RESTORED] = "restored",
                                        [TW_DRILL_FAILED] = "failed",
                                        [TW_DRILL_NOTHING_SHOWN] = "nothing shown"};
    return words[o];
}

static void show_progress(void *user, const char *what)
{
    const struct drill_args *a = user;
    if (!a->quiet)
        tw_say("drill: %s", what);
}

static void put_time(const char *name, double seconds)
{
    char text[24];
    if (isnan(seconds))
        tw_put("  %-9s  none\n", name);
    else
        tw_put("  %-9s  %s\n", name, tw_human_seconds(seconds, text));
}

static int print_result(const struct drill_args *a, const struct tw_drill_result *r)
{
    if (a->json) {
        json_t *steps = json_array();
        for (size_t i = 0; i < r->steps; i++)
            json_array_append_new(steps, tw_json_text(r->step[i]));
        return tw_json_print(
            json_pack("{s:s, s:s, s:s, s:s*, s:o, s:o, s:o}", "schema", "twinrun.drill/1", "fault",
                      a->kind, "outcome", outcome_word(r->outcome), "records",
                      *r->records ? r->records : NULL, "detect_s", tw_json_number(r->detect_s),
                      "reproduce_s", tw_json_number(r->reproduce_s), "steps", steps));
    }
    tw_put("%s  drill %s\n", outcome_word(r->outcome), a->kind);
    for (size_t i = 0; i < r->steps; i++)
        tw_put("  %s\n", r->step[i]);
    put_time("detect", r->detect_s);
    put_time("reproduce", r->reproduce_s);
    return 0;
}

/* malloc'ed; NULL: no memory. */
static char *time_text(const char *what, double seconds)
{
    return isnan(seconds) ? tw_printf("not %s", what) : tw_printf("%s in %.3g s", what, seconds);
}

/* Paths of the command line as other folders have them: runs are made in copies. All malloc'ed. */
struct paths {
    char *with, *requirements, *baseline, *bad;
    char *trust[2 * TRUSTED_MAX];
    size_t trust_count;
    const char *opens[IDENTITIES_MAX];
    struct tw_strings identities;
    char twinrun[PATH_MAX];
};

static void free_paths(struct paths *p)
{
    for (size_t i = 0; i < p->trust_count; i++)
        tw_free(p->trust[i]);
    for (size_t i = 0; i < p->identities.count; i++)
        tw_free((char *)(uintptr_t)p->opens[i]);
    tw_free(p->with);
    tw_free(p->requirements);
    tw_free(p->baseline);
    tw_free(p->bad);
}

/* NULL stays NULL. What is not there is said before the job is run, which may take hours. */
static int name_path(const char *path, char **out, struct twin_error *err)
{
    *out = path ? tw_path_absolute(path, err) : NULL;
    if (path && !*out)
        return err->code ? err->code : tw_no_memory(err, "for a path");
    if (!path || access(*out, R_OK) == 0)
        return 0;
    const int rc = twin_error_system(err, "cannot read %s", path);
    tw_free(*out);
    *out = NULL;
    return rc;
}

/* A program by its path, or by a name in PATH. */
static int name_program(const char *program, char **out, struct twin_error *err)
{
    const bool is_name = program && !strchr(program, '/');
    char *found = is_name ? tw_program_find(program, getenv("PATH"), err) : NULL;
    if (is_name && !found)
        return err->code ? err->code
                         : twin_error_set(err, TWIN_ENOENT,
                                          "--with: expected an interpreter, found no %s in PATH",
                                          program);
    const int rc = name_path(is_name ? found : program, out, err);
    tw_free(found);
    return rc;
}

/* An option of twinrun verify with its file. */
static int name_trust(const char *option, const char *path, struct paths *p, struct twin_error *err)
{
    int rc = name_path(path, &p->trust[p->trust_count + 1], err);
    if (rc == 0 && !(p->trust[p->trust_count] = tw_strdup(option))) {
        tw_free(p->trust[p->trust_count + 1]);
        rc = tw_no_memory(err, "for a path");
    }
    p->trust_count += rc ? 0 : 2;
    return rc;
}

static int name_paths(const struct drill_args *a, struct paths *p, struct tw_drill_asked *asked,
                      struct twin_error *err)
{
    const ssize_t n = readlink("/proc/self/exe", p->twinrun, sizeof p->twinrun - 1);
    if (n <= 0)
        return twin_error_system(err, "cannot find the program that runs (/proc/self/exe)");
    int rc = name_program(a->with, &p->with, err);
    rc = rc ? rc : name_path(a->requirements, &p->requirements, err);
    rc = rc ? rc : name_path(a->baseline, &p->baseline, err);
    rc = rc ? rc : name_path(a->bad, &p->bad, err);
    if (rc == 0 && a->baseline && a->trust)
        rc = name_trust("--trust", a->trust, p, err);
    for (size_t i = 0; rc == 0 && a->baseline && i < a->trusted.count; i++)
        rc = name_trust("--key", a->trusted.items[i], p, err);
    p->identities.items = p->opens;
    for (size_t i = 0; rc == 0 && i < a->identities.count; i++) {
        char *path = NULL;
        rc = name_path(a->identities.items[i], &path, err);
        p->opens[i] = path;
        p->identities.count += rc == 0;
    }
    asked->identities = &p->identities;
    asked->with = p->with;
    asked->requirements = p->requirements;
    asked->baseline = p->baseline;
    asked->bad = p->bad;
    asked->trust = (const char *const *)p->trust;
    asked->trust_count = p->trust_count;
    asked->twinrun = p->twinrun;
    return rc;
}

static bool is_of_registry(enum tw_drill_kind kind)
{
    return kind == TW_DRILL_ROLLBACK || kind == TW_DRILL_REGISTRY_LOSS;
}

static const char *registry_of(const struct drill_args *a)
{
    const char *r = a->registry ? a->registry : getenv("TWINRUN_REGISTRY");
    return r && *r ? r : NULL;
}

/* Whom to trust in a registry: --trust, --pub, or the environment; nobody where that is not set. */
static int find_trust(const struct drill_args *a, enum tw_drill_kind kind,
                      struct tw_drill_asked *asked, struct twin_trust **out, struct twin_error *err)
{
    const char *from = a->trust ? a->trust : getenv("TWINRUN_REGISTRY_TRUST");
    int rc = 0;
    if (!is_of_registry(kind))
        return 0;
    if (a->trusted.count)
        rc = twin_trust_keys((char *const *)(uintptr_t)a->trusted.items, a->trusted.count, out,
                             err);
    else if (from && *from)
        rc = twin_trust_read(from, out, err);
    else
        rc = twin_error_set(err, TWIN_EINVAL, "expected whom to trust: --trust FILE or --pub PUB");
    asked->trusted = *out;
    return rc;
}

/* A log that this home has seen longer, or another one, is fit for no drill: of a rollback in it
 * the real one would do nothing. -1, or the exit code. */
static int hold_against_memory(const struct tw_drill_asked *asked, const struct drill_args *a)
{
    const struct tw_registry_args seen = {
        .registry = asked->registry, .trust = a->trust, .trusted = a->trusted, .home = asked->home};
    struct tw_registry_use u;
    int rc = tw_registry_begin("drill", &seen, &u);
    if (rc >= 0)
        return rc;
    if (u.r.faults)
        rc = tw_trouble(NULL,
                        "drill: nothing was shown: expected a registry without fault, found: %s "
                        "(twinrun registry verify says all)",
                        u.r.fault[0].what);
    tw_registry_end(&u);
    return rc;
}

/* --rerun and the options that go with it, as registry rollback takes them. The array is the
 * caller's, the words are the command line's. NULL: no memory. */
static const char **rerun_words(const struct drill_args *a)
{
    const struct {
        const char *option, *value;
    } single[] = {{"--environment", a->environment},
                  {"--python", a->python},
                  {"--container", a->container},
                  {"--image", a->image}};
    const struct {
        const char *option;
        const struct tw_strings *values;
    } lists[] = {{"--data", &a->data}, {"--pip-option", &a->pip}};
    enum { SINGLES = sizeof single / sizeof *single, LISTS = sizeof lists / sizeof *lists };
    const char **words = tw_calloc(3 + 2 * (SINGLES + a->data.count + a->pip.count), sizeof *words);
    size_t n = 0;
    if (!words)
        return NULL;
    words[n++] = "--rerun";
    if (a->fetch)
        words[n++] = "--fetch";
    for (size_t i = 0; i < SINGLES; i++)
        if (single[i].value) {
            words[n++] = single[i].option;
            words[n++] = single[i].value;
        }
    for (size_t i = 0; i < LISTS; i++)
        for (size_t k = 0; k < lists[i].values->count; k++) {
            words[n++] = lists[i].option;
            words[n++] = lists[i].values->items[k];
        }
    return words;
}

/* Runs the drill, writes it down, prints it. The exit code. */
static int run_drill(const struct drill_args *a, enum tw_drill_kind kind, const char *model,
                     char *const *argv, const char *home)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_drill_result r;
    struct paths paths = {NULL};
    struct twin_trust *trust = NULL;
    struct tw_drill_asked asked = {.home = home,
                                   .argv = argv,
                                   .checkpoint = a->checkpoint,
                                   .resume = a->resume,
                                   .registry = registry_of(a),
                                   .model = model,
                                   .mirror = a->mirror,
                                   .progress = show_progress,
                                   .user = (void *)(uintptr_t)a};
    const char **rerun = a->rerun ? rerun_words(a) : NULL;
    asked.rerun = rerun;
    int failed = a->rerun && !rerun ? tw_no_memory(&err, "for a drill") : 0;
    failed = failed ? failed : name_paths(a, &paths, &asked, &err);
    failed = failed ? failed : find_trust(a, kind, &asked, &trust, &err);
    const int bad = failed == 0 && is_of_registry(kind) ? hold_against_memory(&asked, a) : -1;
    if (failed == 0 && bad < 0)
        failed = tw_drill(kind, &asked, &r, &err);
    free_paths(&paths);
    twin_trust_free(trust);
    tw_free(rerun);
    if (bad >= 0)
        return bad;
    if (failed != 0) {
        const int rc = tw_trouble(&err, "drill: nothing was shown");
        return err.code == TWIN_EINTR ? TW_EXIT_INTERRUPTED : rc;
    }
    if (r.outcome != TW_DRILL_NOTHING_SHOWN) {
        char *detect = time_text("detected", r.detect_s);
        char *reproduce = time_text("reproduced", r.reproduce_s);
        char *subject = detect && reproduce ? tw_printf("%s: %s, %s", a->kind, detect, reproduce)
                                            : NULL;
        tw_free(detect);
        tw_free(reproduce);
        tw_ledger_note_event(home, "drill", outcome_word(r.outcome), subject ? subject : a->kind);
        tw_free(subject);
    }
    static const int code[] = {[TW_DRILL_RESTORED] = TW_EXIT_SAME,
                               [TW_DRILL_FAILED] = TW_EXIT_DIFFER,
                               [TW_DRILL_NOTHING_SHOWN] = TW_EXIT_INCONCLUSIVE};
    const int printed = print_result(a, &r), rc = printed ? printed : code[r.outcome];
    tw_drill_result_free(&r);
    return rc;
}

/* ---- what each drill takes */

static const struct wants {
    bool job, resume, environment, model, mirror;
} wants[] = {
    [TW_DRILL_PREEMPT] = {.job = true, .resume = true},
    [TW_DRILL_CORRUPT] = {.job = true, .resume = true},
    [TW_DRILL_NODE] = {.job = true},
    [TW_DRILL_UPGRADE] = {.job = true, .environment = true},
    [TW_DRILL_CLOCK] = {.job = true},
    [TW_DRILL_ROLLBACK] = {.model = true},
    [TW_DRILL_REGISTRY_LOSS] = {.mirror = true},
};
_Static_assert(sizeof wants / sizeof wants[0] == TW_DRILL_KINDS, "what each drill takes");

/* -1, or the exit code of bad use. */
static int check_options(const struct drill_args *a, enum tw_drill_kind kind)
{
    const struct wants *w = &wants[kind];
    const bool of_registry = a->registry || a->bad || a->rerun || a->mirror || a->identities.count;
    const bool of_rerun = a->environment || a->python || a->container || a->image || a->fetch ||
                          a->data.count || a->pip.count;
    if (of_rerun && !a->rerun)
        return tw_bad_use("drill", "--data, --environment, --python, --pip-option, --container, "
                                   "--image, --fetch: expected --rerun with them");
    const struct tw_replay_args replay = {.environment = a->environment ? a->environment : "check",
                                          .container = a->container,
                                          .image = a->image,
                                          .gpus = "auto"};
    const int bad = tw_replay_check(&replay);
    if (bad >= 0)
        return bad;
    if (a->identities.count > IDENTITIES_MAX)
        return tw_bad_use("drill", "--identity: expected up to %d of them", IDENTITIES_MAX);
    if (w->job ? of_registry : a->checkpoint || a->resume)
        return tw_bad_use("drill", w->job ? "--registry, --identity, --bad, --rerun, --mirror: "
                                            "drills of a registry take them"
                                          : "--checkpoint, --resume: drills of a job take them");
    if (!w->job && !registry_of(a))
        return tw_bad_use("drill", "expected --registry DIR, or TWINRUN_REGISTRY");
    if ((a->mirror && !w->mirror) || ((a->bad || a->rerun) && !w->model))
        return tw_bad_use("drill", "--mirror goes with registry-loss, --bad and --rerun with "
                                   "rollback");
    if (w->job && (!a->checkpoint || !tw_path_ok(a->checkpoint)))
        return tw_bad_use("drill",
                          "--checkpoint: expected a path below the working folder, found \"%s\"",
                          a->checkpoint ? a->checkpoint : "");
    if (!a->resume != !w->resume)
        return tw_bad_use("drill", w->resume
                                       ? "expected --resume CMD, which goes on from the checkpoint"
                                       : "--resume: nothing is resumed in this drill");
    if (w->environment && !a->with == !a->requirements)
        return tw_bad_use("drill", "upgrade: expected one of --with PYTHON, --requirements FILE");
    if (!w->environment && (a->with || a->requirements || a->baseline))
        return tw_bad_use("drill", "--with, --requirements, --signed: upgrade takes them");
    if (w->job && (a->baseline != NULL) != (a->trust || a->trusted.count))
        return tw_bad_use("drill", "--signed goes with --trust FILE or --pub PUB, and only with "
                                   "one of them");
    if ((a->trust && a->trusted.count) || a->trusted.count > TRUSTED_MAX)
        return tw_bad_use("drill", "expected --trust FILE, or --pub PUB up to %d times",
                          TRUSTED_MAX);
    return -1;
}

/* What stands behind the kind: a model for rollback, and -- with a command. -1, or the exit code of
 * bad use. */
static int check_operands(enum tw_drill_kind kind, const struct tw_operands *given,
                          const char **model, char *const **argv)
{
    const size_t named = wants[kind].model ? 2 : 1;
    const bool has_job = given->count > named && strcmp(given->items[named], "--") == 0;
    bool has_place = false;
    if (wants[kind].model && (given->count < 2 || strcmp(given->items[1], "--") == 0))
        return tw_bad_use("drill", "rollback: expected the name of a model behind it");
    *model = wants[kind].model ? given->items[1] : NULL;
    *argv = has_job ? given->items + named + 1 : NULL;
    if (wants[kind].job && (!has_job || !**argv))
        return tw_bad_use("drill", "expected -- and the job's command behind the options");
    if (wants[kind].mirror && given->count > 1)
        return tw_bad_use("drill", "registry-loss: expected nothing behind it, found \"%s\"",
                          given->items[1]);
    for (char *const *word = *argv; word && *word; word++)
        has_place |= strstr(*word, "{}") != NULL;
    if (wants[kind].model && ((!has_job && given->count > 2) || (has_job && !has_place)))
        return tw_bad_use("drill", "rollback: expected -- and a check behind the model, with {} in "
                                   "the artifact's place");
    return -1;
}

static int run(int argc, char **argv)
{
    struct drill_args a = {0};
    struct tw_operands job;
    const char *model = NULL;
    char *const *argv_of_job = NULL;
    int rc = tw_options_parse(&tw_command_drill, argc, argv, &a, &job);
    if (rc >= 0)
        return rc;
    a.kind = job.count && !job.is_job ? job.items[0] : "";
    const enum tw_drill_kind kind = tw_drill_of(a.kind);
    if (kind == TW_DRILL_KINDS)
        return tw_bad_use("drill",
                          "expected preempt, corrupt, node, clock, upgrade, rollback or "
                          "registry-loss, found \"%s\"",
                          a.kind);
    if ((rc = check_operands(kind, &job, &model, &argv_of_job)) >= 0 ||
        (rc = check_options(&a, kind)) >= 0)
        return rc;
    char *given = tw_home(a.home), *home = given ? tw_path_absolute(given, NULL) : NULL;
    if (home)
        rc = run_drill(&a, kind, model, argv_of_job, home);
    else
        rc = tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "drill: cannot name the home");
    tw_free(home);
    tw_free(given);
    return rc;
}

const struct tw_command tw_command_drill = {
    "drill",
    "do on purpose what will go wrong one day, and see whether the state comes back",
    synopsis,
    "Makes a whole run of a staging job first: its last checkpoint is the proven state. Then, in "
    "copies of the working folder:\n\n"
    "preempt: the job is killed (SIGKILL) while it saves for the second time, and resumed. "
    "corrupt: "
    "it is killed after a save, resumed from half of the checkpoint and from one with a bit turned "
    "over, which it has to refuse or survive, and from the checkpoint as it was. node: it is run "
    "with an older instruction set in PyTorch, MKL, oneDNN and OpenBLAS, and again without. clock: "
    "it is run with the dates of 2001 and 2039, in another time zone, and by a clock that is set "
    "back by two minutes on the way, and again by the machine's own. upgrade: it is run in another "
    "environment, both are held against each other record by record, and again in the old one: "
    "where the bits differ, it is said whether by more than rounding explains.\n\n"
    "Two drills need a registry, of which a copy is made; a key that is made for the drill signs "
    "what happens there. rollback: a bad version comes into production, the check has to notice it "
    "(it says something else, or fails), the version that was there is rolled back by twinrun "
    "registry rollback, and digests and check prove that it is the one. registry-loss: entries are "
    "taken away, exchanged, changed, cut off and forked, contents lost and damaged: each has to be "
    "found; then all is lost, and comes back from the mirror or not.\n\n"
    "The times to detect and to reproduce, and whether the proven state came back, go into the "
    "ledger: twinrun slo counts them (M8).",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
