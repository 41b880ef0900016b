/* SPDX-License-Identifier: Apache-2.0 */
/* A run that goes on, in words and as JSON. */
#include "watch_inside.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"

#include <stdio.h>
#include <string.h>

/* So many ranks are named in a sentence. */
enum { RANKS_NAMED = 4 };

static uint64_t most_steps(const struct tw_flight *f)
{
    uint64_t most = 0;
    for (size_t i = 0; i < f->ranks.count; i++)
        if (f->ranks.rank[i].steps > most)
            most = f->ranks.rank[i].steps;
    return most;
}

bool tw_flight_lags(const struct tw_flight *f, const struct twin_progress_rank *r)
{
    return most_steps(f) - r->steps >= TW_FLIGHT_LAG;
}

static size_t lagging(const struct tw_flight *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->ranks.count; i++)
        n += tw_flight_lags(f, &f->ranks.rank[i]);
    return n;
}

size_t tw_flight_unarmed(const struct tw_flight *f)
{
    const struct twin_progress_ranks *r = &f->ranks;
    return !r->full && r->expected > r->count ? r->expected - r->count : 0;
}

bool tw_flight_is_unarmed(const struct tw_flight *f, int32_t rank)
{
    const struct twin_progress_ranks *r = &f->ranks;
    /* The launcher tells how many ranks are here, not which: those of a machine begin at 0 where
     * none of them has a larger number. */
    if (tw_flight_unarmed(f) == 0 || (uint32_t)rank >= r->expected)
        return false;
    for (size_t i = 0; i < r->count; i++)
        if (r->rank[i].rank == rank || r->rank[i].rank < 0 ||
            (uint32_t)r->rank[i].rank >= r->expected)
            return false;
    return true;
}

/* "ranks 0 and 1", "ranks 2, 3, 5, 6 and 12 more": those for which `is` says so. */
static void name_ranks(struct tw_buf *b, const struct tw_flight *f, bool lag, size_t n)
{
    size_t named = 0;
    tw_buf_puts(b, n == 1 ? "rank" : "ranks");
    const size_t of = lag ? f->ranks.count : f->ranks.expected;
    for (size_t i = 0; i < of && named < n && named < RANKS_NAMED; i++) {
        const struct twin_progress_rank *r = &f->ranks.rank[lag ? i : 0];
        if (lag ? !tw_flight_lags(f, r) : !tw_flight_is_unarmed(f, (int32_t)i))
            continue;
        named++;
        const char *before = " ";
        if (named > 1)
            before = named == n ? " and " : ", ";
        tw_buf_printf(b, "%s%d", before, lag ? (int)r->rank : (int)i);
    }
    if (named && n > named)
        tw_buf_printf(b, " and %zu more", n - named);
}

/* Those that nothing is known of. */
static void say_unarmed(struct tw_buf *b, const struct tw_flight *f)
{
    const size_t n = tw_flight_unarmed(f);
    bool named = false;
    for (uint32_t i = 0; i < f->ranks.expected && !named; i++)
        named = tw_flight_is_unarmed(f, (int32_t)i);
    if (b->len)
        tw_buf_puts(b, "; ");
    if (named)
        name_ranks(b, f, false, n);
    else
        tw_buf_printf(b, "%zu of %u ranks of this machine", n, f->ranks.expected);
    tw_buf_printf(b, " %s not been armed, or %s recorded nothing", n == 1 ? "has" : "have",
                  n == 1 ? "has" : "have");
}

char *tw_flight_ranks_words(const struct tw_flight *f, bool figures)
{
    struct tw_buf b = {0};
    char step[32], of[32];
    const size_t behind = lagging(f), n = f->ranks.count;
    const uint64_t most = most_steps(f);
    if (n == 0) {
        tw_buf_puts(&b, f->run->agents ? "nothing has been recorded" : "not watched");
    } else if (behind) {
        name_ranks(&b, f, true, behind);
        tw_buf_puts(&b, behind == 1 ? " is behind" : " are behind");
        if (figures)
            tw_buf_printf(&b, " (%s of %s steps)", tw_human_count(f->ranks.step, step),
                          tw_human_count(most, of));
    } else if (n == 1) {
        tw_buf_printf(&b, "rank %d alone", f->ranks.rank[0].rank);
    } else {
        tw_buf_printf(&b, "%zu ranks in step", n);
    }
    if (tw_flight_unarmed(f))
        say_unarmed(&b, f);
    if (f->ranks.full)
        tw_buf_printf(&b, "; more processes than the %d that can be told", TWIN_PROGRESS_RANKS);
    return tw_buf_steal(&b);
}

char *tw_flight_reference_words(const struct tw_flight *f)
{
    struct tw_buf b = {0};
    const char *name = tw_text_or(f->reference_name, "?");
    switch (f->reference) {
    case TW_FLIGHT_ALONE:
        tw_buf_puts(&b, "no reference: nothing is compared with it while it goes on");
        break;
    case TW_FLIGHT_NOT_YET: tw_buf_print_safe(&b, "no divergence from %s seen so far", name); break;
    case TW_FLIGHT_DIVERGED:
        tw_buf_print_safe(&b, "diverged from %s at step %u", name, f->diverged_step);
        break;
    case TW_FLIGHT_NOT_READ: tw_buf_print_safe(&b, "could not be compared with %s", name); break;
    }
    return tw_buf_steal(&b);
}

bool tw_flight_alarms(const struct tw_flight *f)
{
    return f->reference == TW_FLIGHT_DIVERGED || f->parity_differs ||
           (f->running && (lagging(f) || tw_flight_unarmed(f)));
}

/* The first rank that is behind. */
static int first_behind(const struct tw_flight *f)
{
    size_t i = 0;
    while (i < f->ranks.count && !tw_flight_lags(f, &f->ranks.rank[i]))
        i++;
    return i < f->ranks.count ? (int)f->ranks.rank[i].rank : -1;
}

const char *tw_flight_note(const struct tw_flight *f, char text[64])
{
    const size_t behind = lagging(f), unarmed = tw_flight_unarmed(f);
    if (f->reference == TW_FLIGHT_DIVERGED)
        snprintf(text, 64, "%s%sDIVERGED at %u", f->running ? "" : f->state, f->running ? "" : ", ",
                 f->diverged_step);
    else if (!f->running)
        return f->state;
    else if (f->parity_differs)
        return "ranks differ";
    else if (unarmed)
        snprintf(text, 64, "%zu not armed", unarmed);
    else if (behind == 1)
        snprintf(text, 64, "rank %d behind", first_behind(f));
    else if (behind)
        snprintf(text, 64, "%zu ranks behind", behind);
    else if (f->reference == TW_FLIGHT_NOT_YET)
        return "none so far";
    else if (f->reference == TW_FLIGHT_NOT_READ)
        return "not comparable";
    else
        return "no reference";
    return text;
}

char *tw_flight_short_name(const struct tw_flight *f, size_t room)
{
    enum { ID_SHOWN = 8 };
    const char *label = *f->run->label ? f->run->label : "run";
    size_t n = strlen(label);
    if (!tw_is_hex(f->run->id, 32))
        return tw_strdup(tw_base_name(f->dir));
    if (n + 1 + ID_SHOWN > room)
        n = room > 1 + ID_SHOWN ? room - 1 - ID_SHOWN : 0;
    while (n && ((unsigned char)label[n] & 0xC0) == 0x80)
        n--; /* never within a character */
    return tw_printf("%.*s%s%.8s", (int)n, label, n ? "-" : "", f->run->id);
}

static json_t *ranks_json(const struct tw_flight *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->ranks.count; i++) {
        const struct twin_progress_rank *r = &f->ranks.rank[i];
        json_array_append_new(list, json_pack("{s:i, s:o, s:o, s:o, s:b, s:b}", "rank",
                                              (int)r->rank, "steps", tw_json_count(r->steps),
                                              "records", tw_json_count(r->records), "dropped",
                                              tw_json_count(r->dropped), "recording", r->recording,
                                              "behind", tw_flight_lags(f, r)));
    }
    return list;
}

static json_t *unarmed_json(const struct tw_flight *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->ranks.expected && i < TWIN_PROGRESS_RANKS; i++)
        if (tw_flight_is_unarmed(f, (int32_t)i))
            json_array_append_new(list, json_integer(i));
    return json_pack("{s:I, s:o}", "count", (json_int_t)tw_flight_unarmed(f), "ranks", list);
}

static json_t *reference_json(const struct tw_flight *f)
{
    if (f->reference == TW_FLIGHT_ALONE)
        return json_null();
    return json_pack("{s:o, s:b, s:o}", "run", tw_json_text(f->reference_name), "compared",
                     f->reference != TW_FLIGHT_NOT_READ, "diverged_step",
                     f->reference == TW_FLIGHT_DIVERGED ? json_integer(f->diverged_step)
                                                        : json_null());
}

json_t *tw_flight_json(const struct tw_flight *f)
{
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:f, s:o, s:o, s:o}", "name",
                          tw_json_text(tw_base_name(f->dir)), "id", tw_json_text(f->run->id), "dir",
                          tw_json_text(f->dir), "label", tw_json_text(f->run->label), "argv",
                          tw_json_texts(f->run->argv, f->run->argc), "state", f->state, "running",
                          f->running, "elapsed_s", f->elapsed_s, "step",
                          tw_json_count(f->ranks.step), "steps_per_s", tw_json_number(f->rate),
                          "records", tw_json_count(f->ranks.records));
    json_t *more = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu",
                             tw_json_number(f->now.cpu), "rss_bytes", tw_json_number(f->now.rss),
                             "told_s_ago", tw_json_number(f->now.age_s), "ranks", ranks_json(f),
                             "ranks_expected",
                             f->ranks.expected ? json_integer(f->ranks.expected) : json_null(),
                             "not_armed", unarmed_json(f), "parity",
                             f->parity_known ? json_pack("{s:b, s:o}", "differs", f->parity_differs,
                                                         "words", tw_json_text(f->parity))
                                             : json_null(),
                             "reference", reference_json(f));
    if (!o || !more || json_object_update(o, more) != 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(more);
    return o;
}
