/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small multi-threaded trainer with a defect that real ones have: its threads add their gradients
 * to the sum in the order in which they finish. Under a lock, so there is no data race; but float
 * addition is not associative, so from three threads on the weights differ from run to run.
 * --ordered makes the threads take turns, and every run gives the same bits.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <twin/twin.h>
#include "idx.h"
#include "model.h"

/* a step long enough that watching it costs a few per cent */
enum { BATCH = 300, MAX_THREADS = 64 };

struct options {
    unsigned steps, threads;
    double rate;
    bool ordered, quiet;
    unsigned long long seed;
    const char *data, *checkpoint;
};

/* What main and the workers share. Workers read the batch and the model between `begin` and
 * `finish`, and add under `lock`. */
struct training {
    struct options options;
    struct idx_set train, test;
    struct model model, sum;
    double loss;
    const uint8_t *images[BATCH];
    uint8_t labels[BATCH];
    pthread_barrier_t begin, finish;
    pthread_mutex_t lock;
    pthread_cond_t turn_changed;
    unsigned turn;
    bool done;
};

struct worker {
    struct training *t;
    unsigned id;
    pthread_t thread;
    struct model gradient;
    float hidden[BATCH][HIDDEN];
};

/* ---- what twinrun is shown: nothing below costs more than a branch when it is not there */

static void show_model(const char *const names[4], const struct model *m)
{
    twin_record(names[0], TWIN_F32, 2, (int64_t[]){IDX_PIXELS, HIDDEN}, NULL, m->w1, 0);
    twin_record(names[1], TWIN_F32, 1, (int64_t[]){HIDDEN}, NULL, m->b1, 0);
    twin_record(names[2], TWIN_F32, 2, (int64_t[]){HIDDEN, IDX_CLASSES}, NULL, m->w2, 0);
    twin_record(names[3], TWIN_F32, 1, (int64_t[]){IDX_CLASSES}, NULL, m->b2, 0);
}

static const char *const init_names[4] = {"init:w1", "init:b1", "init:w2", "init:b2"};
static const char *const local_names[4] = {"local gradient:w1", "local gradient:b1",
                                           "local gradient:w2", "local gradient:b2"};
static const char *const sum_names[4] = {"gradient:w1", "gradient:b1", "gradient:w2",
                                         "gradient:b2"};
static const char *const weight_names[4] = {"weight:w1", "weight:b1", "weight:w2", "weight:b2"};

/* ---- workers */

static void add_gradient(struct worker *w, double loss)
{
    struct training *t = w->t;
    pthread_mutex_lock(&t->lock);
    while (t->options.ordered && t->turn != w->id)
        pthread_cond_wait(&t->turn_changed, &t->lock);
    model_add(&t->sum, &w->gradient);
    t->loss += loss;
    t->turn++;
    pthread_cond_broadcast(&t->turn_changed);
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *p)
{
    struct worker *w = p;
    struct training *t = w->t;
    unsigned first = BATCH * w->id / t->options.threads;
    unsigned n = BATCH * (w->id + 1) / t->options.threads - first;
    char role[32];
    snprintf(role, sizeof role, "worker %u", w->id);
    twin_thread_role(role);
    for (;;) {
        pthread_barrier_wait(&t->begin);
        if (t->done)
            return NULL;
        memset(&w->gradient, 0, sizeof w->gradient);
        double loss = model_gradient(&t->model, t->images + first, t->labels + first, n,
                                     &w->gradient, w->hidden);
        twin_record("activation:hidden", TWIN_F32, 2, (int64_t[]){n, HIDDEN}, NULL, w->hidden, 0);
        show_model(local_names, &w->gradient);
        add_gradient(w, loss);
        pthread_barrier_wait(&t->finish);
    }
}

/* ---- training */

/* Fisher-Yates: the order of one epoch. */
static void shuffle(uint32_t *order, size_t n, uint64_t *random_state)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t j = random_next(random_state) % i;
        uint32_t keep = order[i - 1];
        order[i - 1] = order[j];
        order[j] = keep;
    }
}

static void choose_batch(struct training *t, const uint32_t *indices)
{
    uint8_t pixels[BATCH][IDX_PIXELS];
    for (size_t i = 0; i < BATCH; i++) {
        t->images[i] = t->train.pixels + (size_t)indices[i] * IDX_PIXELS;
        t->labels[i] = t->train.labels[indices[i]];
    }
    if (!twin_on())
        return;
    for (size_t i = 0; i < BATCH; i++)
        memcpy(pixels[i], t->images[i], IDX_PIXELS);
    twin_record("indices:sample indices", TWIN_U32, 1, (int64_t[]){BATCH}, NULL, indices, 0);
    twin_record("batch:images", TWIN_U8, 2, (int64_t[]){BATCH, IDX_PIXELS}, NULL, pixels, 0);
    twin_record("batch:labels", TWIN_U8, 1, (int64_t[]){BATCH}, NULL, t->labels, 0);
}

static void train_step(struct training *t)
{
    memset(&t->sum, 0, sizeof t->sum);
    t->loss = 0;
    t->turn = 0;
    pthread_barrier_wait(&t->begin);
    pthread_barrier_wait(&t->finish);
    t->loss /= BATCH;
    twin_record("loss:loss", TWIN_F64, 0, NULL, NULL, &t->loss, 0);
    show_model(sum_names, &t->sum);
    model_update(&t->model, &t->sum, (float)(t->options.rate / BATCH));
    show_model(weight_names, &t->model);
    twin_step();
}

static int train(struct training *t)
{
    uint64_t random_state = t->options.seed;
    size_t position = t->train.count;
    uint32_t *order = malloc(t->train.count * sizeof *order);
    if (!order)
        return -1;
    model_init(&t->model, &random_state);
    show_model(init_names, &t->model);
    for (unsigned step = 0; step < t->options.steps; step++) {
        if (position + BATCH > t->train.count) {
            shuffle(order, t->train.count, &random_state);
            twin_record("state:shuffle", TWIN_U64, 0, NULL, NULL, &random_state, 0);
            position = 0;
        }
        choose_batch(t, order + position);
        position += BATCH;
        train_step(t);
        if (!t->options.quiet && (step % 50 == 0 || step + 1 == t->options.steps)) {
            printf("step %4u  loss %.6f\n", step, t->loss);
            fflush(stdout);
        }
    }
    free(order);
    return 0;
}

/* ---- the program around it */

/* As safetensors: the length of a JSON header, the header, the values. The model lies in memory as
 * it is written. */
static int save(const struct model *m, const char *path)
{
    FILE *f = fopen(path, "wb");
    char header[512];
    int n = snprintf(header, sizeof header,
                     "{\"w1\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]},"
                     "\"b1\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]},\"w2\":{"
                     "\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]},\"b2\":{"
                     "\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}}",
                     IDX_PIXELS, HIDDEN, offsetof(struct model, w1), offsetof(struct model, b1),
                     HIDDEN, offsetof(struct model, b1), offsetof(struct model, w2), HIDDEN,
                     IDX_CLASSES, offsetof(struct model, w2), offsetof(struct model, b2),
                     IDX_CLASSES, offsetof(struct model, b2), sizeof *m);
    for (; n % 8; n++)
        header[n] = ' ';
    const uint64_t length = (uint64_t)n;
    bool good = f && fwrite(&length, sizeof length, 1, f) == 1 &&
                fwrite(header, length, 1, f) == 1 && fwrite(m, sizeof *m, 1, f) == 1;
    if (f && fclose(f) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "trainer: cannot write %s: %s\n", path, strerror(errno));
    return good ? 0 : -1;
}

/* Starts the workers, trains, ends the workers. */
static int run(struct training *t)
{
    struct worker *workers = calloc(t->options.threads, sizeof *workers);
    unsigned threads = t->options.threads;
    if (!workers || pthread_barrier_init(&t->begin, NULL, threads + 1) != 0 ||
        pthread_barrier_init(&t->finish, NULL, threads + 1) != 0) {
        fprintf(stderr, "trainer: out of memory for %u threads\n", threads);
        free(workers);
        return -1;
    }
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->turn_changed, NULL);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].t = t;
        workers[i].id = i;
        int rc = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        /* the threads that did start wait at the barrier for ever: only the process can end */
        if (rc != 0) {
            fprintf(stderr, "trainer: cannot start thread %u of %u: %s\n", i + 1, threads,
                    strerror(rc));
            exit(1);
        }
    }
    int rc = train(t);
    t->done = true;
    pthread_barrier_wait(&t->begin);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&t->begin);
    pthread_barrier_destroy(&t->finish);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->turn_changed);
    free(workers);
    return rc;
}

static const char usage[] =
    "usage: trainer [options]\n"
    "  --steps N          optimizer steps (300)\n"
    "  --threads N        worker threads, 1 to 64 (4); the order of adding shows from 3 on\n"
    "  --ordered          threads add their gradients in a fixed order: equal bits in every run; "
    "so does TRAINER_ORDERED=1\n"
    "  --lr RATE          learning rate (0.1)\n"
    "  --seed N           initial weights and order of the samples (1)\n"
    "  --data DIR         folder with the idx files (default: the sample that comes with it)\n"
    "  --checkpoint FILE  write the final weights there, as safetensors\n"
    "  --quiet            print the result only\n";

static bool number(const char *text, double least, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && *out >= least && *out <= most;
}

static int parse(int argc, char **argv, struct options *o)
{
    static const struct option table[] = {
        {"steps", 1, NULL, 's'},      {"threads", 1, NULL, 't'},
        {"ordered", 0, NULL, 'o'},    {"lr", 1, NULL, 'l'},
        {"seed", 1, NULL, 'r'},       {"data", 1, NULL, 'd'},
        {"checkpoint", 1, NULL, 'c'}, {"quiet", 0, NULL, 'q'},
        {"help", 0, NULL, 'h'},       {0},
    };
    double v = 0;
    bool good = true;
    *o = (struct options){.steps = 300, .threads = 4, .rate = 0.1, .seed = 1};
    for (int c; good && (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (c) {
        case 's':
            good = number(optarg, 0, 1e9, &v);
            o->steps = (unsigned)v;
            break;
        case 't':
            good = number(optarg, 1, MAX_THREADS, &v);
            o->threads = (unsigned)v;
            break;
        case 'l':
            good = number(optarg, 0, 1e6, &v);
            o->rate = v;
            break;
        case 'r':
            good = number(optarg, 0, 9e15, &v);
            o->seed = (unsigned long long)v;
            break;
        case 'o': o->ordered = true; break;
        case 'd': o->data = optarg; break;
        case 'c': o->checkpoint = optarg; break;
        case 'q': o->quiet = true; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: good = false;
        }
    }
    if (!good || optind != argc) {
        fputs(usage, stderr);
        return -1;
    }
    if (!o->data)
        o->data = idx_default_folder();
    const char *ordered = getenv("TRAINER_ORDERED");
    o->ordered |= ordered && strcmp(ordered, "1") == 0;
    return 0;
}

int main(int argc, char **argv)
{
    static struct training t;
    if (parse(argc, argv, &t.options) != 0)
        return 2;
    if (idx_load(t.options.data, "train", &t.train) != 0 ||
        idx_load(t.options.data, "t10k", &t.test) != 0)
        return 1;
    if (t.train.count < BATCH) {
        fprintf(stderr, "trainer: %s: expected at least %d images, found %zu\n", t.options.data,
                BATCH, t.train.count);
        return 1;
    }
    int rc = run(&t);
    size_t right = 0;
    for (size_t i = 0; i < t.test.count; i++)
        right += model_predict(&t.model, t.test.pixels + i * IDX_PIXELS) == t.test.labels[i];
    if (rc == 0)
        printf("accuracy %.1f%% of %zu\n", 100.0 * (double)right / (double)t.test.count,
               t.test.count);
    if (rc == 0 && t.options.checkpoint)
        rc = save(&t.model, t.options.checkpoint);
    idx_free(&t.train);
    idx_free(&t.test);
    twin_close();
    return rc == 0 ? 0 : 1;
}
