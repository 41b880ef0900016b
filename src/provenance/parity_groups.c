/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in words: which of them have what, and which were not seen. */
#include "differences.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

/* So many ranges of ranks are named; so many bytes of a value are shown, from both of its ends. */
enum { RANGES_SHOWN = 8, VALUE_SHOWN = 72 };

static json_int_t number_at(const json_t *ranks, size_t i)
{
    return json_integer_value(json_array_get(ranks, i));
}

/* "rank 3", "ranks 0-2, 5 and 7", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more" of numbers that
 * rise. */
static void put_ranks(struct tw_buf *b, const json_t *ranks)
{
    size_t n = json_array_size(ranks), shown = 0;
    tw_buf_puts(b, n == 1 ? "rank " : "ranks ");
    for (size_t i = 0; i < n;) {
        size_t last = i;
        while (last + 1 < n && number_at(ranks, last + 1) == number_at(ranks, last) + 1)
            last++;
        /* two neighbours read better as two numbers */
        if (last == i + 1)
            last = i;
        if (shown == RANGES_SHOWN) {
            tw_buf_printf(b, " and %zu more", n - i);
            return;
        }
        if (shown)
            tw_buf_puts(b, last + 1 == n ? " and " : ", ");
        tw_buf_printf(b, "%lld", (long long)number_at(ranks, i));
        if (last > i)
            tw_buf_printf(b, "-%lld", (long long)number_at(ranks, last));
        shown++;
        i = last + 1;
    }
}

/* What is cut is cut in the middle: paths and lists mostly differ at their ends. */
static void put_value(struct tw_buf *b, const char *value)
{
    size_t n = strlen(value);
    if (n == 0)
        tw_buf_puts(b, "an empty value");
    else if (n <= VALUE_SHOWN)
        tw_buf_puts(b, value);
    else
        tw_buf_printf(b, "%.*s...%s", VALUE_SHOWN / 2, value, value + n - VALUE_SHOWN / 2);
}

/* Is a number in two of the groups? Then several processes go by one number. */
static bool share_a_rank(const json_t *groups)
{
    json_t *seen = json_object(), *group, *ranks, *rank;
    bool shared = !seen;
    const char *key;
    size_t i;
    json_object_foreach ((json_t *)groups, key, group) {
        ranks = group;
        json_array_foreach (ranks, i, rank) {
            char number[24];
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(rank));
            shared |= json_object_get(seen, number) != NULL;
            json_object_set_new(seen, number, json_true());
        }
    }
    json_decref(seen);
    return shared;
}

char *tw_parity_groups(const char *name, const json_t *groups, const char *missing)
{
    struct tw_buf b = {0};
    json_t *ranks;
    const char *value;
    bool named = false;
    if (share_a_rank(groups))
        return NULL;
    /* the first group that has a value says of what */
    for (int absent = 0; absent < 2; absent++)
        json_object_foreach ((json_t *)groups, value, ranks) {
            if ((strcmp(value, missing) == 0) != absent)
                continue;
            if (b.len)
                tw_buf_puts(&b, ", ");
            put_ranks(&b, ranks);
            if (absent) {
                tw_buf_puts(&b,
                            json_array_size(ranks) == 1 ? " does not have it" : " do not have it");
                continue;
            }
            tw_buf_puts(&b, json_array_size(ranks) == 1 ? " has " : " have ");
            if (!named)
                tw_buf_printf(&b, "%s ", name);
            named = true;
            put_value(&b, value);
        }
    char *safe = b.data && !b.failed ? tw_printable(b.data, b.len) : NULL;
    tw_buf_free(&b);
    return safe;
}

char *tw_parity_unseen(const json_t *ranks, json_int_t world)
{
    struct tw_buf b = {0};
    json_t *unseen = json_array();
    size_t at = 0, n = json_array_size(ranks);
    for (json_int_t r = 0; unseen && r < world; r++) {
        while (at < n && json_integer_value(json_object_get(json_array_get(ranks, at), "rank")) < r)
            at++;
        if (at == n || json_integer_value(json_object_get(json_array_get(ranks, at), "rank")) != r)
            json_array_append_new(unseen, json_integer(r));
    }
    if (json_array_size(unseen)) {
        put_ranks(&b, unseen);
        tw_buf_puts(&b, json_array_size(unseen) == 1 ? " was not seen" : " were not seen");
    }
    json_decref(unseen);
    return b.len ? tw_buf_steal(&b) : NULL;
}
