/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "align.h"
#include "base.h"

#define MAX 300

static uint64_t seed = 12345;

static uint64_t draw(uint64_t below)
{
    seed = tw_mix64(seed + 0x9E3779B97F4A7C15u);
    return seed % below;
}

/* The textbook table: the oracle for the length of the longest common subsequence. */
static size_t naive(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
    static size_t table[MAX + 1][MAX + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0)
                table[i][j] = 0;
            else if (a[i - 1] == b[j - 1])
                table[i][j] = table[i - 1][j - 1] + 1;
            else
                table[i][j] = table[i - 1][j] > table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
        }
    return table[n][m];
}

/* Checks that an alignment is one (equal tokens, increasing) and returns its length. */
static size_t checked_length(const uint64_t *a, size_t n, const uint64_t *b, size_t m,
                             const size_t *to_b)
{
    size_t count = 0, next = 0;
    for (size_t i = 0; i < n; i++) {
        if (to_b[i] == TW_ALIGN_NONE)
            continue;
        assert_true(to_b[i] < m && to_b[i] >= next);
        assert_true(a[i] == b[to_b[i]]);
        next = to_b[i] + 1;
        count++;
    }
    return count;
}

/* Random insertions, deletions and moves on a sequence of few or many distinct tokens. */
static size_t mutate(const uint64_t *a, size_t n, uint64_t *b, uint64_t alphabet)
{
    size_t m = n, edits = draw(20);
    memcpy(b, a, n * sizeof *a);
    while (edits--) {
        size_t at = m ? draw(m) : 0;
        switch (draw(3)) {
        case 0:
            if (m < MAX) {
                memmove(b + at + 1, b + at, (m - at) * sizeof *b);
                b[at] = draw(alphabet);
                m++;
            }
            break;
        case 1:
            if (m) {
                memmove(b + at, b + at + 1, (m - at - 1) * sizeof *b);
                m--;
            }
            break;
        default:
            if (m > 1) {
                size_t other = draw(m);
                uint64_t keep = b[at];
                b[at] = b[other];
                b[other] = keep;
            }
        }
    }
    return m;
}

static void as_long_as_the_naive_one(void **state)
{
    (void)state;
    uint64_t a[MAX], b[MAX];
    size_t to_b[MAX];
    for (int round = 0; round < 3000; round++) {
        uint64_t alphabet = (uint64_t[]){2, 5, 30, 1000000}[draw(4)];
        size_t n = draw(round < 2000 ? 40 : MAX - 20), m;
        for (size_t i = 0; i < n; i++)
            a[i] = draw(alphabet);
        if (draw(4)) {
            m = mutate(a, n, b, alphabet);
        } else { /* unrelated sequences */
            m = draw(MAX);
            for (size_t i = 0; i < m; i++)
                b[i] = draw(alphabet);
        }
        assert_int_equal(tw_align(a, n, b, m, 0, to_b), 0);
        assert_int_equal(checked_length(a, n, b, m, to_b), naive(a, n, b, m));
    }
}

static void cost_cap_gives_a_valid_alignment(void **state)
{
    (void)state;
    enum { N = 20000 };
    uint64_t *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    size_t *to_b = malloc(N * sizeof *to_b);
    for (size_t i = 0; i < N; i++) { /* reversed: the worst case, edits = 2N */
        a[i] = i;
        b[N - 1 - i] = i;
    }
    assert_int_equal(tw_align(a, N, b, N, 64, to_b), 0);
    assert_true(checked_length(a, N, b, N, to_b) >= 1);
    free(a);
    free(b);
    free(to_b);
}

static void empty_sequences(void **state)
{
    (void)state;
    uint64_t a[2] = {1, 2};
    size_t to_b[2];
    assert_int_equal(tw_align(a, 0, a, 2, 0, to_b), 0);
    assert_int_equal(tw_align(a, 2, a, 0, 0, to_b), 0);
    assert_true(to_b[0] == TW_ALIGN_NONE && to_b[1] == TW_ALIGN_NONE);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    uint64_t a[4] = {1, 2, 3, 4}, b[3] = {1, 3, 4};
    size_t to_b[4];
    int rc;
    uint64_t n = 1;
    do {
        tw_alloc_fail_at(n, false);
        rc = tw_align(a, 4, b, 3, 0, to_b);
        tw_alloc_fail_at(0, false);
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
    } while (rc != 0 && ++n < 100);
    assert_true(n > 8 && rc == 0);
    assert_int_equal(checked_length(a, 4, b, 3, to_b), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_long_as_the_naive_one),
        cmocka_unit_test(cost_cap_gives_a_valid_alignment),
        cmocka_unit_test(empty_sequences),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
