/* SPDX-License-Identifier: Apache-2.0 */
/* The launch room from inside: run folders, their reader and what it makes of damaged ones, finding
 * and removing. */
#include "launch_test.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_levels(void **state)
{
    (void)state;
    enum twin_level l = TWIN_LEVEL_OPS;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(twin_level_parse(twin_level_name((enum twin_level)i), &l), 0);
        assert_int_equal(l, i);
    }
    assert_int_equal(twin_level_parse("everything", &l), TWIN_EINVAL);
    assert_int_equal(twin_level_parse("", &l), TWIN_EINVAL);
}

static void check_same(const struct twin_run *a, const struct twin_run *b)
{
    assert_string_equal(a->dir, b->dir);
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->label, b->label);
    assert_string_equal(a->cwd, b->cwd);
    assert_string_equal(a->host, b->host);
    assert_string_equal(a->message, b->message);
    assert_int_equal(a->argc, b->argc);
    for (size_t i = 0; i < a->argc; i++)
        assert_string_equal(a->argv[i], b->argv[i]);
    assert_int_equal(a->start_realtime_ns, b->start_realtime_ns);
    assert_true(a->wall_s - b->wall_s < 1e-9 && b->wall_s - a->wall_s < 1e-9);
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(a->exit_code, b->exit_code);
    assert_int_equal(a->signal, b->signal);
    assert_int_equal(a->level, b->level);
    assert_int_equal(a->max_steps, b->max_steps);
    assert_int_equal(a->trace_count, b->trace_count);
    for (size_t i = 0; i < a->trace_count; i++)
        assert_string_equal(a->traces[i], b->traces[i]);
    assert_int_equal(a->process_count, b->process_count);
    for (size_t i = 0; i < a->process_count; i++)
        assert_string_equal(a->processes[i].argv, b->processes[i].argv);
    assert_int_equal(a->file_count, b->file_count);
    for (size_t i = 0; i < a->file_count; i++) {
        assert_string_equal(a->files[i].path, b->files[i].path);
        assert_string_equal(a->files[i].sha256, b->files[i].sha256);
    }
    assert_int_equal(a->stdout_bytes, b->stdout_bytes);
    assert_string_equal(a->stdout_sha256, b->stdout_sha256);
    assert_int_equal(a->note_count, b->note_count);
}

/* What twin_launch returns and what twin_run_load reads is the same run; names that are not UTF-8
 * included. */
static void test_launch_and_load(void **state)
{
    (void)state;
    char *argv[] = {"sh",
                    "-c",
                    "echo hello; echo x >\"$1\"; : >$OLDPWD/z; cd \"$2\" && touch 10.5.twt 2.7.twt "
                    "2.61.twt odd.twt not-a-trace",
                    "sh",
                    "caf\xe9",
                    NULL,
                    NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    argv[5] = "home";
    char *script = tw_printf("echo hello; echo x >\"$1\"; cd home/runs/*/ranks && touch 10.5.twt "
                             "2.7.twt 2.61.twt odd.twt not-a-trace");
    argv[2] = script;
    struct twin_run *run = run_command("my label/1", argv), *again = NULL;
    assert_int_equal(run->outcome, TWIN_RUN_EXITED);
    assert_int_equal(run->exit_code, 0);
    assert_non_null(strstr(run->dir, "-my_label_1-"));
    /* sha256sum of hello\n */
    assert_string_equal(run->stdout_sha256,
                        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    assert_int_equal(run->trace_count, 4);
    static const char *const order[] = {"/ranks/2.7.twt", "/ranks/2.61.twt", "/ranks/10.5.twt",
                                        "/ranks/odd.twt"};
    for (size_t i = 0; i < 4; i++)
        assert_true(tw_ends(run->traces[i], order[i]));
    assert_int_equal(run->file_count, 1);
    assert_string_equal(run->files[0].path, "caf\xe9");
    assert_int_equal(twin_run_load(run->dir, &again, &err), 0);
    check_same(run, again);
    twin_run_free(run);
    twin_run_free(again);
    tw_free(script);
}

static void test_bad_options(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *run = (struct twin_run *)&err;
    char *none[] = {NULL}, *yes[] = {"true", NULL}, *odd[] = {"NOT_AN_ASSIGNMENT", NULL};
    struct twin_launch_options o = {.argv = none, .window_last = UINT32_MAX};
    assert_int_equal(twin_launch(&o, &run, &err), TWIN_EINVAL);
    assert_null(run);
    err = (struct twin_error)TWIN_ERROR_INIT;
    o = (struct twin_launch_options){.argv = yes, .env = odd, .window_last = UINT32_MAX};
    assert_int_equal(twin_launch(&o, &run, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "NOT_AN_ASSIGNMENT"));
    char **dirs;
    size_t n;
    assert_int_equal(twin_run_list(NULL, &dirs, &n, &err), 0);
    assert_int_equal(n, 0); /* a run that was never begun leaves nothing */
    tw_strings_free(dirs);
}

static void test_empty_program_name(void **state)
{
    (void)state;
    char *argv[] = {"", NULL};
    struct twin_run *run = run_command(NULL, argv);
    assert_int_equal(run->outcome, TWIN_RUN_NOT_STARTED);
    assert_int_equal(run->exit_code, 127);
    twin_run_free(run);
}

static void test_ctrl_c_before_the_job(void **state)
{
    (void)state;
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    raise(SIGINT);
    char *argv[] = {"touch", "started", NULL};
    struct twin_run *run = run_command(NULL, argv), *again = NULL;
    sigprocmask(SIG_SETMASK, &before, NULL); /* ends us here if the signal still waits */
    assert_int_equal(run->outcome, TWIN_RUN_INTERRUPTED);
    assert_int_equal(run->exit_code, 130);
    assert_int_equal(access("started", F_OK), -1);
    assert_int_equal(twin_run_load(run->dir, &again, NULL), 0);
    assert_string_equal(again->message, run->message);
    twin_run_free(run);
    twin_run_free(again);
}

/* Our own process is as it was: signal mask, dispositions, descriptors, children. */
static void test_nothing_of_ours_changes(void **state)
{
    (void)state;
    char *argv[] = {"sh", "-c", "(sleep 0.1; exit 3) & exit 0", NULL};
    sigset_t before, after; /* the kernel fills only the signals there are */
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    struct sigaction pipe_before, pipe_after;
    int first = open("/dev/null", O_RDONLY);
    close(first);
    sigprocmask(SIG_SETMASK, NULL, &before);
    sigaction(SIGPIPE, NULL, &pipe_before);
    twin_run_free(run_command(NULL, argv));
    sigprocmask(SIG_SETMASK, NULL, &after);
    sigaction(SIGPIPE, NULL, &pipe_after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_ptr_equal(pipe_before.sa_handler, pipe_after.sa_handler);
    int next = open("/dev/null", O_RDONLY);
    close(next);
    assert_int_equal(next, first);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* ---- run.json of other people */

static int load_text(const char *text, char message[TWIN_ERROR_MESSAGE_BYTES])
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *run = NULL;
    mkdir("r", 0777);
    write_text("r/run.json", text);
    int rc = twin_run_load("r", &run, &err);
    assert_true((rc == 0) == (run != NULL));
    twin_run_free(run);
    memcpy(message, err.message, sizeof err.message);
    return rc;
}

static void test_load_what_is_not_a_run(void **state)
{
    (void)state;
    char m[TWIN_ERROR_MESSAGE_BYTES];
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *run = NULL;
    assert_int_equal(twin_run_load("nowhere", &run, &err), TWIN_ENOENT);
    assert_int_equal(load_text("", m), TWIN_EFORMAT);
    assert_int_equal(load_text("{", m), TWIN_EFORMAT);
    assert_int_equal(load_text("[]", m), TWIN_EFORMAT);
    assert_int_equal(load_text("{\"schema\":\"something/1\"}", m), TWIN_EFORMAT);
    assert_non_null(strstr(m, "something/1"));
    assert_int_equal(load_text("{\"schema\":\"twinrun.run/2\"}", m), TWIN_EVERSION);
    assert_non_null(strstr(m, "twinrun.run/2"));
    assert_int_equal(load_text("{\"schema\":\"twinrun.run/1\"}", m), TWIN_EFORMAT);
    assert_non_null(strstr(m, "\"id\""));
    assert_int_equal(load_text("{\"schema\":\"twinrun.run/1\",\"id\":\"a\",\"id\":\"b\"}", m),
                     TWIN_EFORMAT);
    char *deep = tw_malloc(200001);
    memset(deep, '[', 200000);
    deep[200000] = '\0';
    assert_int_equal(load_text(deep, m), TWIN_EFORMAT);
    tw_free(deep);
}

static char *complete_run(void)
{
    char *argv[] = {"sh", "-c", "echo out; touch made; (sleep 1 &)", NULL}, *data = NULL;
    size_t n = 0;
    struct twin_run *run = run_command("x", argv);
    char *path = tw_path_join(run->dir, "run.json");
    assert_int_equal(tw_read_file(path, 1 << 20, &data, &n, NULL), 0);
    tw_free(path);
    twin_run_free(run);
    return data;
}

/* Every field taken out, every field of another type, the file cut at every length: an error that
 * names something, never a crash. A run without outcome is the only one that may load with less. */
static void test_load_damaged_runs(void **state)
{
    (void)state;
    char m[TWIN_ERROR_MESSAGE_BYTES];
    char *whole = complete_run();
    static const char *const needed[] = {
        "id",     "label",          "argv",   "cwd",    "host",   "start_realtime_ns",
        "level",  "max_steps",      "agents", "agent",  "notes",  "exit_code",
        "signal", "message",        "wall_s", "stdout", "stderr", "processes",
        "files",  "files_truncated"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        json_t *o = json_loads(whole, 0, NULL);
        json_object_set_new(o, needed[i], json_pack("{s:i}", "odd", 1));
        char *text = json_dumps(o, 0);
        assert_int_equal(load_text(text, m), TWIN_EFORMAT);
        free(text);
        json_object_del(o, needed[i]);
        text = json_dumps(o, 0);
        assert_int_equal(load_text(text, m), TWIN_EFORMAT);
        assert_non_null(strstr(m, needed[i]));
        free(text);
        json_decref(o);
    }
    for (size_t n = 0; n + 2 < strlen(whole); n += 7) {
        char *cut = tw_strndup(whole, n);
        assert_int_equal(load_text(cut, m), TWIN_EFORMAT);
        tw_free(cut);
    }
    tw_free(whole);
}

static void test_launcher_was_killed(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *run = NULL;
    char **dirs = NULL;
    size_t n = 0;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        char script[64];
        snprintf(script, sizeof script, "echo abc; echo go >&%d; sleep 30", ends[1]);
        char *argv[] = {"sh", "-c", script, NULL};
        struct twin_launch_options o = {.argv = argv, .window_last = UINT32_MAX};
        twin_launch(&o, &run, NULL);
        _exit(1);
    }
    close(ends[1]);
    char c;
    assert_int_equal(read(ends[0], &c, 1), 1);
    assert_int_equal(twin_run_list(NULL, &dirs, &n, &err), 0);
    assert_int_equal(n, 1);
    char *stored = tw_path_join(dirs[0], "stdout");
    struct stat st = {0};
    while (!(stat(stored, &st) == 0 && st.st_size == 4)) /* the test's own time-out ends it */
        usleep(10000);
    tw_free(stored);
    assert_int_equal(twin_run_load(dirs[0], &run, &err), 0);
    assert_int_equal(run->outcome, TWIN_RUN_INTERRUPTED);
    assert_non_null(strstr(run->message, "still going on"));
    twin_run_free(run);
    kill(launcher, SIGKILL);
    waitpid(launcher, NULL, 0);
    assert_int_equal(twin_run_load(dirs[0], &run, &err), 0);
    assert_int_equal(run->outcome, TWIN_RUN_INTERRUPTED);
    assert_non_null(strstr(run->message, "ended before the job"));
    assert_int_equal(run->stdout_bytes, 4);
    assert_true(run->stdout_truncated);
    twin_run_free(run);
    close(ends[0]);
    tw_strings_free(dirs);
}

/* ---- finding and removing */

static void test_list_resolve_remove(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    char *argv[] = {"true", NULL}, *dir = NULL, *ids[3], **dirs = NULL;
    size_t n = 0;
    struct twin_run *run[3];
    for (int i = 0; i < 3; i++) {
        run[i] = run_command("a", argv);
        ids[i] = run[i]->id;
    }
    /* a run that was made to ask is listed, and is not the last one */
    struct twin_run *asking = run_command(TWIN_LABEL_ASKING, argv);
    assert_int_equal(twin_run_list(NULL, &dirs, &n, &err), 0);
    assert_int_equal(n, 4);
    tw_strings_free(dirs);
    assert_int_equal(twin_run_resolve(NULL, "last", &dir, &err), 0);
    assert_string_equal(dir, run[2]->dir);
    tw_free(dir);
    assert_int_equal(twin_run_resolve(NULL, "last~3", &dir, &err), TWIN_ENOENT);
    assert_non_null(strstr(err.message, "holds 3 runs"));
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(twin_run_resolve(NULL, asking->id, &dir, &err), 0);
    tw_free(dir);
    assert_int_equal(twin_run_remove(NULL, asking->dir, NULL, &err), 0);
    twin_run_free(asking);
    mkdir("home/runs/not-a-run", 0777);
    assert_int_equal(twin_run_list(NULL, &dirs, &n, &err), 0);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(dirs[i], run[2 - i]->dir); /* newest first, within one second too */
    assert_null(dirs[3]);
    tw_strings_free(dirs);
    const struct {
        const char *spec;
        int which;
    } good[] = {{"last", 2},      {"last~0", 2}, {"last~2", 0},
                {run[1]->dir, 1}, {ids[0], 0},   {strrchr(run[1]->dir, '/') + 1, 1}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(twin_run_resolve(NULL, good[i].spec, &dir, &err), 0);
        assert_string_equal(dir, run[good[i].which]->dir);
        tw_free(dir);
    }
    char prefix[9];
    snprintf(prefix, sizeof prefix, "%.8s", ids[1]);
    assert_int_equal(twin_run_resolve(NULL, prefix, &dir, &err), 0);
    assert_string_equal(dir, run[1]->dir);
    tw_free(dir);
    static const struct {
        const char *spec;
        int code;
    } wrong[] = {{"last~3", TWIN_ENOENT},
                 {"last~x", TWIN_ENOENT},
                 {"", TWIN_ENOENT},
                 {"no/where", TWIN_ENOENT},
                 {"home/runs/not-a-run", TWIN_EFORMAT},
                 {"zz", TWIN_ENOENT}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        err = (struct twin_error)TWIN_ERROR_INIT;
        assert_int_equal(twin_run_resolve(NULL, wrong[i].spec, &dir, &err), wrong[i].code);
        assert_null(dir);
        assert_true(err.message[0] != '\0');
    }
    uint64_t bytes = 0;
    mkdir("elsewhere", 0777);
    write_text("elsewhere/run.json", "{}");
    err = (struct twin_error)TWIN_ERROR_INIT;
    assert_int_equal(twin_run_remove(NULL, "elsewhere", &bytes, &err), TWIN_EINVAL);
    assert_int_equal(twin_run_remove(NULL, "home/runs", &bytes, NULL), TWIN_EINVAL);
    assert_int_equal(twin_run_remove(NULL, "home/runs/not-a-run", &bytes, NULL), TWIN_EINVAL);
    assert_int_equal(twin_run_remove(NULL, "home/runs/gone", &bytes, NULL), TWIN_ENOENT);
    assert_int_equal(twin_run_remove(NULL, run[0]->dir, &bytes, NULL), 0);
    assert_true(bytes >= 4096);
    assert_int_equal(access(run[0]->dir, F_OK), -1);
    assert_int_equal(access("elsewhere/run.json", F_OK), 0);
    for (int i = 0; i < 3; i++)
        twin_run_free(run[i]);
}

static void test_ambiguous_prefix(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    char *dir = NULL;
    tw_mkdirs("home/runs/2026-01-01T00-00-00Z-a-abcd0001", NULL);
    tw_mkdirs("home/runs/2026-01-01T00-00-00Z-a-abcd0002", NULL);
    write_text("home/runs/2026-01-01T00-00-00Z-a-abcd0001/run.json", "{}");
    write_text("home/runs/2026-01-01T00-00-00Z-a-abcd0002/run.json", "{}");
    assert_int_equal(twin_run_resolve(NULL, "abcd", &dir, &err), TWIN_EINVAL);
    assert_non_null(strstr(err.message, "2 runs"));
    assert_int_equal(twin_run_resolve(NULL, "abcd0002", &dir, NULL), 0);
    assert_true(tw_ends(dir, "-abcd0002"));
    tw_free(dir);
}

/* The time of a run is found wherever it begins in the head of run.json, also across the end of the
 * first read. */
static void test_order_by_time_wherever_it_stands(void **state)
{
    (void)state;
    static const size_t before[] = {0, 4050, 4060, 4070, 4079, 4080, 4090, 4096, 5000, 60000};
    enum { RUNS = sizeof before / sizeof *before };
    static char text[70000];
    for (size_t i = 0; i < RUNS; i++) {
        char path[128];
        snprintf(path, sizeof path, "home/runs/run-%zu-abcd%04zu", i, i);
        tw_mkdirs(path, NULL);
        /* the first is the newest; the files' own times run the other way */
        snprintf(text, sizeof text, "{\"label\":\"%*s\",\"start_realtime_ns\":%zu000000000}",
                 (int)before[i], "", 90 - i);
        strcat(path, "/run.json");
        write_text(path, text);
    }
    mkdir("home/runs/no-run-abcd9999", 0777);
    mkfifo("home/runs/no-run-abcd9999/run.json", 0600);
    char **dirs = NULL;
    size_t n = 0;
    assert_int_equal(twin_run_list(NULL, &dirs, &n, NULL), 0);
    assert_int_equal(n, RUNS);
    for (size_t i = 0; i < n; i++) {
        char end[32];
        snprintf(end, sizeof end, "-abcd%04zu", i);
        assert_true(tw_ends(dirs[i], end));
    }
    tw_strings_free(dirs);
    char *dir = NULL;
    assert_int_equal(twin_run_resolve(NULL, "last~3", &dir, NULL), 0);
    assert_true(tw_ends(dir, "-abcd0003"));
    tw_free(dir);
    assert_int_equal(twin_run_resolve(NULL, "run-5-abcd0005", &dir, NULL), 0);
    assert_true(tw_ends(dir, "-abcd0005"));
    tw_free(dir);
    assert_int_equal(twin_run_resolve(NULL, "abcd9999", &dir, NULL), TWIN_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        IN_FOLDER(test_launch_and_load),
        IN_FOLDER(test_bad_options),
        IN_FOLDER(test_empty_program_name),
        IN_FOLDER(test_ctrl_c_before_the_job),
        IN_FOLDER(test_nothing_of_ours_changes),
        IN_FOLDER(test_load_what_is_not_a_run),
        IN_FOLDER(test_load_damaged_runs),
        IN_FOLDER(test_launcher_was_killed),
        IN_FOLDER(test_list_resolve_remove),
        IN_FOLDER(test_ambiguous_prefix),
        IN_FOLDER(test_order_by_time_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
