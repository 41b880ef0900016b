/* SPDX-License-Identifier: Apache-2.0 */
/* Fisher and Holm. Oracles: the design paper; special and stats are scipy.special and
 * scipy.stats, 1.17.1; enumeration of every table. */
#include "base.h"

#include "src/stats/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Equal to a relative error of 1e-10 */
#define CLOSE(actual, expected) assert_true(fabs((actual) - (expected)) <= 1e-10 * fabs(expected))
#define NEAR(actual, expected, tolerance) assert_true(fabs((actual) - (expected)) <= (tolerance))

static void fisher_values(void **state)
{
    (void)state;
    NEAR(twin_stats_fisher(3, 1, 1, 3, TWIN_GREATER), .2428571, 5e-8); /* the lady tasting tea */
    CLOSE(twin_stats_fisher(3, 1, 1, 3, TWIN_GREATER), 17. / 70);
    CLOSE(twin_stats_fisher(3, 1, 1, 3, TWIN_TWO_SIDED), 34. / 70);
    /* 3 of 3 natural against 0 of 3 pinned */
    CLOSE(twin_stats_fisher(3, 0, 0, 3, TWIN_GREATER), .05);
    CLOSE(twin_stats_fisher(8, 2, 1, 5, TWIN_TWO_SIDED),
          0.034965034965034975); /* stats.fisher_exact([[8, 2], [1, 5]], 'two-sided')[1] */
    CLOSE(twin_stats_fisher(8, 2, 1, 5, TWIN_GREATER),
          0.024475524475524483); /* stats.fisher_exact([[8, 2], [1, 5]], 'greater')[1] */
    CLOSE(twin_stats_fisher(8, 2, 1, 5, TWIN_LESS),
          0.9991258741258742); /* stats.fisher_exact([[8, 2], [1, 5]], 'less')[1] */
    CLOSE(twin_stats_fisher(0, 10, 4, 6, TWIN_TWO_SIDED),
          0.08668730650154799); /* stats.fisher_exact([[0, 10], [4, 6]], 'two-sided')[1] */
    /* stats.fisher_exact([[0, 10], [4, 6]], 'greater')[1] */
    CLOSE(twin_stats_fisher(0, 10, 4, 6, TWIN_GREATER), 1.0);
    CLOSE(twin_stats_fisher(0, 10, 4, 6, TWIN_LESS),
          0.04334365325077399); /* stats.fisher_exact([[0, 10], [4, 6]], 'less')[1] */
    CLOSE(twin_stats_fisher(100, 900, 60, 940, TWIN_TWO_SIDED),
          0.0012465819865252995); /* stats.fisher_exact([[100, 900], [60, 940]], 'two-sided')[1] */
    CLOSE(twin_stats_fisher(100, 900, 60, 940, TWIN_GREATER),
          0.0006232909932626497); /* stats.fisher_exact([[100, 900], [60, 940]], 'greater')[1] */
    CLOSE(twin_stats_fisher(100, 900, 60, 940, TWIN_LESS),
          0.999657151514129); /* stats.fisher_exact([[100, 900], [60, 940]], 'less')[1] */
    CLOSE(twin_stats_fisher(12, 5, 29, 2, TWIN_TWO_SIDED),
          0.08026855207410463); /* stats.fisher_exact([[12, 5], [29, 2]], 'two-sided')[1] */
    CLOSE(twin_stats_fisher(12, 5, 29, 2, TWIN_GREATER),
          0.9945252060218822); /* stats.fisher_exact([[12, 5], [29, 2]], 'greater')[1] */
    CLOSE(twin_stats_fisher(12, 5, 29, 2, TWIN_LESS),
          0.04455473783507688); /* stats.fisher_exact([[12, 5], [29, 2]], 'less')[1] */
    /* mpmath, 40 digits: SciPy is off by 2e-10 here */
    CLOSE(twin_stats_fisher(3000, 1000000, 2900, 1000000, TWIN_GREATER), .099056384441067864);
}

/* C(n, k) exactly, n <= 40. */
static double choose(uint64_t n, uint64_t k)
{
    double c = 1;
    for (uint64_t i = 0; i < k; i++)
        c = c * (double)(n - i) / (double)(i + 1);
    return k > n ? 0 : round(c);
}

static void fisher_by_enumeration(void **state)
{
    (void)state;
    for (uint64_t row = 0; row <= 9; row++)
        for (uint64_t other = 0; other <= 8; other++)
            for (uint64_t column = 0; column <= row + other; column++) {
                double all = choose(row + other, column);
                for (uint64_t a = column > other ? column - other : 0; a <= row && a <= column;
                     a++) {
                    double seen = choose(row, a) * choose(other, column - a);
                    double more = 0;
                    double less = 0;
                    double rare = 0;
                    for (uint64_t x = column > other ? column - other : 0; x <= row && x <= column;
                         x++) {
                        double ways = choose(row, x) * choose(other, column - x);
                        more += x >= a ? ways : 0;
                        less += x <= a ? ways : 0;
                        rare += ways <= seen ? ways : 0;
                    }
                    uint64_t b = row - a, c = column - a, d = other - c;
                    CLOSE(twin_stats_fisher(a, b, c, d, TWIN_GREATER), more / all);
                    CLOSE(twin_stats_fisher(a, b, c, d, TWIN_LESS), less / all);
                    CLOSE(twin_stats_fisher(a, b, c, d, TWIN_TWO_SIDED), rare / all);
                }
            }
}

static void fisher_edges(void **state)
{
    (void)state;
    assert_true(twin_stats_fisher(0, 0, 0, 0, TWIN_GREATER) == 1 &&
                twin_stats_fisher(5, 0, 7, 0, TWIN_TWO_SIDED) == 1);
    assert_true(twin_stats_fisher(0, 0, 3, 4, TWIN_LESS) == 1);
    for (int i = 0; i < 4; i++) {
        uint64_t cell[4] = {1, 1, 1, 1};
        cell[i] = UINT64_MAX;
        assert_true(isnan(twin_stats_fisher(cell[0], cell[1], cell[2], cell[3], TWIN_GREATER)));
    }
    assert_true(isnan(twin_stats_fisher(1, 1, 1, UINT64_C(1) << 40, TWIN_GREATER)));
    uint64_t quarter = UINT64_C(1) << 38; /* the largest table taken */
    CLOSE(twin_stats_fisher(quarter, quarter, quarter, quarter, TWIN_TWO_SIDED), 1.);
    assert_true(twin_stats_fisher(quarter, 0, 0, quarter, TWIN_GREATER) == 0);
    assert_true(twin_stats_fisher(0, quarter, quarter, 0, TWIN_GREATER) == 1);
}

static void runs_per_arm(void **state)
{
    (void)state;
    /* all versus none: 3 comparisons per arm; under Holm 4 for up to 3 factors, 5 for up to 12, 6
     * up to 46 */
    static const struct {
        uint64_t factors, runs;
    } row[] = {{1, 3}, {2, 4}, {3, 4}, {4, 5}, {12, 5}, {13, 6}, {46, 6}, {47, 7}};
    for (size_t i = 0; i < 8; i++) {
        uint64_t n = 1;
        while (twin_stats_fisher(n, 0, 0, n, TWIN_GREATER) * (double)row[i].factors >
               .05 * (1 + 1e-9))
            n++;
        assert_int_equal(n, row[i].runs);
    }
}

static void holm(void **state)
{
    (void)state;
    double adjusted[5];
    assert_int_equal(twin_stats_holm((const double[]){.01, .04, .03, .005}, 4, adjusted), 0);
    static const double expected[] = {.03, .06, .06, .02};
    for (size_t i = 0; i < 4; i++)
        CLOSE(adjusted[i], expected[i]);
    /* statsmodels 0.15: multipletests([.5, .02, .02, .9, 0], method='holm')[1] */
    assert_int_equal(twin_stats_holm((const double[]){.5, .02, .02, .9, 0}, 5, adjusted), 0);
    static const double tied[] = {1, .08, .08, 1, 0};
    for (size_t i = 0; i < 5; i++)
        NEAR(adjusted[i], tied[i], 1e-15);
    assert_int_equal(twin_stats_holm((const double[]){.6, .9}, 2, adjusted), 0);
    assert_true(adjusted[0] == 1 && adjusted[1] == 1);
    assert_int_equal(twin_stats_holm(NULL, 0, adjusted), 0);
    assert_int_equal(twin_stats_holm((const double[]){.1, NAN}, 2, adjusted), TWIN_EINVAL);
    assert_true(isnan(adjusted[0]) && isnan(adjusted[1]));
    assert_int_equal(twin_stats_holm((const double[]){1.1}, 1, adjusted), TWIN_EINVAL);
    tw_alloc_fail_at(1, false);
    assert_int_equal(twin_stats_holm((const double[]){.1}, 1, adjusted), TWIN_ENOMEM);
    assert_true(isnan(adjusted[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fisher_values), cmocka_unit_test(fisher_by_enumeration),
        cmocka_unit_test(fisher_edges),  cmocka_unit_test(runs_per_arm),
        cmocka_unit_test(holm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
