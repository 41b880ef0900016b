/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of ranks and steps that a page shows: its cells say what the verdict says, and of many
 * ranks and steps those are chosen that matter. */
#include "internal.h"
#include "scan.h"

#include "src/compare/field.h"

#include "ranks_test.h"

static uint16_t cell_at(const struct twin_grid *g, int32_t rank, uint32_t step)
{
    for (size_t r = 0; r < g->ranks; r++)
        for (size_t s = 0; s < g->steps; s++)
            if (g->rank[r] == rank && g->step[s] == step)
                return g->cell[r * g->steps + s];
    fail_msg("the grid has no step %u of rank %d", step, rank);
    return 0;
}

static void grid_of(struct synth *s[2], const struct twin_verdict *v, struct twin_grid *g)
{
    assert_int_equal(twin_compare_grid(synth_run(s[0]), synth_run(s[1]), NULL, v ? v->order : NULL,
                                       v ? v->first->step_a : UINT32_MAX, g, NULL),
                     0);
}

static void a_grid_of_ranks(void **state)
{
    (void)state;
    struct synth *s[2];
    struct twin_grid g;
    record_ranks(s, 3, -1, skewed);
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    grid_of(s, v, &g);
    assert_int_equal(g.ranks, 3);
    assert_int_equal(g.steps, 6); /* of rank 2, which makes most */
    assert_int_equal(cell_at(&g, 2, 4), TWIN_CELL_EQUAL);
    assert_int_equal(cell_at(&g, 2, 5), TWIN_CELL_DIFFERS);
    assert_int_equal(cell_at(&g, 0, 2), TWIN_CELL_EQUAL);
    assert_int_equal(cell_at(&g, 0, 3), TWIN_CELL_DIFFERS);
    assert_int_equal(cell_at(&g, 0, 4), TWIN_CELL_NONE);
    assert_int_equal(cell_at(&g, 1, 5), TWIN_CELL_DIFFERS);
    twin_grid_free(&g);
    /* a difference that the verdict does not name is none that counts */
    grid_of(s, NULL, &g);
    assert_int_equal(cell_at(&g, 2, 5), TWIN_CELL_LEFT_OUT);
    twin_grid_free(&g);
    twin_verdict_free(v);
    synth_free(s[0]);
    synth_free(s[1]);
}

static void long_runs(struct rank *r, int rank)
{
    if (rank == 7) {
        steps(r, 700);
        give(r, "MPI_Send to rank 11, tag 7", value(r));
        steps(r, 300);
    } else if (rank == 11) {
        take(r, "MPI_Recv from rank 7, tag 7", value(r));
        steps(r, 1);
    } else {
        steps(r, 2);
    }
}

static void a_grid_is_made_smaller(void **state)
{
    (void)state;
    struct synth *s[2];
    struct twin_grid g;
    const size_t rows = tw_grid_rows;
    record_ranks(s, 12, -1, long_runs);
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    tw_grid_rows = 3; /* 0, 5 and 11, and 7, which diverges */
    grid_of(s, v, &g);
    tw_grid_rows = rows;
    assert_int_equal(g.ranks_all, 12);
    assert_int_equal(g.ranks, 4);
    assert_int_equal(g.steps_all, 1000);
    assert_true(g.steps > 384 && g.steps < 450);
    for (uint32_t step = 692; step < 724; step++)
        assert_int_equal(cell_at(&g, 7, step), step == 700 ? TWIN_CELL_DIFFERS : TWIN_CELL_EQUAL);
    assert_int_equal(cell_at(&g, 11, 0), TWIN_CELL_DIFFERS);
    twin_grid_free(&g);
    twin_verdict_free(v);
    synth_free(s[0]);
    synth_free(s[1]);
}

/* One rank alone: no grid. */
static void alone(struct rank *r, int rank)
{
    (void)rank;
    give(r, "MPI_Allreduce", value(r));
    steps(r, 1);
}

static void ranks_without_a_grid(void **state)
{
    (void)state;
    struct synth *s[2];
    struct twin_grid g;
    record_ranks(s, 1, -1, alone);
    synth_done(s[0]);
    synth_done(s[1]);
    grid_of(s, NULL, &g);
    assert_int_equal(g.ranks, 0);
    twin_grid_free(&g);
    synth_free(s[0]);
    synth_free(s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_of_ranks),
        cmocka_unit_test(a_grid_is_made_smaller),
        cmocka_unit_test(ranks_without_a_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
