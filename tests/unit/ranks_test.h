/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANKS_TEST_H
#define RANKS_TEST_H
/* Two runs of several ranks that exchange messages, record by record; and what a verdict says of
 * the ranks that differ. */
#include "compare_test.h"

#define WORLD "MPI_COMM_WORLD"

/* One rank under construction. other: it belongs to the run in which something is different. */
struct rank {
    struct twin_writer *w;
    bool other;
};

static inline void put(struct rank *r, enum twin_kind kind, const char *name, const char *scope,
                       float x)
{
    synth_put(r->w,
              (struct synth_record){TWIN_PHASE_COLLECTIVE, kind, .name = name, .scope = scope}, &x,
              1);
}

static inline void give(struct rank *r, const char *name, float x)
{
    put(r, TWIN_KIND_IN, name, WORLD, x);
}

static inline void take(struct rank *r, const char *name, float x)
{
    put(r, TWIN_KIND_OUT, name, WORLD, x);
}

/* 1.0, or something else in the other run. */
static inline float value(const struct rank *r)
{
    return r->other ? 1.25f : 1.0f;
}

static inline void steps(struct rank *r, int n)
{
    while (n-- > 0)
        twin_writer_step_end(r->w);
}

/* Makes both runs: one rank after the other, each by the same function. */
typedef void rank_fn(struct rank *r, int rank);

static inline void record_ranks(struct synth *s[2], int world, int leave_out, rank_fn *record)
{
    for (int i = 0; i < 2; i++) {
        s[i] = synth_new("frontier");
        for (int rank = 0; rank < world; rank++) {
            if (rank == leave_out)
                continue;
            struct rank r = {synth_process(s[i], rank, world, NULL), i == 1};
            record(&r, rank);
        }
    }
}

static inline struct twin_verdict *compare_ranks(int world, int leave_out, rank_fn *record)
{
    struct synth *s[2];
    record_ranks(s, world, leave_out, record);
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    synth_free(s[0]);
    synth_free(s[1]);
    expect_outcome(v, TWIN_DIFFER);
    return v;
}

static inline void expect_rank(const struct twin_verdict *v, int32_t rank, uint32_t step,
                               const char *name)
{
    if (v->first->rank != rank || v->first->step_a != step || strcmp(v->first->name, name) != 0)
        explain(v);
    assert_int_equal(v->first->rank, rank);
    assert_int_equal(v->first->step_a, step);
    assert_string_equal(v->first->name, name);
    assert_int_equal(v->order->item[0].rank, rank);
    assert_int_equal(v->order->item[0].place, TWIN_RANK_FIRST);
}

/* What is known of a rank beside the one that is named. */
static inline const struct twin_ranked *place_of(const struct twin_verdict *v, int32_t rank,
                                                 enum twin_rank_place place)
{
    for (size_t i = 0; i < v->order->count; i++)
        if (v->order->item[i].rank == rank) {
            if (v->order->item[i].place != place)
                explain(v);
            assert_string_equal(twin_rank_place_name(v->order->item[i].place),
                                twin_rank_place_name(place));
            return &v->order->item[i];
        }
    fail_msg("rank %d does not differ", rank);
    return NULL;
}

static inline void expect_unknown(const struct twin_verdict *v, const char *why)
{
    assert_false(v->order->known);
    if (strcmp(v->order->why, why) != 0)
        explain(v);
    assert_string_equal(v->order->why, why);
    assert_false(has_note(v, "no message or collective brought"));
}

/* Rank 2 is in its step 5 when it sends what differs; rank 0 takes it in its step 3. */
static inline void skewed(struct rank *r, int rank)
{
    if (rank == 2) {
        give(r, "MPI_Send to rank 0, tag 7", 0.5f);
        steps(r, 5);
        give(r, "MPI_Send to rank 0, tag 7", value(r));
    } else if (rank == 0) {
        take(r, "MPI_Recv from rank 2, tag 7", 0.5f);
        steps(r, 3);
        take(r, "MPI_Recv from rank 2, tag 7", value(r));
        give(r, "MPI_Bcast", 2 * value(r));
    }
    if (rank == 1)
        steps(r, 5);
    if (rank != 0)
        take(r, "MPI_Bcast", 2 * value(r));
    steps(r, 1);
}
#endif
