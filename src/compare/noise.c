/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printed lines: what differs between equal runs (times, durations, speeds, pids, addresses, temporary paths, memory use)
 * is masked, so that what is left means something. A number is noise only when its neighbourhood says so: a date's or
 * clock's shape, a unit behind it, a telling word before it. A loss or an accuracy is none of these.
 */
#include "internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MASK '~'
#define KEY_WORDS 3 /* how many words before a number may name it */

static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

static bool in_list(const char *word, size_t n, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == n && strncasecmp(word, *list, n) == 0)
            return true;
    return false;
}

static const char *const time_words[] = {
    "time", "times", "elapsed", "duration", "took", "eta", "wall", "walltime", "runtime", "latency", "seconds", "second", "secs", "sec",
    "ms", "throughput", "speed", "version", "num", "timestamp", "date", "started", "finished", "pid", "ppid", "tid", "port", "memory", "mem",
    "rss", "vram", "uptime", "overhead", "fps", "qps", "persecond", "cputime", "remaining", NULL};
static const char *const units[] = {
    "s", "sec", "secs", "second", "seconds", "ms", "msec", "us", "usec", "ns", "min", "mins", "minute", "minutes", "h", "hr", "hrs",
    "hour", "hours", "days", "day", "fps", "hz", "khz", "mhz", "ghz", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "gflops",
    "tflops", "mflops", "flops", "milliseconds", "microseconds", NULL};
static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mon",
                                     "tue", "wed", "thu", "fri", "sat", "sun", NULL};

/* ---- shapes that need no neighbourhood. Each returns how many bytes it covers, 0 when it does not match. */

static size_t digits(const char *p)
{
    size_t n = 0;
    while (isdigit((unsigned char)p[n]))
        n++;
    return n;
}

static size_t hex_digits(const char *p)
{
    size_t n = 0;
    while (isxdigit((unsigned char)p[n]))
        n++;
    return n;
}

/* 0x7f8a1c2d3e40: as long as addresses of programs are here, 47 bits down to 33; others, which may be checksums, when a word
 * before says so: "at 0x5581a0". */
static size_t match_address(const char *line, size_t at)
{
    static const char *const words[] = {"at", "address", "addr", "pointer", "ptr", NULL};
    const char *p = line + at;
    size_t n = p[0] == '0' && (p[1] == 'x' || p[1] == 'X') ? hex_digits(p + 2) : 0, end = at, from;
    while (end > 0 && strchr(" :=(<", line[end - 1]))
        end--;
    for (from = end; from > 0 && is_word(line[from - 1]); from--) {}
    return (n >= 9 && n <= 12) || (n >= 4 && in_list(line + from, end - from, words)) ? 2 + n : 0;
}

static size_t match_uuid(const char *p)
{
    static const size_t part[] = {8, 4, 4, 4, 12};
    size_t at = 0;
    for (int i = 0; i < 5; i++) {
        if (hex_digits(p + at) != part[i] || (i < 4 && p[at + part[i]] != '-'))
            return 0;
        at += part[i] + (i < 4);
    }
    return at;
}

/* 2026-11-21, 2026/11/21, 20261121_083000, 21.11.2026 */
static size_t match_date(const char *p)
{
    size_t n = digits(p);
    if (n == 4 && (p[4] == '-' || p[4] == '/') && digits(p + 5) == 2 && p[7] == p[4] && digits(p + 8) == 2)
        return 10;
    if (n == 2 && p[2] == '.' && digits(p + 3) == 2 && p[5] == '.' && digits(p + 6) == 4)
        return 10;
    if (n == 8 && (strncmp(p, "20", 2) == 0 || strncmp(p, "19", 2) == 0) && (p[8] == '_' || p[8] == '-' || p[8] == 'T') && digits(p + 9) == 6)
        return 15;
    return 0;
}

/* 08:30, 08:30:12, 1:02:03.456, 00:12<00:15, 12:00Z, and glog's 083012.123456 are clocks or durations. */
static size_t match_clock(const char *p)
{
    size_t n = digits(p), at = n;
    if (n == 0 || n > 3 || p[n] != ':' || digits(p + n + 1) != 2 || p[n + 3] == '.')
        return 0;
    while (p[at] == ':' && digits(p + at + 1) == 2)
        at += 3;
    if ((p[at] == '.' || p[at] == ',') && digits(p + at + 1) > 0)
        at += 1 + digits(p + at + 1);
    return at;
}

/* Seconds since 1970, also with decimals, or in ms, us, ns. */
static size_t match_epoch(const char *p, struct tw_noise_span span)
{
    size_t n = digits(p);
    if (n != 10 && n != 13 && n != 16 && n != 19)
        return 0;
    double seconds = 0;
    for (size_t i = 0; i < 10; i++)
        seconds = seconds * 10 + (p[i] - '0');
    if ((seconds < span.from[0] || seconds > span.to[0]) && (seconds < span.from[1] || seconds > span.to[1]))
        return 0;
    return p[n] == '.' && n == 10 ? n + 1 + digits(p + n + 1) : n;
}

struct tw_noise_span tw_noise_span(const struct twin_run *run)
{
    enum { DAY_S = 86400, BEFORE = DAY_S, AFTER = 31 * DAY_S }; /* clocks of other machines and zones; what expires later */
    double after = AFTER + (isfinite(run->wall_s) ? run->wall_s : 0), start = (double)run->start_realtime_ns / 1e9;
    double shown = run->shown_clock_s ? (double)run->shown_clock_s : start;
    if (run->shown_clock_s < 0)
        return (struct tw_noise_span){{start - BEFORE, 1e9}, {start + after, 2e9}}; /* shaken: any of the years 2001 to 2033 */
    return (struct tw_noise_span){{start - BEFORE, shown - BEFORE}, {start + after, shown + after}};
}

/* /tmp/..., /var/folders/..., /dev/shm/...: up to the next blank or quote. */
static size_t match_temporary(const char *p)
{
    static const char *const roots[] = {"/tmp/", "/var/tmp/", "/var/folders/", "/dev/shm/", "/proc/", NULL};
    for (int i = 0; roots[i]; i++)
        if (tw_starts(p, roots[i])) {
            size_t n = strcspn(p, " \t\"'`<>,;()[]{}");
            while (n > 0 && (p[n - 1] == ':' || p[n - 1] == '.')) /* punctuation of the sentence */
                n--;
            return n;
        }
    return 0;
}

/* 127.0.0.1:29500, localhost:29500, [::1]:29500: the port */
static bool follows_host(const char *line, size_t at)
{
    if (at == 0 || line[at - 1] != ':' || at < 2)
        return false;
    size_t end = at - 1, start = end;
    while (start > 0 && (is_word(line[start - 1]) || line[start - 1] == '.' || line[start - 1] == '-'))
        start--;
    size_t dots = 0;
    for (size_t i = start; i < end; i++)
        dots += line[i] == '.';
    return line[end - 1] == ']' || dots >= 2 || (end - start == 9 && strncmp(line + start, "localhost", 9) == 0);
}

/* ---- numbers that their neighbourhood gives away */

static size_t number_length(const char *p)
{
    size_t n = 0;
    if (p[n] == '+' || p[n] == '-')
        n++;
    size_t whole = digits(p + n);
    n += whole;
    while (whole && p[n] == ',' && digits(p + n + 1) == 3) /* 1,234,567 */
        n += 4;
    if (p[n] == '.' && (whole || digits(p + n + 1))) {
        size_t fraction = digits(p + n + 1);
        whole += fraction;
        n += 1 + fraction;
    }
    if (!whole)
        return 0;
    if ((p[n] == 'e' || p[n] == 'E') && digits(p + n + 1 + (p[n + 1] == '+' || p[n + 1] == '-')) > 0)
        n += 1 + (p[n + 1] == '+' || p[n + 1] == '-') + digits(p + n + 1 + (p[n + 1] == '+' || p[n + 1] == '-'));
    return n;
}

/* A unit of time, memory or speed behind the number: "1.2 s", "3.4it/s", "12ms/step", "5 samples/sec", "1h", "1m23s". */
static bool unit_follows(const char *p)
{
    bool blank = *p == ' ';
    p += blank;
    size_t n = 0;
    if ((unsigned char)p[0] == 0xC2 && (unsigned char)p[1] == 0xB5 && p[2] == 's') /* micro sign */
        return true;
    while (isalpha((unsigned char)p[n]))
        n++;
    if (n == 0)
        return false;
    if (p[n] == '/') { /* x/s, x/sec, x/second, s/x, ms/step */
        const char *q = p + n + 1;
        size_t m = 0;
        while (isalpha((unsigned char)q[m]))
            m++;
        static const char *const second[] = {"s", "sec", "second", "min", "minute", "hour", "h", NULL};
        static const char *const time[] = {"s", "sec", "ms", "us", "ns", "min", NULL};
        return in_list(q, m, second) || in_list(p, n, time);
    }
    if (!blank && n == 1 && (p[0] == 'm' || p[0] == 'h' || p[0] == 'd')) /* 1m23s, 2h05m */
        return isdigit((unsigned char)p[1]) || p[0] == 'h';
    if (is_word(p[n]) || !in_list(p, n, units))
        return false;
    const char *q = p + n; /* "max 0.9 min 0.1": here min names the number behind it */
    while (blank && *q && strchr(" :=", *q))
        q++;
    return !blank || q == p + n || !(isdigit((unsigned char)*q) || (*q == '-' && isdigit((unsigned char)q[1])));
}

/* Does one of the words that name the number speak of time, process ids or memory? "train_runtime': 1.2", "took 3". The
 * name is what stands directly before it: a separator or at most two small words in between, never another number. */
static bool telling_word_before(const char *line, size_t at)
{
    static const char *const fillers[] = {"is", "was", "of", "in", "for", "at", "about", "used", "usage", "total", "peak", "max", "avg", NULL};
    for (int word = 0; word < KEY_WORDS; word++) {
        while (at > 0 && !is_word(line[at - 1]) && strchr(" \t:='\"(>[", line[at - 1]))
            at--;
        size_t end = at;
        while (at > 0 && (is_word(line[at - 1]) || line[at - 1] == '-' || line[at - 1] == '/'))
            at--;
        if (at == end || isdigit((unsigned char)line[end - 1]))
            return false;
        bool filler = in_list(line + at, end - at, fillers);
        for (size_t from = at, i = at; i <= end; i++) { /* its parts: samples_per_second, train-time, cpuTime */
            bool edge = i == end || !isalpha((unsigned char)line[i]) ||
                        (i > from && isupper((unsigned char)line[i]) && islower((unsigned char)line[i - 1]));
            if (!edge)
                continue;
            if (in_list(line + from, i - from, time_words))
                return true;
            from = i < end && isalpha((unsigned char)line[i]) ? i : i + 1;
        }
        if (!filler)
            return false;
    }
    return false;
}

static bool weekday_or_month(const char *p, size_t *length)
{
    size_t n = 0;
    while (isalpha((unsigned char)p[n]))
        n++;
    *length = n;
    return n == 3 && in_list(p, n, months) && (p[3] == ' ' || p[3] == ',') && p[4] != '\0' &&
           (isdigit((unsigned char)p[4]) || p[4] == ' ' || isalpha((unsigned char)p[4]));
}

/* "Sat Nov 21 2026": names of days and months count as noise only in front of a day or each other. */
static size_t match_named_date(const char *p)
{
    size_t n, at = 0;
    int names = 0;
    while (names < 2 && weekday_or_month(p + at, &n)) {
        at += n;
        while (p[at] == ' ' || p[at] == ',')
            at++;
        names++;
    }
    size_t day = digits(p + at);
    if (names == 0 || day == 0 || day > 2)
        return 0;
    at += day;
    return p[at] == ' ' && digits(p + at + 1) == 4 ? at + 5 : at;
}

static size_t noise_at(const char *line, size_t at, struct tw_noise_span span)
{
    const char *p = line + at;
    bool fresh = at == 0 || !is_word(line[at - 1]);
    size_t n;
    if (*p == '/' && (n = match_temporary(p)))
        return n;
    if (fresh && ((n = match_address(line, at)) || (n = match_uuid(p)) || (n = match_date(p)) || (n = match_named_date(p))))
        return n;
    if (isdigit((unsigned char)*p) && (at == 0 || (!isdigit((unsigned char)line[at - 1]) && line[at - 1] != '.')) &&
        ((n = match_clock(p)) || (n = match_epoch(p, span))))
        return n;
    return 0;
}

/* "2026-11-21 10:00:00 [4711] ...": a bare number in brackets behind nothing but a time stamp is the pid of a log line. */
static bool stamped_pid(const struct tw_buf *masked, const char *line, size_t at, size_t number)
{
    bool stamp = false;
    if (at == 0 || line[at - 1] != '[' || line[at + number] != ']')
        return false;
    for (size_t i = 0; i < masked->len; i++) {
        if (is_word(masked->data[i]))
            return false;
        stamp |= masked->data[i] == MASK;
    }
    return stamp;
}

char *tw_noise_mask(const char *line, size_t length, struct tw_noise_span span)
{
    char *copy = tw_strndup(line, length);
    struct tw_buf out = {0};
    for (size_t at = 0; copy && copy[at];) {
        size_t n = noise_at(copy, at, span);
        bool fresh = at == 0 || !is_word(copy[at - 1]) || isdigit((unsigned char)copy[at]) != isdigit((unsigned char)copy[at - 1]);
        size_t number = n || !fresh || (at && copy[at - 1] == '.' ) ? 0 : number_length(copy + at);
        if (number && (unit_follows(copy + at + number) || telling_word_before(copy, at) || follows_host(copy, at) ||
                       stamped_pid(&out, copy, at, number)))
            n = number;
        if (n) {
            tw_buf_append(&out, (char[]){MASK}, 1);
            while (out.len > 1 && out.data && out.data[out.len - 1] == MASK && out.data[out.len - 2] == MASK)
                out.data[--out.len] = '\0';
            at += n;
        } else {
            n = number ? number : 1;
            tw_buf_append(&out, copy + at, n);
            at += n;
        }
    }
    if (copy && out.len == 0)
        tw_buf_puts(&out, "");
    tw_free(copy);
    return tw_buf_steal(&out);
}

/* nan, inf and -inf, as C, Python and NumPy print them. */
static size_t not_finite(const char *p)
{
    static const char *const words[] = {"nan", "inf", "infinity", NULL};
    size_t sign = *p == '-' || *p == '+', n = 0;
    while (isalpha((unsigned char)p[sign + n]))
        n++;
    return n && !is_word(p[sign + n]) && in_list(p + sign, n, words) ? sign + n : 0;
}

/* The next number of a masked line at or after *at that stands on its own; 0 when there is none. */
static size_t next_number(const char *s, size_t *at)
{
    for (; s[*at]; (*at)++) {
        size_t n = *at && is_word(s[*at - 1]) ? 0 : number_length(s + *at);
        if (n == 0 && (*at == 0 || !is_word(s[*at - 1])))
            n = not_finite(s + *at);
        if (n)
            return n;
    }
    return 0;
}

char *tw_noise_skeleton(const char *masked)
{
    struct tw_buf out = {0};
    size_t from = 0, at = 0, n;
    while ((n = next_number(masked, &at))) {
        tw_buf_append(&out, masked + from, at - from);
        tw_buf_puts(&out, "#");
        from = at += n;
    }
    tw_buf_puts(&out, masked + from);
    return tw_buf_steal(&out);
}

int64_t tw_noise_step(const char *line)
{
    static const char *const words[] = {"step", "steps", "iter", "iteration", "global_step", "batch", "epoch", NULL};
    for (int w = 0; words[w]; w++)
        for (const char *p = line; (p = strcasestr(p, words[w])); p++) {
            const char *q = p + strlen(words[w]);
            if ((p > line && isalpha((unsigned char)p[-1])) || isalpha((unsigned char)*q))
                continue;
            while (*q && strchr(" :=[#'\"(", *q))
                q++;
            size_t n = digits(q);
            if (n > 0 && n < 10 && q[n] != '.')
                return strtol(q, NULL, 10);
        }
    return -1;
}

bool tw_noise_within(const char *masked_a, const char *masked_b, double rel, double abs)
{
    size_t i = 0, j = 0, n, m;
    while ((n = next_number(masked_a, &i)) && (m = next_number(masked_b, &j))) {
        double x = strtod(masked_a + i, NULL), y = strtod(masked_b + j, NULL);
        if (x != y && !(fabs(x - y) <= abs || fabs(x - y) <= rel * fabs(x)))
            return false;
        i += n;
        j += m;
    }
    char *p = tw_noise_skeleton(masked_a), *q = tw_noise_skeleton(masked_b);
    bool same = p && q && strcmp(p, q) == 0;
    tw_free(p);
    tw_free(q);
    return same;
}
