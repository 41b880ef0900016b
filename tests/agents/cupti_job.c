/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays the CUDA driver in front of a double of libcupti: loads what CUDA_INJECTION64_PATH names
 * and starts it, as the driver does, and then tells the double of launches that nobody runs.
 *
 *     cupti_job [--steps N] [--odd STEP] [--threads N] [--other] [--child] [--hostile]
 *               [--fatal STEP] [--unload STEP] WHAT...
 *
 * WHAT is HOW:NAME:GRID:BLOCK:SHARED, once in each step, in order; with @STEP behind it in that
 * step alone, with !STEP in all others. HOW: kernel, kernel_ptsz, ex, ex_ptsz, cooperative,
 * cooperative_ptsz; graph, of which NAME is a number; module, of which NAME is the code. In each
 * step a value is recorded, which is another one from step --odd on. --threads: so many threads
 * launch, each once the one before has. --other: another subscriber is there first. Prints "ok" and
 * whether the double has a subscriber at the end; without a double, "ok -".
 */
#include "cupti_double.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <twin/twin.h>
#include <unistd.h>

#define CHECK(what)                                                       \
    do {                                                                  \
        if (!(what)) {                                                    \
            fprintf(stderr, "cupti_job: line %d: %s\n", __LINE__, #what); \
            exit(70);                                                     \
        }                                                                 \
    } while (0)

enum { GRAPH = DOUBLE_LAUNCHES, MODULE, WHATS = 64 };
static const char *const hows[] = {"kernel",      "kernel_ptsz",      "ex",    "ex_ptsz",
                                   "cooperative", "cooperative_ptsz", "graph", "module"};

struct what {
    int how, at, not_at; /* -1: in every step */
    char name[400];
    unsigned grid, block, shared;
};

static struct what what[WHATS];
static int whats, steps = 4, odd = -1, threads = 1, fatal_at = -1, unload_at = -1;
static bool other, forks, hostile;
static const struct cupti_double *dbl;

static void tell(const struct what *w)
{
    const unsigned grid[3] = {w->grid, 2, 1}, block[3] = {w->block, 1, 1};
    if (w->how == GRAPH)
        dbl->graph((void *)(size_t)(0x1000 * (1 + atoi(w->name))), w->at >= 0);
    else if (w->how == MODULE)
        dbl->module(w->name, strlen(w->name));
    else /* the handle of the function stays when its module is replaced */
        dbl->launch((enum double_launch)w->how, (void *)w, w->name, grid, block, w->shared);
}

static void one_step(int step)
{
    if (step == fatal_at)
        dbl->fatal();
    if (step == unload_at) { /* what lies there now has another name, and the graph is another */
        dbl->module_ends(what, sizeof what);
        for (int i = 0; i < whats; i++)
            what[i].name[0]++;
        dbl->graph_ends((void *)0x1000);
    }
    for (int i = 0; i < whats; i++)
        if ((what[i].at < 0 || what[i].at == step) && what[i].not_at != step)
            tell(&what[i]);
}

/* Threads take turns, so that their numbers are those of their order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn, begun; /* whose turn it is; the step that may be launched */

static void *one_thread(void *user)
{
    const int own = (int)(size_t)user;
    for (int step = 0; step < steps; step++) {
        pthread_mutex_lock(&lock);
        while (begun != step || turn != own)
            pthread_cond_wait(&turned, &lock);
        one_step(step);
        turn++;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void run_steps(void)
{
    pthread_t thread[16];
    CHECK(threads <= 16);
    begun = -1;
    for (int i = 1; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, one_thread, (void *)(size_t)i) == 0);
    for (int step = 0; step < steps; step++) {
        double value = odd >= 0 && step >= odd ? 2.5 : 1.5;
        const int64_t shape[] = {1};
        pthread_mutex_lock(&lock);
        if (dbl)
            one_step(step);
        begun = step;
        turn = 1;
        pthread_cond_broadcast(&turned);
        while (turn < threads)
            pthread_cond_wait(&turned, &lock);
        pthread_mutex_unlock(&lock);
        twin_record("value", TWIN_F64, 1, shape, NULL, &value, 0);
        twin_step();
    }
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
}

/* ---- as the driver starts */

static void nobody(void *user, int domain, unsigned number, const void *data)
{
    (void)user, (void)domain, (void)number, (void)data;
}

static void subscribe_first(void)
{
    char path[4096];
    void *handle = NULL;
    snprintf(path, sizeof path, "%s/lib64/libcupti.so.13", getenv("CUDA_HOME"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    int (*subscribe)(void **, void (*)(void *, int, unsigned, const void *), void *);
    *(void **)&subscribe = dlsym(library, "cuptiSubscribe");
    CHECK(subscribe && subscribe(&handle, nobody, NULL) == 0);
}

static void start_driver(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (other)
        subscribe_first();
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*start)(void) = NULL;
    if (library)
        *(void **)&start = dlsym(library, "InitializeInjection");
    CHECK(!start || start() == 1);
    library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    dbl = library ? dlsym(library, "twin_cupti_double") : NULL;
}

static void parse_what(struct what *w, const char *word)
{
    char how[24];
    const char *mark = strpbrk(word, "@!");
    *w = (struct what){.how = -1, .at = -1, .not_at = -1, .grid = 1, .block = 1};
    CHECK(sscanf(word, "%23[^:]:%399[^:@!]:%u:%u:%u", how, w->name, &w->grid, &w->block,
                 &w->shared) >= 2);
    for (int i = 0; i < (int)(sizeof hows / sizeof hows[0]); i++)
        if (strcmp(how, hows[i]) == 0)
            w->how = i;
    CHECK(w->how >= 0);
    if (mark && *mark == '@')
        w->at = atoi(mark + 1);
    else if (mark)
        w->not_at = atoi(mark + 1);
}

static void parse(int argc, char **argv)
{
    const struct {
        const char *word;
        int *number;
        bool *said;
    } options[] = {{"--steps", &steps, NULL},      {"--odd", &odd, NULL},
                   {"--threads", &threads, NULL},  {"--fatal", &fatal_at, NULL},
                   {"--unload", &unload_at, NULL}, {"--other", NULL, &other},
                   {"--child", NULL, &forks},      {"--hostile", NULL, &hostile}};
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof options / sizeof options[0] && strcmp(argv[i], options[k].word) != 0)
            k++;
        if (k == sizeof options / sizeof options[0]) {
            CHECK(whats < WHATS);
            parse_what(&what[whats++], argv[i]);
        } else if (options[k].said) {
            *options[k].said = true;
        } else {
            CHECK(i + 1 < argc);
            *options[k].number = atoi(argv[++i]);
        }
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    start_driver();
    if (forks && dbl) {
        pid_t child = fork();
        if (child == 0) { /* what no CUDA program does */
            one_step(0);
            exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    run_steps();
    if (hostile && dbl)
        dbl->hostile();
    if (dbl)
        printf("ok %d\n", dbl->subscribers());
    else
        puts("ok -");
    return 0;
}
