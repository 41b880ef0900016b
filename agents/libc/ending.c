/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways for a process image to end without destructors: _exit, _Exit and the exec family; and the
 * sandboxes after which nothing more may be asked of the kernel. Each seals what was recorded, then
 * does exactly what the original does. (quick_exit: a handler, see agent.c. abort and fatal signals
 * are left alone: what was sealed survives. posix_spawn, system and popen execute in a child of
 * their own, which has recorded nothing.)
 *
 * The originals are looked up at the start of an armed process, since _exit may come from a signal
 * handler; a process without twinrun pays nothing before its first call. After vfork the child runs
 * on its parent's memory; tw_agent_seal sees the other pid and touches nothing.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "agents/common/life.h"
#include "agents/common/state.h"
#include "hooks.h"

extern char **environ;

/* Prototypes of our own: <unistd.h> and <stdlib.h> declare them with attributes that differ between
 * versions. */
EXPORT void _exit(int status);
EXPORT void _Exit(int status);

/* The originals that this file finds itself: it is also built without the other hooks. */
enum function { EXIT, EXIT_ISO, EXECVE, EXECVPE, FEXECVE, PRCTL, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"_exit",   "_Exit",   "execve",
                                             "execvpe", "fexecve", "prctl"};
/* NULL: not looked for yet, or libc has none. */
static void *_Atomic found[FUNCTIONS];

/* The function behind us; NULL when libc has none. errno stays. */
static void *original(enum function f)
{
    void *p = atomic_load_explicit(&found[f], memory_order_relaxed);
    if (!p) {
        int saved_errno = errno;
        p = dlsym(RTLD_NEXT, names[f]);
        errno = saved_errno;
        atomic_store_explicit(&found[f], p, memory_order_relaxed);
    }
    return p;
}

/* Run when the agent is set up in a process of a run. */
static void resolve_originals(void)
{
    for (int f = 0; f < FUNCTIONS; f++)
        original((enum function)f);
#ifdef TW_LIBC_HOOKS
    tw_hooks_resolve();
#endif
}

static const struct tw_agent_life libc_life = {.prepare = resolve_originals};
TW_AGENT_REGISTER(libc_life);

/* Seals and ends. When there is no original, or it comes back, the kernel is asked. */
static _Noreturn void end_process(enum function f, int status)
{
    /* What was recorded is written before the process is gone. */
    tw_agent_seal(true);
    tw_factors_end();
    void (*next)(int) = (void (*)(int))original(f);
    if (next)
        next(status);
    for (;;)
        syscall(SYS_exit_group, status);
}

void _exit(int status)
{
    end_process(EXIT, status);
}

void _Exit(int status)
{
    end_process(EXIT_ISO, status);
}

/* Ready to be replaced, and back again when the call fails. */
static void before_exec(void)
{
    tw_agent_seal(false);
    tw_factors_end();
}

/* The program goes on: factors are in force again, and the stream that the new program would have
 * had is free. rc and errno are the caller's. */
static int exec_failed(int rc, bool derived)
{
    int saved_errno = errno;
    tw_factors_go_on();
    if (derived)
        tw_stream_take_back();
    errno = saved_errno;
    return rc;
}

/* envp, or a copy on the caller's stack that tells the new program which stream is its own. */
#define WITH_STREAM(envp, entry, derived)            \
    size_t size_ = tw_stream_environment_size(envp); \
    bool derived = size_ != 0;                       \
    char entry[TW_STREAM_ENTRY_BYTES];               \
    if (derived)                                     \
    envp = tw_stream_environment(envp, alloca(size_ * sizeof(char *)), entry)

/* execve and execvpe with everything around them. Returns only when the call has failed. Where libc
 * has no such function the closest system call is made. */
static int replace_process(enum function f, const char *file, char *const argv[],
                           char *const envp[])
{
    before_exec();
    WITH_STREAM(envp, entry, derived);
    int (*next)(const char *, char *const[],
                char *const[]) = (int (*)(const char *, char *const[], char *const[]))original(f);
    return exec_failed(next ? next(file, argv, envp) : (int)syscall(SYS_execve, file, argv, envp),
                       derived);
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    return replace_process(EXECVE, path, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
    return replace_process(EXECVE, path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return replace_process(EXECVPE, file, argv, envp);
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return replace_process(EXECVPE, file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    before_exec();
    WITH_STREAM(envp, entry, derived);
    int (*next)(int, char *const[],
                char *const[]) = (int (*)(int, char *const[], char *const[]))original(FEXECVE);
    int rc = -1;
    if (next)
        rc = next(fd, argv, envp);
    else
        errno = ENOSYS;
    return exec_failed(rc, derived);
}

/* The variadic three: the list becomes an array on the stack, as in libc. */
static size_t list_length(va_list ap)
{
    size_t n = 1;
    while (va_arg(ap, char *))
        n++;
    return n;
}

/* argv: `arg`, the other words, and the NULL behind them. ap then stands behind that NULL, where
 * execle has its environment. */
#define LIST_TO_ARRAY(argv, arg, ap)            \
    do {                                        \
        va_list count_;                         \
        va_start(ap, arg);                      \
        va_copy(count_, ap);                    \
        size_t n_ = list_length(count_);        \
        va_end(count_);                         \
        argv = alloca((n_ + 1) * sizeof *argv); \
        argv[0] = (char *)(uintptr_t)arg;       \
        for (size_t i_ = 1; i_ <= n_; i_++)     \
            argv[i_] = va_arg(ap, char *);      \
    } while (0)

EXPORT int execl(const char *path, const char *arg, ...)
{
    va_list ap;
    char **argv;
    LIST_TO_ARRAY(argv, arg, ap);
    va_end(ap);
    return replace_process(EXECVE, path, argv, environ);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
    va_list ap;
    char **argv;
    LIST_TO_ARRAY(argv, arg, ap);
    va_end(ap);
    return replace_process(EXECVPE, file, argv, environ);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
    va_list ap;
    char **argv;
    LIST_TO_ARRAY(argv, arg, ap);
    char *const *envp = va_arg(ap, char *const *);
    va_end(ap);
    return replace_process(EXECVE, path, argv, envp);
}

/*
 * A sandbox may kill for any system call from here on: what there is to tell is told before, and
 * nothing when the process ends. Both ways are seen: prctl, and syscall() as libseccomp calls it.
 */
bool tw_sandbox_begins(long number, const long a[6])
{
    enum { SET_MODE_FILTER = 1 }; /* of seccomp(2); SET_MODE_STRICT is 0, others only ask */
    bool begins = number == SYS_prctl && a[0] == PR_SET_SECCOMP;
    if (number == SYS_seccomp)
        begins = a[0] <= SET_MODE_FILTER;
    if (begins)
        before_exec();
#ifdef TW_LIBC_HOOKS
    if (begins)
        tw_written_confined(true);
#endif
    return begins;
}

void tw_sandbox_failed(void)
{
#ifdef TW_LIBC_HOOKS
    tw_written_confined(false);
#endif
    exec_failed(-1, false);
}

/*
 * The arguments are passed on as the C library itself reads them: four words, whatever the option.
 */
EXPORT int prctl(int option, ...)
{
    long a[6] = {option};
    va_list ap;
    va_start(ap, option);
    for (int i = 1; i < 5; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    int (*next)(int, ...) = (int (*)(int, ...))original(PRCTL);
    bool begins = tw_sandbox_begins(SYS_prctl, a);
    int rc = -1;
    if (next)
        rc = next(option, a[1], a[2], a[3], a[4]);
    else
        rc = (int)syscall(SYS_prctl, option, a[1], a[2], a[3], a[4]);
    if (begins && rc != 0)
        tw_sandbox_failed();
    return rc;
}
