/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of tests/agents/test_telemetry*.py: equal steps for a while, with what a test does to it
 * from outside.
 *   --seconds S        how long (2)                     --spin N       iterations of arithmetic in
 * each step (1000000)
 *   --steps N          so many steps instead; prints processor time and elapsed time of them
 * (bench/telemetry.py)
 *   --port P --bytes B each step asks a server on this machine for B bytes
 *   --workers W        threads that share --share-us of waiting in each step (none)
 *   --then W --at-ms T another number of them from then on
 *   --train N          N steps of gradient descent with all its tensors, instead; --last-bit-at S:
 * from step S on one sum is a rounding off, by --bit B (0: not; else another one for each B)
 *   --hog              no steps: arithmetic only
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <twin/twin.h>
#include <unistd.h>

enum { WORKERS_MAX = 64 };

static struct {
    double seconds;
    long spin, port, bytes, workers, share_us, then, at_ms, steps, train, last_bit_at, bit;
    bool hog;
} plan = {2, 1000000, 0, 0, 0, 4000, 0, -1, 0, 0, 0, 0, false};
static pthread_barrier_t begin, end;
static _Atomic long working; /* threads at work; the others leave */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_plan(int argc, char **argv)
{
    struct {
        const char *name;
        long *value;
    } longs[] = {{"--spin", &plan.spin},
                 {"--port", &plan.port},
                 {"--bytes", &plan.bytes},
                 {"--workers", &plan.workers},
                 {"--share-us", &plan.share_us},
                 {"--then", &plan.then},
                 {"--at-ms", &plan.at_ms},
                 {"--steps", &plan.steps},
                 {"--train", &plan.train},
                 {"--last-bit-at", &plan.last_bit_at},
                 {"--bit", &plan.bit}};
    for (int i = 1; i < argc; i++) {
        plan.hog |= strcmp(argv[i], "--hog") == 0;
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            plan.seconds = atof(argv[++i]);
        for (size_t k = 0; k < sizeof longs / sizeof longs[0]; k++)
            if (strcmp(argv[i], longs[k].name) == 0 && i + 1 < argc) {
                *longs[k].value = atol(argv[++i]);
                break;
            }
    }
}

static float arithmetic(float x, long n)
{
    for (long i = 0; i < n; i++)
        x = x * .999f + .001f;
    return x;
}

static int ask(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)plan.port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        exit(3);
    return fd;
}

static void receive(int fd)
{
    static char text[65536];
    uint32_t wanted = (uint32_t)plan.bytes;
    if (write(fd, &wanted, sizeof wanted) != sizeof wanted)
        exit(3);
    for (long left = plan.bytes; left > 0;) {
        ssize_t n = read(fd, text, left < (long)sizeof text ? (size_t)left : sizeof text);
        if (n <= 0)
            exit(3);
        left -= n;
    }
}

static void *worker(void *number)
{
    for (;;) {
        pthread_barrier_wait(&begin);
        long n = working;
        if ((intptr_t)number >= n)
            return NULL;
        long ns = plan.share_us * 1000 / n;
        nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
        pthread_barrier_wait(&end);
    }
}

static void hire(long n)
{
    pthread_t thread;
    working = n;
    pthread_barrier_init(&begin, NULL, (unsigned)n + 1);
    pthread_barrier_init(&end, NULL, (unsigned)n + 1);
    for (intptr_t i = 0; i < n; i++) {
        pthread_create(&thread, NULL, worker, (void *)i);
        pthread_detach(thread);
    }
}

static void another_number(void)
{
    working = 0;
    pthread_barrier_wait(&begin); /* they leave */
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    hire(plan.then);
}

/* A least-squares fit. Where the last bit goes astray it does so in a sum over the batch: a
 * gradient. */
static void train(void)
{
    enum { N = 64 };
    static float x[N], w[N], g[N];
    const int64_t shape[] = {N};
    for (long step = 0; step < plan.train; step++) {
        float loss = 0;
        for (int i = 0; i < N; i++)
            x[i] = (float)((i * 7 + step * 13) % 31) / 31;
        twin_record("batch:x", TWIN_F32, 1, shape, NULL, x, 0);
        for (int i = 0; i < N; i++)
            loss += (w[i] - x[i]) * (w[i] - x[i]);
        twin_record("loss:loss", TWIN_F32, 0, NULL, NULL, &loss, 0);
        for (int i = 0; i < N; i++)
            g[i] = 2 * (w[i] - x[i]) *
                   (plan.bit && step >= plan.last_bit_at && i % 8 == 0
                        ? 1 + (float)plan.bit * 1.2e-7f
                        : 1);
        twin_record("gradient:w", TWIN_F32, 1, shape, NULL, g, 0);
        for (int i = 0; i < N; i++)
            w[i] -= .05f * g[i];
        twin_record("weight:w", TWIN_F32, 1, shape, NULL, w, 0);
        twin_step();
    }
    twin_close();
}

int main(int argc, char **argv)
{
    read_plan(argc, argv);
    double start = now_s();
    if (plan.train) {
        train();
        return 0;
    }
    float x = 0;
    while (plan.hog && now_s() < start + plan.seconds)
        x = arithmetic(x, 100000);
    if (plan.hog)
        return x > 1e30f;
    int fd = plan.port ? ask() : -1;
    if (plan.workers)
        hire(plan.workers);
    long done = 0;
    for (bool moved = false; plan.steps ? done < plan.steps : now_s() < start + plan.seconds;
         done++) {
        x = arithmetic(x, plan.spin);
        if (fd >= 0)
            receive(fd);
        if (plan.workers && !moved && plan.at_ms >= 0 &&
            now_s() > start + (double)plan.at_ms * 1e-3) {
            another_number();
            moved = true;
        }
        if (plan.workers) {
            pthread_barrier_wait(&begin);
            pthread_barrier_wait(&end);
        }
        twin_record("loss:loss", TWIN_F32, 0, NULL, NULL, &x, 0);
        twin_step();
    }
    if (plan.steps)
        printf("%.6f %.6f\n", (double)clock() / CLOCKS_PER_SEC, now_s() - start);
    twin_close();
    return 0;
}
