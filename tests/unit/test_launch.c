/* SPDX-License-Identifier: Apache-2.0 */
/* The launch room from inside: run folders and their reader, names, environment, trial load, every allocation failing. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char *folder; /* scratch of the running test */

static int make_folder(void **state)
{
    (void)state;
    char name[] = "/tmp/twin-launch-XXXXXX";
    folder = mkdtemp(name) ? strdup(name) : NULL;
    return folder && chdir(folder) == 0 && setenv("TWINRUN_HOME", "home", 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    tw_alloc_fail_at(0, false);
    int rc = chdir("/") == 0 && tw_remove_tree(folder, NULL, NULL) == 0 ? 0 : -1;
    free(folder);
    return rc;
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(tw_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static struct twin_run *run_command(const char *label, char *const *argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_launch_options o = {.argv = argv, .label = label, .level = TWIN_LEVEL_STEPS, .window_last = UINT32_MAX};
    struct twin_run *run = NULL;
    int rc = twin_launch(&o, &run, &err);
    if (rc)
        fail_msg("%d: %s", rc, err.message);
    return run;
}

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

/* What twin_launch returns and what twin_run_load reads is the same run; names that are not UTF-8 included. */
static void test_launch_and_load(void **state)
{
    (void)state;
    char *argv[] = {"sh", "-c", "echo hello; echo x >\"$1\"; : >$OLDPWD/z; cd \"$2\" && touch 10.5.twt 2.7.twt 2.61.twt odd.twt not-a-trace", "sh",
                    "caf\xe9", NULL, NULL};
    struct twin_error err = TWIN_ERROR_INIT;
    argv[5] = "home";
    char *script = tw_printf("echo hello; echo x >\"$1\"; cd home/runs/*/ranks && touch 10.5.twt 2.7.twt 2.61.twt odd.twt not-a-trace");
    argv[2] = script;
    struct twin_run *run = run_command("my label/1", argv), *again = NULL;
    assert_int_equal(run->outcome, TWIN_RUN_EXITED);
    assert_int_equal(run->exit_code, 0);
    assert_non_null(strstr(run->dir, "-my_label_1-"));
    assert_string_equal(run->stdout_sha256, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"); /* sha256sum of hello\n */
    assert_int_equal(run->trace_count, 4);
    static const char *const order[] = {"/ranks/2.7.twt", "/ranks/2.61.twt", "/ranks/10.5.twt", "/ranks/odd.twt"};
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
    assert_int_equal(load_text("{\"schema\":\"twinrun.run/1\",\"id\":\"a\",\"id\":\"b\"}", m), TWIN_EFORMAT);
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

/* Every field taken out, every field of another type, the file cut at every length: an error that names something, never
 * a crash. A run without outcome is the only one that may load with less. */
static void test_load_damaged_runs(void **state)
{
    (void)state;
    char m[TWIN_ERROR_MESSAGE_BYTES];
    char *whole = complete_run();
    static const char *const needed[] = {"id", "label", "argv", "cwd", "host", "start_realtime_ns", "level", "max_steps", "agents", "agent", "notes",
                                         "exit_code", "signal", "message", "wall_s", "stdout", "stderr", "processes", "files", "files_truncated"};
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
    usleep(100000);
    assert_int_equal(twin_run_list(NULL, &dirs, &n, &err), 0);
    assert_int_equal(n, 1);
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
    mkdir("home/runs/not-a-run", 0777);
    assert_int_equal(twin_run_list(NULL, &dirs, &n, &err), 0);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(dirs[i], run[2 - i]->dir); /* newest first, within one second too */
    assert_null(dirs[3]);
    tw_strings_free(dirs);
    const struct { const char *spec; int which; } good[] = {{"last", 2}, {"last~0", 2}, {"last~2", 0}, {run[1]->dir, 1}, {ids[0], 0},
                                                            {strrchr(run[1]->dir, '/') + 1, 1}};
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
    static const struct { const char *spec; int code; } wrong[] = {
        {"last~3", TWIN_ENOENT}, {"last~x", TWIN_ENOENT}, {"", TWIN_ENOENT}, {"no/where", TWIN_ENOENT}, {"home/runs/not-a-run", TWIN_EFORMAT}, {"zz", TWIN_ENOENT}};
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

/* ---- environment */

static void test_environment(void **state)
{
    (void)state;
    char *from[] = {"A=1", "odd", "B=", "A=dup", NULL};
    struct tw_env e;
    assert_int_equal(tw_env_copy(&e, from, NULL), 0);
    assert_int_equal(e.n, 4);
    assert_string_equal(tw_env_get(&e, "B"), "");
    assert_null(tw_env_get(&e, "odd"));
    assert_int_equal(tw_env_set(&e, "C", "x=y", NULL), 0);
    assert_string_equal(tw_env_get(&e, "C"), "x=y");
    assert_int_equal(tw_env_put(&e, "B=new", NULL), 0);
    assert_string_equal(tw_env_get(&e, "B"), "new");
    tw_env_unset(&e, "C");
    tw_env_unset(&e, "absent");
    assert_int_equal(e.n, 4);
    assert_null(e.v[4]);
    tw_env_free(&e);
    static const char *const kept[] = {"RANK=1", "OMP_NUM_THREADS=4", "PYTHONHASHSEED=0", "LC_ALL=C", "CUBLAS_WORKSPACE_CONFIG=:4096:8", "SLURM_PROCID=2"};
    static const char *const dropped[] = {"RANKED=1", "AWS_SECRET_ACCESS_KEY=x", "TORCH_TOKEN=x", "HF_TOKEN=x", "MLFLOW_PASSWORD=x", "HOME=/x", "RANK", ""};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        assert_true(tw_env_is_kept(kept[i]));
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
        assert_false(tw_env_is_kept(dropped[i]));
}

static void test_window_is_passed_for_operations_only(void **state)
{
    (void)state;
    static const struct { enum twin_level level; uint32_t first, last; const char *expected; } rows[] = {
        {TWIN_LEVEL_OPS, 0, UINT32_MAX, NULL}, {TWIN_LEVEL_OPS, 0, 0, "0:0"}, {TWIN_LEVEL_OPS, 3, 7, "3:7"}, {TWIN_LEVEL_TENSORS, 3, 7, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_env e = {0};
        struct twin_run run = {.dir = "/r", .id = "00"};
        struct tw_agent_setup a = {0};
        struct twin_launch_options o = {.level = rows[i].level, .window_first = rows[i].first, .window_last = rows[i].last};
        assert_int_equal(tw_env_protocol(&e, &o, &run, &a, NULL), 0);
        const char *found = tw_env_get(&e, "TWINRUN_WINDOW");
        assert_true((found == NULL) == (rows[i].expected == NULL));
        if (found)
            assert_string_equal(found, rows[i].expected);
        tw_env_free(&e);
    }
}

static void test_parts(void **state)
{
    (void)state;
    struct twin_parts p;
    mkdir("parts", 0777);
    tw_mkdirs("parts/python/twinrun/_site", NULL);
    write_text("parts/libtwinrun.so", "x");
    write_text("parts/python/twinrun/_site/sitecustomize.py", "");
    setenv("TWINRUN_LIBDIR", "parts", 1);
    assert_int_equal(twin_parts_find(&p, NULL), 0);
    char *library = tw_printf("%s/parts/libtwinrun.so", folder), *site = tw_printf("%s/parts/python/twinrun/_site", folder);
    assert_string_equal(p.agent_library, library);
    assert_string_equal(p.site_dir, site);
    assert_memory_equal(p.python_dir, p.site_dir, strlen(p.python_dir));
    twin_parts_free(&p);
    unsetenv("TWINRUN_LIBDIR");
    tw_free(library);
    tw_free(site);
}

/* ---- trial load against this very program and files that are none */

static void test_trial_load(void **state)
{
    (void)state;
    bool ok = false;
    char *why = NULL, self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    write_text("broken.so", "not a library");
    assert_int_equal(twin_trial_load("true", "/no/such/library.so", &ok, &why, NULL), 0);
    assert_false(ok);
    assert_non_null(strstr(why, "cannot be preloaded"));
    tw_free(why);
    char *broken = tw_path_join(folder, "broken.so");
    assert_int_equal(twin_trial_load("true", broken, &ok, &why, NULL), 0);
    assert_false(ok);
    assert_non_null(strstr(why, "broken.so"));
    tw_free(why);
    tw_free(broken);
    assert_int_equal(twin_trial_load("no-such-program", "/x.so", &ok, &why, NULL), 0);
    assert_true(ok); /* it will fail by itself, with its own message */
    assert_null(why);
    write_text("endless", "#!./endless\n");
    chmod("endless", 0777);
    assert_int_equal(twin_trial_load("./endless", "/x.so", &ok, &why, NULL), 0);
    assert_false(ok);
    tw_free(why);
}

static void test_elf_of_damaged_files(void **state)
{
    (void)state;
    struct tw_elf elf;
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(tw_read_file("/proc/self/exe", 64 << 20, &data, &n, NULL), 0);
    assert_int_equal(tw_elf_inspect("/proc/self/exe", &elf), 0);
    assert_true(elf.is_elf && elf.dynamic && !elf.foreign);
    for (size_t cut = 0; cut < 4096 && cut < n; cut += 13) {
        write_text("cut", "");
        assert_int_equal(tw_write_file_atomic("cut", data, cut, NULL), 0);
        assert_int_equal(tw_elf_inspect("cut", &elf), 0);
    }
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) { /* random bytes in the headers: counts and offsets that lie */
        char *copy = tw_malloc(8192);
        memcpy(copy, data, 8192);
        for (int k = 0; k < 8; k++) {
            seed = tw_mix64(seed + 1);
            copy[16 + seed % 1000] = (char)(seed >> 32);
        }
        assert_int_equal(tw_write_file_atomic("mad", copy, 8192, NULL), 0);
        assert_int_equal(tw_elf_inspect("mad", &elf), 0);
        tw_free(copy);
    }
    tw_free(data);
}

static void test_candidates(void **state)
{
    (void)state;
    char **c = tw_program_candidates("x", "/a:/b/::c", NULL);
    static const char *const expected[] = {"/a/x", "/b/x", "./x", "c/x"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(c[i], expected[i]);
    assert_null(c[4]);
    tw_strings_free(c);
    c = tw_program_candidates("a/x", "/a", NULL);
    assert_string_equal(c[0], "a/x");
    assert_null(c[1]);
    tw_strings_free(c);
}

static void copy_some_library(const char *to)
{
    char line[512], *data = NULL;
    size_t n = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path || !strstr(path, "/libcmocka"))
            continue;
        path[strcspn(path, "\n")] = '\0';
        assert_int_equal(tw_read_file(path, 16 << 20, &data, &n, NULL), 0);
        break;
    }
    fclose(maps);
    assert_non_null(data);
    assert_int_equal(tw_write_file_atomic(to, data, n, NULL), 0);
    tw_free(data);
}

/* ---- every allocation fails once: an error or a complete run, never a crash, a leak or a lost job */

static void test_allocation_failures(void **state)
{
    (void)state;
    json_set_alloc_funcs(tw_malloc, tw_free);
    write_text("before", "1");
    /* Some library that loads anywhere stands in for the agent, at a path that must be staged. */
    tw_mkdirs("odd parts/python/twinrun/_site", NULL);
    write_text("odd parts/python/twinrun/_site/sitecustomize.py", "");
    copy_some_library("odd parts/libtwinrun.so");
    setenv("TWINRUN_LIBDIR", "odd parts", 1);
    char *argv[] = {"sh", "-c", "echo x >>before; echo y >new", NULL};
    unsigned failures = 0;
    for (uint64_t at = 1;; at++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_launch_options o = {.argv = argv, .agents = true, .fresh_dir = at % 2 == 0, .window_last = UINT32_MAX};
        struct twin_run *run = NULL;
        uint64_t first = tw_alloc_count();
        tw_alloc_fail_at(at, false);
        int rc = twin_launch(&o, &run, &err);
        bool reached = tw_alloc_count() - first >= at;
        tw_alloc_fail_at(0, false);
        assert_true((rc == 0) == (run != NULL));
        if (rc != 0) {
            if (rc != TWIN_ENOMEM)
                fail_msg("allocation %llu: code %d: %s", (unsigned long long)at, rc, err.message);
            assert_true(err.message[0] != '\0');
            failures++;
        } else {
            assert_int_equal(run->exit_code, 0);
        }
        twin_run_free(run);
        if (!reached)
            break;
        assert_true(at < 20000);
    }
    assert_true(failures > 50);
    unsetenv("TWINRUN_LIBDIR");
    json_set_alloc_funcs(malloc, free);
}

/* jansson's parser keeps malloc here: out of memory it claims errors of syntax, which says nothing about our reader. */
static void test_allocation_failures_of_the_readers(void **state)
{
    (void)state;
    char *argv[] = {"sh", "-c", "touch a b; (sleep 0.7 &)", NULL};
    struct twin_run *made = run_command("r", argv);
    for (uint64_t at = 1;; at++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_run *run = NULL;
        char *dir = NULL, **dirs = NULL;
        size_t n = 0;
        uint64_t first = tw_alloc_count();
        tw_alloc_fail_at(at, false);
        int rc = twin_run_load(made->dir, &run, &err);
        if (rc != 0 && rc != TWIN_ENOMEM)
            fail_msg("allocation %llu: code %d: %s", (unsigned long long)at, rc, err.message);
        assert_true((rc == 0) == (run != NULL));
        rc = twin_run_resolve(NULL, made->id, &dir, NULL);
        assert_true(rc == 0 || rc == TWIN_ENOMEM || rc == TWIN_ENOENT);
        assert_true((rc == 0) == (dir != NULL));
        rc = twin_run_list(NULL, &dirs, &n, NULL);
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        bool reached = tw_alloc_count() - first >= at;
        tw_alloc_fail_at(0, false);
        twin_run_free(run);
        tw_free(dir);
        tw_strings_free(dirs);
        if (!reached)
            break;
    }
    twin_run_free(made);
}

int main(void)
{
#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
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
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_window_is_passed_for_operations_only),
        IN_FOLDER(test_parts),
        IN_FOLDER(test_trial_load),
        IN_FOLDER(test_elf_of_damaged_files),
        cmocka_unit_test(test_candidates),
        IN_FOLDER(test_allocation_failures),
        IN_FOLDER(test_allocation_failures_of_the_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
