/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a command line by the command's table (options.h). getopt_long does the splitting; types,
 * ranges, complaints and suggestions are made here, so that every command refuses the same mistake
 * in the same words: what was expected, what was found, and the option that was perhaps meant.
 */
#include "options.h"

#include "base.h"
#include "phrase.h"
#include "say.h"

#include "src/compare/compare.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct tw_option tw_option_help = {"help", 'h',     TW_OPT_FLAG,      NULL,
                                         NULL,   "Other", "print this help"};

/* getopt's value of option i is FIRST_LONG + i, out of the way of every character */
#define FIRST_LONG 256
enum { MAX_OPTIONS = 64 };

const struct tw_command *tw_command_find(const char *name)
{
    const struct tw_command *c;
    for (size_t i = 0; (c = tw_command_at(i)) != NULL; i++)
        if (strcmp(c->name, name) == 0)
            break;
    return c;
}

/* ---- values */

/* "90", "90s", "10m", "2h", "1d". TWIN_EINVAL for anything else, here as in the next three. */
static int parse_seconds(const char *s, uint64_t *out)
{
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char digits[24];
    size_t n = strlen(s);
    uint64_t factor = 1;
    if (n == 0 || n >= sizeof digits)
        return TWIN_EINVAL;
    memcpy(digits, s, n + 1);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (digits[n - 1] == units[i].unit) {
            factor = units[i].seconds;
            digits[n - 1] = '\0';
            break;
        }
    if (tw_parse_u64(digits, UINT32_MAX, out) != 0)
        return TWIN_EINVAL;
    *out *= factor;
    return 0;
}

/* "7", "0.5": a finite number, up to a million. */
static int parse_days(const char *s, double *out)
{
    char *end;
    double v = strtod(s, &end);
    if (end == s || *end || !isfinite(v) || v < 0 || v > 1e6)
        return TWIN_EINVAL;
    *out = v;
    return 0;
}

/* "65536", "500M", "4G", powers of 1024. A number too large for 64 bits is refused, not wrapped. */
static int parse_bytes(const char *s, uint64_t *out)
{
    static const char units[] = "KMGT";
    char digits[24];
    size_t n = strspn(s, "0123456789");
    const char *unit = s[n] ? strchr(units, s[n] & ~0x20) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (n == 0 || n >= sizeof digits || (s[n] && (!unit || s[n + 1])))
        return TWIN_EINVAL;
    memcpy(digits, s, n);
    digits[n] = '\0';
    if (tw_parse_u64(digits, (UINT64_MAX - 1) >> shift, out) != 0)
        return TWIN_EINVAL;
    *out <<= shift;
    return 0;
}

/* "FIRST:LAST", both included. */
static int parse_window(const char *s, struct tw_steps_window *out)
{
    char first[24];
    uint64_t a, b;
    const char *colon = strchr(s, ':');
    if (!colon || (size_t)(colon - s) >= sizeof first)
        return TWIN_EINVAL;
    memcpy(first, s, (size_t)(colon - s));
    first[colon - s] = '\0';
    if (tw_parse_u64(first, UINT32_MAX - 1, &a) != 0 ||
        tw_parse_u64(colon + 1, UINT32_MAX - 1, &b) != 0 || b < a)
        return TWIN_EINVAL;
    *out = (struct tw_steps_window){(uint32_t)a, (uint32_t)b, true};
    return 0;
}

/* The list stays NULL-terminated, as execv and others want it. */
static int append_text(struct tw_strings *list, const char *s)
{
    const char **grown = tw_reallocarray(list->items, list->count + 2, sizeof *grown);
    if (!grown)
        return TWIN_ENOMEM;
    grown[list->count++] = s;
    grown[list->count] = NULL;
    list->items = grown;
    return 0;
}

/* Stores one value; on failure *expected says what would have been right (static or in text). */
static int store_value(const struct tw_option *o, const char *value, void *args, char text[96])
{
    void *field = (char *)args + o->offset;
    int rc = 0;
    switch (o->type) {
    case TW_OPT_FLAG: *(bool *)field = true; break;
    case TW_OPT_STRING:
    case TW_OPT_FILE:
    case TW_OPT_DIR:
        snprintf(text, 96, "a text that is not empty");
        rc = *value ? 0 : TWIN_EINVAL;
        *(const char **)field = value;
        break;
    case TW_OPT_COUNT: {
        uint64_t max = o->max ? o->max : UINT64_MAX - 1, v = 0;
        snprintf(text, 96,
                 o->max ? "a whole number from %llu to %llu" : "a whole number, %llu or more",
                 (unsigned long long)o->min, (unsigned long long)max);
        rc = tw_parse_u64(value, max, &v);
        if (rc == 0 && v < o->min)
            rc = TWIN_EINVAL;
        if (rc == 0)
            *(uint64_t *)field = v;
        break;
    }
    case TW_OPT_SECONDS:
        snprintf(text, 96, "a time such as 90, 90s, 10m or 2h");
        rc = parse_seconds(value, field);
        break;
    case TW_OPT_DAYS:
        snprintf(text, 96, "a number of days such as 7 or 0.5");
        rc = parse_days(value, field);
        break;
    case TW_OPT_BYTES:
        snprintf(text, 96, "a number of bytes such as 65536, 500M or 4G");
        rc = parse_bytes(value, field);
        break;
    case TW_OPT_LIST:
        snprintf(text, 96, "a text (and memory to keep it)");
        rc = append_text(field, value);
        /* A pattern that does not compile is found now and not after the runs. */
        if (rc == 0 && strcmp(o->name, "ignore") == 0 &&
            (rc = twin_ignore_check(&value, 1, NULL)) != 0)
            snprintf(text, 96,
                     "an extended regular expression behind \"line:\", FIRST-LAST:GLOB behind "
                     "\"number:\"");
        break;
    case TW_OPT_LEVEL:
        snprintf(text, 96, "steps, tensors, modules or ops");
        rc = twin_level_parse(value, field);
        break;
    case TW_OPT_WINDOW:
        snprintf(text, 96, "FIRST:LAST, two step numbers with FIRST <= LAST");
        rc = parse_window(value, field);
        break;
    }
    return rc;
}

/* ---- parsing */

/* A command's options in the form that getopt_long takes. The long options return numbers above
 * every character, so that they tell which row was meant. */
struct table {
    const struct tw_option *rows[MAX_OPTIONS];
    struct option longs[MAX_OPTIONS + 1];
    char shorts[2 * MAX_OPTIONS + 3];
    const char *names[MAX_OPTIONS + 1];
    size_t count;
};

static void table_add(struct table *t, const struct tw_option *o, size_t *s)
{
    size_t i = t->count++;
    t->rows[i] = o;
    t->names[i] = o->name;
    t->longs[i] = (struct option){o->name, o->type == TW_OPT_FLAG ? no_argument : required_argument,
                                  NULL, FIRST_LONG + (int)i};
    if (o->short_name) {
        t->shorts[(*s)++] = o->short_name;
        if (o->type != TW_OPT_FLAG)
            t->shorts[(*s)++] = ':';
    }
}

static void table_build(struct table *t, const struct tw_command *c)
{
    size_t s = 0;
    memset(t, 0, sizeof *t);
    if (c->operands == TW_OPERANDS_JOB)
        t->shorts[s++] = '+'; /* the job's own options are none of ours */
    t->shorts[s++] = ':';     /* a missing argument is told from an unknown option */
    for (const struct tw_option *o = c->options; o->name && t->count < MAX_OPTIONS - 1; o++)
        table_add(t, o, &s);
    table_add(t, &tw_option_help, &s);
}

/* The row that getopt_long meant by what it returned; NULL: none. */
static const struct tw_option *table_find(const struct table *t, int value)
{
    for (size_t i = 0; i < t->count; i++)
        if (value == FIRST_LONG + (int)i || value == t->rows[i]->short_name)
            return t->rows[i];
    return NULL;
}

/*
 * getopt said '?': an unknown short option (optopt), or a long one that is unknown, ambiguous, or a
 * flag given a value.
 */
static int complain_unknown(const struct tw_command *c, const struct table *t, const char *word)
{
    /* A short option: there is nothing near to suggest. */
    if (optopt > 0 && optopt < FIRST_LONG)
        return tw_bad_use(c->name, "unknown option -%c", optopt);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    size_t matches = 0;
    const char *match[3] = {NULL, NULL, NULL};
    for (size_t i = 0; i < t->count; i++)
        if (tw_starts(t->names[i], name) && matches < 3)
            match[matches++] = t->names[i];
    if (optopt >= FIRST_LONG)
        return tw_bad_use(c->name, "option --%s takes no value, found \"%s\"",
                          table_find(t, optopt)->name, word);
    if (matches > 1)
        return tw_bad_use(c->name, "option --%s is ambiguous: --%s, --%s%s", name, match[0],
                          match[1], match[2] ? ", ..." : "");
    const char *near = tw_nearest(name, t->names);
    if (near)
        return tw_bad_use(c->name, "unknown option --%s; did you mean --%s?", name, near);
    return tw_bad_use(c->name, "unknown option --%s", name);
}

/* Defaults stand in the tables as text, for the help, and are stored as if they had been typed. -1,
 * or an exit code. */
static int set_defaults(const struct tw_command *c, void *args)
{
    char text[96];
    for (const struct tw_option *o = c->options; o->name; o++)
        if (o->initial && store_value(o, o->initial, args, text) != 0)
            return tw_bad_use(c->name, "the built-in default of --%s is not %s", o->name, text);
    return -1;
}

/* How many operands the command takes, and of which kind. -1, or an exit code. */
static int check_operands(const struct tw_command *c, const struct tw_operands *rest)
{
    switch (c->operands) {
    case TW_OPERANDS_JOB:
        if (rest->count && !rest->is_job) {
            char *job = tw_shell_quote(rest->items, rest->count);
            int rc = tw_bad_use(c->name,
                                "expected -- before the job's command, found \"%s\"; write: "
                                "twinrun %s [options] -- %s",
                                rest->items[0], c->name, job ? job : rest->items[0]);
            tw_free(job);
            return rc;
        }
        break;
    case TW_OPERANDS_RUNS_OR_JOB:
        if (rest->is_job)
            break;
        /* fallthrough */
    case TW_OPERANDS_RUNS:
        if (rest->count < c->operands_min || rest->count > c->operands_max)
            return tw_bad_use(c->name,
                              "expected %zu%s run%s (a path, an id, last, last~1), found %zu",
                              c->operands_min, c->operands_max > c->operands_min ? " or more" : "",
                              tw_plural_s(c->operands_max), rest->count);
        break;
    case TW_OPERANDS_FILES: break;
    case TW_OPERANDS_NONE:
        if (rest->count)
            return tw_bad_use(c->name, "expected options only, found \"%s\"", rest->items[0]);
        break;
    }
    return -1;
}

/* Everything behind the first "--" belongs to the job and is never looked at. */
static int find_dashes(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return i;
    return argc;
}

int tw_options_parse(const struct tw_command *c, int argc, char **argv, void *args,
                     struct tw_operands *rest)
{
    struct table t;
    char text[96];
    int ours = find_dashes(argc, argv), value, rc = set_defaults(c, args);
    if (rc >= 0)
        return rc;
    /* getopt sees only the words before the first "--". */
    table_build(&t, c);
    optind = 0; /* glibc: start afresh */
    opterr = 0;
    while ((value = getopt_long(ours, argv, t.shorts, t.longs, NULL)) != -1) {
        if (value == ':')
            return tw_bad_use(c->name, "option %s needs a value", argv[optind - 1]);
        if (value == '?')
            return complain_unknown(c, &t, argv[optind - 1]);
        const struct tw_option *o = table_find(&t, value);
        if (o == &tw_option_help) {
            tw_help_command(stdout, c);
            return 0;
        }
        if (store_value(o, optarg, args, text) != 0)
            return tw_bad_use(c->name, "--%s: expected %s, found \"%s\"", o->name, text, optarg);
    }
    /* Only where nothing but options stood before the "--" is what follows a job. */
    bool job = optind == ours && ours < argc;
    *rest = (struct tw_operands){argv + optind + job, (size_t)(argc - optind - job), job};
    return check_operands(c, rest);
}

double tw_share_of(const char *text)
{
    char *end = NULL;
    double share = strtod(text, &end);
    if (end == text)
        return -1;
    if (*end == '%') {
        share /= 100;
        end++;
    }
    return *end || !(share >= 0 && share <= 1) ? -1 : share;
}
