/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun replay: runs a package again in a fresh folder, and says whether the same came out. */
#include "json.h"
#include "options.h"
#include "package.h"
#include "progress.h"
#include "runs.h"
#include "say.h"
#include "signed.h"
#include "trial.h"
#include "verdict.h"
#include "verify_words.h"

#include "base.h"
#include "json_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <twin/compare.h>
#include <twin/content.h>
#include <twin/package.h>
#include <twin/provenance.h>
#include <unistd.h>

struct replay_args {
    const char *into, *environment, *python, *trust, *at, *tolerance;
    struct tw_strings data, pip, keys;
    bool fetch, json, quiet;
};

#define FIELD(f) offsetof(struct replay_args, f)

static const struct tw_option options[] = {
    {"into", 'o', TW_OPT_DIR, "FOLDER", NULL, "Where",
     "new folder to run it in (default: PACKAGE-replay beside the package)", FIELD(into)},
    {"data", 'd', TW_OPT_LIST, "DIR", NULL, "With what",
     "where the data are that the package names (NAME=DIR when it names several); they are "
     "verified first",
     FIELD(data)},
    {"fetch", 0, TW_OPT_FLAG, NULL, NULL, "With what",
     "download the data that the package's fetch.txt names", FIELD(fetch)},
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
    "PACKAGE [--into FOLDER] [--environment check|build|here] [--data DIR] [options]", NULL};
static const struct tw_pair exits[] = {
    {"0", "the same came out, bit for bit or within the tolerance"},
    {"1", "something else came out; or the package is not what it was when it was made: nothing "
          "was run"},
    {"2", "trouble: bad use, data or packages that are not here, a program that cannot be started"},
    {"3", "inconclusive: what was seen does not suffice to say \"same\""},
    {"130", "interrupted"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun replay paper-table-2 --environment build", "in a fresh virtual environment"},
    {"twinrun replay paper-table-2 --data /mnt/mnist --key team.pub",
     "with data that are here, if the team signed it"},
    {NULL, NULL},
};

/* ---- steps on the way */

static void progress(void *user, const char *what)
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
static int open_package(const struct replay_args *a, const char *dir, const char *into, char **copy,
                        struct twin_bag_verdict *v)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *trust = NULL;
    struct tw_verify_args keys = {.keys = a->keys, .trust = a->trust};
    int64_t at_ns = tw_realtime_ns();
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

/* PACKAGE-replay, or with a number when that is there already. Never in the package: it would not
 * verify any more. */
static char *into_of(const struct replay_args *a, const char *dir)
{
    struct stat st;
    char *real = realpath(dir, NULL), *out = NULL;
    for (unsigned i = 1; real && i < 1000; i++) {
        tw_free(out);
        if (a->into)
            out = tw_strdup(a->into);
        else if (i == 1)
            out = tw_printf("%s-replay", real);
        else
            out = tw_printf("%s-replay-%u", real, i);
        if (a->into || !out || lstat(out, &st) != 0)
            break;
    }
    free(real);
    return out;
}

static int say_differences(const struct replay_args *a, const json_t *differences)
{
    enum { SHOWN = 12 };
    size_t n = json_array_size(differences);
    if (n == 0)
        return -1;
    bool refuse = strcmp(a->environment, "check") == 0;
    tw_say("replay: the environment here is not the package's (%zu difference%s)%s", n,
           n == 1 ? "" : "s", refuse ? ": nothing was run" : "");
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

static uint32_t number(const json_t *o, const char *key, uint32_t otherwise)
{
    json_t *v = json_object_get(o, key);
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= UINT32_MAX
               ? (uint32_t)json_integer_value(v)
               : otherwise;
}

static bool asked(const json_t *record, const char *factor)
{
    return json_is_object(json_object_get(json_object_get(record, "factors"), factor));
}

static int launch(const struct replay_args *a, const struct twin_unpacked *u, const char *home,
                  struct twin_run **out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const json_t *window = json_object_get(u->record, "window");
    enum twin_level level = TWIN_LEVEL_TENSORS;
    const char *name = json_string_value(json_object_get(u->record, "level"));
    if (name)
        twin_level_parse(name, &level);
    for (char **v = u->unset; v && *v; v++)
        unsetenv(*v);
    if (chdir(u->cwd) != 0) {
        twin_error_system(&err, "%s", u->cwd);
        return tw_trouble(&err, "replay: nothing was run");
    }
    struct tw_trial t = {.front = NULL}; /* the terminal is the job's */
    struct twin_launch_options o = {
        .argv = u->argv,
        .env = u->env,
        .home = home,
        .label = "replay",
        .level = level,
        .agents = true,
        .max_steps = number(u->record, "max_steps", 0),
        .window_last = UINT32_MAX,
        .sketch_every = number(u->record, "sketch_every", 0),
        .lossless = json_is_true(json_object_get(u->record, "lossless")),
        .show_output = true,
        .native_output = true,
        .no_aslr = asked(u->record, "aslr"),
        .on_cpu = asked(u->record, "affinity"),
        .cpu = (int)number(json_object_get(json_object_get(u->record, "factors"), "affinity"),
                           "cpu", 0),
        .hot = asked(u->record, "hot"),
        .data = u->data,
        .data_count = u->data_count,
    };
    if (json_is_integer(json_array_get(window, 0)) && json_is_integer(json_array_get(window, 1))) {
        o.window_first = (uint32_t)json_integer_value(json_array_get(window, 0));
        o.window_last = (uint32_t)json_integer_value(json_array_get(window, 1));
    }
    tw_progress_clear();
    if (a->json)
        tw_stdout_reserve();
    int rc = tw_trial_make(&t, &o, &err);
    *out = t.run;
    tw_stdout_restore();
    return rc ? tw_trouble(&err, "replay: the job could not be run") : -1;
}

/* ---- checkpoints: the tensors count, not the file's bytes */

/* Number of those that differ or are not there; each goes to list. */
static size_t compare_checkpoints(const char *expected, const struct twin_run *now, json_t *list)
{
    char *path = tw_path_join(expected, "checkpoints.json"), *text = NULL;
    size_t n = 0, i, differ = 0;
    json_t *all = path && tw_read_file(path, 64 << 20, &text, &n, NULL) == 0
                      ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL)
                      : NULL;
    json_t *c;
    json_array_foreach (all, i, c) {
        const char *name = json_string_value(json_object_get(c, "path"));
        const char *content = json_string_value(json_object_get(c, "content"));
        const char *word = "missing";
        const struct twin_run_file *f = NULL;
        for (size_t k = 0; name && k < now->file_count; k++)
            if (strcmp(now->files[k].path, name) == 0)
                f = &now->files[k];
        struct twin_content is;
        char *file = f ? tw_path_join(now->cwd, f->path) : NULL;
        if (file && content && twin_content_read_tensors(file, &is, NULL) == 0) {
            word = strcmp(is.content, content) == 0 ? "same" : "differ";
            twin_content_free(&is);
        }
        tw_free(file);
        differ += strcmp(word, "same") != 0;
        json_array_append_new(list, json_pack("{s:o, s:s, s:o}", "path",
                                              tw_json_text(name ? name : "?"), "outcome", word,
                                              "content", tw_json_text(content ? content : "")));
    }
    json_decref(all);
    tw_free(text);
    tw_free(path);
    return differ;
}

/* ---- the verdict */

static bool same_command(const struct twin_run *a, const struct twin_run *b)
{
    bool same = a->argc == b->argc;
    for (size_t i = 0; same && i < a->argc; i++)
        same = strcmp(a->argv[i], b->argv[i]) == 0;
    return same;
}

static json_t *worlds(const char *expected, const struct twin_run *now)
{
    json_t *a = NULL, *b = NULL, *list = json_array();
    struct twin_world_differences d = {0};
    if (twin_provenance_load(expected, &a, NULL) == 0 &&
        twin_provenance_load(now->dir, &b, NULL) == 0 && twin_provenance_diff(a, b, &d, NULL) == 0)
        for (size_t i = 0; i < d.count && i < 1000; i++)
            if (d.item[i].power <= TWIN_POWER_MEDIUM)
                json_array_append_new(
                    list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "power",
                                    twin_power_name(d.item[i].power), "group", d.item[i].group,
                                    "what", tw_json_text(d.item[i].what), "package",
                                    tw_json_text(d.item[i].a), "here", tw_json_text(d.item[i].b)));
    twin_world_differences_free(&d);
    json_decref(a);
    json_decref(b);
    return list;
}

static void print_worlds(const json_t *list)
{
    enum { SHOWN = 6 };
    for (size_t i = 0; i < json_array_size(list) && i < SHOWN; i++) {
        const json_t *d = json_array_get(list, i);
        const char *was = json_string_value(json_object_get(d, "package"));
        const char *is = json_string_value(json_object_get(d, "here"));
        tw_put("  %-7s  %s: %.60s in the package, %.60s here\n", i ? "" : "world",
               json_string_value(json_object_get(d, "what")), was ? was : "nothing",
               is ? is : "nothing");
    }
    if (json_array_size(list) > SHOWN)
        tw_put("           and %zu more (--json lists all)\n", json_array_size(list) - SHOWN);
}

static const char *last_word(int code, enum twin_verdict_outcome outcome)
{
    if (code == TW_EXIT_DIFFER)
        return "DIFFERS";
    if (code == TW_EXIT_INCONCLUSIVE)
        return "INCONCLUSIVE";
    return outcome == TWIN_SAME ? "REPRODUCED" : "REPRODUCED WITHIN TOLERANCE";
}

static const char *last_sentence(int code, enum twin_verdict_outcome outcome)
{
    if (code == TW_EXIT_DIFFER)
        return "what came out is not what the package says";
    if (code == TW_EXIT_INCONCLUSIVE)
        return "what was seen does not suffice to say that the same came out";
    return outcome == TWIN_SAME ? "bit for bit what the package says"
                                : "not bit for bit, but within the stated tolerance";
}

/* The outcome for programs. */
static const char *outcome_word(int code, enum twin_verdict_outcome outcome)
{
    if (code == TW_EXIT_DIFFER)
        return "differ";
    if (code == TW_EXIT_INCONCLUSIVE)
        return "inconclusive";
    return outcome == TWIN_SAME ? "same" : "within-tolerance";
}

static int print_json(const struct twin_verdict *v, const struct twin_run *const runs[2], int code,
                      const json_t *environment, json_t *checkpoints, json_t *world)
{
    struct twin_report r = {.verdict = v, .runs = runs, .run_count = 2, .verb = "replay"};
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = NULL;
    json_t *verdict = twin_report_json(&r, &text, &err) == 0 ? json_loads(text, 0, NULL) : NULL;
    tw_free(text);
    const char *word = outcome_word(code, v->outcome);
    int rc = tw_json_print(
        json_pack("{s:s, s:s, s:o, s:O, s:o, s:o, s:o}", "schema", "twinrun.replay/1", "outcome",
                  word, "run", tw_json_text(runs[1]->dir), "environment_differences", environment,
                  "checkpoints", checkpoints, "world", world, "verdict", verdict));
    return rc ? rc : code;
}

static int judge(const struct replay_args *a, const struct twin_unpacked *u,
                 const struct twin_run *now)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *was = NULL;
    struct twin_verdict *v = NULL;
    if (twin_run_load(u->expected, &was, &err) != 0)
        return tw_trouble(&err, "replay: what was observed cannot be read");
    const struct twin_run *runs[] = {was, now};
    struct twin_compare_options o = {.arms = !same_command(was, now),
                                     .tolerance_file = a->tolerance};
    if (twin_compare(runs, 2, &o, &v, &err) != 0) {
        twin_run_free(was);
        return tw_trouble(&err, "replay: cannot compare the runs");
    }
    json_t *checkpoints = json_array(), *world = worlds(u->expected, now);
    size_t differ = compare_checkpoints(u->expected, now, checkpoints);
    int code = twin_report_exit_code(v->outcome);
    if (now->exit_code != was->exit_code || now->outcome != was->outcome ||
        (differ && code != TW_EXIT_TROUBLE && v->outcome != TWIN_WITHIN_TOLERANCE))
        code = TW_EXIT_DIFFER;
    if (a->json) {
        code = print_json(v, runs, code, u->differences, checkpoints, world);
    } else {
        struct tw_verdict_output out = {.verb = "replay"};
        if (tw_verdict_print(v, runs, 2, &out) == TW_EXIT_TROUBLE && code != TW_EXIT_TROUBLE)
            code = TW_EXIT_TROUBLE;
        for (size_t i = 0; i < json_array_size(checkpoints); i++) {
            const json_t *c = json_array_get(checkpoints, i);
            tw_put("  %-10s  %s: tensors %s\n", i ? "" : "checkpoint",
                   json_string_value(json_object_get(c, "path")),
                   json_string_value(json_object_get(c, "outcome")));
        }
        if (now->exit_code != was->exit_code)
            tw_put("  exit        %d in the package, %d here\n", was->exit_code, now->exit_code);
        if (code != TW_EXIT_SAME)
            print_worlds(world);
        tw_put("\n%s  %s\n", last_word(code, v->outcome), last_sentence(code, v->outcome));
        json_decref(checkpoints);
        json_decref(world);
    }
    twin_verdict_free(v);
    twin_run_free(was);
    return code;
}

/* Unpacks the verified copy, runs it and judges what came out. *started: the job may have run. */
static int run_copy(const struct replay_args *a, const char *copy,
                    const struct twin_bag_verdict *verdict, const char *into, bool *started)
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
                                    .progress = progress};
    int rc = twin_unpack(copy, verdict, &o, &u, &err);
    tw_progress_clear();
    if (rc)
        return tw_trouble(&err, "replay: nothing was run");
    rc = say_differences(a, u.differences);
    *started = rc < 0;
    if (rc < 0)
        rc = launch(a, &u, into, &now);
    if (rc < 0 && now->outcome == TWIN_RUN_NOT_STARTED)
        rc = tw_bad_use("replay", "%s", now->message);
    else if (rc < 0 && now->outcome == TWIN_RUN_INTERRUPTED)
        rc = TW_EXIT_INTERRUPTED;
    if (rc < 0) {
        if (!a->quiet)
            tw_say("replayed in %s", into);
        rc = judge(a, &u, now);
    }
    twin_run_free(now);
    twin_unpacked_free(&u);
    return rc;
}

static int replay(const struct replay_args *a, const char *dir)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_verdict verdict = {0};
    char *into = into_of(a, dir), *whole = into ? tw_path_absolute(into, &err) : NULL, *copy = NULL;
    int rc = !whole ? tw_bad_use("replay", "out of memory") : -1;
    /* Paths in options are relative to where we are now. */
    char *tolerance = a->tolerance ? tw_path_absolute(a->tolerance, &err) : NULL;
    struct replay_args b = *a;
    struct stat st;
    /* A folder that we made and did not run in goes away again; of one that was there, what we put
     * into it. */
    bool ours = whole && lstat(whole, &st) != 0, started = false;
    b.tolerance = tolerance;
    if (rc < 0)
        rc = open_package(a, dir, whole, &copy, &verdict);
    if (rc < 0)
        rc = run_copy(&b, copy, &verdict, whole, &started);
    if (!started && copy && lstat(copy, &st) == 0)
        tw_remove_tree(ours ? whole : copy, NULL, NULL);
    twin_bag_verdict_free(&verdict);
    tw_free(tolerance);
    tw_free(copy);
    tw_free(whole);
    tw_free(into);
    return rc;
}

static int run(int argc, char **argv)
{
    struct replay_args a = {0};
    struct tw_operands given;
    int rc = tw_options_parse(&tw_command_replay, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    if (given.count != 1)
        return tw_bad_use("replay", "expected one package, found %zu", given.count);
    if (strcmp(a.environment, "check") != 0 && strcmp(a.environment, "build") != 0 &&
        strcmp(a.environment, "here") != 0)
        return tw_bad_use("replay", "--environment: expected check, build or here, found \"%s\"",
                          a.environment);
    tw_progress_setup(a.quiet);
    if (!twin_package_is(given.items[0]))
        return tw_bad_use("replay", "%s: expected a package (twinrun pack makes one)",
                          given.items[0]);
    return replay(&a, given.items[0]);
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
