/* SPDX-License-Identifier: Apache-2.0 */
#include "synth.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <openssl/sha.h>
#include <twin/fingerprint.h>

#include "base.h"
#include "../../src/trace/writer.h"

#define PROCESSES 64

struct synth {
    struct twin_run run;
    char dir[256];
    struct twin_writer *writer[PROCESSES];
    char *trace[PROCESSES];
    struct twin_run_file file[32];
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "synth: %s failed\n", what);
    abort();
}

struct synth *synth_new(const char *label)
{
    struct synth *s = calloc(1, sizeof *s);
    const char *tmp = getenv("TMPDIR");
    char ranks[300];
    must(s != NULL, "calloc");
    snprintf(s->dir, sizeof s->dir, "%s/twin-synth-%s-XXXXXX", tmp ? tmp : "/tmp", label);
    must(mkdtemp(s->dir) != NULL, "mkdtemp");
    snprintf(ranks, sizeof ranks, "%s/ranks", s->dir);
    must(tw_mkdirs(ranks, NULL) == 0, "mkdir");
    s->run = (struct twin_run){.dir = s->dir,
                               .id = (char *)"0",
                               .label = (char *)label,
                               .cwd = (char *)"/",
                               .host = (char *)"host",
                               .outcome = TWIN_RUN_EXITED,
                               .message = (char *)"",
                               .level = TWIN_LEVEL_TENSORS,
                               .agents = true,
                               .wall_s = 1,
                               .traces = s->trace,
                               .files = s->file};
    static char *argv[] = {(char *)"train", NULL};
    s->run.argv = argv;
    s->run.argc = 1;
    return s;
}

static struct twin_writer *open_process(struct synth *s, int32_t rank, int32_t world,
                                        const char *role, size_t ring_bytes)
{
    size_t n = s->run.trace_count++;
    char path[400];
    must(n < PROCESSES, "process count");
    snprintf(path, sizeof path, "%s/ranks/%d.%zu.twt", s->dir, rank, 1000 + n);
    s->trace[n] = strdup(path);
    struct twin_writer_options o = {.path = path,
                                    .rank = rank,
                                    .world = world,
                                    .role = role,
                                    .ring_bytes = ring_bytes,
                                    .lossless = ring_bytes == 0};
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_writer_open(&o, &s->writer[n], &err) != 0)
        fprintf(stderr, "%s\n", err.message);
    must(s->writer[n] != NULL, "writer");
    return s->writer[n];
}

struct twin_writer *synth_process(struct synth *s, int32_t rank, int32_t world, const char *role)
{
    return open_process(s, rank, world, role, 0);
}

struct twin_writer *synth_dropping(struct synth *s)
{
    return open_process(s, 0, 1, NULL, 16384);
}

static void sha(const char *text, char hex[65])
{
    unsigned char md[32];
    SHA256((const unsigned char *)text, strlen(text), md);
    tw_hex(md, 32, hex);
}

void synth_print(struct synth *s, const char *which, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", s->dir, which);
    must(tw_write_file_atomic(path, text, strlen(text), NULL) == 0, "write");
    bool out = strcmp(which, "stdout") == 0;
    sha(text, out ? s->run.stdout_sha256 : s->run.stderr_sha256);
    *(out ? &s->run.stdout_bytes : &s->run.stderr_bytes) = strlen(text);
}

void synth_file(struct synth *s, const char *path, const char *contents)
{
    struct twin_run_file *f = &s->file[s->run.file_count++];
    must(s->run.file_count <= 32, "file count");
    f->path = (char *)path;
    f->bytes = strlen(contents);
    sha(contents, f->sha256);
    bool is_text = tw_ends(path, ".log") || tw_ends(path, ".txt") || tw_ends(path, ".json");
    if (strlen(contents) > 0 && is_text) { /* the launcher keeps it */
        static char kept[32][16];
        char folder[400], copy[500];
        size_t n = s->run.file_count - 1;
        snprintf(kept[n], sizeof kept[n], "files/%zu", n);
        snprintf(folder, sizeof folder, "%s/files", s->dir);
        snprintf(copy, sizeof copy, "%s/%s", s->dir, kept[n]);
        must(tw_mkdirs(folder, NULL) == 0 &&
                 tw_write_file_atomic(copy, contents, strlen(contents), NULL) == 0,
             "write");
        f->kept = kept[n];
    }
}

struct twin_run *synth_run(struct synth *s)
{
    return &s->run;
}

const struct twin_run *synth_done(struct synth *s)
{
    for (size_t i = 0; i < s->run.trace_count; i++) {
        twin_writer_close(s->writer[i]);
        s->writer[i] = NULL;
    }
    return &s->run;
}

void synth_free(struct synth *s)
{
    if (!s)
        return;
    synth_done(s);
    for (size_t i = 0; i < s->run.trace_count; i++)
        free(s->trace[i]);
    tw_remove_tree(s->dir, NULL, NULL);
    free(s);
}

static uint32_t intern(struct twin_writer *w, const char *text)
{
    return text && text[0] ? twin_writer_string(w, text, strlen(text)) : 0;
}

/* One record whose names are known already. */
static uint64_t put_known(struct twin_writer *w, struct synth_record r, uint32_t series,
                          uint32_t layout, const struct twin_tensor *t, const uint64_t *links,
                          uint32_t count)
{
    struct twin_digest digest;
    struct twin_stats stats;
    struct twin_sketch sketch = {.k = TWIN_SKETCH_DEFAULT};
    const bool sketched = t->dtype == TWIN_F32 && !r.no_sketch;
    must(twin_fingerprint(t, &digest, &stats, sketched ? &sketch : NULL, NULL) == 0, "fingerprint");
    const struct twin_observation o = {.series = series,
                                       .layout = layout,
                                       .flags = r.flags | TWIN_REC_STATS |
                                                (sketched ? TWIN_REC_SKETCH : 0) |
                                                (count ? TWIN_REC_LINKS : 0),
                                       .digest = digest,
                                       .stats = &stats,
                                       .sketch = sketched ? &sketch : NULL,
                                       .links = links,
                                       .link_count = count};
    return twin_writer_record(w, &o);
}

static uint32_t series_of(struct twin_writer *w, struct synth_record r)
{
    const struct twin_series series = {.phase = (uint8_t)r.phase,
                                       .kind = (uint8_t)r.kind,
                                       .name = intern(w, r.name),
                                       .scope = intern(w, r.scope),
                                       .role = intern(w, r.role),
                                       .op = intern(w, r.op),
                                       .site = intern(w, r.site)};
    return twin_writer_series(w, &series);
}

static struct twin_tensor tensor_of(struct synth_record r, const float *x, const int64_t *n)
{
    const bool state = r.kind == TWIN_KIND_STATE || r.kind == TWIN_KIND_INDICES;
    return (struct twin_tensor){
        .data = x, .dtype = state ? TWIN_U32 : TWIN_F32, .ndim = *n == 1 ? 0 : 1, .shape = n};
}

uint64_t synth_put_linked(struct twin_writer *w, struct synth_record r, const float *x, size_t n,
                          const uint64_t *links, uint32_t count)
{
    const int64_t shape = (int64_t)n;
    const struct twin_tensor t = tensor_of(r, x, &shape);
    return put_known(w, r, series_of(w, r), twin_writer_layout(w, t.dtype, t.ndim, t.shape), &t,
                     links, count);
}

uint64_t synth_put(struct twin_writer *w, struct synth_record r, const float *x, size_t n)
{
    return synth_put_linked(w, r, x, n, NULL, 0);
}

/* Before it writes a block, the drain thread takes the notes that wait, under intern_lock. So it
 * stands still as long as that is held and there seem to be notes. A record takes no lock once its
 * series is known, which is what the first one is for. */
void synth_flood(struct twin_writer *w, struct synth_record r, uint32_t n,
                 float (*value)(uint32_t i, const void *user), const void *user)
{
    float x = value ? value(0, user) : 0;
    const int64_t one = 1;
    const struct twin_tensor t = tensor_of(r, &x, &one);
    const uint32_t series = series_of(w, r);
    const uint32_t layout = twin_writer_layout(w, t.dtype, t.ndim, t.shape);
    put_known(w, r, series, layout, &t, NULL, 0);
    if (!w->lossless) {
        pthread_mutex_lock(&w->intern_lock);
        atomic_store(&w->notes_waiting, true);
    }
    for (uint32_t i = 1; i < n; i++) {
        x = value ? value(i, user) : 0;
        put_known(w, r, series, layout, &t, NULL, 0);
    }
    if (!w->lossless)
        pthread_mutex_unlock(&w->intern_lock);
}

/* ---- the model */

void synth_model_init(struct synth_model *m, uint32_t steps)
{
    *m = (struct synth_model){.steps = steps, .world = 1, .lr = 0.05f, .generator = 42};
    for (int p = 0; p < SYNTH_PARAMS; p++)
        for (int i = 0; i < SYNTH_SIZE; i++)
            m->weight[p][i] = (float)sin(1.7 * p + 0.3 * i + 1);
}

static uint32_t draw(struct synth_model *m)
{
    m->generator = tw_mix64(m->generator + 0x9E3779B97F4A7C15u);
    return (uint32_t)(m->generator >> 33);
}

static float disturbed(const struct synth_model *m, enum synth_place place, uint32_t step,
                       int param, float value)
{
    for (int i = 0; i < m->disturbances; i++)
        if (m->disturb[i].place == place && m->disturb[i].step == step &&
            (param < 0 || m->disturb[i].param == param))
            value += m->disturb[i].by;
    return value;
}

static void put(const struct synth_model *m, struct twin_writer *w, struct synth_record r,
                const float *x, size_t n)
{
    if (!m->skip || strcmp(m->skip, r.name) != 0)
        synth_put(w, r, x, n);
}

static void put_generator(const struct synth_model *m, struct twin_writer *w, enum twin_phase phase,
                          const char *name, uint64_t generator, const char *consumer)
{
    float state[2];
    memcpy(state, &generator, sizeof state);
    put(m, w,
        (struct synth_record){.phase = phase,
                              .kind = TWIN_KIND_STATE,
                              .name = name,
                              .op = consumer,
                              .site = consumer ? "train.py:30 in main" : NULL},
        state, 2);
}

static void put_state(const struct synth_model *m, struct twin_writer *w, enum twin_phase phase,
                      const char *consumer)
{
    put_generator(m, w, phase, "torch.cpu", m->generator, consumer);
    if (m->eval_generator && !consumer)
        put_generator(m, w, TWIN_PHASE_RNG, "generator#1", m->eval_generator, NULL);
}

static const char *parameter(int p)
{
    static const char *const names[SYNTH_PARAMS] = {"embed.weight", "fc1.weight", "fc1.bias",
                                                    "fc2.weight"};
    return names[p];
}

static void forward(struct synth_model *m, struct twin_writer *w, uint32_t step, const float *batch,
                    float h[2][SYNTH_SIZE], bool eval)
{
    for (int i = 0; i < SYNTH_SIZE; i++) {
        h[0][i] = tanhf(m->weight[0][i] * batch[i] + m->weight[1][i]);
        h[1][i] = h[0][i] * m->weight[3][i] + m->weight[2][i];
    }
    if (!eval)
        h[0][0] = disturbed(m, AT_ACTIVATION, step, -1, h[0][0]);
    int first = m->reorder ? 1 : 0;
    static const char *const names[2] = {"fc1", "output"};
    for (int k = 0; k < 2; k++)
        put(m, w,
            (struct synth_record){.phase = TWIN_PHASE_FORWARD,
                                  .kind = TWIN_KIND_ACTIVATION,
                                  .name = names[k ^ first],
                                  .scope = "Net",
                                  .op = "Linear",
                                  .site = "model.py:12 in forward"},
            h[k ^ first], SYNTH_SIZE);
}

static void make_batch(struct synth_model *m, struct twin_writer *w, uint32_t step, uint32_t offset,
                       const char *loader, float *batch)
{
    float indices[SYNTH_SIZE];
    for (uint32_t i = 0; i < SYNTH_SIZE; i++) {
        uint32_t index = m->shuffle && offset == 0
                             ? (uint32_t)((m->shuffled + step * 31 + i * 7) % 1000)
                             : (step * SYNTH_SIZE + i + offset) % 1000;
        index = (uint32_t)disturbed(m, AT_INDICES, step, -1, (float)index);
        memcpy(&indices[i], &index, 4);
        batch[i] = (float)cos(0.01 * index + 0.5 * m->rank);
    }
    batch[0] = disturbed(m, AT_BATCH, step, -1, batch[0]);
    put(m, w,
        (struct synth_record){.phase = TWIN_PHASE_DATA,
                              .kind = TWIN_KIND_INDICES,
                              .name = "sample indices",
                              .scope = loader},
        indices, SYNTH_SIZE);
    put(m, w,
        (struct synth_record){.phase = TWIN_PHASE_DATA,
                              .kind = TWIN_KIND_BATCH,
                              .name = "batch",
                              .scope = loader,
                              .op = "TensorDataset"},
        batch, SYNTH_SIZE);
}

static void evaluate(struct synth_model *m, struct twin_writer *w, uint32_t step)
{
    float batch[SYNTH_SIZE], h[2][SYNTH_SIZE];
    if (m->eval_apart) {
        m->eval_generator = tw_mix64(m->eval_generator + 1);
        put_generator(m, w, TWIN_PHASE_RNG, "generator#1", m->eval_generator,
                      "DataLoader.__iter__");
    } else {
        draw(m);
        put_state(m, w, TWIN_PHASE_RNG, "DataLoader.__iter__");
    }
    make_batch(m, w, step, 500, "DataLoader#2", batch);
    forward(m, w, step, batch, h, true);
}

static void put_init(struct synth_model *m, struct twin_writer *w)
{
    for (int p = 0; p < SYNTH_PARAMS; p++) {
        m->weight[p][3] = disturbed(m, AT_INIT, 0, p, m->weight[p][3]);
        put(m, w,
            (struct synth_record){.phase = TWIN_PHASE_INIT,
                                  .kind = TWIN_KIND_WEIGHT,
                                  .name = parameter(p),
                                  .scope = "Net"},
            m->weight[p], SYNTH_SIZE);
    }
}

static void one_step(struct synth_model *m, struct twin_writer *w, uint32_t step)
{
    float batch[SYNTH_SIZE], h[2][SYNTH_SIZE], gradient[SYNTH_PARAMS][SYNTH_SIZE], loss = 0;
    make_batch(m, w, step, 0, "DataLoader", batch);
    if (step == m->start)
        put_init(m, w);
    if (m->die_at && step == m->die_at)
        return;
    forward(m, w, step, batch, h, false);
    for (int i = 0; i < SYNTH_SIZE; i++)
        loss += (h[1][i] - batch[i]) * (h[1][i] - batch[i]) / SYNTH_SIZE;
    loss = disturbed(m, AT_LOSS, step, -1, loss);
    put(m, w,
        (struct synth_record){
            .phase = TWIN_PHASE_FORWARD, .kind = TWIN_KIND_LOSS, .name = "loss", .op = "MSELoss"},
        &loss, 1);
    for (int i = 0; i < SYNTH_SIZE; i++) {
        float d = 2 * (h[1][i] - batch[i]) / SYNTH_SIZE;
        float back = d * m->weight[3][i] * (1 - h[0][i] * h[0][i]);
        gradient[0][i] = back * batch[i];
        gradient[1][i] = back;
        gradient[2][i] = d;
        gradient[3][i] = d * h[0][i];
    }
    for (int p = 0; p < SYNTH_PARAMS; p++) {
        struct synth_record r = {.phase = TWIN_PHASE_BACKWARD,
                                 .kind = TWIN_KIND_GRADIENT_LOCAL,
                                 .name = parameter(p),
                                 .scope = "Net"};
        gradient[p][1] = disturbed(m, AT_LOCAL, step, p, gradient[p][1]);
        if (m->world > 1)
            put(m, w, r, gradient[p], SYNTH_SIZE);
    }
    for (int p = 0; p < SYNTH_PARAMS; p++) {
        struct synth_record r = {.phase = TWIN_PHASE_BACKWARD,
                                 .kind = TWIN_KIND_GRADIENT,
                                 .name = parameter(p),
                                 .scope = "Net",
                                 .flags = TWIN_REC_UNORDERED};
        gradient[p][1] = disturbed(m, AT_GRADIENT, step, p, gradient[p][1]);
        put(m, w, r, gradient[p], SYNTH_SIZE);
    }
    put(m, w,
        (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                              .kind = TWIN_KIND_HYPER,
                              .name = "lr[0]",
                              .scope = "SGD",
                              .op = "SGD"},
        &m->lr, 1);
    for (int p = 0; p < SYNTH_PARAMS; p++) {
        for (int i = 0; i < SYNTH_SIZE; i++)
            m->moment[p][i] = 0.9f * m->moment[p][i] + gradient[p][i];
        m->moment[p][2] = disturbed(m, AT_MOMENT, step, p, m->moment[p][2]);
        for (int i = 0; i < SYNTH_SIZE; i++)
            m->weight[p][i] -= m->lr * m->moment[p][i];
        m->weight[p][4] = disturbed(m, AT_WEIGHT, step, p, m->weight[p][4]);
        char name[64];
        snprintf(name, sizeof name, "%s.momentum_buffer", parameter(p));
        put(m, w,
            (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                  .kind = TWIN_KIND_WEIGHT,
                                  .name = parameter(p),
                                  .scope = "Net",
                                  .op = "SGD"},
            m->weight[p], SYNTH_SIZE);
        put(m, w,
            (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                  .kind = TWIN_KIND_MOMENT,
                                  .name = name,
                                  .scope = "Net",
                                  .op = "SGD"},
            m->moment[p], SYNTH_SIZE);
    }
    put_state(m, w, TWIN_PHASE_RNG, NULL);
    twin_writer_step_end(w);
}

static void replay(struct synth_model *m, struct twin_writer *w)
{
    float batch[SYNTH_SIZE];
    m->shuffled = draw(m);
    put_state(m, w, TWIN_PHASE_RNG, "RandomSampler.__iter__");
    for (uint32_t step = 0; step < m->start; step++)
        make_batch(m, w, step, 0, "DataLoader", batch);
}

void synth_train(struct synth_model *m, struct twin_writer *w)
{
    put_state(m, w, TWIN_PHASE_INIT, NULL);
    if (m->replay)
        replay(m, w);
    for (uint32_t step = m->start; step < m->steps; step++) {
        if (m->shuffle && (m->shuffle_every == 0 || step % m->shuffle_every == 0)) {
            m->shuffled = draw(m);
            put_state(m, w, TWIN_PHASE_RNG, "RandomSampler.__iter__");
        }
        if (m->order != 0 && step == m->start)
            put(m, w,
                (struct synth_record){.phase = TWIN_PHASE_OPTIMIZER,
                                      .kind = TWIN_KIND_ORDER,
                                      .name = "parameters[0]",
                                      .scope = "SGD"},
                &m->order, 1);
        one_step(m, w, step);
        if (m->die_at && step == m->die_at)
            return;
        if (m->eval_every && (step + 1) % m->eval_every == 0)
            evaluate(m, w, step);
    }
}

struct synth *synth_train_run(const char *label, struct synth_model *m)
{
    struct synth *s = synth_new(label);
    synth_train(m, synth_process(s, m->rank, m->world, NULL));
    synth_done(s);
    return s;
}

/* ---- threads in turns */

#define CREW 4

struct member {
    struct synth_crew *crew;
    int number;
};

struct synth_crew {
    pthread_t thread[CREW];
    struct member member[CREW];
    pthread_mutex_t lock;
    pthread_cond_t turn;
    void (*work)(void *);
    void *user;
    int whose; /* 0: nobody's */
    bool over;
};

static void *serve(void *argument)
{
    struct member *me = argument;
    struct synth_crew *c = me->crew;
    pthread_mutex_lock(&c->lock);
    while (!c->over) {
        if (c->whose == me->number) {
            c->work(c->user);
            c->whose = 0;
            pthread_cond_broadcast(&c->turn);
        }
        pthread_cond_wait(&c->turn, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct synth_crew *synth_crew_open(void)
{
    struct synth_crew *c = calloc(1, sizeof *c);
    must(c != NULL, "calloc");
    must(pthread_mutex_init(&c->lock, NULL) == 0 && pthread_cond_init(&c->turn, NULL) == 0, "lock");
    for (int i = 0; i < CREW; i++) {
        c->member[i] = (struct member){c, i + 1};
        must(pthread_create(&c->thread[i], NULL, serve, &c->member[i]) == 0, "thread");
    }
    return c;
}

void synth_crew_do(struct synth_crew *c, int thread, void (*work)(void *), void *user)
{
    if (thread == 0) {
        work(user);
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->work = work;
    c->user = user;
    c->whose = thread;
    pthread_cond_broadcast(&c->turn);
    while (c->whose != 0)
        pthread_cond_wait(&c->turn, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void synth_crew_close(struct synth_crew *c)
{
    pthread_mutex_lock(&c->lock);
    c->over = true;
    pthread_cond_broadcast(&c->turn);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < CREW; i++)
        pthread_join(c->thread[i], NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->turn);
    free(c);
}
