/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of the command-line tests: a traced gradient descent that can be told to misbehave.
 *   --steps N          steps to make (20)                  --sleep-ms M    per step
 *   --runs-file F      counts the runs in file F           --part-at S     from run 2 on, gradients
 * differ from step S on
 *   --die-at S         abort at step S                     --die-run R     ... in run R only
 *   --from S           resume at step S from `weights`     --save-at S     write `weights` after S
 * steps
 *   --print BYTES      print that many bytes               --no-steps      never end a step
 *   --noise-at S       from step S on gradients are another in every run
 *   --ranks-at S       from step S on gradients depend on WORLD_SIZE
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <twin/twin.h>

enum { N = 64 };
#define NEVER (-1L)

struct plan {
    long steps, sleep_ms, part_at, die_at, die_run, from, save_at, print, noise_at, ranks_at;
    const char *runs_file;
    bool no_steps;
};

static struct plan read_plan(int argc, char **argv)
{
    struct plan p = {.steps = 20,
                     .part_at = NEVER,
                     .die_at = NEVER,
                     .from = 0,
                     .save_at = NEVER,
                     .noise_at = NEVER,
                     .ranks_at = NEVER};
    struct {
        const char *name;
        long *value;
    } longs[] = {
        {"--steps", &p.steps},       {"--sleep-ms", &p.sleep_ms}, {"--part-at", &p.part_at},
        {"--die-at", &p.die_at},     {"--die-run", &p.die_run},   {"--from", &p.from},
        {"--save-at", &p.save_at},   {"--print", &p.print},       {"--noise-at", &p.noise_at},
        {"--ranks-at", &p.ranks_at},
    };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-steps") == 0)
            p.no_steps = true;
        else if (strcmp(argv[i], "--runs-file") == 0 && i + 1 < argc)
            p.runs_file = argv[++i];
        for (size_t k = 0; k < sizeof longs / sizeof longs[0]; k++)
            if (strcmp(argv[i], longs[k].name) == 0 && i + 1 < argc) {
                *longs[k].value = strtol(argv[++i], NULL, 10);
                break;
            }
    }
    return p;
}

/* Number of this run, counted in a file outside of twinrun's sight. */
static long count_run(const char *path)
{
    long n = 0;
    FILE *f = path ? fopen(path, "r") : NULL;
    if (f) {
        if (fscanf(f, "%ld", &n) != 1)
            n = 0;
        fclose(f);
    }
    f = path ? fopen(path, "w") : NULL;
    if (f) {
        fprintf(f, "%ld\n", n + 1);
        fclose(f);
    }
    return n + 1;
}

static void print_bytes(long bytes)
{
    static const char line[] = "a line of thirty-two bytes here\n";
    for (long left = bytes; left > 0; left -= 32)
        fwrite(line, 1, left < 32 ? (size_t)left : 32, stdout);
}

static void load(float *w)
{
    FILE *f = fopen("weights", "rb");
    if (!f || fread(w, sizeof *w, N, f) != N)
        exit(4);
    fclose(f);
}

static void save(const float *w)
{
    FILE *f = fopen("weights", "wb");
    if (!f || fwrite(w, sizeof *w, N, f) != N)
        exit(5);
    fclose(f);
}

/* One step of descent on |w - x|^2 for the batch x of this step. */
static float train(float *w, long step, float disturbance)
{
    float x[N], gradient[N], loss = 0;
    for (int i = 0; i < N; i++)
        x[i] = (float)((step * 31 + i * 17) % 97) / 97;
    twin_record("batch:x", TWIN_F32, 1, (int64_t[]){N}, NULL, x, 0);
    for (int i = 0; i < N; i++) {
        gradient[i] = 2 * (w[i] - x[i]);
        loss += (w[i] - x[i]) * (w[i] - x[i]);
    }
    gradient[7] *= disturbance;
    twin_record("loss:loss", TWIN_F32, 0, NULL, NULL, &loss, 0);
    twin_record("gradient:w", TWIN_F32, 1, (int64_t[]){N}, NULL, gradient, 0);
    for (int i = 0; i < N; i++)
        w[i] -= 0.05f * gradient[i];
    twin_record("weight:w", TWIN_F32, 1, (int64_t[]){N}, NULL, w, 0);
    return loss;
}

/* A number from 1 on, another in every run. */
static float draw(void)
{
    unsigned bits = 0;
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        exit(6);
    /* all that a float has there: no two runs draw the same by chance */
    return 1 + (float)(bits >> 10) / (1 << 23);
}

static long ranks(void)
{
    const char *world = getenv("WORLD_SIZE");
    return world ? strtol(world, NULL, 10) : 1;
}

int main(int argc, char **argv)
{
    struct plan p = read_plan(argc, argv);
    long run = count_run(p.runs_file);
    float w[N] = {0}, loss = 0, noise = draw();
    if (p.from > 0)
        load(w);
    twin_record("init:w", TWIN_F32, 1, (int64_t[]){N}, NULL, w, 0);
    print_bytes(p.print);
    for (long step = p.from; step < p.steps; step++) {
        if (step == p.die_at && (p.die_run == 0 || p.die_run == run)) {
            fprintf(stderr, "job: giving up at step %ld\n", step);
            twin_close();
            abort();
        }
        float disturbance = p.part_at != NEVER && step >= p.part_at && run > 1 ? 1.0000002f : 1;
        if (p.noise_at != NEVER && step >= p.noise_at)
            disturbance = noise;
        if (p.ranks_at != NEVER && step >= p.ranks_at)
            disturbance = 1 + (float)ranks() / (1 << 20);
        loss = train(w, step, disturbance);
        if (!p.no_steps)
            twin_step();
        if (p.save_at == step + 1)
            save(w);
        if (p.sleep_ms > 0)
            nanosleep(&(struct timespec){p.sleep_ms / 1000, p.sleep_ms % 1000 * 1000000}, NULL);
    }
    printf("final loss %.6g\n", (double)loss);
    twin_close();
    return 0;
}
