/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of speeds. A number is a time, a rate or an amount of memory when its unit says so,
 * directly behind it ("0.12s", "1300 it/s", "393 (z/s)") or in its label ("tok/s 51.2", "elapsed
 * time per iteration (ms): 12"), or when the head of its label is a word for one
 * ("train_runtime: 1.2", "Time 0.45 ( 1.2)"). The head is what counts: the head of "time_loss" is a
 * loss, and "num_correct" counts something. A word inside another word is no word.
 */
#include "grammar.h"
#include "printed.h"

#include <ctype.h>
#include <string.h>

/* Words before a number that can name it. */
enum { LABEL_WORDS = 6 };

/* Part of a word, as programs spell names. */
static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

/* Units below the line of a rate ("it/s"), and units of a time. */
static const char *const seconds[] = {"s",      "sec", "secs", "second", "seconds", "min",
                                      "minute", "h",   "hr",   "hour",   "ms",      NULL};
static const char *const times[] = {
    "s",     "sec",         "secs",         "second", "seconds", "ms",           "msec",
    "msecs", "millisecond", "milliseconds", "us",     "usec",    "microseconds", "ns",
    "nsec",  "nanoseconds", "min",          "mins",   "minute",  "minutes",      "h",
    "hr",    "hrs",         "hour",         "hours",  NULL};
/* Behind a blank these are other words: "0.91 min over 3 seeds", "0.3 second moment". */
static const char *const short_units[] = {"min",  "h",           "second", "minute",
                                          "hour", "millisecond", NULL};
/* Amounts of memory, and operations per second. */
static const char *const sizes[] = {"kb",  "mb",  "gb",  "tb",    "kib",
                                    "mib", "gib", "tib", "bytes", NULL};
static const char *const operations[] = {"flops", "mflops", "gflops", "tflops", "pflops", "mflop",
                                         "gflop", "tflop",  "fps",    "qps",    NULL};
/* Of a simulated motion or flow: "3.2 m/s", "12 J/s". */
static const char *const lengths[] = {"m", "km", "cm", "mm", "rad", "deg", "kg", "g",
                                      "n", "l",  "ml", "j",  "kj",  "mol", NULL};

/*
 * Simulated time per day of the machine, as molecular dynamics counts its speed: "3500.1 tau/day".
 */
static bool is_simulated_per_day(const char *unit, size_t n, const char *below, size_t m)
{
    static const char *const simulated[] = {"tau", "fs", "ps", NULL}, *const day[] = {"day", NULL};
    return tw_word_in(unit, n, simulated) && tw_word_in(below, m, day);
}

/* ---- units */

/* What the unit of a number says that it is. */
enum unit { UNIT_NONE, UNIT_TIME, UNIT_RATE, UNIT_SIZE, UNIT_PERCENT };

/* How many letters p begins with. */
static size_t letters(const char *p)
{
    size_t n = 0;
    while (isalpha((unsigned char)p[n]))
        n++;
    return n;
}

/* Reads the unit that begins at p: "s", "it/s", "TFLOP/s/GPU", "us/z/c" and "ms/step". *length: of
 * what stands there. UNIT_NONE: no unit, or one that says nothing of the machine ("m/s" is a speed
 * in the model). */
static enum unit read_unit(const char *p, size_t *length)
{
    /* the micro sign, or the Greek letter */
    bool micro = (unsigned char)p[0] == 0xC2 && (unsigned char)p[1] == 0xB5;
    micro |= (unsigned char)p[0] == 0xCE && (unsigned char)p[1] == 0xBC;
    size_t skip = micro ? 2 : 0, n = letters(p + skip), first = n, at = skip + n;
    bool time = (micro && n == 1 && p[2] == 's') || (!micro && tw_word_in(p, n, times));
    bool rate = false;
    *length = at;
    if (n == 0 && p[0] == '/') { /* "1300/s" */
        size_t m = letters(p + 1);
        *length = 1 + m;
        return tw_word_in(p + 1, m, seconds) && !is_word(p[1 + m]) ? UNIT_RATE : UNIT_NONE;
    }
    if (n == 0)
        return UNIT_NONE;
    for (size_t part = 1; p[at] == '/' && letters(p + at + 1) > 0; part++) {
        size_t m = letters(p + at + 1);
        rate |= tw_word_in(p + at + 1, m, seconds) &&
                !(part == 1 && tw_word_in(p + skip, first, lengths));
        rate |= part == 1 && time;
        rate |= part == 1 && is_simulated_per_day(p, first, p + at + 1, m);
        at += 1 + m;
    }
    *length = at;
    if (is_word(p[at]))
        return UNIT_NONE;
    if (rate)
        return UNIT_RATE;
    if (at > skip + first)
        return UNIT_NONE;
    if (time)
        return UNIT_TIME;
    if (tw_word_in(p, n, operations))
        return UNIT_RATE;
    return tw_word_in(p, n, sizes) || (n == 1 && p[0] == 'B') ? UNIT_SIZE : UNIT_NONE;
}

/* "max 0.9 min 0.1", "0.3 s = 3": the word behind the number names the next one. */
static bool names_the_next(const char *p)
{
    p += strspn(p, " ");
    if (*p == '=' || *p == ':')
        return true;
    return isdigit((unsigned char)*p) || ((*p == '-' || *p == '.') && isdigit((unsigned char)p[1]));
}

/* Of "1m23s" and "2h05m" the whole. */
static size_t match_parts_of_time(const char *p)
{
    size_t at = 0, parts = 0;
    while (isdigit((unsigned char)p[at])) {
        size_t from = at;
        while (isdigit((unsigned char)p[at]) || (p[at] == '.' && isdigit((unsigned char)p[at + 1])))
            at++;
        size_t n = letters(p + at);
        if (at == from || !((n == 1 && strchr("dhms", p[at])) || (n == 2 && p[at + 1] == 's')))
            return 0;
        at += n;
        parts++;
        if (p[at] == ' ' && isdigit((unsigned char)p[at + 1])) { /* "1m 23s" */
            size_t next = at + 1;
            while (isdigit((unsigned char)p[next]))
                next++;
            if (letters(p + next) == 1 && strchr("ms", p[next]))
                at++;
        }
    }
    return parts > 1 && !is_word(p[at]) ? at : 0;
}

/*
 * The unit of the number that ends before p; *length with the blank and parentheses between them.
 */
static enum unit unit_behind(const char *p, size_t *length)
{
    size_t blank = *p == ' ' || *p == '-', paren = 0, n = 0;
    if (*p == ' ')
        blank = strspn(p, " ");
    if (*p == '%') {
        *length = 1;
        return UNIT_PERCENT;
    }
    if (blank > 3)
        return UNIT_NONE;
    const char *q = p + blank;
    paren = blank > 0 && *q == '(';
    enum unit unit = read_unit(q + paren, &n);
    if (unit == UNIT_NONE || (paren && q[1 + n] != ')'))
        return UNIT_NONE;
    *length = blank + 2 * paren + n;
    if (blank == 0 || paren)
        return unit;
    const char *next = q + n + strspn(q + n, " ");
    if (*next == ':' || *next == '=') /* "lr: 0.01  img/s: 1234": the label of the next number */
        return UNIT_NONE;
    if (unit != UNIT_RATE && (tw_word_in(q, n, short_units) || names_the_next(q + n)))
        return UNIT_NONE;
    return *p == '-' && unit != UNIT_TIME ? UNIT_NONE : unit;
}

/* ---- labels */

/* Adds a word to the label, in small letters. One that is too long is left out. */
static void add_part(struct tw_label *l, const char *word, size_t n)
{
    if (l->count == TW_PARTS_MAX || n == 0 || n >= TW_PART_BYTES)
        return;
    for (size_t i = 0; i < n; i++)
        l->part[l->count][i] = (char)tolower((unsigned char)word[i]);
    l->part[l->count++][n] = '\0';
}

/* The parts of a word from its end: samples_per_second, train-time, cpuTime, tok/s */
static void split_word(struct tw_label *l, const char *word, size_t n)
{
    size_t end = n;
    for (size_t i = n; i-- > 0;) {
        bool letter = isalpha((unsigned char)word[i]);
        bool hump = letter && i > 0 && isupper((unsigned char)word[i]) &&
                    islower((unsigned char)word[i - 1]);
        if (letter && !hump && i > 0)
            continue;
        size_t from = letter ? i : i + 1;
        add_part(l, word + from, end - from);
        end = i;
        if (word[i] == '/' && l->count > 0 && from < n) {
            const char *unit = l->part[l->count - 1];
            size_t left = 0;
            while (left < i && isalpha((unsigned char)word[i - 1 - left]))
                left++;
            l->rate |= tw_word_in(unit, strlen(unit), seconds) &&
                       !tw_word_in(word + i - left, left, lengths);
            l->rate |= left > 0 && tw_word_in(word + i - left, left, times) &&
                       strcmp(unit, "s") != 0;
            l->rate_of = word + i - left;
            l->rate_length = left + 1 + strlen(unit);
        }
    }
}

/* "Time for epoch 3: 12.3": the number of a step belongs to the words before it. Returns where they
 * end. */
static size_t skip_step(const char *line, size_t end)
{
    static const char *const steps[] = {"epoch", "step",  "iter", "iteration", "batch",
                                        "rank",  "round", "fold", NULL};
    size_t from = end;
    while (from > 0 && (isdigit((unsigned char)line[from - 1]) || line[from - 1] == '/'))
        from--;
    if (from == end || from == 0 || line[from - 1] != ' ')
        return end;
    size_t word_end = from - 1, word = word_end;
    while (word > 0 && isalpha((unsigned char)line[word - 1]))
        word--;
    return word > 0 && tw_word_in(line + word, word_end - word, steps)
               ? word - (line[word - 1] == ' ')
               : end;
}

/* Reads the words that name the number line[at], from the nearest to the farthest: of "train loss:
 * " the parts "loss" and "train". Reading ends where something else than a word stands. */
static void read_label(const char *line, size_t at, struct tw_label *l)
{
    size_t end = at;
    *l = (struct tw_label){0};
    while (end > 0 && strchr(" \t:='\"(>~[", line[end - 1]))
        end--;
    if (end > 0 && line[end - 1] == ')') { /* "(ms)", "(wall)" */
        size_t open = end - 1;
        while (open > 0 && line[open - 1] != '(' && line[open - 1] != ')')
            open--;
        if (open == 0 || line[open - 1] != '(')
            return;
        l->unit = line + open;
        l->unit_length = end - 1 - open;
        end = open - 1;
        while (end > 0 && line[end - 1] == ' ')
            end--;
    }
    if (end < at)
        end = skip_step(line, end);
    for (size_t words = 0; words < LABEL_WORDS && end > 0; words++) {
        size_t from = end;
        bool alphabetic = false;
        while (from > 0 &&
               (is_word(line[from - 1]) || (strchr("-/.", line[from - 1]) && from < end)))
            alphabetic |= isalpha((unsigned char)line[--from]) != 0;
        if (from == end || !alphabetic || tw_number_length(line + from) == end - from)
            return;
        if (l->count == 0)
            l->measured = isdigit((unsigned char)line[from]) != 0;
        split_word(l, line + from, end - from);
        end = from;
        if (end == 0 || line[end - 1] != ' ')
            return;
        end -= 1;
        end -= end > 0 && line[end - 1] == ' ';
    }
}

static const char *const time_heads[] = {
    "time",      "times", "elapsed",      "duration",  "durations", "took",    "walltime",
    "wallclock", "wall",  "runtime",      "latency",   "uptime",    "cputime", "seconds",
    "secs",      "sec",   "milliseconds", "timestamp", "ms",        "uptime",  NULL};
static const char *const rate_heads[] = {"throughput", "fps",    "qps",    "wps",    "mfu",
                                         "hfu",        "mflops", "gflops", "tflops", "mflop",
                                         "gflop",      "tflop",  NULL};
static const char *const memory_heads[] = {"memory", "mem", "rss", "vram", "ram", "maxrss", NULL};
static const char *const memory_words[] = {"memory", "mem",       "rss",          "vram",
                                           "ram",    "allocated", "reserved",     "cached",
                                           "gpu",    "heap",      "memallocated", NULL};
static const char *const open_heads[] = {"speed", "dt", "overhead", "load", NULL};

/* "samples per second", "SamplesPerSec", "tokens_per_second_per_gpu" */
static const char *thing_per_second(const struct tw_label *l)
{
    for (size_t i = 1; i + 1 < l->count; i++)
        if (strcmp(l->part[i], "per") == 0 &&
            tw_word_in(l->part[i - 1], strlen(l->part[i - 1]), seconds) &&
            !tw_word_in(l->part[i + 1], strlen(l->part[i + 1]), lengths))
            return l->part[i + 1];
    return NULL;
}

/* "rank=0 time (ms) | optimizer: 0.1 | step: 2.3": a heading for the rest of the line. */
static bool under_heading(const char *line, size_t at)
{
    static const char *const headings[] = {"time (ms) |", "times (ms) |", "time (s) |", NULL};
    for (int i = 0; headings[i]; i++) {
        const char *p = strstr(line, headings[i]);
        if (p && (size_t)(p - line) < at)
            return true;
    }
    return false;
}

/* "    forward-backward ....................: (12.30, 13.41)": how Megatron prints its timers. */
static bool is_timer_row(const char *line, size_t at)
{
    const char *leader = strstr(line, ".....");
    if (!leader || (size_t)(leader - line) > at)
        return false;
    leader += strspn(leader, ".");
    return strncmp(leader, ": (", 3) == 0 &&
           strspn(leader + 3, "0123456789., ") + 3 == strcspn(leader, ")");
}

/* What a number is that has no unit behind it: the unit in its label decides, else the label's
 * head. What no rule knows is a result, so that a difference is never hidden by mistake. */
static enum tw_worth by_label_alone(const char *line, size_t at, const struct tw_label *l)
{
    size_t head = tw_label_head(l);
    const char *word = head < l->count ? l->part[head] : "", *unit = l->unit;
    size_t n = strlen(word), length = 0;
    if (l->count == 0)
        return TW_RESULT;
    if (unit && l->unit_length > 0 && l->unit_length < TW_PART_BYTES) {
        char text[TW_PART_BYTES] = "";
        memcpy(text, unit, l->unit_length);
        enum unit kind = read_unit(text, &length);
        bool whole = length == l->unit_length, ambiguous = tw_word_in(text, length, short_units);
        if (whole && kind == UNIT_RATE)
            return tw_rate_of_run(l, unit, length);
        if (whole && kind == UNIT_TIME && (!ambiguous || tw_word_in(word, n, time_heads)))
            return tw_time_of_run(line, at, l, unit, length);
        if (whole && kind == UNIT_SIZE)
            return tw_label_has(l, memory_words) ? TW_NOISE : TW_RESULT;
    }
    const char *thing = thing_per_second(l);
    if (thing)
        return tw_thing_of_machine(thing, strlen(thing)) ? TW_NOISE : TW_OPEN;
    if (l->rate)
        return tw_rate_of_run(l, l->rate_of, l->rate_length);
    if (tw_word_in(word, n, time_heads))
        return tw_is_simulation(line) ? TW_RESULT : tw_time_of_run(line, at, l, "", 0);
    if (tw_word_in(word, n, rate_heads) || tw_word_in(word, n, memory_heads))
        return TW_NOISE;
    static const char *const devices[] = {"gpu", "cpu", NULL};
    static const char *const uses[] = {"utilization", "util", NULL};
    if (tw_word_in(word, n, uses) && tw_label_has(l, devices))
        return TW_NOISE;
    static const char *const data[] = {"data", NULL};
    /* the meters of a loader: "Time 0.5 (0.6) Data 0.1 (0.3)" */
    if (l->count == 1 && tw_word_in(word, n, data) && tw_line_says(line, "time"))
        return TW_NOISE;
    static const char *const updates[] = {"ups", NULL};
    /* fairseq: words, and updates, per second */
    if (tw_word_in(word, n, updates) && tw_line_says(line, "wps"))
        return TW_NOISE;
    static const char *const shares[] = {"allocated", "reserved", "cached", NULL};
    if (tw_word_in(word, n, shares) && (tw_line_says(line, "memory") || tw_line_says(line, "mem")))
        return TW_NOISE;
    static const char *const port[] = {"port", NULL};
    if (tw_word_in(word, n, port))
        return TW_NOISE;
    return tw_word_in(word, n, open_heads) ? TW_OPEN : TW_RESULT;
}

/* Is the head of the label a word for a time? */
static bool is_time(const struct tw_label *l)
{
    size_t head = tw_label_head(l);
    return head < l->count && tw_word_in(l->part[head], strlen(l->part[head]), time_heads);
}

/* "took 3 iterations", "elapsed: 12 epochs": a whole number of things, whose name stands behind it.
 * In "time 3 loss 0.5" the word behind it names the next number. */
static bool counts_things(const char *p)
{
    if (*p != ' ' || !isalpha((unsigned char)p[1]))
        return false;
    size_t n = letters(p + 1), length;
    bool plural = n > 3 && p[n] == 's' && p[n - 1] != 's'; /* "loss" is none */
    return plural && read_unit(p + 1, &length) == UNIT_NONE && !names_the_next(p + 1 + n);
}

/* A table's cell has its name in the cell before: "| period | 0.5 s |". */
static enum tw_worth with_time_unit(const char *line, size_t at, struct tw_label *label,
                                    const char *unit)
{
    size_t n = letters(unit);
    if (label->count == 0) {
        size_t end = at;
        while (end > 0 && (strchr(" \t|", line[end - 1]) || (unsigned char)line[end - 1] >= 0x80))
            end--;
        if (end > 0)
            read_label(line, end, label);
    }
    return tw_time_of_run(line, at, label, unit, n);
}

/* The unit directly behind the number counts most, then headings of a line, then the label. */
enum tw_worth tw_grammar_worth(const char *line, size_t at, size_t n, size_t *length,
                               bool *by_label)
{
    struct tw_label label;
    size_t unit_length = 0, parts = match_parts_of_time(line + at);
    bool glued = at > 0 && is_word(line[at - 1]);
    *length = n;
    *by_label = false;
    if (glued)
        return TW_RESULT;
    read_label(line, at, &label);
    if (parts > 0) {
        *length = parts;
        return with_time_unit(line, at, &label, "");
    }
    enum unit unit = unit_behind(line + at + n, &unit_length);
    const char *unit_at = line + at + n + strspn(line + at + n, " -(");
    if (unit == UNIT_TIME || unit == UNIT_RATE)
        *length = n + unit_length;
    if (unit == UNIT_TIME)
        return with_time_unit(line, at, &label, unit_at);
    if (unit == UNIT_RATE)
        return tw_rate_of_run(&label, unit_at, (size_t)(line + at + *length - unit_at));
    if (is_time(&label) && strspn(line + at, "0123456789") == n && counts_things(line + at + n))
        return TW_RESULT;
    enum tw_worth worth = under_heading(line, at) || is_timer_row(line, at)
                              ? TW_NOISE
                              : by_label_alone(line, at, &label);
    if (unit == UNIT_SIZE) {
        *length = n + unit_length;
        return worth == TW_NOISE || tw_label_has(&label, memory_words) ? TW_NOISE : TW_RESULT;
    }
    *by_label = worth != TW_RESULT;
    if (*by_label && unit == UNIT_PERCENT)
        *length = n + unit_length;
    return worth;
}

bool tw_grammar_names_result(const char *line, size_t at)
{
    static const char *const results[] = {
        "loss",     "losses",    "acc",    "accuracy", "error", "err",  "errors",     "score",
        "reward",   "return",    "f1",     "auc",      "map",   "ppl",  "perplexity", "bleu",
        "rouge",    "norm",      "grad",   "lr",       "mse",   "mae",  "rmse",       "r2",
        "iou",      "dice",      "psnr",   "ssim",     "fid",   "wer",  "cer",        "energy",
        "residual", "precision", "recall", "nll",      "kl",    "elbo", "correct",    "checksum",
        "hash",     "digest",    NULL};
    struct tw_label label;
    read_label(line, at, &label);
    return tw_label_has(&label, results);
}
