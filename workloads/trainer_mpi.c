/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic training over MPI: the same weights, bit for bit, on any number of ranks. Three rules do
 * it:
 *   1. A global batch is 24 microbatches, whatever the number of ranks; each one's gradient is
 * computed by itself.
 *   2. What is in a microbatch depends on the seed and the step alone (a random order that every
 * rank can look into).
 *   3. Gradients are summed without regard to order: twin_allreduce_f32, 24 contributions in all.
 * With --plain each rank adds up its own gradients and MPI_Allreduce adds the ranks', as programs
 * do: other numbers of ranks, other bits. --permute deals the microbatches to the ranks in another
 * way. Every rank shows twinrun what is global: the batch, the summed gradient, the loss, the
 * weights.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <twin/allreduce.h>
#include <twin/random.h>
#include <twin/twin.h>
#include "idx.h"
#include "model.h"

enum { MICROBATCHES = 24, MICROBATCH = 12, BATCH = MICROBATCHES * MICROBATCH };

struct options {
    unsigned steps;
    double rate;
    bool plain, quiet;
    unsigned long long seed, permute;
    const char *data, *checkpoint, *resume;
};

struct training {
    struct options options;
    struct idx_set train, test;
    struct model model;
    unsigned step;
    int rank, ranks;
    uint64_t samples[BATCH];
    struct model *gradients; /* [mine], one for each microbatch of this rank */
    struct model sum;
    double losses[MICROBATCHES];
    int mine[MICROBATCHES], count;
};

/* ---- the batch */

/* Sample i of the step, the same on every rank: position in an order that each epoch draws anew. */
static void choose_batch(struct training *t)
{
    const uint64_t batches = t->train.count / BATCH;
    const uint64_t epoch = t->step / batches;
    const uint64_t first = t->step % batches * BATCH;
    struct twin_shuffle order;
    twin_shuffle_init(&order, t->train.count,
                      twin_seed_index(t->options.seed, "order/epoch", epoch));
    for (uint64_t i = 0; i < BATCH; i++)
        t->samples[i] = twin_shuffle_at(&order, first + i);
    if (!twin_on())
        return;
    static uint8_t pixels[BATCH][IDX_PIXELS];
    for (size_t i = 0; i < BATCH; i++)
        memcpy(pixels[i], t->train.pixels + t->samples[i] * IDX_PIXELS, IDX_PIXELS);
    twin_record("indices:sample indices", TWIN_U64, 1, (int64_t[]){BATCH}, NULL, t->samples, 0);
    twin_record("batch:images", TWIN_U8, 2, (int64_t[]){BATCH, IDX_PIXELS}, NULL, pixels, 0);
}

/* Which microbatches this rank computes: an equal share of them, in the order that --permute asks
 * for. */
static void deal(struct training *t)
{
    struct twin_shuffle order;
    const int first = MICROBATCHES * t->rank / t->ranks;
    const int end = MICROBATCHES * (t->rank + 1) / t->ranks;
    twin_shuffle_init(&order, MICROBATCHES, t->options.permute);
    t->count = end - first;
    for (int i = first; i < end; i++)
        t->mine[i - first] = t->options.permute ? (int)twin_shuffle_at(&order, (uint64_t)i) : i;
}

static void compute_gradients(struct training *t)
{
    static float hidden[MICROBATCH][HIDDEN];
    const uint8_t *images[MICROBATCH];
    uint8_t labels[MICROBATCH];
    for (int k = 0; k < t->count; k++) {
        for (int i = 0; i < MICROBATCH; i++) {
            const uint64_t sample = t->samples[t->mine[k] * MICROBATCH + i];
            images[i] = t->train.pixels + sample * IDX_PIXELS;
            labels[i] = t->train.labels[sample];
        }
        memset(&t->gradients[k], 0, sizeof t->gradients[k]);
        t->losses[k] = model_gradient(&t->model, images, labels, MICROBATCH, &t->gradients[k],
                                      hidden);
    }
}

/* ---- the sum */

static int sum_plainly(struct training *t, double *loss)
{
    double local = 0;
    memset(&t->sum, 0, sizeof t->sum);
    for (int k = 0; k < t->count; k++) {
        model_add(&t->sum, &t->gradients[k]);
        local += t->losses[k];
    }
    MPI_Allreduce(MPI_IN_PLACE, &t->sum, MODEL_FLOATS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&local, loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 0;
}

static int sum_exactly(struct training *t, double *loss)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_allreduce_f32((const float *)t->gradients, (float *)&t->sum, MODEL_FLOATS, t->count,
                           MICROBATCHES, MPI_COMM_WORLD, &err) != 0 ||
        twin_allreduce_f64(t->losses, loss, 1, t->count, MICROBATCHES, MPI_COMM_WORLD, &err) != 0) {
        fprintf(stderr, "trainer_mpi: rank %d: %s\n", t->rank, err.message);
        return -1;
    }
    return 0;
}

/* ---- training */

static void show(const char *kind, const struct model *m)
{
    char name[64];
    snprintf(name, sizeof name, "%s:w1", kind);
    twin_record(name, TWIN_F32, 2, (int64_t[]){IDX_PIXELS, HIDDEN}, NULL, m->w1, 0);
    snprintf(name, sizeof name, "%s:b1", kind);
    twin_record(name, TWIN_F32, 1, (int64_t[]){HIDDEN}, NULL, m->b1, 0);
    snprintf(name, sizeof name, "%s:w2", kind);
    twin_record(name, TWIN_F32, 2, (int64_t[]){HIDDEN, IDX_CLASSES}, NULL, m->w2, 0);
    snprintf(name, sizeof name, "%s:b2", kind);
    twin_record(name, TWIN_F32, 1, (int64_t[]){IDX_CLASSES}, NULL, m->b2, 0);
}

static int train(struct training *t)
{
    deal(t);
    t->gradients = malloc((size_t)(t->count ? t->count : 1) * sizeof *t->gradients);
    if (!t->gradients)
        return -1;
    show("init", &t->model);
    for (; t->step < t->options.steps; t->step++) {
        double loss = 0;
        choose_batch(t);
        compute_gradients(t);
        if ((t->options.plain ? sum_plainly : sum_exactly)(t, &loss) != 0)
            return -1;
        loss /= BATCH;
        twin_record("loss:loss", TWIN_F64, 0, NULL, NULL, &loss, 0);
        show("gradient", &t->sum);
        model_update(&t->model, &t->sum, (float)(t->options.rate / BATCH));
        show("weight", &t->model);
        twin_step();
        if (t->rank == 0 && !t->options.quiet &&
            (t->step % 10 == 0 || t->step + 1 == t->options.steps)) {
            printf("step %4u  loss %.6f\n", t->step, loss);
            fflush(stdout);
        }
    }
    return 0;
}

/* ---- checkpoints: the step and the weights; nothing in them depends on the number of ranks */

static const char magic[8] = "TWINELA1";

static int save(const struct training *t)
{
    FILE *f = fopen(t->options.checkpoint, "wb");
    const uint32_t step = t->step;
    bool good = f && fwrite(magic, sizeof magic, 1, f) == 1 &&
                fwrite(&step, sizeof step, 1, f) == 1 &&
                fwrite(&t->model, sizeof t->model, 1, f) == 1;
    if (f && fclose(f) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "trainer_mpi: cannot write %s: %s\n", t->options.checkpoint,
                strerror(errno));
    return good ? 0 : -1;
}

static int load(struct training *t)
{
    FILE *f = fopen(t->options.resume, "rb");
    char found[sizeof magic];
    uint32_t step = 0;
    const bool good = f && fread(found, sizeof found, 1, f) == 1 &&
                      !memcmp(found, magic, sizeof magic) && fread(&step, sizeof step, 1, f) == 1 &&
                      fread(&t->model, sizeof t->model, 1, f) == 1 && fgetc(f) == EOF;
    if (f)
        fclose(f);
    if (!good)
        fprintf(stderr, "trainer_mpi: %s is not a checkpoint of this program\n", t->options.resume);
    t->step = step;
    return good ? 0 : -1;
}

/* ---- the program around it */

static const char usage[] =
    "usage: mpirun -n RANKS trainer_mpi [options]\n"
    "  --steps N          optimizer steps (60), counted from the first run's start\n"
    "  --plain            sum as MPI_Allreduce does: the bits depend on the ranks\n"
    "  --permute N        deal the microbatches to the ranks in another order, 0: in order (0)\n"
    "  --lr RATE          learning rate (0.1)\n"
    "  --seed N           initial weights and order of the samples (1)\n"
    "  --data DIR         folder with the idx files (default: the sample that comes with it)\n"
    "  --checkpoint FILE  write step and weights there at the end\n"
    "  --resume FILE      go on from there, on any number of ranks\n"
    "  --quiet            print the result only\n";

static bool number(const char *text, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && *out >= 0 && *out <= most;
}

static int parse(int argc, char **argv, struct options *o)
{
    static const struct option table[] = {
        {"steps", 1, NULL, 's'},
        {"plain", 0, NULL, 'p'},
        {"permute", 1, NULL, 'm'},
        {"lr", 1, NULL, 'l'},
        {"seed", 1, NULL, 'r'},
        {"data", 1, NULL, 'd'},
        {"checkpoint", 1, NULL, 'c'},
        {"resume", 1, NULL, 'u'},
        {"quiet", 0, NULL, 'q'},
        {"help", 0, NULL, 'h'},
        {0},
    };
    double v = 0;
    bool good = true;
    *o = (struct options){.steps = 60, .rate = 0.1, .seed = 1};
    for (int c; good && (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (c) {
        case 's':
            good = number(optarg, 1e9, &v);
            o->steps = (unsigned)v;
            break;
        case 'p': o->plain = true; break;
        case 'm':
            good = number(optarg, 9e15, &v);
            o->permute = (unsigned long long)v;
            break;
        case 'l':
            good = number(optarg, 1e6, &v);
            o->rate = v;
            break;
        case 'r':
            good = number(optarg, 9e15, &v);
            o->seed = (unsigned long long)v;
            break;
        case 'd': o->data = optarg; break;
        case 'c': o->checkpoint = optarg; break;
        case 'u': o->resume = optarg; break;
        case 'q': o->quiet = true; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: good = false;
        }
    }
    if (good && optind == argc) {
        o->data = o->data ? o->data : idx_default_folder();
        return 0;
    }
    fputs(usage, stderr);
    return -1;
}

static int start(struct training *t)
{
    uint64_t random_state = t->options.seed;
    if (idx_load(t->options.data, "train", &t->train) != 0 ||
        idx_load(t->options.data, "t10k", &t->test) != 0)
        return -1;
    if (t->train.count < BATCH) {
        fprintf(stderr, "trainer_mpi: %s: expected at least %d images, found %zu\n",
                t->options.data, BATCH, t->train.count);
        return -1;
    }
    model_init(&t->model, &random_state);
    return t->options.resume ? load(t) : 0;
}

static void finish(const struct training *t)
{
    size_t right = 0;
    if (t->rank != 0)
        return;
    for (size_t i = 0; i < t->test.count; i++)
        right += model_predict(&t->model, t->test.pixels + i * IDX_PIXELS) == t->test.labels[i];
    const struct twin_digest d = twin_digest_bytes(&t->model, sizeof t->model, 0);
    printf("step %u  accuracy %.1f%% of %zu  weights %016llx%016llx\n", t->step,
           100.0 * (double)right / (double)t->test.count, t->test.count, (unsigned long long)d.a,
           (unsigned long long)d.b);
}

int main(int argc, char **argv)
{
    static struct training t;
    if (parse(argc, argv, &t.options) != 0)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.ranks);
    int rc = start(&t), worst;
    /* one that cannot start must not leave the others waiting */
    MPI_Allreduce(&rc, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (worst == 0) {
        rc = train(&t);
        if (rc == 0)
            finish(&t);
        if (rc == 0 && t.rank == 0 && t.options.checkpoint)
            rc = save(&t);
        MPI_Allreduce(&rc, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    free(t.gradients);
    idx_free(&t.train);
    idx_free(&t.test);
    twin_close();
    MPI_Finalize();
    return worst == 0 ? 0 : 1;
}
