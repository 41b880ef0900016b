/* SPDX-License-Identifier: Apache-2.0 */
/* The table of `twinrun top` and the view of one run, for narrow terminals and wide ones. */
#include "top_view.h"

#include "phrase.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BOLD "\033[1m"
#define RED "\033[31m"
#define REVERSED "\033[7m"
#define PLAIN "\033[m"

/* Widths of a terminal from which on there is room for more. */
enum { MEDIUM = 60, WIDE = 100 };
/* What a table has at most below its head, and lines around it. */
enum { FRAME_ROWS = 4 };

enum column { RUN, TIME, STEP, RATE, RANKS, CPU, MEMORY, NOTE, COLUMNS };
static const struct {
    const char *title;
    size_t narrow, medium, wide; /* 0: not shown; RUN and NOTE share what is left */
} column[COLUMNS] = {
    {"RUN", 0, 0, 0},   {"TIME", 0, 11, 12}, {"STEP", 8, 9, 10},   {"STEPS/S", 0, 8, 9},
    {"RANKS", 0, 0, 6}, {"CPU", 0, 0, 6},    {"MEMORY", 0, 0, 10}, {"DIVERGENCE", 0, 0, 0},
};

static size_t width_of(enum column c, size_t columns)
{
    if (columns >= WIDE)
        return column[c].wide;
    return columns >= MEDIUM ? column[c].medium : column[c].narrow;
}

/* What every note of a run that goes on fits in; a name of a folder, with a short label. */
enum { NOTE_LEAST = 15, RUN_MOST = 42 };

/* Widths of all columns. */
static void share_out(size_t columns, size_t width[COLUMNS])
{
    size_t taken = 2; /* the mark and the blank between RUN and NOTE */
    for (enum column c = TIME; c < NOTE; c++) {
        width[c] = width_of(c, columns);
        taken += width[c] ? width[c] + 1 : 0;
    }
    const size_t rest = columns > taken + 8 ? columns - taken : 8;
    const size_t note = rest / 3 > NOTE_LEAST ? rest / 3 : NOTE_LEAST;
    width[RUN] = rest > note ? rest - note : 1;
    if (width[RUN] > RUN_MOST)
        width[RUN] = RUN_MOST;
    width[NOTE] = rest > width[RUN] ? rest - width[RUN] : 1;
}

/* The text in so many columns: cut between characters, or filled up with blanks. */
static void put_cell(struct tw_buf *b, const char *text, size_t width, bool right)
{
    char *safe = tw_printable_again(text, strlen(text));
    const char *s = safe ? safe : "?";
    size_t bytes = 0, shown = 0;
    while (s[bytes]) {
        const bool begins = ((unsigned char)s[bytes] & 0xC0) != 0x80;
        if (begins && shown == width)
            break;
        shown += begins;
        bytes++;
    }
    for (size_t i = shown; right && i < width; i++)
        tw_buf_puts(b, " ");
    tw_buf_append(b, s, bytes);
    for (size_t i = shown; !right && i < width; i++)
        tw_buf_puts(b, " ");
    tw_free(safe);
}

static void put_number(double v, const char *format, char out[32])
{
    const double value = v;
    if (isnan(v))
        snprintf(out, 32, "-");
    else if (strcmp(format, "bytes") == 0)
        tw_human_bytes((uint64_t)value, out);
    else
        snprintf(out, 32, "%.*f", v < 10 ? 2 : 1, v);
}

/* A row of the table; text has what each column says. */
static void put_row(struct tw_buf *b, const char *mark, const char *const text[COLUMNS],
                    const size_t width[COLUMNS])
{
    tw_buf_puts(b, mark);
    for (enum column c = RUN; c < COLUMNS; c++) {
        if (width[c] == 0)
            continue;
        if (c != RUN)
            tw_buf_puts(b, " ");
        put_cell(b, text[c], width[c], c != RUN && c != NOTE);
    }
    while (b->len && !b->failed && b->data[b->len - 1] == ' ')
        b->data[--b->len] = '\0';
}

static void put_run(struct tw_buf *b, const struct tw_flight *f, bool chosen,
                    const size_t width[COLUMNS], const struct tw_top_look *look)
{
    char time[32], step[32], rate[32], ranks[32], cpu[32], memory[32], note[64];
    const char *name = tw_base_name(f->dir);
    char *brief = strlen(name) > width[RUN] ? tw_flight_short_name(f, width[RUN]) : NULL;
    tw_human_seconds(f->elapsed_s, time);
    tw_human_count(f->ranks.step, step);
    put_number(f->running ? f->rate : NAN, "", rate);
    snprintf(ranks, sizeof ranks, "%zu", f->ranks.count);
    put_number(f->running ? f->now.cpu : NAN, "", cpu);
    put_number(f->running ? f->now.rss : NAN, "bytes", memory);
    const char *const text[COLUMNS] = {brief ? brief : name,   time, step, rate, ranks, cpu, memory,
                                       tw_flight_note(f, note)};
    const bool alarm = tw_flight_alarms(f);
    if (look->coloured && chosen)
        tw_buf_puts(b, REVERSED);
    else if (look->coloured && alarm)
        tw_buf_puts(b, RED);
    put_row(b, chosen ? ">" : " ", text, width);
    if (look->coloured && (chosen || alarm))
        tw_buf_puts(b, PLAIN);
    tw_buf_puts(b, "\n");
    tw_free(brief);
}

/* A line that is cut at the width of the terminal. */
static void put_line(struct tw_buf *b, const struct tw_top_look *look, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_line(struct tw_buf *b, const struct tw_top_look *look, const char *format, ...)
{
    struct tw_buf line = {0};
    va_list ap;
    va_start(ap, format);
    tw_buf_puts(&line, "");
    tw_buf_vprint_safe(&line, format, ap);
    va_end(ap);
    const char *text = line.failed ? "out of memory" : line.data;
    const size_t n = strlen(text);
    put_cell(b, text, n < look->columns ? n : look->columns, false);
    tw_buf_puts(b, "\n");
    tw_buf_free(&line);
}

void tw_top_table(struct tw_buf *b, const struct tw_watch *w, const char *home, size_t chosen,
                  const struct tw_top_look *look)
{
    size_t width[COLUMNS], n = tw_watch_count(w), first = 0, room = n;
    const char *titles[COLUMNS];
    const size_t running = tw_watch_running(w), unreadable = tw_watch_unreadable(w);
    share_out(look->columns, width);
    if (look->rows)
        room = look->rows > FRAME_ROWS + 1 ? look->rows - FRAME_ROWS : 1;
    if (chosen >= room)
        first = chosen - room + 1;
    put_line(b, look, "twinrun top: %zu run%s in flight, %zu ended; %s", running,
             tw_plural_s(running), n - running, home);
    if (unreadable)
        put_line(b, look, "%zu run folder%s cannot be read", unreadable, tw_plural_s(unreadable));
    else if (look->rows)
        tw_buf_puts(b, "\n");
    for (enum column c = RUN; c < COLUMNS; c++)
        titles[c] = column[c].title;
    if (look->coloured)
        tw_buf_puts(b, BOLD);
    put_row(b, " ", titles, width);
    tw_buf_puts(b, look->coloured ? PLAIN "\n" : "\n");
    for (size_t i = first; i < n && i < first + room; i++)
        put_run(b, tw_watch_at(w, i), look->chooses && i == chosen, width, look);
    if (n == 0)
        put_line(b, look, " no run goes on in this home");
    if (look->chooses)
        put_line(b, look, "q quit  up, down choose  enter details");
}

/* ---- one run */

/* A sentence, broken at blanks where it is too long; what follows is set in. */
static void put_wrapped(struct tw_buf *b, const char *title, const char *text,
                        const struct tw_top_look *look)
{
    const size_t indent = 12, room = look->columns > indent + 10 ? look->columns - indent : 10;
    char *safe = tw_printable_again(text, strlen(text));
    const char *s = safe ? safe : "out of memory";
    put_cell(b, title, indent, false);
    for (;;) {
        size_t n = strlen(s), cut = n;
        if (n > room) {
            for (cut = room; cut > 0 && s[cut] != ' ';)
                cut--;
            for (cut = cut ? cut : room; ((unsigned char)s[cut] & 0xC0) == 0x80;)
                cut--; /* never within a character */
        }
        tw_buf_append(b, s, cut);
        tw_buf_puts(b, "\n");
        s += cut + (s[cut] == ' ');
        if (!*s)
            break;
        put_cell(b, "", indent, false);
    }
    tw_free(safe);
}

static void put_ranks(struct tw_buf *b, const struct tw_flight *f, const struct tw_top_look *look)
{
    char steps[32], records[32];
    put_line(b, look, "%5s %10s %12s  %s", "RANK", "STEPS", "RECORDS", "STATE");
    for (size_t i = 0; i < f->ranks.count; i++) {
        const struct twin_progress_rank *r = &f->ranks.rank[i];
        const char *state = r->recording ? "recording" : "closed";
        if (tw_flight_lags(f, r))
            state = "behind";
        put_line(b, look, "%5d %10s %12s  %s%s", (int)r->rank, tw_human_count(r->steps, steps),
                 tw_human_count(r->records, records), state,
                 r->dropped ? ", records were dropped" : "");
    }
    for (uint32_t i = 0; i < f->ranks.expected && i < TWIN_PROGRESS_RANKS; i++)
        if (tw_flight_is_unarmed(f, (int32_t)i))
            put_line(b, look, "%5u %10s %12s  %s", i, "-", "-", "not armed");
}

static const char *parity_words(const struct tw_flight *f)
{
    if (f->parity)
        return f->parity;
    if (!f->parity_known)
        return "the ranks were not compared yet";
    return f->ranks.count > 1 ? "the ranks began alike" : "there are no ranks to compare";
}

void tw_top_details(struct tw_buf *b, const struct tw_flight *f, const struct tw_top_look *look)
{
    char time[32], step[32], rate[32], cpu[32], memory[32], told[32];
    char *command = tw_shell_quote(f->run->argv, f->run->argc);
    char *ranks = tw_flight_ranks_words(f, true), *reference = tw_flight_reference_words(f);
    struct tw_buf state = {0}, cost = {0};
    put_number(f->rate, "", rate);
    put_number(f->now.cpu, "", cpu);
    put_number(f->now.rss, "bytes", memory);
    tw_buf_print_safe(&state, "%s, %s, step %s, %s steps a second", f->state,
                      tw_human_seconds(f->elapsed_s, time), tw_human_count(f->ranks.step, step),
                      rate);
    if (f->now.processes == 0)
        tw_buf_puts(&cost, "no telemetry");
    else
        tw_buf_printf(&cost, "%s processors, %s of memory in %zu process%s%s%s%s", cpu, memory,
                      f->now.processes, f->now.processes == 1 ? "" : "es",
                      isnan(f->now.age_s) ? "" : ", told ",
                      isnan(f->now.age_s) ? "" : tw_human_seconds(f->now.age_s, told),
                      isnan(f->now.age_s) ? "" : " ago");
    put_wrapped(b, "run", tw_base_name(f->dir), look);
    put_wrapped(b, "command", tw_text_or(command, "out of memory"), look);
    put_wrapped(b, "state", state.failed ? "out of memory" : state.data, look);
    put_wrapped(b, "cost", cost.failed ? "out of memory" : cost.data, look);
    put_wrapped(b, "divergence", tw_text_or(reference, "out of memory"), look);
    put_wrapped(b, "worlds", parity_words(f), look);
    put_wrapped(b, "ranks", tw_text_or(ranks, "out of memory"), look);
    put_ranks(b, f, look);
    if (look->chooses)
        put_line(b, look, "q quit  escape back");
    tw_buf_free(&state);
    tw_buf_free(&cost);
    tw_free(reference);
    tw_free(ranks);
    tw_free(command);
}

char *tw_top_line(const struct tw_flight *f, bool figures)
{
    char step[32];
    char *ranks = tw_flight_ranks_words(f, figures), *reference = tw_flight_reference_words(f);
    struct tw_buf b = {0};
    tw_buf_print_safe(&b, "%s  %s", tw_base_name(f->dir), f->state);
    if (figures)
        tw_buf_printf(&b, ", step %s", tw_human_count(f->ranks.step, step));
    tw_buf_print_safe(&b, "; %s; %s", tw_text_or(ranks, "out of memory"),
                      tw_text_or(reference, "out of memory"));
    if (f->parity)
        tw_buf_print_safe(&b, "; %s", f->parity);
    tw_free(reference);
    tw_free(ranks);
    return tw_buf_steal(&b);
}
