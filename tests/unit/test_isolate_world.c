/* SPDX-License-Identifier: Apache-2.0 */
/* Factors and worlds: the table, lists, factor files, plans, and what the processes' words are
 * taken for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

#include "src/isolate/isolate.h"

static struct twin_factors factors;

/* Where an installation has its parts: library and Python half in one folder, made of links into
 * the build folder. */
static char parts[64] = "/tmp/twin-parts-XXXXXX";

static int set_up(void **state)
{
    static const char *const link[][2] = {{"agents/libtwinrun.so", "libtwinrun.so"},
                                          {"python", "python"}};
    const char *build = getenv("TWINRUN_BUILD");
    (void)state;
    if (!build || !mkdtemp(parts))
        return -1;
    for (size_t i = 0; i < 2; i++) {
        char *to = tw_path_join(build, link[i][0]), *from = tw_path_join(parts, link[i][1]);
        int rc = symlink(to, from);
        tw_free(to);
        tw_free(from);
        if (rc != 0)
            return -1;
    }
    setenv("TWINRUN_LIBDIR", parts, 1);
    return twin_factors_load(NULL, &factors, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    twin_factors_free(&factors);
    tw_remove_tree(parts, NULL, NULL);
    return 0;
}

/* ---- the table */

static void every_row_is_whole(void **state)
{
    static const char layers[] = " data rng init forward backward collective optimizer checkpoint "
                                 "environment hardware schedule artifact ";
    (void)state;
    assert_true(factors.count > 0);
    for (size_t i = 0; i < factors.count; i++) {
        const struct twin_factor *f = &factors.factor[i];
        char layer[32];
        assert_ptr_equal(twin_factor_find(&factors, f->id), f); /* no second one has this id */
        snprintf(layer, sizeof layer, " %s ", f->layer);
        assert_non_null(strstr(layers, layer));
        assert_true(*f->title && *f->how && *f->fix);
        assert_true(f->unavailable || f->pin || f->vary);
    }
    static const char *const never[] = {"match-order", "restore.rng", "restore.scheduler",
                                        "version:NAME", "device"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        assert_non_null(twin_factor_find(&factors, never[i])->unavailable);
    assert_null(twin_factor_find(&factors, "hash"));
}

static void layers_come_in_their_order(void **state)
{
    static const char layers[] = "data rng init forward backward collective optimizer checkpoint "
                                 "environment hardware schedule artifact";
    const char *at = layers;
    (void)state;
    for (size_t i = 0; i < factors.count; i++) {
        at = strstr(at, factors.factor[i].layer);
        assert_non_null(at);
    }
}

/* ---- lists */

static const struct twin_setting *setting(const struct twin_world *w, const char *id)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->setting[i].factor->id, id) == 0)
            return &w->setting[i];
    return NULL;
}

/* A build with a sanitizer has no library of hot functions: what these tests say of malloc-fill and
 * noise does not hold there. */
static void needs_hot_library(void)
{
    for (size_t i = 0; i < factors.count; i++)
        if (strcmp(factors.factor[i].id, "malloc-fill") == 0 && factors.factor[i].unavailable)
            skip();
}

static void all_pins_what_is_available(void **state)
{
    struct twin_world w;
    char *left_out;
    size_t pins = 0;
    (void)state;
    needs_hot_library();
    assert_int_equal(twin_world_parse(&factors, "all", &w, &left_out, NULL), 0);
    for (size_t i = 0; i < factors.count; i++) {
        const struct twin_factor *f = &factors.factor[i];
        bool expected = !f->unavailable && f->pin && !f->may_fail;
        pins += expected;
        assert_true((setting(&w, f->id) != NULL) == expected);
        assert_true((strstr(left_out, f->id) != NULL) == !expected);
    }
    assert_int_equal(w.count, pins);
    assert_non_null(strstr(left_out, "match-order (it needs a recorded run: "));
    assert_non_null(strstr(left_out, "noise (it can only be shaken)"));
    assert_non_null(strstr(left_out, "tensorflow-deterministic (operations without "));
    free(left_out);
    twin_world_free(&w);
}

/* Under which a job may fail: a search takes it with "all", a command only by its name. */
static void what_may_break_a_job_is_named_or_on_trial(void **state)
{
    static const char id[] = "tensorflow-deterministic";
    struct twin_factors searched;
    struct twin_world w;
    (void)state;
    assert_int_equal(twin_factors_load(NULL, &searched, NULL), 0);
    twin_factors_on_trial(&searched);
    static const struct {
        const char *list;
        bool search, set, on_trial;
    } rows[] = {
        {"all", false, false, false},
        {"all,tensorflow-deterministic", false, true, false},
        {"all", true, true, true},
        {"all,tensorflow-deterministic", true, true, false},
        {"tensorflow-deterministic,all", true, true, false},
        {"all,-tensorflow-deterministic", true, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct twin_factors *f = rows[i].search ? &searched : &factors;
        assert_int_equal(twin_world_parse(f, rows[i].list, &w, NULL, NULL), 0);
        const struct twin_setting *s = setting(&w, id);
        assert_true((s != NULL) == rows[i].set);
        assert_true(!s || s->on_trial == rows[i].on_trial);
        for (size_t k = 0; k < w.count; k++)
            assert_true(w.setting[k].factor == (s ? s->factor : NULL) || !w.setting[k].on_trial);
        twin_world_free(&w);
    }
    twin_factors_free(&searched);
}

static void lists_add_and_take_away(void **state)
{
    struct twin_world w;
    char *left_out;
    (void)state;
    needs_hot_library();
    assert_int_equal(twin_world_parse(&factors, "all,-threads,-clock,entropy=7,noise=vary:3", &w,
                                      &left_out, NULL),
                     0);
    assert_null(setting(&w, "threads"));
    assert_null(setting(&w, "clock"));
    assert_null(strstr(left_out, "clock")); /* the user knows */
    assert_int_equal(setting(&w, "entropy")->seed, 7);
    assert_int_equal(setting(&w, "entropy")->mode, TWIN_PIN);
    assert_int_equal(setting(&w, "noise")->seed, 3);
    assert_int_equal(setting(&w, "noise")->mode, TWIN_VARY);
    free(left_out);
    twin_world_free(&w);
    assert_int_equal(twin_world_parse(&factors, "threads=4,hash-seed", &w, &left_out, NULL), 0);
    assert_null(left_out);
    assert_int_equal(w.count, 2);
    assert_string_equal(w.setting[0].factor->id, "hash-seed");
    assert_int_equal(w.setting[1].seed, 4);
    twin_world_free(&w);
}

static void bad_lists_are_refused_by_name(void **state)
{
    static const struct {
        const char *list;
        int code;
        const char *says;
    } row[] = {
        {"", TWIN_EINVAL, "found nothing"},
        {"threads,,clock", TWIN_EINVAL, "between the commas"},
        {"hashseed", TWIN_EINVAL, "did you mean hash-seed?"},
        {"all,-thread", TWIN_EINVAL, "did you mean threads?"},
        {"threads=many", TWIN_EINVAL,
         "threads: expected a whole number from 0 to 1024, or vary:SEED, found \"many\""},
        {"threads=4000", TWIN_EINVAL, "from 0 to 1024"},
        {"malloc-fill=256", TWIN_EINVAL, "from 0 to 255"},
        {"aslr=3", TWIN_EINVAL, "takes no value"},
        {"aslr=vary", TWIN_EINVAL, "can only be held still"},
        {"noise", TWIN_EINVAL, "noise=vary:SEED"},
        {"noise=vary:x", TWIN_EINVAL, "expected vary:SEED"},
        {"match-order", TWIN_EUNSUPPORTED, "match-order cannot be set: it needs a recorded run"},
        {"isa=avx9", TWIN_EINVAL, "instruction set of this processor"},
        {"affinity=1023", TWIN_EINVAL, "may not run on processor 1023"},
        {"env:HOME", TWIN_EINVAL, "unknown factor"},
    };
    (void)state;
    needs_hot_library();
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_world w;
        char *left_out;
        if (twin_world_parse(&factors, row[i].list, &w, &left_out, &err) != row[i].code ||
            !strstr(err.message, row[i].says))
            fail_msg("%s: code %d, \"%s\", expected \"%s\"", row[i].list, err.code, err.message,
                     row[i].says);
        assert_null(w.setting);
        assert_null(left_out);
    }
}

/* ---- plans */

static char *const job[] = {"python", "train.py", "--workers=4", NULL};

static const char *variable(const struct twin_world_plan *p, const char *name)
{
    const char *found = NULL;
    for (size_t i = 0; i < p->env_count; i++)
        if (tw_starts(p->env[i], name) && p->env[i][strlen(name)] == '=')
            found = p->env[i] + strlen(name) + 1;
    return found;
}

static void plan_of(const char *list, struct twin_world_plan *p)
{
    struct twin_world w;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_world_parse(&factors, list, &w, NULL, &err) != 0 ||
        twin_world_plan(&w, job, p, &err) != 0)
        fail_msg("%s: %s", list, err.message);
    twin_world_free(&w);
}

static void plans_say_who_does_what(void **state)
{
    struct twin_world_plan p;
    (void)state;
    plan_of("hash-seed,threads=3", &p);
    assert_string_equal(variable(&p, "PYTHONHASHSEED"), "0");
    assert_string_equal(variable(&p, "OMP_NUM_THREADS"), "3");
    assert_string_equal(variable(&p, "MKL_NUM_THREADS"), "3");
    assert_string_equal(variable(&p, "OPENBLAS_NUM_THREADS"), "3");
    assert_string_equal(variable(&p, "TF_NUM_INTRAOP_THREADS"), "3");
    assert_string_equal(variable(&p, "TF_NUM_INTEROP_THREADS"), "3");
    assert_string_equal(variable(&p, "TWINRUN_PINS"), "threads=pin:3");
    assert_string_equal(variable(&p, "TWINRUN_HELD"),
                        "PYTHONHASHSEED,OMP_NUM_THREADS,MKL_NUM_THREADS,OPENBLAS_NUM_THREADS,"
                        "TF_NUM_INTRAOP_THREADS,TF_NUM_INTEROP_THREADS");
    assert_null(variable(&p, "TWINRUN_FACTORS"));
    assert_true(!p.no_aslr && p.cpu == -1 && !p.hot && !p.argv && p.env[p.env_count] == NULL);
    twin_world_plan_free(&p);

    plan_of("entropy=9,dir-order,clock", &p);
    assert_string_equal(variable(&p, "TWINRUN_FACTORS"),
                        "dir-order=pin,entropy=pin:9,clock=pin:1700000000");
    assert_null(variable(&p, "TWINRUN_PINS"));
    assert_false(p.hot);
    twin_world_plan_free(&p);

    plan_of("seed.python=vary:4,seed.torch=2,torch-deterministic", &p);
    assert_string_equal(variable(&p, "TWINRUN_PINS"),
                        "seed.python=vary:4,seed.torch=pin:2,torch-deterministic=pin");
    twin_world_plan_free(&p);

    plan_of("affinity", &p);
    assert_true(p.cpu >= 0);
    twin_world_plan_free(&p);
}

/* Clocks that run faster stand beside the pins of a world; a pinned clock cannot. */
static void clocks_run_faster_beside_pins(void **state)
{
    struct twin_world_plan p = {.cpu = -1};
    struct twin_error err = TWIN_ERROR_INIT;
    (void)state;
    assert_int_equal(twin_world_plan_faster(&p, 64, 5, &err), 0);
    assert_string_equal(variable(&p, "TWINRUN_FACTORS"), "clock=scale:64:5");
    twin_world_plan_free(&p);
    plan_of("hash-seed", &p);
    assert_int_equal(twin_world_plan_faster(&p, 12, 7, &err), 0);
    assert_string_equal(variable(&p, "TWINRUN_FACTORS"), "clock=scale:12:7");
    twin_world_plan_free(&p);
    plan_of("entropy=9,dir-order", &p);
    assert_int_equal(twin_world_plan_faster(&p, 12, 7, &err), 0);
    assert_non_null(strstr(variable(&p, "TWINRUN_FACTORS"), "entropy=pin:9"));
    assert_non_null(strstr(variable(&p, "TWINRUN_FACTORS"), ",clock=scale:12:7"));
    twin_world_plan_free(&p);
    plan_of("clock", &p);
    assert_int_equal(twin_world_plan_faster(&p, 12, 7, &err), TWIN_EINVAL);
    assert_null(strstr(variable(&p, "TWINRUN_FACTORS"), "scale"));
    twin_world_plan_free(&p);
}

static void libraries_of_hot_functions_and_layout(void **state)
{
    struct twin_world_plan p;
    (void)state;
    if (!twin_factor_find(&factors, "malloc-fill")->unavailable) {
        plan_of("malloc-fill=255,noise=vary:6", &p);
        assert_string_equal(variable(&p, "TWINRUN_FACTORS"), "malloc-fill=pin:255,noise=vary:6");
        assert_true(p.hot);
        twin_world_plan_free(&p);
    }
    if (!twin_factor_find(&factors, "aslr")->unavailable) {
        plan_of("aslr", &p);
        assert_true(p.no_aslr);
        twin_world_plan_free(&p);
    }
}

static void variations_differ_from_the_pin(void **state)
{
    static const char *const ids[] = {"hash-seed", "threads", "isa"};
    static const char *const names[] = {"PYTHONHASHSEED", "OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct twin_world_plan pinned, shaken;
        char list[64];
        if (!twin_factor_find(&factors, ids[i])->vary)
            continue;
        plan_of(ids[i], &pinned);
        snprintf(list, sizeof list, "%s=vary:0", ids[i]);
        plan_of(list, &shaken);
        assert_string_not_equal(variable(&pinned, names[i]), variable(&shaken, names[i]));
        twin_world_plan_free(&pinned);
        twin_world_plan_free(&shaken);
    }
}

static void the_natural_world_is_empty(void **state)
{
    struct twin_world_plan p;
    (void)state;
    assert_int_equal(twin_world_plan(&(struct twin_world){0}, job, &p, NULL), 0);
    assert_true(p.env_count == 0 && p.cpu == -1 && !p.no_aslr && !p.hot && !p.argv);
    twin_world_plan_free(&p);
}

/* ---- factor files */

static char file[64];

static int load(const char *text, struct twin_factors *f, struct twin_error *err)
{
    snprintf(file, sizeof file, "/tmp/twin-factors-XXXXXX");
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(tw_write_all(fd, text, strlen(text)), 0);
    close(fd);
    *err = (struct twin_error)TWIN_ERROR_INIT;
    int rc = twin_factors_load(file, f, err);
    unlink(file);
    return rc;
}

static void factor_files_add_factors(void **state)
{
    struct twin_factors f;
    struct twin_world w;
    struct twin_world_plan p;
    struct twin_error err;
    (void)state;
    assert_int_equal(
        load("# mine\n[[factor]]\nid = \"user:schedule\"\nlayer = 'forward'\ntitle = \"how loops "
             "are split\"\nunit = \"exposure\"\n"
             "env = {OMP_SCHEDULE = \"static\", OMP_DYNAMIC = 'false'} # both\nvary_env = "
             "{OMP_SCHEDULE = \"dynamic,1\"}\n\n"
             "[[factor]]\nid = \"user:workers\"\nlayer = \"data\"\ntitle = \"workers\"\nfix = "
             "\"use none\"\nreplace = [\"--workers=4\", \"--workers=0\"]\n",
             &f, &err),
        0);
    const struct twin_factor *schedule = twin_factor_find(&f, "user:schedule");
    assert_string_equal(schedule->pin, "OMP_SCHEDULE=static, OMP_DYNAMIC=false");
    assert_string_equal(schedule->vary, "OMP_SCHEDULE=dynamic,1");
    assert_int_equal(schedule->unit, TWIN_UNIT_EXPOSURE);
    assert_string_equal(twin_factor_find(&f, "user:workers")->pin, "--workers=4 -> --workers=0");
    assert_int_equal(twin_world_parse(&f, "user:schedule,user:workers", &w, NULL, &err), 0);
    assert_int_equal(twin_world_plan(&w, job, &p, &err), 0);
    assert_string_equal(variable(&p, "OMP_SCHEDULE"), "static");
    assert_string_equal(p.argv[2], "--workers=0");
    assert_null(p.argv[3]);
    assert_string_equal(job[2], "--workers=4");
    twin_world_plan_free(&p);
    char *const other[] = {"python", NULL};
    assert_int_equal(twin_world_plan(&w, other, &p, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "no argument \"--workers=4\""));
    twin_world_free(&w);
    twin_factors_free(&f);
}

#define GOOD "[[factor]]\nid = \"user:a\"\nlayer = \"data\"\ntitle = \"t\"\n"

static void factor_files_are_refused_by_line(void **state)
{
    static const struct {
        const char *text, *says;
    } row[] = {
        {"", "no [[factor]] in it"},
        {"id = \"user:a\"\n", "line 1: expected [[factor]]"},
        {"[[factors]]\n", "line 1: expected [[factor]]"},
        {GOOD, "line 1: this factor has no env or replace"},
        {"\n[[factor]]\nenv = {A = \"1\"}\n", "line 2: this factor has no id"},
        {GOOD "env = {A = \"1\"}\ncolour = \"red\"\n", "line 6: unknown key colour"},
        {GOOD "vary_evn = {A = \"1\"}\n", "did you mean vary_env?"},
        {"[[factor]]\nid = \"mine\"\n", "line 2: id: expected \"user:NAME\""},
        {"[[factor]]\nid = 3\n", "line 2: id: expected a text in quotes"},
        {"[[factor]]\nlayer = \"weather\"\n", "line 2: layer: expected one of data"},
        {GOOD "env = \"A=1\"\n", "line 5: env: expected variables"},
        {GOOD "env = {}\n", "line 5: env: expected variables"},
        {GOOD "env = {A = 1}\n", "line 5: expected a string in quotes"},
        {GOOD "env = {A = \"1\",}\n", "line 5: expected key = value"},
        {GOOD "env = {A = \"1\"\n", "line 5: expected a comma or }"},
        {GOOD "env = {A = \"1\"} B\n", "line 5: expected nothing behind the value"},
        {GOOD "env = {LD_PRELOAD = \"x\"}\n", "line 5: LD_PRELOAD"},
        {GOOD "replace = [\"--a\"]\n", "line 5: replace: expected two arguments"},
        {GOOD "replace = [\"--a\", \"--b\"]\nenv = {A = \"1\"}\n", "make two factors of it"},
        {GOOD "title = \"u\"\n", "line 5: key title is given twice"},
        {GOOD "unit = \"day\"\n", "line 5: unit: expected \"run\""},
        {GOOD "title2 = \"never ends\n", "line 5: expected a string that ends on its line"},
        {GOOD "env = {A = \"1\"}\n" GOOD "env = {A = \"1\"}\n",
         "line 6: there is a factor user:a already"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct twin_factors f;
        struct twin_error err;
        if (load(row[i].text, &f, &err) != TWIN_EFORMAT || !strstr(err.message, row[i].says) ||
            !strstr(err.message, file))
            fail_msg("row %zu: code %d, \"%s\", expected \"%s\"", i, err.code, err.message,
                     row[i].says);
        assert_int_equal(f.count, 0);
    }
    struct twin_factors f;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_factors_load("/nonexistent/factors.toml", &f, &err), TWIN_ENOENT);
}

/* ---- effects: a run folder with words of our own in it */

static char folder[64];

static void say(const char *name, const char *text)
{
    char *path = tw_path_join(folder, name);
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
    tw_free(path);
}

struct expectation {
    const char *list;
    enum twin_effect effect;
    const char *text;
};

static void check_effects(const struct twin_run *run, const struct expectation *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct twin_world w;
        struct twin_world_effect *e;
        assert_int_equal(twin_world_parse(&factors, x[i].list, &w, NULL, NULL), 0);
        assert_int_equal(twin_world_effects(&w, run, &e, NULL), 0);
        if (e[0].effect != x[i].effect || !strstr(e[0].text, x[i].text))
            fail_msg("%s: effect %d, \"%s\", expected %d, \"%s\"", x[i].list, (int)e[0].effect,
                     e[0].text, (int)x[i].effect, x[i].text);
        twin_world_effects_free(e, w.count);
        twin_world_free(&w);
    }
}

static void effects_are_what_processes_say(void **state)
{
    struct twin_run_process process[] = {{.pid = 7, .argv = "python", .armed = true}};
    struct twin_run run = {.dir = folder,
                           .processes = process,
                           .process_count = 1,
                           .aslr = {true, true, NULL},
                           .affinity = {true, false, "refused"},
                           .cpu = 1};
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/twin-effects-XXXXXX");
    assert_non_null(mkdtemp(folder));
    say("processes", "7 1 99 native /usr/bin/python3 train.py\n");
    say("faults", "7 TWINRUN_FACTORS: malloc-fill is off: libtwinrun_hot.so is not preloaded\n");
    say("factors",
        "7\t0\tmain\tenv.PYTHONHASHSEED\t0\n7\t0\tmain\tenv.OMP_NUM_THREADS\t8\n7\t0\tmain\tunset."
        "CUBLAS_WORKSPACE_CONFIG\t\n"
        "7\t0\tmain\tunset.NCCL_ALGO\t\n"
        "7\t0\tmain\theld.layout\tfixed\n7\t0\tmain\teffect.entropy\tpin 7\n8\t0\tchild "
        "1\teffect.entropy\tpin 7\n"
        "7\t0\tmain\teffect.seed.torch\tpin 0\n7\t0\tmain\teffect.seed.numpy\tfailed: numpy is too "
        "old\n7\t0\tmain\teffect.executor-order\tnot used: concurrent.futures._base was not "
        "imported\n"
        "7\t0\tmain\teffect.seed.python\tpin 0\n7\t0\tmain\teffect.seed.python\toverridden: the "
        "job sets it itself, at job.py:3\n"
        "7\t0\tmain\teffect.ddp-buckets\tpin first layout\n8\t0\tchild 1\teffect.ddp-buckets\tnot "
        "used: no torch\na line cut sh");
    const struct expectation x[] = {
        {"hash-seed", TWIN_EFFECT_IN_FORCE, "PYTHONHASHSEED=0"},
        {"hash-seed=5", TWIN_EFFECT_FAILED, "process 7 found PYTHONHASHSEED=0 instead of 5"},
        {"threads", TWIN_EFFECT_FAILED, "process 7 found OMP_NUM_THREADS=8 instead of 1"},
        {"entropy=7", TWIN_EFFECT_IN_FORCE, "pin 7, in 2 processes"},
        {"dir-order", TWIN_EFFECT_NOT_USED, "nothing asked for it"},
        {"seed.torch", TWIN_EFFECT_IN_FORCE, "pin 0"},
        {"seed.numpy", TWIN_EFFECT_FAILED, "process 7: numpy is too old"},
        {"torch-deterministic", TWIN_EFFECT_NOT_USED, "no process used torch"},
        {"executor-order", TWIN_EFFECT_NOT_USED, "concurrent.futures._base was not imported"},
        {"seed.python", TWIN_EFFECT_NOT_USED, "overridden: the job sets it itself, at job.py:3"},
        {"ddp-buckets", TWIN_EFFECT_IN_FORCE, "pin first layout"},
        {"affinity", TWIN_EFFECT_FAILED, "refused"},
        {"collective-algorithm", TWIN_EFFECT_FAILED, "process 7 found NCCL_ALGO unset"},
        {"autotune", TWIN_EFFECT_UNKNOWN, "not seen to arrive"},
    };
    check_effects(&run, x, sizeof x / sizeof x[0]);
    /* a limit on the size of files has cut the last line, and one before another process wrote */
    say("factors", "7\t0\tmain\tenv.OMP_NUM_THREADS\t1\n7\t0\tmain\tenv.OMP_NUM_THREADS\t"
                   "8\t0\tmain\tenv.OMP_NUM_THREADS\t1\n9\t0\tmain\tenv.OMP_NUM_THREADS\t");
    check_effects(&run, &(struct expectation){"threads", TWIN_EFFECT_IN_FORCE, "OMP_NUM_THREADS=1"},
                  1);
    /* the job has set the variable before its second process began: its wish, not an accident */
    say("factors", "7\t0\tmain\tenv.TF_ENABLE_ONEDNN_OPTS\t0\n8\t0\tmain\t"
                   "env.TF_ENABLE_ONEDNN_OPTS\t1\n7\t0\t\teffect.onednn\t"
                   "overridden: the job sets it to 1 before it imports TensorFlow\n");
    check_effects(
        &run, &(struct expectation){"onednn", TWIN_EFFECT_NOT_USED, "overridden: the job sets it"},
        1);
    say("factors", "7\t0\tmain\tenv.TF_ENABLE_ONEDNN_OPTS\t0\n8\t0\tmain\t"
                   "env.TF_ENABLE_ONEDNN_OPTS\t1\n7\t0\t\teffect.onednn\tpin off\n");
    check_effects(
        &run, &(struct expectation){"onednn", TWIN_EFFECT_FAILED, "found TF_ENABLE_ONEDNN_OPTS=1"},
        1);
    /* as on a machine with a GPU */
    ((struct twin_factor *)(uintptr_t)twin_factor_find(&factors, "tf32"))->unavailable = NULL;
    check_effects(
        &run,
        &(struct expectation){"tf32=vary:1", TWIN_EFFECT_UNKNOWN, "nothing can be seen of it"}, 1);
    if (!twin_factor_find(&factors, "aslr")->unavailable)
        check_effects(&run, &(struct expectation){"aslr", TWIN_EFFECT_IN_FORCE, "layout fixed"}, 1);
    if (!twin_factor_find(&factors, "malloc-fill")->unavailable)
        check_effects(&run,
                      &(struct expectation){"malloc-fill", TWIN_EFFECT_FAILED,
                                            "libtwinrun_hot.so is not preloaded"},
                      1);
    say("faults", "7 TWINRUN_FACTORS: everything is off: no memory\n");
    check_effects(
        &run,
        &(struct expectation){"dir-order", TWIN_EFFECT_FAILED, "everything is off: no memory"}, 1);
    say("processes", "7 1 99 native /usr/bin/train\n");
    const struct expectation native[] = {
        {"hash-seed", TWIN_EFFECT_NOT_USED, "no Python process"},
        {"loader-workers", TWIN_EFFECT_NOT_USED, "no Python process"},
    };
    check_effects(&run, native, sizeof native / sizeof native[0]);
    say("factors", "7\t0\tmain\theld.layout\trandom\n");
    if (!twin_factor_find(&factors, "aslr")->unavailable)
        check_effects(&run,
                      &(struct expectation){
                          "aslr", TWIN_EFFECT_FAILED,
                          "process 7 has layout random instead of fixed: changed on the way"},
                      1);
    tw_remove_tree(folder, NULL, NULL);
}

static void without_an_agent_nothing_is_claimed(void **state)
{
    struct twin_run_process process[] = {
        {.pid = 7, .argv = "busybox", .armed = false, .why = "static binary"}};
    struct twin_run run = {.dir = folder, .processes = process, .process_count = 1};
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/twin-effects-XXXXXX");
    assert_non_null(mkdtemp(folder));
    const struct expectation x[] = {
        {"entropy", TWIN_EFFECT_FAILED,
         "process 7 (busybox) does not carry the agent: static binary"},
        {"threads", TWIN_EFFECT_UNKNOWN, "static binary"},
        {"seed.python", TWIN_EFFECT_FAILED, "static binary"},
        {"affinity", TWIN_EFFECT_FAILED, "the launcher was not asked for it"},
    };
    check_effects(&run, x, sizeof x / sizeof x[0]);
    process[0].why = NULL;
    check_effects(
        &run,
        &(struct expectation){"entropy", TWIN_EFFECT_FAILED,
                              "process 7 (busybox) does not carry the agent: why is not known"},
        1);
    run.process_count = 0;
    check_effects(&run,
                  &(struct expectation){"entropy", TWIN_EFFECT_FAILED,
                                        "not in force: no process carries the agent"},
                  1);
    say("processes", "6 1 99 native /bin/sh job\n");
    struct twin_run_process both[] = {{.pid = 6, .argv = "sh", .armed = true}, process[0]};
    run.processes = both;
    run.process_count = 2;
    check_effects(
        &run,
        &(struct expectation){"entropy", TWIN_EFFECT_UNKNOWN, "no armed process asked for it"}, 1);
    tw_remove_tree(folder, NULL, NULL);
}

/* ---- memory */

static void every_allocation_may_fail(void **state)
{
    char *const argv[] = {"job", "--a", NULL};
    bool done = false;
    (void)state;
    for (uint64_t n = 1; !done; n++) {
        struct twin_factors f;
        struct twin_world w = {0};
        struct twin_world_plan p = {.cpu = -1};
        struct twin_error err = TWIN_ERROR_INIT;
        char *left_out = NULL;
        tw_alloc_fail_at(n, false);
        int rc = load(GOOD "fix = \"f\"\nenv = {A = \"1\"}\n[[factor]]\nid = \"user:b\"\nlayer = "
                           "\"data\"\ntitle = \"t\"\nreplace = [\"--a\", \"--b\"]\n",
                      &f, &err);
        if (rc == 0)
            rc = twin_world_parse(&f, "all", &w, &left_out, &err);
        if (rc == 0)
            rc = twin_world_plan(&w, argv, &p, &err);
        tw_alloc_fail_at(0, false);
        done = rc == 0;
        if (rc != 0)
            assert_int_equal(rc, TWIN_ENOMEM);
        twin_world_plan_free(&p);
        twin_world_free(&w);
        twin_factors_free(&f);
        free(left_out);
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(layers_come_in_their_order),
        cmocka_unit_test(what_may_break_a_job_is_named_or_on_trial),
        cmocka_unit_test(all_pins_what_is_available),
        cmocka_unit_test(lists_add_and_take_away),
        cmocka_unit_test(bad_lists_are_refused_by_name),
        cmocka_unit_test(plans_say_who_does_what),
        cmocka_unit_test(clocks_run_faster_beside_pins),
        cmocka_unit_test(libraries_of_hot_functions_and_layout),
        cmocka_unit_test(variations_differ_from_the_pin),
        cmocka_unit_test(the_natural_world_is_empty),
        cmocka_unit_test(factor_files_add_factors),
        cmocka_unit_test(factor_files_are_refused_by_line),
        cmocka_unit_test(effects_are_what_processes_say),
        cmocka_unit_test(without_an_agent_nothing_is_claimed),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("isolate_world", tests, set_up, tear_down);
}
