/* SPDX-License-Identifier: Apache-2.0 */
/* Trial load: may the agent be preloaded into this program? Asked by agent.c before the job is
 * started, and by `twin_trial_load()` for others. A preload that fails would end the job, or fill
 * its output with the loader's complaints.
 *
 * The program itself never runs. Its own dynamic loader is started in tracing mode (as ldd -r
 * does), maps program, libraries and agent, binds every symbol, reports, and ends. (--list binds no
 * symbols.) A loader that does not know that mode, such as musl's, would run the program: it is
 * told by the mode's name, which must stand in the loader's file.
 *
 * When the loader fails, it is asked once more without the agent: a program that is broken by
 * itself is not the agent's fault. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Scripts that name scripts, at most so many; bytes kept of what the loader says; how long it may
 * take. */
enum { SHEBANG_DEPTH = 4, OUTPUT_MAX = 1 << 20, TIMEOUT_MS = 10000 };

/* "interp arg" of a "#!" line, or "env [-S] NAME": the program whose loader counts. False: cannot
 * be told. */
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

/* Follows scripts to the binary that runs them. NULL with *why set, or without when it does not
 * exist. */
static char *binary_of(const char *program, const char *path_value, struct tw_elf *elf,
                       struct twin_error *err)
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

/* Reads what the loader says until it closes its end. 0, or -1 when it took too long and was
 * killed. */
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
            /* past the cap it stays failed: what we look for comes first */
            tw_buf_append(out, chunk, (size_t)n);
            continue;
        }
        if (ready == 0)
            kill(pid, SIGKILL);
        return ready == 0 ? -1 : 0;
    }
}

/* The job's environment and what turns the loader's tracing on. `preload` may be NULL. */
static int tracing_environment(struct tw_env *env, const struct tw_env *user, const char *preload,
                               struct twin_error *err)
{
    int rc = tw_env_copy(env, user->v, err);
    if (rc == 0)
        rc = tw_env_set(env, "LD_TRACE_LOADED_OBJECTS", "1", err);
    if (rc == 0)
        /* with it unresolved symbols are reported, as by ldd -r */
        rc = tw_env_set(env, "LD_WARN", "yes", err);
    if (rc == 0)
        rc = tw_env_set(env, "LD_BIND_NOW", "yes", err);
    if (rc == 0 && preload)
        rc = tw_env_set(env, "LD_PRELOAD", preload, err);
    return rc;
}

/* Runs the loader on the program in tracing mode. Returns its exit status (as waitpid) or -1; out
 * gets what it says. */
static int trace_load(const char *loader, const char *program, const char *preload,
                      const struct tw_env *user, struct tw_buf *out, struct twin_error *err)
{
    struct tw_env env = {0};
    int ends[2] = {-1, -1}, null = open("/dev/null", O_RDONLY | O_CLOEXEC), status = -1;
    char *argv[] = {(char *)loader, (char *)program, NULL};
    struct tw_spawn s = {.argv = argv, .exec_fd = -1};
    int rc = tracing_environment(&env, user, preload, err);
    if (rc == 0 && (null < 0 || pipe2(ends, O_CLOEXEC) != 0))
        rc = twin_error_system(err, "cannot make a pipe to try the agent");
    if (rc == 0) {
        s.env = env.v;
        s.fd[0] = null;
        s.fd[1] = s.fd[2] = ends[1];
        sigprocmask(SIG_SETMASK, NULL, &s.mask);
        rc = tw_spawn_start(&s, err);
        close(ends[1]);
        ends[1] = -1;
    }
    if (rc == 0) {
        int late = drain(ends[0], s.pid, out);
        while (waitpid(s.pid, &status, 0) < 0 && errno == EINTR)
            ;
        status = late ? -1 : status;
    }
    int fds[] = {null, ends[0], ends[1], s.exec_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    tw_env_free(&env);
    return rc == 0 ? status : -1;
}

/* How the loader ended when the agent was there; -1: not in time. */
static char *loader_fault(int status)
{
    if (status == -1)
        return tw_strdup("its loader did not answer in time when the agent was tried");
    if (WIFSIGNALED(status))
        return tw_printf("its loader was killed by signal %d when the agent was tried",
                         WTERMSIG(status));
    return tw_printf("its loader fails with exit code %d when the agent is there",
                     WEXITSTATUS(status));
}

/* The first line that says that the agent is the trouble. */
static char *complaint(const char *text, const char *library)
{
    static const char *const signs[] = {"cannot be preloaded", "undefined symbol", "not found",
                                        "cannot allocate memory in static TLS", "error"};
    for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        char *line = tw_strndup(p, strcspn(p, "\n"));
        bool about_us = line && strstr(line, library), hit = false;
        for (size_t i = 0; about_us && i < sizeof signs / sizeof signs[0]; i++)
            hit |= strstr(line, signs[i]) != NULL;
        if (hit) {
            char *shown = tw_printable(line + strspn(line, " \t"),
                                       strlen(line) - strspn(line, " \t"));
            tw_free(line);
            return shown;
        }
        tw_free(line);
    }
    return NULL;
}

/* Does the loader know the tracing mode? Decided before it is run: one that does not would run the
 * program. */
static bool loader_can_trace(const char *loader)
{
    static const char name[] = "TRACE_LOADED_OBJECTS"; /* the loader compares without the LD_ */
    enum { LOADER_MAX = 32 << 20 };
    char *data = NULL;
    size_t n = 0;
    bool can = tw_read_file(loader, LOADER_MAX, &data, &n, NULL) == 0 &&
               memmem(data, n, name, sizeof name - 1);
    tw_free(data);
    return can;
}

/* Why the agent cannot be preloaded, malloc'ed; NULL when it can, or when err is set. LD_PRELOAD of
 * the user is kept behind ours, as the job will have it. */
static char *try_loader(const char *path, const char *loader, const char *library,
                        const struct tw_env *env, struct twin_error *err)
{
    struct tw_buf with = {.cap = OUTPUT_MAX}, without = {.cap = OUTPUT_MAX};
    char *why = NULL;
    const char *theirs = tw_env_get(env, "LD_PRELOAD");
    char *preload = theirs && *theirs ? tw_printf("%s:%s", library, theirs) : tw_strdup(library);
    if (!preload) {
        tw_no_memory(err, "trying the agent");
        goto out;
    }
    int status = trace_load(loader, path, preload, env, &with, err);
    if (with.data)
        why = complaint(with.data, library);
    if (!why && status != 0 && (!err || err->code == 0)) {
        /* The program may be broken by itself (a library of its own is missing): then it is not the
         * agent's fault. */
        int alone = trace_load(loader, path, theirs, env, &without, err);
        if (alone != status)
            why = loader_fault(status);
    }
out:
    tw_free(preload);
    tw_buf_free(&with);
    tw_buf_free(&without);
    return why;
}

/* The first property of the program that speaks against a preload, malloc'ed; NULL when none does.
 * The cheap looks into the file come first, the trial itself last. */
static char *reason(const char *path, const struct tw_elf *elf, const char *library,
                    const struct tw_env *env, struct twin_error *err)
{
    if (!elf->is_elf)
        return tw_printf("%s is not a program of a known format", path);
    if (elf->foreign)
        return tw_printf("%s is built for another kind of machine (such as 32 bit)", path);
    if (!elf->dynamic)
        return tw_printf("%s is a static binary: nothing can be loaded into it", path);
    if (elf->sanitizer)
        return tw_printf("%s is built with a sanitizer (%s), which wants to be loaded first", path,
                         elf->sanitizer);
    if (tw_program_is_privileged(path))
        return tw_printf("%s is a set-user-ID program: the loader ignores preloads", path);
    if (!loader_can_trace(elf->interp))
        return tw_printf("%s has a loader that is not glibc's (%s)", path, elf->interp);
    return try_loader(path, elf->interp, library, env, err);
}

/* Follows the program to its binary and looks for a reason. A program that does not exist has none:
 * it is left to fail in its own way. */
int tw_trial_load(const char *program, const char *library, const struct tw_env *env, bool *ok,
                  char **why, struct twin_error *err)
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

int twin_trial_load(const char *program, const char *agent_library, bool *ok, char **why,
                    struct twin_error *err)
{
    extern char **environ;
    struct tw_env env = {0};
    *ok = false;
    *why = NULL;
    int rc = tw_env_copy(&env, environ, err);
    if (rc == 0)
        rc = tw_trial_load(program, agent_library, &env, ok, why, err);
    tw_env_free(&env);
    return rc;
}
