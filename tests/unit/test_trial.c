/* SPDX-License-Identifier: Apache-2.0 */
/* Watched runs, with a person in front who is a buffer: how each of them ends, and what is shown of
 * it. */
#include "run_state.h"
#include "series.h"
#include "trial.h"
#include "verified_data.h"
#include "workers.h"

#include "launch_test.h"

#include <limits.h>

/* What the person in front heard and saw, and when they want an end. */
struct listener {
    char last_line[256], last_progress[256], last_said[256];
    unsigned said, lines, shown;
    bool stops;
    unsigned stops_after; /* progress shown so many times; 0: never by that */
};

static void hear(void *user, const char *message)
{
    struct listener *l = user;
    snprintf(l->last_said, sizeof l->last_said, "%s", message);
    l->said++;
}

static void read_line(void *user, const char *line)
{
    struct listener *l = user;
    snprintf(l->last_line, sizeof l->last_line, "%s", line);
    l->lines++;
}

static void see(void *user, const char *line)
{
    struct listener *l = user;
    if (!line)
        return;
    snprintf(l->last_progress, sizeof l->last_progress, "%s", line);
    l->shown++;
}

static bool wants_an_end(void *user)
{
    const struct listener *l = user;
    return l->stops || (l->stops_after && l->shown >= l->stops_after);
}

static struct tw_front front_of(struct listener *l)
{
    return (struct tw_front){
        .user = l, .say = hear, .line = read_line, .progress = see, .stop = wants_an_end};
}

static struct twin_launch_options options_of(char *const *argv)
{
    return (struct twin_launch_options){.argv = argv,
                                        .label = "trial",
                                        .level = TWIN_LEVEL_STEPS,
                                        .window_last = UINT32_MAX,
                                        .no_telemetry = true};
}

static void make_trial(struct tw_trial *t, char *const *argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_launch_options o = options_of(argv);
    int rc = tw_trial_make(t, &o, &err);
    if (rc != 0)
        fail_msg("%d: %s", rc, err.message);
    assert_non_null(t->run);
}

static void ends_well(void **state)
{
    (void)state;
    struct listener l = {.said = 0};
    struct tw_front front = front_of(&l);
    struct tw_trial t = {.front = &front, .title = "run 1/3"};
    char *argv[] = {"sh", "-c", "sleep 0.6; exit 3", NULL};
    char text[32];
    make_trial(&t, argv);
    assert_int_equal(t.end, TW_TRIAL_RAN);
    assert_true(t.started);
    assert_true(tw_run_failed(t.run));
    assert_string_equal(tw_run_state(t.run, text), "exit 3");
    assert_int_equal(l.said, 0);
    assert_true(l.shown > 0);
    assert_memory_equal(l.last_progress, "run 1/3  ", 9);
    tw_trial_line(&front, t.title, t.run, "exit 3");
    assert_int_equal(l.lines, 1);
    assert_memory_equal(l.last_line, "run 1/3  exit 3  ", 17);
    assert_non_null(strstr(l.last_line, "0 steps  0 records"));
    twin_run_free(t.run);
}

static void deadline_stops_it(void **state)
{
    (void)state;
    struct tw_trial t = {.deadline_ns = tw_monotonic_ns() + 300000000};
    char *argv[] = {"sleep", "60", NULL};
    make_trial(&t, argv);
    assert_int_equal(t.end, TW_TRIAL_OUT_OF_TIME);
    assert_int_equal(t.run->outcome, TWIN_RUN_STOPPED);
    assert_false(tw_run_failed(t.run));
    assert_true(t.run->wall_s < 50);
    twin_run_free(t.run);
}

static void person_stops_it(void **state)
{
    (void)state;
    struct listener l = {.stops_after = 2};
    struct tw_front front = front_of(&l);
    struct tw_trial t = {.front = &front, .title = "run"};
    char *argv[] = {"sleep", "60", NULL};
    make_trial(&t, argv);
    assert_int_equal(t.end, TW_TRIAL_INTERRUPTED);
    assert_true(t.run->wall_s < 50);
    twin_run_free(t.run);
}

/* The command would leave a file behind. */
static void person_stops_between_runs(void **state)
{
    (void)state;
    struct listener l = {.stops = true};
    struct tw_front front = front_of(&l);
    struct tw_trial t = {.front = &front, .title = "run"};
    struct twin_error err = TWIN_ERROR_INIT;
    char *argv[] = {"touch", "was-here", NULL};
    struct twin_launch_options o = options_of(argv);
    assert_int_equal(tw_trial_make(&t, &o, &err), TWIN_EINTR);
    assert_null(t.run);
    assert_false(t.started);
    assert_int_not_equal(access("was-here", F_OK), 0);
}

static void cannot_start(void **state)
{
    (void)state;
    struct tw_trial t = {.title = "run"};
    char *argv[] = {"no-such-program-here", NULL};
    make_trial(&t, argv);
    assert_int_equal(t.end, TW_TRIAL_NOT_STARTED);
    assert_non_null(strstr(t.run->message, "no-such-program-here"));
    assert_true(tw_run_failed(t.run));
    twin_run_free(t.run);
}

static void no_place_for_the_folder(void **state)
{
    (void)state;
    struct tw_trial t = {.title = "run"};
    struct twin_error err = TWIN_ERROR_INIT;
    char *argv[] = {"true", NULL};
    struct twin_launch_options o = options_of(argv);
    write_text("home", "a file where a folder ought to be");
    assert_int_not_equal(tw_trial_make(&t, &o, &err), 0);
    assert_null(t.run);
    assert_true(*err.message != '\0');
}

/* A trial is used again for the next run: nothing of the one before is left in it. */
static void begins_anew(void **state)
{
    (void)state;
    struct tw_trial t = {.deadline_ns = tw_monotonic_ns() + 200000000};
    char *slow[] = {"sleep", "60", NULL}, *quick[] = {"true", NULL};
    make_trial(&t, slow);
    assert_int_equal(t.end, TW_TRIAL_OUT_OF_TIME);
    twin_run_free(t.run);
    t.deadline_ns = 0;
    make_trial(&t, quick);
    assert_int_equal(t.end, TW_TRIAL_RAN);
    twin_run_free(t.run);
}

static void several_at_once(void **state)
{
    (void)state;
    struct listener l = {.said = 0};
    struct tw_front front = front_of(&l);
    struct tw_workers w;
    struct twin_error err = TWIN_ERROR_INIT;
    char *argv[3][4] = {
        {"sh", "-c", "sleep 0.5", NULL}, {"sh", "-c", "exit 4", NULL}, {"sleep", "60", NULL, NULL}};
    assert_int_equal(tw_workers_open(&w, &front, 3, &err), 0);
    for (size_t i = 0; i < 3; i++) {
        struct tw_trial t = {.front = &front};
        if (i == 2)
            t.deadline_ns = tw_monotonic_ns() + 300000000;
        struct twin_launch_options o = options_of(argv[i]);
        assert_int_equal(tw_workers_start(&w, &o, &t, &err), 0);
    }
    tw_workers_wait(&w, "runs 1 to 3", 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(w.worker[i].rc, 0);
    assert_int_equal(w.worker[0].trial.end, TW_TRIAL_RAN);
    assert_int_equal(w.worker[1].trial.run->exit_code, 4);
    assert_int_equal(w.worker[2].trial.end, TW_TRIAL_OUT_OF_TIME);
    /* all that a worker found comes over, as of a run that is made in this process */
    for (size_t i = 0; i < 3; i++)
        assert_true(w.worker[i].trial.started);
    assert_false(w.interrupted);
    tw_workers_close(&w);
}

/* Three runs, the first of which is the reference. Without an agent nothing that they computed is
 * seen. */
static void series_of_runs(void **state)
{
    (void)state;
    struct listener l = {.said = 0};
    struct tw_front front = front_of(&l);
    struct tw_series s = {.front = &front, .command = "test", .home = tw_strdup("home")};
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_compare_options how = {.steps = 0};
    char *argv[3][3] = {{"echo", "one", NULL}, {"echo", "two", NULL}, {"echo", "one", NULL}};
    for (size_t i = 0; i < 3; i++) {
        struct twin_launch_options o = options_of(argv[i]);
        struct twin_run *run = NULL;
        assert_int_equal(tw_series_run(&s, &o, "run", &how, &run, &err), 0);
        assert_int_equal(s.trial.end, TW_TRIAL_RAN);
        assert_int_equal(tw_series_keep(&s, run, &err), 0);
    }
    assert_int_equal(tw_series_compare(&s, &how, &err), 0);
    assert_int_equal(s.v->outcome, TWIN_INCONCLUSIVE);
    assert_int_equal(s.v->runs, 3);
    assert_true(tw_series_has_room(&s, 10, false));
    assert_int_equal(l.said, 0);
    l.stops = true;
    assert_int_equal(tw_series_compare(&s, &how, &err), 0);
    assert_true(s.interrupted);
    tw_series_clear(&s);
    assert_int_equal(s.count, 0);
    assert_null(s.v);
    tw_series_free(&s);
}

/* Runs 0 and 2 agree, run 1 does not, and of run 3 no class knows. */
static void other_class(void **state)
{
    (void)state;
    size_t usual[] = {0, 2}, odd[] = {1};
    struct twin_class classes[] = {{.runs = odd, .members = 1}, {.runs = usual, .members = 2}};
    struct twin_verdict v = {.classes = classes, .class_count = 2};
    struct tw_series s = {.v = &v};
    assert_false(tw_series_diverged(&s, 0));
    assert_true(tw_series_diverged(&s, 1));
    assert_false(tw_series_diverged(&s, 2));
    s.v = NULL;
    assert_false(tw_series_diverged(&s, 1));
}

/* So much is not free anywhere: the person hears it, with the name of the command in front. */
static void series_without_room(void **state)
{
    (void)state;
    struct listener l = {.said = 0};
    struct tw_front front = front_of(&l);
    struct tw_series s = {.front = &front, .command = "test", .home = tw_strdup(".")};
    struct twin_error err = TWIN_ERROR_INIT;
    char *argv[] = {"sh", "-c", "yes | head -c 1000000", NULL};
    struct twin_launch_options o = options_of(argv);
    struct twin_run *run = NULL;
    assert_int_equal(tw_series_run(&s, &o, "run", NULL, &run, &err), 0);
    assert_int_equal(tw_series_keep(&s, run, &err), 0);
    assert_false(tw_series_has_room(&s, UINT64_C(1) << 40, true));
    assert_int_equal(l.said, 1);
    assert_memory_equal(l.last_said, "test: expected ", 15);
    tw_series_free(&s);
}

static void names_of_data(void **state)
{
    (void)state;
    static const struct {
        const char *given, *dir, *manifest;
    } cases[] = {
        {"data", "data", "data.snapshot"},
        {"data//", "data//", "data.snapshot"},
        {"a=b=c.snapshot", "a=b", "c.snapshot"},
        {"/", "/", "/.snapshot"},
        {"data=", "data", ""},
        {"=m", "", "m"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = NULL, *manifest = NULL;
        assert_true(tw_data_split(cases[i].given, &dir, &manifest));
        assert_string_equal(dir, cases[i].dir);
        assert_string_equal(manifest, cases[i].manifest);
        tw_free(dir);
        tw_free(manifest);
    }
}

/* A folder of data that is what its manifest says may be used; one that is not may not. */
static void data_are_held_against_their_snapshot(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_snapshot_options o = {.paranoid = true};
    struct twin_snapshot s;
    struct twin_run_data out = {.folder = NULL};
    struct tw_data_held held;
    char cache[PATH_MAX];
    assert_non_null(getcwd(cache, sizeof cache));
    setenv("XDG_CACHE_HOME", cache, 1);
    assert_int_equal(tw_data_hold("data", "data.snapshot", &o, &held, &out, &err), TWIN_ENOENT);
    assert_false(held.read);
    tw_data_held_free(&held);
    assert_int_equal(tw_mkdirs("data", NULL), 0);
    assert_int_equal(tw_write_file_atomic("data/x", "one", 3, NULL), 0);
    assert_int_equal(twin_snapshot_take("data", &o, &s, NULL), 0);
    assert_int_equal(twin_snapshot_write(&s, "data.snapshot", NULL), 0);
    twin_snapshot_free(&s);
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(tw_data_hold("data", "data.snapshot", &o, &held, &out, &err), 0);
    assert_int_equal(held.differences, 0);
    assert_int_equal(out.files, 1);
    assert_string_equal(out.root, held.was.root);
    tw_free((void *)(uintptr_t)out.folder);
    tw_free((void *)(uintptr_t)out.manifest);
    tw_data_held_free(&held);
    out = (struct twin_run_data){.folder = NULL};
    assert_int_equal(tw_write_file_atomic("data/x", "two", 3, NULL), 0);
    assert_int_equal(tw_write_file_atomic("data/y", "new", 3, NULL), 0);
    assert_int_equal(tw_data_hold("data", "data.snapshot", &o, &held, &out, &err), 0);
    assert_int_equal(held.differences, 2);
    assert_null(out.folder);
    tw_data_held_free(&held);
}

static void patience(void **state)
{
    (void)state;
    uint64_t now = tw_monotonic_ns(), end = tw_patience_ends_ns(&tw_patience_of_less_work, 2.0);
    assert_true(end >= now + 66 * UINT64_C(1000000000));
    assert_true(end < now + 76 * UINT64_C(1000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(ends_well),
        IN_FOLDER(deadline_stops_it),
        IN_FOLDER(person_stops_it),
        IN_FOLDER(person_stops_between_runs),
        IN_FOLDER(cannot_start),
        IN_FOLDER(no_place_for_the_folder),
        IN_FOLDER(begins_anew),
        IN_FOLDER(several_at_once),
        IN_FOLDER(data_are_held_against_their_snapshot),
        IN_FOLDER(series_of_runs),
        IN_FOLDER(series_without_room),
        cmocka_unit_test(other_class),
        cmocka_unit_test(names_of_data),
        cmocka_unit_test(patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
