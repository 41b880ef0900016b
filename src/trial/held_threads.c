/* SPDX-License-Identifier: Apache-2.0 */
#include "held_threads.h"

#include "base.h"
#include "phrase.h"

#include "src/compare/compare.h"

#include <string.h>

static const char variable[] = "TWINRUN_TORCH_THREADS=";

/* "TWINRUN_TORCH_THREADS=0:2,1:1" of a run; NULL: its numbers are not known, or no memory. */
static char *variable_of(const struct twin_run *r, struct twin_rank_threads **list, size_t *n)
{
    struct tw_buf b = {0};
    if (!twin_run_threads(r, list, n))
        return NULL;
    tw_buf_puts(&b, variable);
    for (size_t i = 0; i < *n; i++)
        tw_buf_printf(&b, "%s%d:%u", i ? "," : "", (*list)[i].rank, (*list)[i].threads);
    return tw_buf_steal(&b);
}

/* " on ranks 0 and 2": those with the number of list[at]. */
static void put_ranks(struct tw_buf *b, const struct twin_rank_threads *list, size_t n, size_t at)
{
    enum { SHOWN = 8 };
    size_t all = 0, put = 0;
    for (size_t i = at; i < n; i++)
        all += list[i].threads == list[at].threads;
    tw_buf_printf(b, " on rank%s ", tw_plural_s(all));
    for (size_t i = at; i < n && put < SHOWN; i++) {
        if (list[i].threads != list[at].threads)
            continue;
        const bool last = put > 0 && put + 1 == all;
        if (put > 0)
            tw_buf_puts(b, last ? " and " : ", ");
        tw_buf_printf(b, "%d", list[i].rank);
        put++;
    }
    if (all > put)
        tw_buf_printf(b, " and %zu more", all - put);
}

/* How a person reads the numbers: "2", or "2 on rank 0, 3 on ranks 1 and 2". malloc'ed. */
static char *words_of(const struct twin_rank_threads *list, size_t n)
{
    enum { SHOWN = 8 };
    struct tw_buf b = {0};
    size_t put = 0;
    bool alike = true;
    for (size_t i = 1; i < n; i++)
        alike &= list[i].threads == list[0].threads;
    for (size_t i = 0; i < (alike ? 1 : n); i++) {
        bool said = false;
        for (size_t k = 0; k < i; k++)
            said |= list[k].threads == list[i].threads;
        if (said)
            continue;
        if (put++ == SHOWN) {
            tw_buf_puts(&b, ", ...");
            break;
        }
        tw_buf_printf(&b, "%s%u", put > 1 ? ", " : "", list[i].threads);
        if (!alike)
            put_ranks(&b, list, n, i);
    }
    return tw_buf_steal(&b);
}

bool tw_held_threads_of(const struct twin_run *a, const struct twin_run *b,
                        struct tw_held_threads *out)
{
    struct twin_rank_threads *of_a = NULL, *of_b = NULL;
    size_t na = 0, nb = 0;
    char *mine = variable_of(a, &of_a, &na), *theirs = mine ? variable_of(b, &of_b, &nb) : NULL;
    *out = (struct tw_held_threads){0};
    if (mine && theirs && na == nb && strcmp(mine, theirs) != 0) {
        out->of_a = words_of(of_a, na);
        out->of_b = words_of(of_b, nb);
        out->words = tw_printf("%s; B's own: %s", out->of_a ? out->of_a : "?",
                               out->of_b ? out->of_b : "?");
        if (out->of_a && out->of_b && out->words) {
            out->variable = mine;
            mine = NULL;
        } else {
            tw_held_threads_free(out);
        }
    }
    tw_free(mine);
    tw_free(theirs);
    tw_free(of_a);
    tw_free(of_b);
    return out->variable != NULL;
}

bool tw_held_threads_kept(const struct tw_held_threads *h, const struct twin_run *held)
{
    struct twin_rank_threads *list = NULL;
    size_t n = 0;
    char *found = variable_of(held, &list, &n);
    const bool kept = found && strcmp(found, h->variable) == 0;
    tw_free(found);
    tw_free(list);
    return kept;
}

void tw_held_threads_free(struct tw_held_threads *h)
{
    tw_free(h->variable);
    tw_free(h->of_a);
    tw_free(h->of_b);
    tw_free(h->words);
    *h = (struct tw_held_threads){0};
}
