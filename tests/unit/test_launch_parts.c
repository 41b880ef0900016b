/* SPDX-License-Identifier: Apache-2.0 */
/* The launch room from inside: environment, our own parts, trial load, programs of every kind, a
 * process that is ending, every allocation failing. */
#include "launch_test.h"

#include <jansson.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- who starts ranks */

static void test_launchers_of_pytorch(void **state)
{
    (void)state;
    char *yes[][4] = {{"torchrun", "a.py", NULL},
                      {"/opt/bin/torchrun", NULL},
                      {"python", "-m", "torch.distributed.run", NULL},
                      {"sh", "-c", "A=1 accelerate launch a.py", NULL}};
    char *no[][4] = {{"python", "train.py", NULL}, {"./mytorchrun", NULL}, {"true", NULL}};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(twin_launch_names_torch(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(twin_launch_names_torch(no[i]));
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
    static const char *const kept[] = {"RANK=1",
                                       "OMP_NUM_THREADS=4",
                                       "PYTHONHASHSEED=0",
                                       "LC_ALL=C",
                                       "CUBLAS_WORKSPACE_CONFIG=:4096:8",
                                       "SLURM_PROCID=2"};
    static const char *const dropped[] = {"RANKED=1",
                                          "AWS_SECRET_ACCESS_KEY=x",
                                          "TORCH_TOKEN=x",
                                          "HF_TOKEN=x",
                                          "MLFLOW_PASSWORD=x",
                                          "HOME=/x",
                                          "RANK",
                                          ""};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        assert_true(tw_env_is_kept(kept[i]));
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
        assert_false(tw_env_is_kept(dropped[i]));
    static const struct {
        const char *factors;
        int64_t shown;
    } clocks[] = {{NULL, 0},
                  {"", 0},
                  {"entropy=pin:7", 0},
                  {"clock=audit", 0},
                  {"clock=pin:1700000000", 1700000000},
                  {"entropy=pin:7,clock=pin:42:5,malloc-fill=pin", 42},
                  {"clock=vary:3", -1},
                  {"clock=pin", -1}};
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++)
        assert_int_equal(tw_env_shown_clock(clocks[i].factors), clocks[i].shown);
}

static void test_window_is_passed_for_operations_only(void **state)
{
    (void)state;
    static const struct {
        enum twin_level level;
        uint32_t first, last;
        const char *expected;
    } rows[] = {{TWIN_LEVEL_OPS, 0, UINT32_MAX, NULL},
                {TWIN_LEVEL_OPS, 0, 0, "0:0"},
                {TWIN_LEVEL_OPS, 3, 7, "3:7"},
                {TWIN_LEVEL_TENSORS, 3, 7, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tw_env e = {0};
        struct twin_run run = {.dir = "/r", .id = "00"};
        struct tw_agent_setup a = {0};
        struct twin_launch_options o = {
            .level = rows[i].level, .window_first = rows[i].first, .window_last = rows[i].last};
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
    char *library = tw_printf("%s/parts/libtwinrun.so", folder);
    char *site = tw_printf("%s/parts/python/twinrun/_site", folder);
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
    /* random bytes in the headers: counts and offsets that lie */
    for (int round = 0; round < 300; round++) {
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

/*
 * ---- every allocation fails once: an error or a complete run, never a crash, a leak or a lost job
 */

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
        struct twin_launch_options o = {
            .argv = argv, .agents = true, .fresh_dir = at % 2 == 0, .window_last = UINT32_MAX};
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

/* jansson's parser keeps malloc here: out of memory it claims errors of syntax, which says nothing
 * about our reader. */
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

/* ---- processes */

/* A process gives its memory back first and its files after that, and is a zombie only then: with
 * many files the time between is long enough to be met. Our child says when they are open and ends
 * at the first byte from us. */
static _Noreturn void end_with_many_files(void)
{
    enum { FILES = 30000 };
    struct rlimit most = {FILES, FILES};
    char c = 0;
    if (setrlimit(RLIMIT_NOFILE, &most) != 0 && getrlimit(RLIMIT_NOFILE, &most) == 0) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most);
    }
    while (eventfd(0, 0) >= 0) {
    }
    /* a leak checker would want a descriptor */
    _exit(write(STDOUT_FILENO, &c, 1) == 1 && read(STDIN_FILENO, &c, 1) == 1 ? 3 : 4);
}

/* True when it was looked at while it had no memory and was no zombie yet. */
static bool look_at_an_end(struct tw_tree *tree)
{
    int to[2], from[2], status;
    char c = 0;
    assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl("/proc/self/exe", "ending", "--end-with-many-files", (char *)NULL);
        _exit(5);
    }
    assert_true(pid > 0);
    assert_int_equal(read(from[0], &c, 1), 1);
    tw_tree_sample(tree, true); /* its arguments are read, and it has not spoken */
    usleep(200000);             /* longer than a program is given to load its agent */
    assert_int_equal(write(to[1], &c, 1), 1);
    struct tw_proc line;
    do
        assert_true(tw_proc_stat(pid, &line));
    while (line.has_memory);
    tw_tree_sample(tree, true);
    bool met = tw_proc_stat(pid, &line) && line.state != 'Z';
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    close(to[0]);
    close(to[1]);
    close(from[0]);
    close(from[1]);
    return met;
}

static void test_what_is_ending_says_nothing_about_its_agent(void **state)
{
    (void)state;
    struct tw_proc line;
    assert_true(tw_proc_stat(getpid(), &line) && line.has_memory);
    struct twin_run *run = run_command("job", (char *[]){"true", NULL});
    struct tw_tree *tree = tw_tree_start(run->dir, true, NULL, NULL);
    assert_non_null(tree);
    bool met = false;
    for (int i = 0; i < 20 && !met; i++)
        met = look_at_an_end(tree);
    struct twin_run *seen = tw_calloc(1, sizeof *seen);
    assert_non_null(seen);
    assert_int_equal(tw_tree_finish(tree, seen, NULL), 0);
    for (uint32_t i = 0; i < seen->process_count; i++)
        if (seen->processes[i].why)
            fail_msg("%s: %s", seen->processes[i].argv, seen->processes[i].why);
    twin_run_free(seen);
    tw_tree_free(tree);
    twin_run_free(run);
    if (!met)
        skip(); /* all 20 were gone too soon */
}

/* On a busy machine a shell has become its program before we come to write down that it began. */
static void test_what_the_main_process_becomes_counts(void **state)
{
    (void)state;
    struct twin_run *run = run_command("job", (char *[]){"true", NULL});
    struct tw_tree *tree = tw_tree_start(run->dir, true, NULL, NULL);
    struct twin_run *seen = tw_calloc(1, sizeof *seen);
    assert_true(tree && seen);
    const uint64_t begin = tw_monotonic_ns();
    char *path = tw_path_join(run->dir, "processes");
    FILE *f = path ? fopen(path, "we") : NULL;
    assert_non_null(f);
    fprintf(f, "%d 1 %llu native ./sum\n", getpid(), (unsigned long long)begin + 1);
    assert_int_equal(fclose(f), 0);
    tw_tree_set_main(tree, getpid(), (char *[]){"sh", "-c", "exec ./sum", NULL}, begin);
    assert_int_equal(tw_tree_finish(tree, seen, NULL), 0);
    assert_int_equal(seen->process_count, 1);
    assert_string_equal(seen->processes[0].argv, "./sum");
    tw_free(path);
    twin_run_free(seen);
    tw_tree_free(tree);
    twin_run_free(run);
}

/* Works on for longer than an idle process is waited for, says a word, and ends: so does anything
 * that ends on a busy machine. */
static int end_busily(void)
{
    uint64_t begin = tw_monotonic_ns();
    while (tw_monotonic_ns() - begin < 1200000000u) {
    }
    return write(STDOUT_FILENO, "late", 4) == 4 ? 0 : 4;
}

static void test_what_works_on_is_waited_for(void **state)
{
    (void)state;
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    struct twin_run *run = run_command(
        "job", (char *[]){"sh", "-c", "\"$0\" --end-busily & exit 3", self, NULL});
    assert_int_equal(run->exit_code, 3);
    assert_int_equal(run->stdout_bytes, 4);
    for (uint32_t i = 0; i < run->process_count; i++)
        assert_false(run->processes[i].outlived);
    twin_run_free(run);
}

/* A process that goes from exec to exec: in the midst of one it has the new program, and no
 * arguments and environment yet. */
static int exec_again(const char *left)
{
    char text[16];
    int n = atoi(left);
    snprintf(text, sizeof text, "%06d", n - 1);
    if (n > 0)
        execl("/proc/self/exe", "again", "--exec-again", text, (char *)NULL);
    return n > 0;
}

static void test_what_is_amid_an_exec_is_looked_at_later(void **state)
{
    (void)state;
    enum { PROCESSES = 2, LOOKS = 500 };
    pid_t pid[PROCESSES];
    const char *wrong = NULL;
    struct twin_run *run = run_command("job", (char *[]){"true", NULL});
    char *line = tw_printf("TWINRUN_RUN_DIR=%s", run->dir);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            putenv(line);
            exec_again("999999");
            _exit(5);
        }
    }
    /* until they are no forks of us, which have no such variable */
    for (int i = 0; i < PROCESSES;) {
        char *argv = tw_proc_argv(pid[i]);
        i += argv && tw_starts(argv, "again");
        tw_free(argv);
    }
    for (int i = 0; i < LOOKS && !wrong; i++) {
        const char *why = NULL;
        pid_t one = pid[i % PROCESSES];
        if (tw_proc_why_unarmed(one, tw_process_start_ticks(one), line, NULL, &why) &&
            (!why || strcmp(why, "LD_PRELOAD not passed on") != 0))
            wrong = why ? why : "armed";
    }
    for (int i = 0; i < PROCESSES; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    tw_free(line);
    twin_run_free(run);
    if (wrong)
        fail_msg("%s", wrong);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--end-busily") == 0)
        return end_busily();
    if (argc > 2 && strcmp(argv[1], "--exec-again") == 0)
        return exec_again(argv[2]);
    if (argc > 1 && strcmp(argv[1], "--end-with-many-files") == 0)
        end_with_many_files();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers_of_pytorch),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_window_is_passed_for_operations_only),
        IN_FOLDER(test_parts),
        IN_FOLDER(test_trial_load),
        IN_FOLDER(test_elf_of_damaged_files),
        cmocka_unit_test(test_candidates),
        IN_FOLDER(test_what_is_ending_says_nothing_about_its_agent),
        IN_FOLDER(test_what_the_main_process_becomes_counts),
        IN_FOLDER(test_what_works_on_is_waited_for),
        IN_FOLDER(test_what_is_amid_an_exec_is_looked_at_later),
        IN_FOLDER(test_allocation_failures),
        IN_FOLDER(test_allocation_failures_of_the_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
