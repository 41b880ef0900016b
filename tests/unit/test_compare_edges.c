/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of odd lengths that are cut over ranks: a cut within 16 bytes leaves each side a part of
 * a block, whose bytes it records beside its digest. Each mutant is a run that must never be called
 * the same as the run that it was made from.
 */
#include "compare_test.h"

enum { STEPS = 3, WIDEST = 16, MOST = 64 };

enum mutant {
    NONE,
    ELEMENT,        /* the first element of a rank's part is another one, from step 1 on */
    LAST_ELEMENT,   /* the last one is */
    EXCHANGED,      /* a rank's first element and the one before it are exchanged */
    NO_EDGE,        /* a rank does not record its cut blocks */
    NOT_NOTED,      /* it does not say which records they are */
    OTHER_BYTES,    /* their bytes are not those that were digested */
    OUTSIDE,        /* there are bytes in them that belong to its neighbour */
    OTHER_BLOCK,    /* they were recorded at another block */
    UNREAD,         /* they could not be read */
    EXCHANGED_EDGE, /* a rank says that its last cut block is its first one */
    MUTANTS
};

/* A weight of `length` elements of `width` bytes, on so many ranks. */
struct job {
    int ranks, length, width;
    enum mutant mutant;
    int rank;
};

static const struct twin_compare_options arms = {.arms = true, .find_shift = true};

static int first_of(const struct job *j, int rank)
{
    const int each = (j->length + j->ranks - 1) / j->ranks, first = rank * each;
    return first < j->length ? first : j->length;
}

/* The whole weight after a step, as bytes. */
static void whole(const struct job *j, uint32_t step, unsigned char out[MOST * WIDEST])
{
    for (int i = 0; i < j->length * j->width; i++)
        out[i] = (unsigned char)(7 * i + 13 * (int)step + 1);
    unsigned char *mine = out + first_of(j, j->rank) * j->width;
    if (j->mutant == ELEMENT && step >= 1)
        mine[0] ^= 1;
    if (j->mutant == LAST_ELEMENT && step >= 1)
        out[first_of(j, j->rank + 1) * j->width - 1] ^= 0x80;
    for (int i = 0; j->mutant == EXCHANGED && i < j->width; i++) {
        const unsigned char x = mine[i];
        mine[i] = mine[i - j->width];
        mine[i - j->width] = x;
    }
}

static uint8_t type_of(int width)
{
    if (width == 1)
        return TWIN_I8;
    if (width == 2)
        return TWIN_BF16;
    return width == 4 ? TWIN_F32 : TWIN_F64;
}

struct edge {
    uint32_t series;
    size_t block, from, to; /* bytes from .. to of the block are the rank's own */
};

/* The cut blocks of bytes first .. end of a whole that ends at `all`. */
static int edges_of(size_t first, size_t end, size_t all, struct edge out[2])
{
    int n = 0;
    if (first == end)
        return 0;
    if (first % 16) {
        const size_t to = first / 16 * 16 + 16;
        out[n++] = (struct edge){0, first / 16, first % 16, (to < end ? to : end) - to + 16};
    }
    if (end % 16 && end != all && (n == 0 || end / 16 != out[0].block))
        out[n++] = (struct edge){0, end / 16, end / 16 == first / 16 ? first % 16 : 0, end % 16};
    return n;
}

static void put_edge(struct twin_writer *w, const struct job *j, const struct edge *e,
                     const unsigned char *bytes, bool hit)
{
    static const int64_t sixteen[] = {16};
    unsigned char block[16] = {0};
    size_t at = e->block;
    memcpy(block + e->from, bytes + e->block * 16 + e->from, e->to - e->from);
    if (j->mutant == OTHER_BYTES && hit)
        block[e->from] ^= 4;
    if (j->mutant == OUTSIDE && hit)
        block[e->from ? 0 : 15] = 9;
    if (j->mutant == OTHER_BLOCK && hit)
        at++;
    struct twin_observation o = {.series = e->series,
                                 .layout = twin_writer_layout(w, TWIN_BYTES, 1, sixteen),
                                 .flags = TWIN_REC_OFFSET,
                                 .global_offset = at * 16};
    if (j->mutant == UNREAD && hit)
        o.flags |= TWIN_REC_UNOBSERVED;
    memcpy(&o.digest, block, 16);
    twin_writer_record(w, &o);
}

static uint32_t series_of(struct twin_writer *w, const char *name)
{
    const struct twin_series s = {.phase = TWIN_PHASE_OPTIMIZER,
                                  .kind = TWIN_KIND_WEIGHT,
                                  .name = twin_writer_string(w, name, strlen(name))};
    return twin_writer_series(w, &s);
}

static void note_place(struct twin_writer *w, const struct job *j, uint32_t series, int first,
                       int count, const struct edge *edge, int edges)
{
    char text[160];
    int n = snprintf(text, sizeof text, "%u %d %d %d 1", series, j->length, first, count);
    for (int i = 0; i < edges; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %u", edge[i].series);
    twin_writer_note(w, "shard", text);
}

static void put_part(struct twin_writer *w, const struct job *j, int rank, uint32_t step)
{
    const bool hit = rank == j->rank;
    const int first = first_of(j, rank), count = first_of(j, rank + 1) - first;
    const size_t at = (size_t)(first * j->width), bytes = (size_t)(count * j->width);
    const int64_t shape[] = {count};
    unsigned char all[MOST * WIDEST];
    struct edge edge[2] = {{0}, {0}};
    whole(j, step, all);
    int edges = edges_of(at, at + bytes, (size_t)(j->length * j->width), edge);
    const uint32_t series = series_of(w, "w");
    for (int i = 0; i < edges; i++) {
        char name[64];
        snprintf(name, sizeof name, "w[%zu:%zu]", edge[i].block * 16 / (size_t)j->width,
                 (edge[i].block + 1) * 16 / (size_t)j->width);
        edge[i].series = series_of(w, name);
    }
    const struct edge noted[2] = {edge[0], edge[1]};
    const struct edge swapped[2] = {edge[1], edge[0]};
    const struct twin_observation o = {
        .series = series,
        .layout = twin_writer_layout(w, type_of(j->width), 1, shape),
        .flags = j->ranks > 1 ? TWIN_REC_OFFSET | (at % 16 ? TWIN_REC_NOT_COMPOSABLE : 0) : 0,
        .global_offset = count ? (uint64_t)first : 0,
        .digest = twin_digest_bytes(all + at, bytes, at)};
    if (j->ranks > 1 && step == 0)
        note_place(w, j, series, first, count,
                   j->mutant == EXCHANGED_EDGE && hit && edges == 2 ? swapped : noted,
                   j->mutant == NOT_NOTED && hit ? 0 : edges);
    twin_writer_record(w, &o);
    for (int i = 0; i < edges && !(j->mutant == NO_EDGE && hit); i++)
        put_edge(w, j, &edge[i], all, hit);
}

static struct synth *recorded(const struct job *j)
{
    struct synth *s = synth_new("job");
    for (int r = 0; r < j->ranks; r++) {
        struct twin_writer *w = synth_process(s, r, j->ranks, NULL);
        for (uint32_t step = 0; step < STEPS; step++) {
            put_part(w, j, r, step);
            twin_writer_step_end(w);
        }
    }
    return s;
}

static const struct {
    int length, width;
} sort[] = {{10, 4}, {7, 8}, {10, 1}, {33, 2}, {13, 4}, {37, 1}, {5, 4}, {64, 1}};
enum { SORTS = sizeof sort / sizeof *sort, MUTATED = 3 };

static void any_cut_is_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < SORTS; i++) {
        struct synth *run[6];
        for (int n = 1; n <= 6; n++)
            run[n - 1] = recorded(&(struct job){n, sort[i].length, sort[i].width, NONE, 0});
        for (int x = 0; x < 6; x++)
            for (int y = 0; y < 6; y++) {
                if (x == y)
                    continue;
                struct twin_verdict *v = compare(run[x], run[y], &arms);
                expect_outcome(v, TWIN_SAME);
                assert_int_equal(v->records_compared, STEPS);
                twin_verdict_free(v);
            }
        for (int x = 0; x < 6; x++)
            synth_free(run[x]);
    }
}

/* Has this rank's part something that the mutant changes? */
static bool is_hit(const struct job *j)
{
    struct edge edge[2];
    const int first = first_of(j, j->rank), next = first_of(j, j->rank + 1);
    const int edges = edges_of((size_t)(first * j->width), (size_t)(next * j->width),
                               (size_t)(j->length * j->width), edge);
    switch (j->mutant) {
    case ELEMENT:
    case LAST_ELEMENT: return next > first;
    case EXCHANGED: return next > first && first > 0;
    case EXCHANGED_EDGE: return edges == 2;
    default: return edges > 0;
    }
}

static void no_mutant_is_the_same(void **state)
{
    (void)state;
    int hits = 0;
    for (int i = 0; i < MUTATED; i++)
        for (int n = 2; n <= 3; n++)
            for (int k = 0; k < n * (MUTANTS - 1); k++) {
                const struct job x = {n, sort[i].length, sort[i].width,
                                      (enum mutant)(NONE + 1 + k / n), k % n};
                const struct job y = {k % 2 ? 1 : 4, sort[i].length, sort[i].width, NONE, 0};
                if (!is_hit(&x))
                    continue;
                hits++;
                struct synth *a = recorded(&x), *b = recorded(&y);
                struct twin_verdict *v = k % 4 / 2 ? compare(a, b, &arms) : compare(b, a, &arms);
                const bool value = x.mutant <= EXCHANGED || x.mutant == OTHER_BYTES;
                if (v->outcome != (value ? TWIN_DIFFER : TWIN_INCONCLUSIVE))
                    explain(v);
                if (v->outcome != (value ? TWIN_DIFFER : TWIN_INCONCLUSIVE))
                    fail_msg("mutant %d of rank %d of %d, %d elements of %d bytes: %s", x.mutant,
                             x.rank, n, x.length, x.width, twin_verdict_name(v->outcome));
                twin_verdict_free(v);
                synth_free(a);
                synth_free(b);
            }
    assert_true(hits > 60);
}

/* Elements 0 to 9 over 2 and over 4 ranks have edges at 0, 5 and 10, and at 0, 3, 6, 9, 10. */
static void the_rank_is_named(void **state)
{
    (void)state;
    const struct job x = {2, 20, 4, ELEMENT, 1}, y = {4, 20, 4, NONE, 0};
    struct synth *a = recorded(&x), *b = recorded(&y);
    struct twin_verdict *v = compare(a, b, &arms);
    expect_place(v, 1, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w");
    expect_note(v, "elements 10 to 19 of w differ between the runs: run 1's rank 1, run 2's ranks "
                   "2, 3");
    assert_int_equal(v->first->rank, 1);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void a_missing_edge_is_a_reason(void **state)
{
    (void)state;
    const struct job x = {2, 10, 4, NO_EDGE, 1}, y = {4, 10, 4, NONE, 0};
    struct synth *a = recorded(&x), *b = recorded(&y);
    struct twin_verdict *v = compare(a, b, &arms);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    expect_reason(v, "run 1: w, which is cut over ranks: rank 1's part begins or ends within 16 "
                     "bytes, where digests do not add up");
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_is_the_same),
        cmocka_unit_test(no_mutant_is_the_same),
        cmocka_unit_test(the_rank_is_named),
        cmocka_unit_test(a_missing_edge_is_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
