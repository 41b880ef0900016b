/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a program: looks for it as exec does, forks, execs, and tells in words why it did not
 * start. Used for the job (launch.c) and for the loader that tries the agent (trial.c).
 *
 * posix_spawn does not suffice here: the child holds the address layout and the processor still,
 * and it reports the errno of the exec through a pipe that exec closes. End of file on that pipe
 * means that the program runs. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the C library uses when PATH is not set at all. */
#define DEFAULT_PATH "/bin:/usr/bin"

/* A name with a slash is its own only candidate; so is the empty name. */
char **tw_program_candidates(const char *name, const char *path_value, struct twin_error *err)
{
    const char *path = NULL;
    if (*name && !strchr(name, '/'))
        path = path_value ? path_value : DEFAULT_PATH;
    size_t n = 1, used = 0;
    for (const char *p = path; p && *p; p++)
        n += *p == ':';
    char **list = tw_calloc(n + 1, sizeof *list);
    if (!list)
        goto no_memory;
    if (!path) {
        list[0] = tw_strdup(name);
        if (!list[0])
            goto no_memory;
        return list;
    }
    for (const char *p = path;; p++) {
        size_t len = strcspn(p, ":");
        /* An empty element means the working folder. */
        const char *slash = len && p[len - 1] == '/' ? "" : "/";
        list[used] = len ? tw_printf("%.*s%s%s", (int)len, p, slash, name)
                         : tw_printf("./%s", name);
        if (!list[used++])
            goto no_memory;
        p += len;
        if (!*p)
            return list;
    }
no_memory:
    tw_strings_free(list);
    tw_no_memory(err, "looking for %s", name);
    return NULL;
}

char *tw_program_find(const char *name, const char *path_value, struct twin_error *err)
{
    char **list = tw_program_candidates(name, path_value, err);
    char *found = NULL;
    for (size_t i = 0; list && list[i] && !found; i++) {
        struct stat st;
        if (stat(list[i], &st) == 0 && S_ISREG(st.st_mode) && access(list[i], X_OK) == 0) {
            found = tw_strdup(list[i]);
            if (!found)
                tw_no_memory(err, "looking for %s", name);
        }
    }
    tw_strings_free(list);
    return found;
}

/* Would a shell take it for a script? As bash decides: no NUL byte in its first line. */
static bool is_text(const char *path)
{
    char head[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n && head[i] != '\n'; i++)
        if (head[i] == '\0')
            return false;
    return n >= 0;
}

/* Tries one path after the other, as execvp does, and does not return: it writes the errno to
 * `report` and ends. A folder that lacks the program, or that cannot be reached, sends us on to the
 * next, and so does one where it may not be executed; any other failure is final. Like all that
 * runs below the fork it uses async-signal-safe calls only, since the caller may have threads. */
static void exec_candidates(char *const *candidates, const char **shell_argv,
                            const struct tw_spawn *s, int report)
{
    int last = ENOENT;
    for (size_t i = 0; candidates[i]; i++) {
        execve(candidates[i], s->argv, s->env);
        int error = errno;
        /* a script without "#!": what every shell and execvp do */
        if (error == ENOEXEC && is_text(candidates[i])) {
            shell_argv[1] = candidates[i];
            execve(shell_argv[0], (char *const *)shell_argv, s->env);
            error = errno == ENOENT ? ENOEXEC : errno;
        }
        if (error == EACCES)
            last = EACCES; /* remembered, but a later folder may have it */
        else if (error != ENOENT && error != ENOTDIR && error != ENODEV && error != ESTALE &&
                 error != ETIMEDOUT) {
            last = error;
            break;
        }
    }
    while (write(report, &last, sizeof last) < 0 && errno == EINTR)
        ;
    _exit(last == ENOENT || last == ENOTDIR ? 127 : 126);
}

/* Both survive exec and are inherited by all that the job starts. A refusal is reported, and the
 * job runs all the same. */
static void hold_still(const struct tw_spawn *s)
{
    if (s->no_aslr) {
        int now = personality(0xffffffff);
        if (now >= 0 && personality((unsigned long)now | ADDR_NO_RANDOMIZE) >= 0)
            s->holds->aslr_errno = 0;
        else
            s->holds->aslr_errno = errno;
    }
    if (s->on_cpu) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)s->cpu, &one);
        s->holds->cpu_errno = sched_setaffinity(0, sizeof one, &one) == 0 ? 0 : errno;
    }
}

/* The child's side of the fork. The order matters: descriptors and folder first, then what is held
 * still; the signal mask last, because from there on a signal may end the child. */
static void run_child(const struct tw_spawn *s, char *const *candidates, const char **shell_argv,
                      int report)
{
    int error = 0;
    for (int fd = 0; fd < 3 && !error; fd++)
        if (s->fd[fd] >= 0 && dup2(s->fd[fd], fd) < 0)
            error = errno;
    if (!error && s->dir && chdir(s->dir) != 0)
        error = errno;
    if (s->holds)
        hold_still(s);
    if (s->death_signal)
        prctl(PR_SET_PDEATHSIG, s->death_signal);
    if (s->ignore_sigchld)
        signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &s->mask, NULL);
    if (!error)
        exec_candidates(candidates, shell_argv, s, report);
    while (write(report, &error, sizeof error) < 0 && errno == EINTR)
        ;
    _exit(126);
}

/* 0 when there is a process; s->pid and s->exec_fd are set then, and the caller waits for the one
 * and closes the other. All memory is taken before the fork: the child must not allocate. */
int tw_spawn_start(struct tw_spawn *s, struct twin_error *err)
{
    int report[2] = {-1, -1}, rc = 0;
    size_t argc = 0;
    while (s->argv[argc])
        argc++;
    char **candidates = tw_program_candidates(s->argv[0], s->path_value, err);
    const char **shell_argv = tw_calloc(argc + 2, sizeof *shell_argv);
    if (!candidates || !shell_argv) {
        rc = tw_no_memory(err, "starting %s", s->argv[0]);
        goto out;
    }
    shell_argv[0] = "/bin/sh";
    for (size_t i = 1; i < argc; i++)
        shell_argv[i + 1] = s->argv[i];
    if (s->no_aslr || s->on_cpu) {
        void *shared = mmap(NULL, sizeof *s->holds, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED) {
            rc = tw_no_memory(err, "starting %s", s->argv[0]);
            goto out;
        }
        s->holds = shared;
        *s->holds = (struct tw_spawn_holds){ECHILD, ECHILD}; /* until the child says otherwise */
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
        rc = twin_error_system(err, "cannot make a pipe to start %s", s->argv[0]);
        goto out;
    }
    s->pid = fork();
    if (s->pid == 0)
        run_child(s, candidates, shell_argv, report[1]);
    if (s->pid < 0) {
        rc = twin_error_system(err, "cannot make a process for %s", s->argv[0]);
        close(report[0]);
    } else {
        s->exec_fd = report[0];
    }
    close(report[1]);
out:
    tw_strings_free(candidates);
    tw_free(shell_argv);
    return rc;
}

void tw_spawn_end(struct tw_spawn *s)
{
    if (s->holds)
        munmap(s->holds, sizeof *s->holds);
    s->holds = NULL;
}

/* For a name without a slash that no folder of PATH has. A long PATH is counted and not shown: it
 * would hide the rest of the sentence. What is a script is named with what runs it. */
static char *explain_unknown(const char *name, const char *path)
{
    enum { SHOWN = 80 };
    struct stat st;
    struct tw_buf b = {0};
    size_t folders = 1;
    const char *dot = strrchr(name, '.');
    const bool is_python = dot && strcmp(dot, ".py") == 0;
    for (const char *c = path; *c; c++)
        folders += *c == ':';
    tw_buf_printf(&b, "cannot run %s: no such program in ", name);
    if (strlen(path) > SHOWN)
        tw_buf_printf(&b, "the %zu folders of PATH", folders);
    else
        tw_buf_printf(&b, "PATH (%s)", path);
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode))
        tw_buf_printf(&b, "%s%s", is_python ? "; a script is run by Python: python " : "",
                      is_python ? name : "");
    else if (is_python && access(name, X_OK) != 0)
        tw_buf_printf(&b, "; there is a script of that name here: try python %s", name);
    else
        tw_buf_printf(&b, "; there is a file of that name here: try ./%s", name);
    return tw_buf_steal(&b);
}

/* For ENOENT and ENOTDIR. The kernel gives ENOENT also when the file is there but its interpreter
 * is not, which is the case that people do not find by themselves. */
static char *explain_missing(const struct tw_spawn *s)
{
    const char *name = s->argv[0];
    struct stat st;
    if (!*name)
        return tw_printf("cannot run '': the program's name is empty; give a command after --");
    if (strchr(name, '/')) {
        struct tw_elf elf;
        if (stat(name, &st) != 0)
            return tw_printf("cannot run %s: there is no such file", name);
        if (tw_elf_inspect(name, &elf) == 0 && elf.shebang[0])
            return tw_printf(
                "cannot run %s: its first line names an interpreter that does not exist: #!%s",
                name, elf.shebang);
        if (elf.interp[0])
            return tw_printf("cannot run %s: it needs the loader %s, which does not exist here",
                             name, elf.interp);
        return tw_printf(
            "cannot run %s: a folder on the way to it, or its interpreter, does not exist", name);
    }
    return explain_unknown(name, s->path_value ? s->path_value : DEFAULT_PATH);
}

/* The exit code is that of a shell: 127 for a program that is not there, 126 for one that cannot be
 * run. */
char *tw_spawn_explain(const struct tw_spawn *s, int error, int *exit_code)
{
    struct stat st;
    *exit_code = error == ENOENT || error == ENOTDIR ? 127 : 126;
    if (*exit_code == 127)
        return explain_missing(s);
    if (error == EACCES && stat(s->argv[0], &st) == 0 && S_ISDIR(st.st_mode))
        return tw_printf("cannot run %s: it is a folder", s->argv[0]);
    if (error == EACCES && strchr(s->argv[0], '/'))
        return tw_printf("cannot run %s: permission denied (is it executable? try: chmod +x %s)",
                         s->argv[0], s->argv[0]);
    if (error == EACCES)
        return tw_printf("cannot run %s: found in PATH, but not executable", s->argv[0]);
    if (error == ENOEXEC)
        return tw_printf("cannot run %s: it is not a program that this machine can execute (built "
                         "for another one?)",
                         s->argv[0]);
    if (error == E2BIG)
        return tw_printf("cannot run %s: its arguments and environment are too long", s->argv[0]);
    return tw_printf("cannot run %s: %s", s->argv[0], strerror(error));
}
