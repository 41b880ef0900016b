/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Trial load: may the agent be preloaded into this program? The program itself never runs. Its own dynamic loader is
 * started in tracing mode (as ldd -r does), maps program, libraries and agent, binds every symbol, reports, and ends.
 * (--list binds no symbols.) A loader that does not know that mode, such as musl's, would run the program: it is told
 * by the mode's name, which must stand in the loader's file.
 */
enum { SHEBANG_DEPTH = 4, OUTPUT_MAX = 1 << 20, TIMEOUT_MS = 10000 };

/* "interp arg" of a "#!" line, or "env [-S] NAME": the program whose loader counts. False: cannot be told. */
static bool shebang_program(const char *line, char out[256])
{
    char words[256], *save = NULL;
    snprintf(words, sizeof words, "%s", line);
    char *word = strtok_r(words, " \t", &save);
    if (!word)
        return false;
    snprintf(out, 256, "%s", word);
    const char *base = strrchr(out, '/') ? strrchr(out, '/') + 1 : out;
    if (strcmp(base, "env") != 0)
        return true;
    while ((word = strtok_r(NULL, " \t", &save)))
        if (word[0] != '-' && !strchr(word, '=')) {
            snprintf(out, 256, "%s", word);
            return true;
        }
    return true;
}

/* Follows scripts to the binary that runs them. NULL with *why set, or without when it does not exist. */
static char *binary_of(const char *program, const char *path_value, struct tw_elf *elf, struct twin_error *err)
{
    char *path = tw_program_find(program, path_value, err);
    for (int depth = 0; path; depth++) {
        char next[256] = "/bin/sh"; /* a text file without "#!" goes to the shell */
        if (tw_elf_inspect(path, elf) != 0 || elf->is_elf || depth == SHEBANG_DEPTH)
            break;
        if (elf->shebang[0] && !shebang_program(elf->shebang, next))
            break;
        tw_free(path);
        path = tw_program_find(next, path_value, err);
    }
    return path;
}

static int drain(int fd, pid_t pid, struct tw_buf *out)
{
    char chunk[8192];
    uint64_t end = tw_monotonic_ns() + TIMEOUT_MS * 1000000ull;
    for (;;) {
        uint64_t now = tw_monotonic_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = now < end ? poll(&p, 1, (int)((end - now) / 1000000) + 1) : 0;
        ssize_t n = ready > 0 ? read(fd, chunk, sizeof chunk) : ready;
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0) {
            tw_buf_append(out, chunk, (size_t)n); /* past the cap it stays failed: what we look for comes first */
            continue;
        }
        if (ready == 0)
            kill(pid, SIGKILL);
        return ready == 0 ? -1 : 0;
    }
}

/* Runs the loader on the program in tracing mode. Returns its exit status (as waitpid), or -1; out gets what it says. */
static int trace_load(const char *loader, const char *program, const char *preload, const struct tw_env *user, struct tw_buf *out,
                      struct twin_error *err)
{
    struct tw_env env = {0};
    int ends[2] = {-1, -1}, status = -1;
    char *argv[] = {(char *)loader, (char *)program, NULL};
    int rc = tw_env_copy(&env, user->v, err);
    if (rc == 0)
        rc = tw_env_set(&env, "LD_TRACE_LOADED_OBJECTS", "1", err);
    if (rc == 0)
        rc = tw_env_set(&env, "LD_WARN", "yes", err); /* with it unresolved symbols are reported, as by ldd -r */
    if (rc == 0)
        rc = tw_env_set(&env, "LD_BIND_NOW", "yes", err);
    if (rc == 0 && preload)
        rc = tw_env_set(&env, "LD_PRELOAD", preload, err);
    if (rc == 0 && pipe2(ends, O_CLOEXEC) != 0)
        rc = twin_error_system(err, "cannot make a pipe to try the agent");
    if (rc == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        struct tw_spawn s = {.argv = argv, .env = env.v, .fd = {null, ends[1], ends[1]}, .exec_fd = -1};
        sigprocmask(SIG_SETMASK, NULL, &s.mask);
        rc = tw_spawn_start(&s, err);
        close(ends[1]);
        ends[1] = -1;
        if (rc == 0) {
            int late = drain(ends[0], s.pid, out);
            while (waitpid(s.pid, &status, 0) < 0 && errno == EINTR)
                ;
            close(s.exec_fd);
            if (late)
                status = -1;
        }
        if (null >= 0)
            close(null);
    }
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    tw_env_free(&env);
    return rc == 0 ? status : -1;
}

/* The first line that says that the agent is the trouble. */
static char *complaint(const char *text, const char *library)
{
    static const char *const signs[] = {"cannot be preloaded", "undefined symbol", "not found", "cannot allocate memory in static TLS", "error"};
    for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        char *line = tw_strndup(p, strcspn(p, "\n"));
        bool about_us = line && strstr(line, library), hit = false;
        for (size_t i = 0; about_us && i < sizeof signs / sizeof signs[0]; i++)
            hit |= strstr(line, signs[i]) != NULL;
        if (hit) {
            char *shown = tw_printable(line + strspn(line, " \t"), strlen(line) - strspn(line, " \t"));
            tw_free(line);
            return shown;
        }
        tw_free(line);
    }
    return NULL;
}

static bool loader_can_trace(const char *loader)
{
    static const char name[] = "TRACE_LOADED_OBJECTS"; /* the loader compares without the LD_ */
    enum { LOADER_MAX = 32 << 20 };
    char *data = NULL;
    size_t n = 0;
    bool can = tw_read_file(loader, LOADER_MAX, &data, &n, NULL) == 0 && memmem(data, n, name, sizeof name - 1);
    tw_free(data);
    return can;
}

static char *try_loader(const char *path, const char *loader, const char *library, const struct tw_env *env, struct twin_error *err)
{
    struct tw_buf with = {.cap = OUTPUT_MAX}, without = {.cap = OUTPUT_MAX};
    char *why = NULL;
    const char *theirs = tw_env_get(env, "LD_PRELOAD");
    char *preload = theirs && *theirs ? tw_printf("%s:%s", library, theirs) : tw_strdup(library);
    if (!preload) {
        twin_error_set(err, TWIN_ENOMEM, "out of memory trying the agent");
        goto out;
    }
    int status = trace_load(loader, path, preload, env, &with, err);
    if (with.data)
        why = complaint(with.data, library);
    if (!why && status != 0 && (!err || err->code == 0)) {
        /* The program may be broken by itself (a library of its own is missing): then it is not the agent's fault. */
        int alone = trace_load(loader, path, theirs, env, &without, err);
        if (alone != status)
            why = status == -1        ? tw_strdup("its loader did not answer in time when the agent was tried")
                  : WIFSIGNALED(status) ? tw_printf("its loader was killed by signal %d when the agent was tried", WTERMSIG(status))
                                        : tw_printf("its loader fails with exit code %d when the agent is there", WEXITSTATUS(status));
    }
out:
    tw_free(preload);
    tw_buf_free(&with);
    tw_buf_free(&without);
    return why;
}

static char *reason(const char *path, const struct tw_elf *elf, const char *library, const struct tw_env *env, struct twin_error *err)
{
    if (!elf->is_elf)
        return tw_printf("%s is not a program of a known format", path);
    if (elf->foreign)
        return tw_printf("%s is built for another kind of machine (such as 32 bit)", path);
    if (!elf->dynamic)
        return tw_printf("%s is a static binary: nothing can be loaded into it", path);
    if (elf->sanitizer)
        return tw_printf("%s is built with a sanitizer (%s), which wants to be loaded first", path, elf->sanitizer);
    if (tw_program_is_privileged(path))
        return tw_printf("%s is a set-user-ID program: the loader ignores preloads", path);
    if (!loader_can_trace(elf->interp))
        return tw_printf("%s has a loader that is not glibc's (%s)", path, elf->interp);
    return try_loader(path, elf->interp, library, env, err);
}

static int trial(const char *program, const char *library, const struct tw_env *env, bool *ok, char **why, struct twin_error *err)
{
    struct tw_elf elf = {0};
    struct twin_error local = TWIN_ERROR_INIT;
    *why = NULL;
    char *path = binary_of(program, tw_env_get(env, "PATH"), &elf, &local);
    /* A program that is not there fails by itself, with its own message. */
    if (path)
        *why = reason(path, &elf, library, env, &local);
    tw_free(path);
    *ok = !*why && local.code == 0;
    if (local.code) {
        tw_free(*why);
        *why = NULL;
        return twin_error_set(err, local.code, "%s", local.message);
    }
    return 0;
}

int twin_trial_load(const char *program, const char *agent_library, bool *ok, char **why, struct twin_error *err)
{
    extern char **environ;
    struct tw_env env = {0};
    *ok = false;
    *why = NULL;
    int rc = tw_env_copy(&env, environ, err);
    if (rc == 0)
        rc = trial(program, agent_library, &env, ok, why, err);
    tw_env_free(&env);
    return rc;
}

/* ---- staging: LD_PRELOAD is split at spaces and colons, PYTHONPATH at colons */

static char *staging_folder(void)
{
    const char *places[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!places[i] || places[i][0] != '/' || strpbrk(places[i], " :\t\n"))
            continue;
        char *folder = tw_printf("%s/twinrun-XXXXXX", places[i]);
        if (folder && mkdtemp(folder))
            return folder;
        tw_free(folder);
    }
    return NULL;
}

/* Replaces *path by a link below the staging folder when it holds one of `bad`. 0, or -1 when that cannot be done. */
static int stage(struct tw_agent_setup *a, char **path, const char *name, const char *bad)
{
    if (!strpbrk(*path, bad))
        return 0;
    if (!a->stage_dir && !(a->stage_dir = staging_folder()))
        return -1;
    char *link = tw_path_join(a->stage_dir, name);
    if (!link || symlink(*path, link) != 0) {
        tw_free(link);
        return -1;
    }
    tw_free(*path);
    *path = link;
    return 0;
}

static int prepare_library(struct tw_agent_setup *a, const char *program, struct tw_env *e, struct twin_run *run, struct twin_error *err)
{
    bool ok = false;
    char *why = NULL;
    if (!a->parts.agent_library) {
        why = tw_strdup("libtwinrun.so was not found; set TWINRUN_LIBDIR to its folder");
    } else {
        a->library = tw_strdup(a->parts.agent_library);
        if (!a->library)
            return twin_error_set(err, TWIN_ENOMEM, "out of memory preparing the agent");
        if (stage(a, &a->library, "libtwinrun.so", " :\t\n") != 0) {
            why = tw_printf("its path %s has a space or colon, which LD_PRELOAD cannot hold, and no temporary folder can be written",
                            a->library);
        } else {
            int rc = trial(program, a->library, e, &ok, &why, err);
            if (rc)
                return rc;
        }
    }
    a->preload = ok;
    a->why = why;
    if (!ok && !why)
        return twin_error_set(err, TWIN_ENOMEM, "out of memory preparing the agent");
    if (!ok)
        tw_run_note(run, "the agent cannot be loaded: %s; the job runs without it", why);
    return 0;
}

static int prepare_python(struct tw_agent_setup *a, struct twin_run *run, struct twin_error *err)
{
    struct twin_parts *p = &a->parts;
    if (!p->site_dir) {
        tw_run_note(run, "the Python half (sitecustomize.py) was not found; set TWINRUN_LIBDIR to the folder that holds python/");
        return 0;
    }
    if (!strchr(p->site_dir, ':'))
        return 0;
    tw_free(p->site_dir);
    p->site_dir = NULL;
    if (stage(a, &p->python_dir, "python", ":") != 0) {
        tw_run_note(run, "the Python half cannot be used: %s has a colon, which PYTHONPATH cannot hold", p->python_dir);
        return 0;
    }
    p->site_dir = tw_path_join(p->python_dir, "twinrun/_site");
    return p->site_dir ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory preparing the agent");
}

int tw_agent_prepare(struct tw_agent_setup *a, const char *program, struct tw_env *e, struct twin_run *run, struct twin_error *err)
{
    uint64_t begin = tw_monotonic_ns();
    int rc = twin_parts_find(&a->parts, err);
    if (rc == 0)
        rc = prepare_library(a, program, e, run, err);
    if (rc == 0)
        rc = prepare_python(a, run, err);
    a->load_s = (double)(tw_monotonic_ns() - begin) * 1e-9;
    return rc;
}

void tw_agent_cleanup(struct tw_agent_setup *a, bool keep_stage)
{
    if (a->stage_dir && !keep_stage)
        tw_remove_tree(a->stage_dir, NULL, NULL);
    tw_free(a->stage_dir);
    tw_free(a->library);
    tw_free(a->why);
    twin_parts_free(&a->parts);
    *a = (struct tw_agent_setup){0};
}
