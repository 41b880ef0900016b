/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of the tests of twinrun lab: run r ends exactly r x D away from a run that does not
 * wander.
 *   --runs-file F   counts the runs in file F                --weights F   writes the final weights
 * there (.npy)
 *   --wander D      the last step adds r x D to one weight and to the loss; not where
 * WANDERER_STILL=1
 *   --unseeded      another batch in every run               --blind       shows no generator
 *   --nan S         the loss is not a number from step S on  --steps N     (5)
 *   --fail-pinned   fails where OMP_NUM_THREADS=1            --fail-run R  fails in run R
 *   --sleep-ms M    per step; twice that where OMP_NUM_THREADS=1
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <twin/twin.h>

enum { N = 8 };

static const char *option(int argc, char **argv, const char *name, const char *initial)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return initial;
}

static bool flag(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

static bool set_to_one(const char *name)
{
    const char *v = getenv(name);
    return v && strcmp(v, "1") == 0;
}

static long count_run(const char *path)
{
    long n = 0;
    FILE *f = path ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%ld", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    f = path ? fopen(path, "w") : NULL;
    if (f) {
        fprintf(f, "%ld\n", n + 1);
        fclose(f);
    }
    return n + 1;
}

static int write_weights(const char *path, const double *w)
{
    char header[118];
    FILE *f = fopen(path, "wb");
    if (!f)
        return 1;
    memset(header, ' ', sizeof header);
    const int n = snprintf(header, sizeof header,
                           "{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }", N);
    header[n] = ' ';
    header[sizeof header - 1] = '\n';
    fwrite("\x93NUMPY\x01\x00\x76\x00", 10, 1, f);
    fwrite(header, sizeof header, 1, f);
    fwrite(w, sizeof *w, N, f);
    return fclose(f);
}

static void show(const char *name, const double *x, int64_t n)
{
    twin_record(name, TWIN_F64, n > 1, (int64_t[]){n}, NULL, x, 0);
}

int main(int argc, char **argv)
{
    const char *weights = option(argc, argv, "--weights", NULL);
    const char *nan_from = option(argc, argv, "--nan", NULL);
    const long run = count_run(option(argc, argv, "--runs-file", NULL));
    const long steps = strtol(option(argc, argv, "--steps", "5"), NULL, 10);
    const long sleep_ms = strtol(option(argc, argv, "--sleep-ms", "0"), NULL, 10) *
                          (set_to_one("OMP_NUM_THREADS") ? 2 : 1);
    const double wander = set_to_one("WANDERER_STILL")
                              ? 0
                              : strtod(option(argc, argv, "--wander", "0"), NULL);
    double w[N] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t generator = 1;
    if (flag(argc, argv, "--fail-pinned") && set_to_one("OMP_NUM_THREADS")) {
        fprintf(stderr, "wanderer: one thread is too few\n");
        return 9;
    }
    if (run == strtol(option(argc, argv, "--fail-run", "0"), NULL, 10)) {
        fprintf(stderr, "wanderer: told to fail in run %ld\n", run);
        return 7;
    }
    show("init:w", w, N);
    for (long s = 0; s < steps; s++) {
        double batch[N];
        for (int i = 0; i < N; i++)
            batch[i] = (double)(s * N + i) +
                       (flag(argc, argv, "--unseeded") ? 0.5 * (double)run : 0);
        generator = generator * 6364136223846793005u + 1;
        if (!flag(argc, argv, "--blind"))
            twin_record("state:generator", TWIN_U64, 0, NULL, NULL, &generator, 0);
        show("batch:x", batch, N);
        nanosleep(
            &(struct timespec){.tv_sec = sleep_ms / 1000, .tv_nsec = sleep_ms % 1000 * 1000000},
            NULL);
        for (int i = 0; i < N; i++)
            w[i] -= 0.001 * batch[i];
        double loss = 0.25;
        if (s == steps - 1) {
            w[3] += (double)run * wander;
            loss += (double)run * wander;
        }
        if (nan_from && s >= strtol(nan_from, NULL, 10))
            loss = NAN;
        show("loss:loss", &loss, 1);
        show("weight:w", w, N);
        twin_step();
    }
    printf("loss is printed nowhere else\n");
    return weights ? write_weights(weights, w) : 0;
}
