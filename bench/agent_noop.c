/* SPDX-License-Identifier: Apache-2.0 */
/* What the C interface costs a program that nobody watches: calls per loop of real work,
 * interleaved with the same loop without them. Prints `name value unit`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <twin/twin.h>

enum { ROUNDS = 21, CALLS = 200000, WORK = 256 };

static double now_ns(void)
{
    struct timespec t;
    /* what others take of the processor meanwhile is no cost of ours */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, by_value);
    return v[ROUNDS / 2];
}

/* About 100 ns of a training step's kind of work. */
static float work(float *x)
{
    float sum = 0;
    for (int i = 0; i < WORK; i++)
        sum += x[i] = x[i] * 0.999f + 0.001f;
    return sum;
}

int main(void)
{
    static float x[WORK];
    static const int64_t shape[] = {WORK};
    float total = 0;
    double empty[ROUNDS], record[ROUNDS], step[ROUNDS], scope[ROUNDS], bare[ROUNDS], marked[ROUNDS];
    if (twin_on()) {
        fputs("bench_agent_noop: run it without twinrun around it\n", stderr);
        return 2;
    }
    for (int r = 0; r < ROUNDS; r++) {
        double t0 = now_ns();
        for (volatile int i = 0; i < CALLS; i++)
            ;
        double t1 = now_ns();
        for (volatile int i = 0; i < CALLS; i++)
            twin_record("batch:x", TWIN_F32, 1, shape, NULL, x, 0);
        double t2 = now_ns();
        for (volatile int i = 0; i < CALLS; i++)
            twin_step();
        double t3 = now_ns();
        for (volatile int i = 0; i < CALLS; i++) {
            twin_scope_push("scope");
            twin_scope_pop();
        }
        double t4 = now_ns();
        for (int i = 0; i < CALLS; i++)
            total += work(x);
        double t5 = now_ns();
        for (int i = 0; i < CALLS; i++) {
            total += work(x);
            twin_record("batch:x", TWIN_F32, 1, shape, NULL, x, 0);
        }
        double t6 = now_ns();
        empty[r] = (t1 - t0) / CALLS;
        record[r] = (t2 - t1) / CALLS;
        step[r] = (t3 - t2) / CALLS;
        scope[r] = (t4 - t3) / CALLS;
        bare[r] = (t5 - t4) / CALLS;
        marked[r] = (t6 - t5) / CALLS;
    }
    double loop = median(empty), alone = median(bare);
    printf("noop_record %.2f ns/call\n", median(record) - loop);
    printf("noop_step %.2f ns/call\n", median(step) - loop);
    printf("noop_scope_push_pop %.2f ns/pair\n", median(scope) - loop);
    printf("noop_record_per_work_of_%.0f_ns %.4f ratio\n", alone, median(marked) / alone);
    return total == 0; /* keeps the work */
}
