/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broken watcher, preloaded beside the real one: does what TWINRUN_MUTANT names to the process
 * that it is loaded into. test_corpus_mutants.py shows that the harness sees each of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind(void)
{
    const char *k = getenv("TWINRUN_MUTANT");
    return k ? k : "";
}

static int is(const char *name)
{
    return !strcmp(kind(), name);
}

static void say(int fd)
{
    if (write(fd, "x", 1) != 1)
        abort();
}

static void to_descriptors_and_signals(void)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    if (is("leak"))
        (void)!dup(0);
    if (is("leak-closed-by-exec"))
        fcntl(0, F_DUPFD_CLOEXEC, 200);
    if (is("mask"))
        sigprocmask(SIG_BLOCK, &one, NULL);
    if (is("handler"))
        signal(SIGPIPE, SIG_IGN);
    if (is("limit"))
        setrlimit(RLIMIT_CORE, &(struct rlimit){4096, 4096});
}

__attribute__((constructor)) static void begin(void)
{
    char c;
    to_descriptors_and_signals();
    if (is("print"))
        say(1);
    if (is("print-error"))
        say(2);
    if (is("file"))
        close(open("left-behind", O_CREAT | O_WRONLY, 0600));
    if (is("umask"))
        umask(077);
    if (is("rounding"))
        fesetround(FE_DOWNWARD);
    if (is("input"))
        (void)!read(0, &c, 1);
    if (is("variable"))
        setenv("EXTRA", "1", 1);
    if (is("nice"))
        (void)!nice(1);
    if (is("memory"))
        memset(malloc(300 << 20), 1, 300 << 20);
}

__attribute__((destructor)) static void end(void)
{
    if (is("status"))
        _exit(77);
    if (is("print-at-end"))
        say(2);
}
