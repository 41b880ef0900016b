/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the forms in which a fact of the run shows in a text: dates and clocks of its time, seconds
 * since 1970, its processes and threads, addresses of programs, temporary names, its own folder.
 * noise.c asks tw_shape_at() at each place of a line or a name; what is found there is noise.
 *
 * A form alone is not enough where the fact is known: a date of another year is no noise. Each
 * match_*() looks at one form and returns how many bytes it covers, 0 for none. `line` and `at` are
 * passed where what stands before the place matters, `p` where it does not; all texts end with a
 * NUL, which ends every search.
 */
#include "internal.h"
#include "printed.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* How many digits p begins with. */
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

/* The value of n digits; no caller passes more than nine. */
static int number_of(const char *p, size_t n)
{
    int value = 0;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (p[i] - '0');
    return value;
}

static bool is_alnum(char ch)
{
    return isalnum((unsigned char)ch) != 0;
}

/*
 * "0x1.cd3b2d914f5d6p-3", as C's %a and Python's float.hex() print every bit of a number. The
 * exponent is asked for, since addresses and checksums begin alike and have none. 0: no such
 * number.
 */
static size_t hex_float_length(const char *p)
{
    if (p[0] != '0' || (p[1] != 'x' && p[1] != 'X') || !isxdigit((unsigned char)p[2]))
        return 0;
    size_t n = 2 + hex_digits(p + 2);
    if (p[n] == '.')
        n += 1 + hex_digits(p + n + 1);
    if (p[n] != 'p' && p[n] != 'P')
        return 0;
    size_t sign = p[n + 1] == '+' || p[n + 1] == '-', exponent = digits(p + n + 1 + sign);
    return exponent > 0 ? n + 1 + sign + exponent : 0;
}

/* Covers a sign, groups of thousands, a fraction and an exponent: "-1,234,567.5e-3", and the
 * hexadecimal form of a float. */
size_t tw_number_length(const char *p)
{
    size_t n = p[0] == '+' || p[0] == '-';
    size_t hexadecimal = hex_float_length(p + n);
    if (hexadecimal > 0)
        return n + hexadecimal;
    size_t whole = digits(p + n);
    n += whole;
    /* 1,234,567 */
    while (whole && whole <= 3 && p[n] == ',' && digits(p + n + 1) == 3 &&
           !isdigit((unsigned char)p[n + 4]))
        n += 4;
    if (p[n] == '.' && (whole || digits(p + n + 1))) {
        size_t fraction = digits(p + n + 1);
        whole += fraction;
        n += 1 + fraction;
    }
    if (!whole)
        return 0;
    /* An 'e' without digits behind it is a letter of the next word. */
    if (p[n] == 'e' || p[n] == 'E') {
        size_t sign = p[n + 1] == '+' || p[n + 1] == '-', exponent = digits(p + n + 1 + sign);
        if (exponent > 0)
            n += 1 + sign + exponent;
    }
    return n;
}

/* ---- time */

/*
 * Reads "08:30", "08:30:12", "1:02:03.456" or the first clock of "00:12<00:15", with `separator`
 * between the fields. Minutes and seconds have two digits and are below 60. *fields says how many
 * fields there are, 2 or 3; two are minutes and seconds. Returns the length, 0 for no clock; the
 * out values are only set then.
 */
static size_t read_clock(const char *p, char separator, int *hour, int *minute, double *second,
                         int *fields)
{
    size_t n = digits(p), at = n;
    int value[3] = {number_of(p, n < 4 ? n : 4), 0, 0};
    if (n == 0 || n > 3)
        return 0;
    for (*fields = 1; *fields < 3 && p[at] == separator && digits(p + at + 1) == 2; (*fields)++) {
        value[*fields] = number_of(p + at + 1, 2);
        if (value[*fields] > 59)
            return 0;
        at += 3;
    }
    if (*fields == 1 || isdigit((unsigned char)p[at]) ||
        (p[at] == separator && isdigit((unsigned char)p[at + 1])))
        return 0;
    *hour = *fields == 3 ? value[0] : 0;
    *minute = *fields == 3 ? value[1] : value[0];
    *second = *fields == 3 ? value[2] : value[1];
    if (*fields == 3 && (p[at] == '.' || p[at] == ',') && digits(p + at + 1) > 0) {
        size_t fraction = digits(p + at + 1);
        at += 1 + fraction;
    }
    return at;
}

/*
 * The length of the time behind a date, its gap and its time zone included: "T08:30:12.123Z", "
 * 08:30", "_083012", "-08-30-12". 0: none. Whether the time fits the run is not asked, since the
 * date did.
 */
static size_t match_time_after(const char *p)
{
    int hour, minute, fields;
    double second;
    size_t gap = p[0] == ' ' && p[1] == ' ' ? 2 : strchr(" T_-", p[0]) != NULL && p[0] != '\0';
    if (gap == 0)
        return 0;
    const char *q = p + gap;
    size_t n = read_clock(q, ':', &hour, &minute, &second, &fields);
    if (n == 0 && p[0] != ' ')
        n = read_clock(q, '-', &hour, &minute, &second, &fields);
    if (n == 0 && (digits(q) == 6 || digits(q) == 4)) {
        n = digits(q);
        bool clock = number_of(q, 2) < 24 && number_of(q + 2, 2) < 60 &&
                     (n == 4 || number_of(q + 4, 2) < 60);
        n = clock && p[0] != ' ' && !is_alnum(q[n]) ? n : 0;
    }
    if (n == 0)
        return 0;
    n += gap;
    if (p[n] == 'Z')
        return n + 1;
    if ((p[n] == '+' || p[n] == '-') && digits(p + n + 1) == 2 && p[n + 3] == ':' &&
        digits(p + n + 4) == 2)
        return n + 6;
    if ((p[n] == '+' || p[n] == '-') && digits(p + n + 1) == 4)
        return n + 5;
    return n;
}

/*
 * The folder of a time of the run in the folder of its day, as Hydra names them: "/08-30-12" or
 * "/083012". The slash is included.
 */
static size_t match_folder_of_time(const char *p, const struct tw_facts *f)
{
    int hour, minute, fields = 0;
    double second;
    if (p[0] != '/')
        return 0;
    size_t n = read_clock(p + 1, '-', &hour, &minute, &second, &fields);
    if (n == 0 && digits(p + 1) == 6) {
        hour = number_of(p + 1, 2);
        minute = number_of(p + 3, 2);
        second = number_of(p + 5, 2);
        fields = 3;
        n = 6;
    }
    bool fits = fields == 3 && tw_facts_has_clock(f, hour, minute, second);
    return fits && !is_alnum(p[1 + n]) ? 1 + n : 0;
}

/*
 * A date of the run, with the time behind it: 2026-11-21, 2026/11/21, 2026_11_21, 20261121,
 * 21.11.2026, 21-11-2026, 11/21/2026. Where day and month may be either, both readings are tried.
 */
static size_t match_date(const char *p, const struct tw_facts *f)
{
    size_t n = digits(p), length = 0;
    bool fits = false;
    if (n == 4 && strchr("-/_.", p[4]) && p[4] && digits(p + 5) == 2 && p[7] == p[4] &&
        digits(p + 8) == 2) {
        fits = tw_facts_has_date(f, number_of(p, 4), number_of(p + 5, 2), number_of(p + 8, 2));
        length = 10;
    } else if (n == 2 && strchr("-/_.", p[2]) && p[2] && digits(p + 3) == 2 && p[5] == p[2] &&
               digits(p + 6) == 4) {
        int x = number_of(p, 2), y = number_of(p + 3, 2), year = number_of(p + 6, 4);
        fits = tw_facts_has_date(f, year, x, y) || tw_facts_has_date(f, year, y, x);
        length = 10;
    } else if (n == 8 || n == 14) {
        fits = tw_facts_has_date(f, number_of(p, 4), number_of(p + 4, 2), number_of(p + 6, 2));
        length = n;
    }
    if (!fits)
        return 0;
    size_t time = length == 14 ? 0 : match_time_after(p + length);
    length += time ? time : match_folder_of_time(p + length, f);
    /* the random part of a run's name: 20261122_120846-1a2b3c4d (wandb) */
    if (p[length] == '-' || p[length] == '_') {
        size_t tail = 0;
        while (isdigit((unsigned char)p[length + 1 + tail]) ||
               islower((unsigned char)p[length + 1 + tail]))
            tail++;
        if (tail == 8 && !is_alnum(p[length + 9]))
            length += 9;
    }
    return length;
}

/* 1 to 12 for a name of a month in English, 0 for none. */
static int month_of(const char *p)
{
    static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    for (int i = 0; i < 12; i++)
        if (strncmp(p, names[i], 3) == 0)
            return i + 1;
    return 0;
}

static bool is_weekday(const char *p)
{
    static const char *const names[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
    for (int i = 0; i < 7; i++)
        if (strncmp(p, names[i], 3) == 0)
            return true;
    return false;
}

/*
 * A date of the run with a named month: "Sat Nov 21 08:20:05 2026", "Nov 21 08:20:05", "Sun, 22 Nov
 * 2026 08:20:05 GMT", "22 Nov 2026", "Nov22_12-51-22". A missing year may be any of the run's.
 */
static size_t match_named_date(const char *p, const struct tw_facts *f)
{
    size_t at = 0;
    if (is_weekday(p) && (p[3] == ' ' || p[3] == ','))
        at = p[3] == ',' ? 5 : 4;
    size_t day_first = digits(p + at);
    int day = 0, month = 0, year = 0;
    if (day_first == 1 || day_first == 2) {
        day = number_of(p + at, day_first);
        month = p[at + day_first] == ' ' || p[at + day_first] == '-'
                    ? month_of(p + at + day_first + 1)
                    : 0;
        at += day_first + 4;
    } else if ((month = month_of(p + at)) != 0) {
        at += 3;
        at += strspn(p + at, " ");
        size_t n = digits(p + at);
        day = n == 1 || n == 2 ? number_of(p + at, n) : 0;
        at += n;
    }
    if (month == 0 || day == 0)
        return 0;
    size_t time = match_time_after(p + at);
    size_t year_at = at + time;
    year_at += p[year_at] == ',';
    if ((p[year_at] == ' ' || p[year_at] == '-') && digits(p + year_at + 1) == 4) {
        year = number_of(p + year_at + 1, 4);
        at = year_at + 5;
        at += time ? 0 : match_time_after(p + at);
    } else {
        at += time;
    }
    return tw_facts_has_date(f, year, month, day) ? at : 0;
}

/*
 * A clock on its own counts where it is a time of the run: of day, or since its start. A remaining
 * time is an estimate, which no fact bounds: it stands behind another clock ("00:01<00:09",
 * "0:00:01 • 0:00:09") or says so ("eta: 0:00:10"). Two fields alone may be a ratio, so they need
 * such a place, or the bracket of a progress bar.
 */
static size_t match_clock(const char *line, size_t at, const struct tw_facts *f)
{
    int hour, minute, fields;
    double second;
    const char *p = line + at;
    size_t n = read_clock(p, ':', &hour, &minute, &second, &fields), end = at;
    if (n == 0 || (at > 0 && (line[at - 1] == '@' || line[at - 1] == ':')))
        return 0;
    /* The word before the clock: "eta: 0:00:10". */
    while (end > 0 && strchr(" :=('\"", line[end - 1]))
        end--;
    size_t from = end;
    while (from > 0 && isalpha((unsigned char)line[from - 1]))
        from--;
    static const char *const names[] = {"eta",      "time", "elapsed", "remaining", "left",
                                        "duration", "took", "runtime", "walltime",  NULL};
    bool named = false, progress = at > 0 && line[at - 1] == '<';
    for (int i = 0; names[i] && !named; i++)
        named = strlen(names[i]) == end - from &&
                strncasecmp(names[i], line + from, end - from) == 0;
    progress |= at > 0 && line[at - 1] == '[' && (p[n] == '<' || p[n] == ',');
    progress |= p[n] == '<' && (isdigit((unsigned char)p[n + 1]) || p[n + 1] == '?');
    progress |= fields == 3 && at > 4 && strncmp(line + at - 4, "\xE2\x80\xA2 ", 4) == 0 &&
                isdigit((unsigned char)line[at - 6]);
    if (named || progress)
        return n;
    return fields == 3 && tw_facts_has_clock(f, hour, minute, second) ? n : 0;
}

/*
 * Seconds since 1970 near the run, also with decimals, or in milliseconds, microseconds or
 * nanoseconds. The number of digits (10, 13, 16, 19) says the unit; the first ten are the seconds.
 */
static size_t match_epoch(const char *p, const struct tw_facts *f)
{
    size_t n = digits(p);
    if (n != 10 && n != 13 && n != 16 && n != 19)
        return 0;
    double seconds = 0;
    for (size_t i = 0; i < 10; i++)
        seconds = seconds * 10 + (p[i] - '0');
    if (!tw_facts_has_second(f, seconds))
        return 0;
    return p[n] == '.' && n == 10 && digits(p + n + 1) ? n + 1 + digits(p + n + 1) : n;
}

/*
 * The head of a line of glog or abseil, "W1122 12:51:22.014000 8017 run.py:874]" or "I0000
 * 00:00:1795352014.805219 16276 port.cc:153]": up to the thread's id when a place in a source
 * follows it, else up to the time.
 */
static size_t match_glog(const char *line, size_t at, const struct tw_facts *f)
{
    const char *p = line + at;
    int hour, minute, fields;
    double second;
    if (!strchr("IWEF", p[0]) || !p[0] || digits(p + 1) != 4 || p[5] != ' ')
        return 0;
    size_t n = 6, clock;
    if (strncmp(p + 1, "0000 00:00:", 11) == 0 && (clock = match_epoch(p + 12, f)) > 0)
        n = 12 + clock;
    else if (tw_facts_has_date(f, 0, number_of(p + 1, 2), number_of(p + 3, 2)) &&
             (clock = read_clock(p + 6, ':', &hour, &minute, &second, &fields)) > 0 && fields == 3)
        n = 6 + clock;
    else
        return 0;
    size_t blanks = strspn(p + n, " "), id = digits(p + n + blanks);
    const char *place = p + n + blanks + id;
    /* "torch/distributed/run.py:874" and "]" */
    size_t word = place[0] == ' ' ? strcspn(place + 1, " ]") : 0;
    if (id > 0 && word > 0 && place[1 + word] == ']')
        n += blanks + id;
    return n;
}

/* ---- places */

/*
 * Does the value lie where this kind of machine maps stacks, libraries and memory, or programs and
 * their heaps?
 */
static bool is_address(unsigned long long value)
{
#if defined(__aarch64__)
    return (value >> 40) == 0xff || (value >> 40) == 0xaa || (value >> 32) == 0xffff;
#else
    return (value >= 0x7e0000000000ULL && value <= 0x7fffffffffffULL) ||
           (value >= 0x550000000000ULL && value <= 0x56ffffffffffULL);
#endif
}

/*
 * "0x7f8a1c2d3e40" where memory is mapped; any hexadecimal number where the text says that it is a
 * place: "object at 0x5581a0". What has a place in memory begins at a multiple of four, which a
 * checksum of 48 bits in the same range does only one time in four.
 */
static size_t match_address(const char *line, size_t at)
{
    static const char *const words[] = {"at", "address", "addr", "pointer", "ptr", NULL};
    const char *p = line + at;
    if (p[0] != '0' || (p[1] != 'x' && p[1] != 'X'))
        return 0;
    size_t n = hex_digits(p + 2), end = at;
    if (n < 4 || n > 16 || is_alnum(p[2 + n]))
        return 0;
    unsigned long long value = strtoull(p, NULL, 16);
    if (n >= 9 && is_address(value) && value % 4 == 0)
        return 2 + n;
    while (end > 0 && strchr(" :=(<", line[end - 1]))
        end--;
    size_t from = end;
    while (from > 0 && (is_alnum(line[from - 1]) || line[from - 1] == '_'))
        from--;
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == end - from && strncasecmp(words[i], line + from, end - from) == 0)
            return 2 + n;
    return 0;
}

/*
 * A UUID of version 1 (time), 4 (random) or 7 (both), which say nothing. Versions 3 and 5 are
 * digests of a content and stay.
 */
static size_t match_uuid(const char *p)
{
    static const size_t part[] = {8, 4, 4, 4, 12};
    size_t at = 0;
    for (int i = 0; i < 5; i++) {
        if (hex_digits(p + at) != part[i] || (i < 4 && p[at + part[i]] != '-'))
            return 0;
        at += part[i] + (i < 4);
    }
    return strchr("147", p[14]) ? at : 0;
}

/*
 * Does the path that holds line[at] begin in a folder for temporary files? The path begins behind
 * the last blank, quote or bracket before it.
 */
static bool in_temporary_folder(const char *line, size_t at)
{
    static const char *const roots[] = {"/tmp/", "/var/tmp/", "/var/folders/", "/dev/shm/", NULL};
    size_t from = at;
    while (from > 0 && !strchr(" \t\"'`<>,;()[]{}=", line[from - 1]))
        from--;
    for (int i = 0; roots[i]; i++)
        if (strncmp(line + from, roots[i], strlen(roots[i])) == 0 ||
            strncmp(line + from, "file:///tmp/", 12) == 0)
            return true;
    return false;
}

/*
 * The random end of a name that mkstemp or Python's tempfile made, below a folder for such names:
 * "/tmp/tmpab12cd_x", "/tmp/job.Xy12Ab". The random part has 6 or 8 characters; without the prefix
 * "tmp" it must hold a digit or a capital letter, since it could be a word.
 */
static size_t match_temporary(const char *line, size_t at)
{
    const char *p = line + at;
    bool first = at > 0 && line[at - 1] == '/';
    bool after = at > 0 && strchr("._-", line[at - 1]) != NULL;
    size_t python = strncmp(p, "tmp", 3) == 0 && first ? 3 : 0, n = 0;
    bool mixed = false;
    if ((!first && !after) || !in_temporary_folder(line, at))
        return 0;
    while (is_alnum(p[python + n]) || (p[python + n] == '_' && (python || n < 8)))
        n++;
    for (size_t i = 0; i < n; i++)
        mixed |= isdigit((unsigned char)p[python + i]) ||
                 (isupper((unsigned char)p[python + i]) && i > 0);
    if (python && (n == 8 || n == 6))
        return python + n;
    return after && (n == 8 || n == 6) && mixed ? n : 0;
}

/*
 * The port behind an address of this machine or of a network: 127.0.0.1:29500, localhost:29500,
 * [::1]:29500, the host's own name, a URL.
 */
static size_t match_port(const char *line, size_t at, const struct tw_facts *f)
{
    size_t n = digits(line + at);
    if (at < 2 || line[at - 1] != ':' || n < 4 || n > 5 || is_alnum(line[at + n]))
        return 0;
    size_t end = at - 1, start = end, dots = 0;
    while (start > 0 && (is_alnum(line[start - 1]) || strchr("_.-", line[start - 1])))
        start--;
    bool numbers = start < end;
    for (size_t i = start; i < end; i++) {
        dots += line[i] == '.';
        numbers &= line[i] == '.' || isdigit((unsigned char)line[i]);
    }
    bool local = end - start == 9 && strncmp(line + start, "localhost", 9) == 0;
    bool own = f->host && strlen(f->host) == end - start &&
               strncmp(line + start, f->host, end - start) == 0;
    bool url = start > 2 && strncmp(line + start - 3, "://", 3) == 0;
    return line[end - 1] == ']' || (numbers && dots == 3) || local || own || url ? n : 0;
}

/* ---- names and ids of the run */

/*
 * The id that Ray gives an actor: "ID: '6d844f9b0b21cce0de71775701000000'". It is drawn at random,
 * but for the number of the job at its end, whose upper bytes are zero.
 */
static size_t match_ray_id(const char *line, size_t at)
{
    enum { ID = 32, UPPER = 6 };
    const char *p = line + at;
    return at >= 5 && strncmp(p - 5, "ID: '", 5) == 0 && strspn(p, "0123456789abcdef") == ID &&
                   p[ID] == '\'' && strncmp(p + ID - UPPER, "000000", UPPER) == 0
               ? ID
               : 0;
}

/*
 * The length of `fact` when p begins with it as a whole; 0 also for facts of one byte and for NULL.
 */
static size_t match_text(const char *p, const char *fact)
{
    size_t n = fact ? strlen(fact) : 0;
    return n > 1 && strncmp(p, fact, n) == 0 && !is_alnum(p[n]) ? n : 0;
}

/*
 * A name that took the next free number when the run began, such as "version_1", or that number
 * alone behind Lightning's own word for it: "v_num=1".
 */
static size_t match_fresh(const char *line, size_t at, const struct tw_facts *f)
{
    for (size_t i = 0; i < f->fresh_count; i++) {
        const char *name = f->fresh[i];
        size_t n = match_text(line + at, name), number = strlen(name);
        if (n > 0)
            return n;
        while (number > 0 && isdigit((unsigned char)name[number - 1]))
            number--;
        bool lightning = at >= 6 && strncmp(line + at - 6, "v_num=", 6) == 0 &&
                         tw_starts(name, "version_");
        n = lightning ? match_text(line + at, name + number) : 0;
        size_t one = lightning && strlen(name + number) == 1 && line[at] == name[number] &&
                     !is_alnum(line[at + 1]);
        if (n > 0 || one)
            return n > 0 ? n : one;
    }
    return 0;
}

/*
 * Stands before `at`, where a thread's id is, the level and the process's id, as Ray's programs in
 * C++ write them: "[2026-11-28 03:07:54,635 E 8017 8123]"? Ids of threads need not lie near those
 * of processes, where the numbers began anew.
 */
static bool is_thread_of_ray(const char *line, size_t at, const struct tw_facts *f)
{
    size_t end = at > 0 ? at - 1 : 0, from = end;
    while (from > 0 && isdigit((unsigned char)line[from - 1]))
        from--;
    return end - from > 0 && end - from < 8 && line[end] == ' ' && from > 3 &&
           line[from - 1] == ' ' && strchr("DIWEF", line[from - 2]) && line[from - 3] == ' ' &&
           tw_facts_has_id(f, number_of(line + from, end - from));
}

/*
 * The id of a process of the run in any form; that of a thread of it only where the text shows that
 * an id is meant ("tid 8123", "[8123]", "host:8017:8123").
 */
static size_t match_id(const char *line, size_t at, const struct tw_facts *f)
{
    size_t n = digits(line + at);
    const char *p = line + at;
    bool fraction = p[n] == '.' && isdigit((unsigned char)p[n + 1]);
    /* "tfevents.vm.8017.0" is no number */
    bool one_of_many = at > 1 && line[at - 1] == '.' && isalpha((unsigned char)line[at - 2]);
    if (n == 0 || n > 7 || is_alnum(p[n]) || (fraction && !one_of_many) ||
        (at > 1 && line[at - 1] == '.' && isdigit((unsigned char)line[at - 2])))
        return 0;
    long id = number_of(p, n);
    if (tw_facts_has_id(f, id) || (p[n] == ']' && is_thread_of_ray(line, at, f)))
        return n;
    if (!tw_facts_near_id(f, id))
        return 0;
    static const char *const names[] = {"pid", "tid", "ppid", "process", "thread", "worker", NULL};
    bool meant = at > 0 && line[at - 1] == '[' && p[n] == ']';
    /* "host:8017:8123" */
    if (at > 1 && (line[at - 1] == ':' || line[at - 1] == '/') &&
        isdigit((unsigned char)line[at - 2])) {
        size_t from = at - 1;
        while (from > 0 && isdigit((unsigned char)line[from - 1]))
            from--;
        meant |= at - 1 - from < 8 && tw_facts_near_id(f, number_of(line + from, at - 1 - from));
    }
    size_t end = at;
    while (end > 0 && strchr(" :=-_([#", line[end - 1]))
        end--;
    size_t from = end;
    while (from > 0 && isalpha((unsigned char)line[from - 1]))
        from--;
    for (int i = 0; names[i] && !meant; i++)
        meant = strlen(names[i]) == end - from &&
                strncasecmp(names[i], line + from, end - from) == 0;
    return meant ? n : 0;
}

/*
 * The id of a process glued to letters, "pid8017". It needs four digits: shorter numbers behind
 * letters are names.
 */
static size_t match_glued_id(const char *line, size_t at, const struct tw_facts *f)
{
    size_t n = digits(line + at);
    return n >= 4 && n <= 7 && !is_alnum(line[at + n]) &&
                   tw_facts_has_id(f, number_of(line + at, n))
               ? n
               : 0;
}

/*
 * An address as a decimal number, as id(x) and threading.get_ident() give it. Both begin at a
 * multiple of 16.
 */
static size_t match_decimal_address(const char *p)
{
    size_t n = digits(p);
    bool alone = (n == 14 || n == 15) && !is_alnum(p[n]) && p[n] != '.';
    unsigned long long value = alone ? strtoull(p, NULL, 10) : 0;
    return is_address(value) && value % 16 == 0 ? n : 0;
}

/*
 * The exit code of one process in what MPICH's launcher prints when a rank has died. It names the
 * first end that it was told of: that of the rank which died, whose code it hands on as its own, or
 * that of a rank which it killed itself (SIGKILL) when it cleaned up. Which of them comes first is
 * a matter of schedule. Any other code is no fact of the run. `line` is the line from its start.
 */
static size_t match_code_of_a_rank(const char *line, size_t at, const struct tw_facts *f)
{
    static const char said[] = "=   EXIT CODE: ";
    const size_t n = digits(line + at);
    if (f->exit_code == 0 || at != sizeof said - 1 || n == 0 || n > 3 || line[at + n] != 0 ||
        strncmp(line, said, at) != 0)
        return 0;
    const int code = number_of(line + at, n);
    return code == f->exit_code || code == SIGKILL ? n : 0;
}

size_t tw_shape_at(const char *line, size_t at, const struct tw_facts *f)
{
    const char *p = line + at;
    char before = at > 0 ? line[at - 1] : ' ';
    bool digit = isdigit((unsigned char)*p);
    size_t n = 0;
    /* Before a slash only the run's own folder is looked for; behind letters only an id. */
    if (*p == '/')
        return match_text(p, f->dir);
    if (digit && isalpha((unsigned char)before))
        return match_glued_id(line, at, f);
    if (is_alnum(before) ||
        (digit && before == '.' && at > 1 && isdigit((unsigned char)line[at - 2])))
        return 0;
    /* From the most specific form to the least: a date must not be read as an id. */
    if ((n = match_temporary(line, at)) || (n = match_uuid(p)) || (n = match_named_date(p, f)) ||
        (n = match_glog(line, at, f)) || (n = match_text(p, f->host)) ||
        (n = match_fresh(line, at, f)) || (n = match_ray_id(line, at)))
        return n;
    if (!digit)
        return 0;
    if ((n = match_address(line, at)) || (n = match_date(p, f)) || (n = match_clock(line, at, f)) ||
        (n = match_epoch(p, f)) || (n = match_port(line, at, f)) || (n = match_decimal_address(p)))
        return n;
    if ((n = match_code_of_a_rank(line, at, f)))
        return n;
    return match_id(line, at, f);
}
