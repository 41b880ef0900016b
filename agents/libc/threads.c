/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where threads and programs begin: each gets the next stream of its creator (and, with scheduling
 * noise, a delay). Threads that the agent makes for itself are marked as its own for life: no hook
 * answers them.
 */
#include <errno.h>
#include <alloca.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include "agents/common/state.h"
#include "hooks.h"

EXPORT int pthread_create(pthread_t *restrict t, const pthread_attr_t *restrict a,
                          void *(*run)(void *), void *restrict argument);
EXPORT int system(const char *command);
EXPORT FILE *popen(const char *command, const char *mode);
EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
                       const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *restrict a, char *const argv[restrict],
                       char *const envp[restrict]);
EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                        const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *restrict a, char *const argv[restrict],
                        char *const envp[restrict]);

typedef void *run_fn(void *);
TW_REAL(int, pthread_create, (pthread_t *, const pthread_attr_t *, run_fn *, void *))
TW_REAL(int, system, (const char *))
TW_REAL(FILE *, popen, (const char *, const char *))
TW_REAL(int, posix_spawn,
        (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const *, char *const *))
TW_REAL(int, posix_spawnp,
        (pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const *, char *const *))

/* What a new thread needs of its creator: the thread gives it back as soon as it has read it. They
 * are kept in a table of our own, so that the heap is what it would be without us. */
struct start {
    atomic_flag taken;
    bool own;
    run_fn *run;
    void *argument;
    struct tw_stream_seed seed;
};
#define STARTS 256
/* An entry is in use from the creation until the thread has begun. */
static struct start starts[STARTS];

/* A free one; NULL when all are in use, and then the original is called without one. */
static struct start *take_trampoline(void)
{
    for (int i = 0; i < STARTS; i++)
        if (!atomic_flag_test_and_set_explicit(&starts[i].taken, memory_order_acquire))
            return &starts[i];
    return NULL;
}

static void give_back(struct start *s)
{
    atomic_flag_clear_explicit(&s->taken, memory_order_release);
}

/* Where a thread of the job begins: takes its stream, waits where the schedule is shaken, and runs
 * what the program asked for. */
static void *begin_thread(void *p)
{
    struct start *s = p;
    run_fn *run = s->run;
    void *argument = s->argument;
    bool own = s->own;
    if (!own)
        tw_stream_adopt(s->seed);
    give_back(s);
    if (own)
        tw_agent_inside = 1;
    else
        tw_schedule_boundary(TW_AT_START);
    return run(argument);
}

/* The seed is derived here, in the creator, because the order in which one thread creates others is
 * the same in each run. It is taken back when no thread came of it. */
int pthread_create(pthread_t *restrict t, const pthread_attr_t *restrict a, run_fn *run,
                   void *restrict argument)
{
    struct start *s;
    bool own = tw_agent_inside != 0;
    if ((!own && !tw_factors_any()) || !(s = take_trampoline()))
        return real_pthread_create()(t, a, run, argument);
    s->run = run;
    s->argument = argument;
    s->own = own;
    if (!own) {
        s->seed = tw_stream_derive();
        tw_schedule_boundary(TW_AT_CREATE);
    }
    int rc = real_pthread_create()(t, a, begin_thread, s);
    if (rc != 0) {
        give_back(s);
        if (!own)
            tw_stream_take_back();
    }
    return rc;
}

/* A child reads its stream from the environment; system and popen have no argument for one, so it
 * is put into ours. */
int system(const char *command)
{
    if (command && tw_factors_any())
        tw_stream_pass_on();
    return real_system()(command);
}

FILE *popen(const char *command, const char *mode)
{
    if (tw_factors_any())
        tw_stream_pass_on();
    return real_popen()(command, mode);
}

/* Calls the original with an environment that names the child's stream. The environment is on our
 * stack: nothing of the program's is changed. */
#define SPAWN(real, path)                                                                      \
    do {                                                                                       \
        char entry_[TW_STREAM_ENTRY_BYTES];                                                    \
        size_t n_ = tw_stream_environment_size(envp);                                          \
        int rc_ = real()(pid, path, actions, a, argv,                                          \
                         n_ ? tw_stream_environment(envp, alloca(n_ * sizeof(char *)), entry_) \
                            : envp);                                                           \
        if (rc_ != 0 && n_)                                                                    \
            tw_stream_take_back();                                                             \
        return rc_;                                                                            \
    } while (0)

int posix_spawn(pid_t *restrict pid, const char *restrict path,
                const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *restrict a,
                char *const argv[restrict], char *const envp[restrict])
{
    SPAWN(real_posix_spawn, path);
}

int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *restrict a,
                 char *const argv[restrict], char *const envp[restrict])
{
    SPAWN(real_posix_spawnp, file);
}

void tw_threads_resolve(void)
{
    real_pthread_create();
    real_system();
    real_popen();
    real_posix_spawn();
    real_posix_spawnp();
}

void tw_hooks_resolve(void)
{
    tw_entropy_resolve();
    tw_stdio_resolve();
    tw_clock_resolve();
    tw_fast_clock_resolve();
    tw_deadline_resolve();
    tw_directory_resolve();
    tw_threads_resolve();
    tw_written_resolve();
}
