/* SPDX-License-Identifier: Apache-2.0 */
/* Two sets of values, of which it is asked whether they differ: numbers in files (text, JSON, a
 * column of CSV), or something measured in each of some runs (its time, its loss, a number that it
 * printed). A run that does not give the value is left out, and the set keeps why: an answer
 * without it would be one on luckier runs. */
#include "significant_sets.h"

#include "configuration.h"
#include "curves.h"
#include "run_state.h"
#include "scale_runs.h"

#include "base.h"
#include "json_load.h"

#include "src/trace/trace.h"

#include <assert.h>
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Bytes of a file, and values of a set. */
#define FILE_MAX ((size_t)64 << 20)
enum { VALUES_MAX = 1000000 };

bool tw_measure_is_time(const struct tw_significant *s)
{
    return s->measure.metric == TW_METRIC_WALL || s->measure.metric == TW_METRIC_STEP ||
           (s->measure.metric == TW_METRIC_IN_FILE && s->set[0].run);
}

/* The expression of printed:REGEX is compiled here once to see that it can be, with one group
 * around the number. */
int tw_measure_parse(const char *s, struct tw_measure *out, struct twin_error *err)
{
    *out = (struct tw_measure){TW_METRIC_IN_FILE, s};
    if (!s)
        return 0;
    static const struct {
        const char *name;
        enum tw_metric metric;
    } words[] = {{"wall", TW_METRIC_WALL}, {"step", TW_METRIC_STEP}, {"loss", TW_METRIC_LOSS}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(s, words[i].name) == 0) {
            out->metric = words[i].metric;
            return 0;
        }
    if (!tw_starts(s, "printed:"))
        return twin_error_set(err, TWIN_EINVAL,
                              "--metric: expected wall, step, loss or printed:REGEX, found \"%s\"",
                              s);
    regex_t r;
    char why[256];
    int rc = regcomp(&r, s + strlen("printed:"), REG_EXTENDED | REG_NEWLINE);
    if (rc != 0) {
        regerror(rc, &r, why, sizeof why);
        return twin_error_set(err, TWIN_EINVAL, "--metric: \"%s\" is not a regular expression: %s",
                              s + strlen("printed:"), why);
    }
    const size_t groups = r.re_nsub;
    regfree(&r);
    if (groups != 1)
        return twin_error_set(err, TWIN_EINVAL,
                              "--metric: expected one group, around the number, as in "
                              "'printed:accuracy=([0-9.]+)', found %zu",
                              groups);
    out->metric = TW_METRIC_PRINTED;
    return 0;
}

void tw_set_free(struct tw_set *s)
{
    for (size_t i = 0; s->run && i < s->n; i++)
        twin_run_free(s->run[i]);
    for (size_t i = 0; i < s->left_out_count; i++)
        tw_free(s->left_out[i]);
    tw_free(s->run);
    tw_free(s->configuration);
    tw_free(s->imported);
    tw_free(s->left_out);
    tw_free(s->x);
    memset(s, 0, sizeof *s);
}

/* Adds a value with the run that it belongs to, or NULL. Takes the run. */
static int add_value(struct tw_set *s, double value, struct twin_run *r, struct twin_error *err)
{
    if (s->n >= VALUES_MAX) {
        twin_run_free(r);
        return twin_error_set(err, TWIN_ELIMIT, "%s: more than %d values", s->operand, VALUES_MAX);
    }
    double *x = tw_reallocarray(s->x, s->n + 1, sizeof *x);
    if (x)
        s->x = x;
    struct twin_run **runs = x && r ? tw_reallocarray(s->run, s->n + 1, sizeof *runs) : NULL;
    if (runs)
        s->run = runs;
    if (!x || (r && !runs)) {
        twin_run_free(r);
        return tw_no_memory(err, "for %zu values", s->n + 1);
    }
    if (r)
        runs[s->n] = r;
    x[s->n++] = value;
    return 0;
}

/* Leaves a run out, and keeps why. */
static int leave_out(struct tw_set *s, const char *name, const char *why)
{
    char **list = tw_reallocarray(s->left_out, s->left_out_count + 1, sizeof *list);
    if (list)
        s->left_out = list;
    if (!list || !(list[s->left_out_count] = tw_printf("%s: %s", name, why)))
        return TWIN_ENOMEM;
    s->left_out_count++;
    return 0;
}

/* ---- files */

/* A number and nothing else; spaces around it do not count. */
static bool parse_number(const char *text, size_t n, double *out)
{
    char copy[64], *end;
    while (n && isspace((unsigned char)*text)) {
        text++;
        n--;
    }
    while (n && isspace((unsigned char)text[n - 1]))
        n--;
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    *out = strtod(copy, &end);
    return *end == '\0' && isfinite(*out);
}

/* Says which line has something else. Returns TWIN_EFORMAT. */
static int not_a_number(const char *path, size_t line, const char *text, size_t n,
                        struct twin_error *err)
{
    char *shown = tw_printable(text, n < 40 ? n : 40);
    int rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: line %zu: expected a finite number, found \"%s\"", path, line,
                            shown ? shown : "");
    tw_free(shown);
    return rc;
}

/* Numbers with blanks, commas or semicolons between them; # begins a comment. */
static int read_text(struct tw_set *s, const char *path, const char *text, struct twin_error *err)
{
    int rc = 0;
    for (size_t line = 1; *text && rc == 0; line++) {
        const size_t whole = strcspn(text, "\n"), used = strcspn(text, "#\n");
        for (size_t at = 0; at < used && rc == 0;) {
            double value;
            at += strspn(text + at, " \t\r,;");
            const size_t n = at < used ? strcspn(text + at, " \t\r,;\n#") : 0;
            if (n == 0)
                break;
            rc = parse_number(text + at, n, &value) ? add_value(s, value, NULL, err)
                                                    : not_a_number(path, line, text + at, n, err);
            at += n;
        }
        text += whole + (text[whole] == '\n');
    }
    return rc;
}

/* A list of numbers and nothing else. */
static int read_json(struct tw_set *s, const char *path, const char *text, size_t bytes,
                     struct twin_error *err)
{
    json_error_t e;
    json_t *list = tw_json_load(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e), *item;
    size_t i;
    int rc = 0;
    if (!json_is_array(list)) {
        json_decref(list);
        return twin_error_set(err, TWIN_EFORMAT, "%s: expected a JSON list of numbers%s", path,
                              list ? ", found another value"
                                   : "; it is not JSON (which has no NaN and no infinity)");
    }
    json_array_foreach (list, i, item)
        if (rc == 0)
            rc = json_is_number(item)
                     ? add_value(s, json_number_value(item), NULL, err)
                     : twin_error_set(err, TWIN_EFORMAT, "%s: item %zu: expected a number", path,
                                      i + 1);
    json_decref(list);
    return rc;
}

/* Curves that `twinrun import` wrote: the value of each run, and why others have none. */
static int read_curves(struct tw_set *s, const char *path, const char *text, size_t bytes,
                       struct twin_error *err)
{
    struct tw_curves c;
    int rc = tw_curves_parse(path, text, bytes, &c, err);
    if (rc == 0 && !(s->imported = tw_curves_words(&c)))
        rc = tw_no_memory(err, "for what a file says");
    for (size_t i = 0; rc == 0 && i < c.runs; i++) {
        const struct tw_curve *r = &c.run[i];
        if (!r->left_out)
            rc = add_value(s, r->value, NULL, err);
        else if (leave_out(s, r->name, r->left_out) != 0)
            rc = tw_no_memory(err, "for a set of runs");
    }
    tw_curves_free(&c);
    return rc;
}

/* One field of a line of CSV; quotes around it are taken off (none of ours has a quote or newline
 * inside). */
static const char *csv_field(const char *line, size_t n, size_t column, size_t *length)
{
    const char *end = line + n;
    for (size_t i = 0;; i++) {
        const char *comma = memchr(line, ',', (size_t)(end - line)), *stop = comma ? comma : end;
        if (i == column) {
            const bool quoted = stop - line >= 2 && *line == '"' && stop[-1] == '"';
            *length = (size_t)(stop - line) - (quoted ? 2 : 0);
            return line + quoted;
        }
        if (!comma)
            return NULL;
        line = comma + 1;
    }
}

/* column: its number from 1 on, or its name in the first line. */
static int read_csv(struct tw_set *s, const char *path, const char *column, const char *text,
                    struct twin_error *err)
{
    /* Which column: by its number, or by its name in the first line. */
    uint64_t index = 0;
    const size_t head = strcspn(text, "\r\n");
    size_t length;
    if (tw_parse_u64(column, 1000, &index) == 0 && index > 0) {
        index--;
    } else {
        for (index = 0;; index++) {
            const char *name = csv_field(text, head, index, &length);
            if (!name)
                return twin_error_set(err, TWIN_EFORMAT,
                                      "%s: there is no column \"%s\" in its first line: %.*s", path,
                                      column, (int)(head < 200 ? head : 200), text);
            if (length == strlen(column) && memcmp(name, column, length) == 0)
                break;
        }
    }
    int rc = 0;
    for (size_t line = 1; *text && rc == 0; line++) {
        const size_t n = strcspn(text, "\n");
        const char *found = csv_field(text, n && text[n - 1] == '\r' ? n - 1 : n, index, &length);
        double value;
        if (found && parse_number(found, length, &value))
            rc = add_value(s, value, NULL, err);
        else if (line > 1 && n > 0) /* the first line may have the names */
            rc = not_a_number(path, line, found ? found : "", found ? length : 0, err);
        text += n + (text[n] == '\n');
    }
    return rc;
}

/* The values of a file, by what it is. column: of a CSV file; NULL: it is none. */
static int read_values(struct tw_set *s, const char *path, const char *column,
                       struct twin_error *err)
{
    char *text = NULL;
    size_t n;
    int rc = tw_read_file(path, FILE_MAX, &text, &n, err);
    if (rc == 0 && strlen(text) != n)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected numbers as text, found a NUL byte",
                            path);
    if (rc == 0 && column)
        rc = read_csv(s, path, column, text, err);
    else if (rc == 0 && text[strspn(text, " \t\r\n")] == '[')
        rc = read_json(s, path, text, n, err);
    else if (rc == 0 && text[strspn(text, " \t\r\n")] == '{')
        rc = read_curves(s, path, text, n, err);
    else if (rc == 0)
        rc = read_text(s, path, text, err);
    tw_free(text);
    return rc;
}

/* ---- runs */

/* Of one trace while it is walked. */
struct last_loss {
    struct twin_trace *t;
    double value;
    bool nan;
};

/* For twin_trace_walk; user is a struct last_loss. */
static int see_loss(void *user, const struct twin_trace_record *r)
{
    struct last_loss *l = user;
    if (twin_trace_series(l->t, r->series)->kind == TWIN_KIND_LOSS && r->flags & TWIN_REC_STATS &&
        r->stats.count) {
        l->nan = r->stats.nan + r->stats.pos_inf + r->stats.neg_inf > 0;
        l->value = r->stats.sum / (double)r->stats.count;
    }
    return 0;
}

/* For twin_trace_walk_some: what see_loss() looks at. */
static bool is_loss(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)id;
    return s->kind == TWIN_KIND_LOSS;
}

/* The last one recorded by the first trace that has any: rank 0 comes first. NaN: none. */
static double last_loss(const struct twin_run *r, bool *nan)
{
    struct last_loss l = {NULL, NAN, false};
    for (size_t i = 0; i < r->trace_count && isnan(l.value); i++) {
        if (twin_trace_open(r->traces[i], &l.t, NULL) != 0)
            continue;
        if (twin_trace_definitions(l.t, NULL) == 0)
            twin_trace_walk_some(l.t, is_loss, see_loss, NULL, &l, NULL);
        twin_trace_close(l.t);
    }
    *nan = l.nan;
    return l.value;
}

/* The group of the last match in what the run printed. NaN: none, or no number. */
static double last_printed(const struct twin_run *r, const char *pattern)
{
    char *path = tw_path_join(r->dir, "stdout"), *text = NULL;
    size_t n;
    double value = NAN, found;
    regex_t re;
    regmatch_t match[2];
    if (path && regcomp(&re, pattern, REG_EXTENDED | REG_NEWLINE) == 0) {
        if (tw_read_file(path, FILE_MAX, &text, &n, NULL) == 0)
            for (const char *at = text;
                 regexec(&re, at, 2, match, at == text ? 0 : REG_NOTBOL) == 0;
                 at += match[0].rm_eo + (match[0].rm_eo == 0)) {
                if (match[1].rm_so >= 0 &&
                    parse_number(at + match[1].rm_so, (size_t)(match[1].rm_eo - match[1].rm_so),
                                 &found))
                    value = found;
                if (at[match[0].rm_eo] == '\0')
                    break;
            }
        regfree(&re);
    }
    tw_free(text);
    tw_free(path);
    return value;
}

/* Mean seconds of the steps behind the first, on the slowest rank. NaN: fewer than two steps were
 * seen. */
static double mean_step(const struct twin_run *r)
{
    struct tw_scale_run one = {0};
    const double value = tw_scale_read_run(r, 1, &one, NULL) == 0 && one.timed
                             ? one.timed_s / (double)one.timed
                             : NAN;
    tw_scale_run_free(&one);
    return value;
}

int tw_set_add_run(struct tw_set *s, const struct tw_measure *m, struct twin_run *r,
                   struct twin_error *err)
{
    char state[32];
    const char *why = NULL;
    double value = NAN;
    bool nan = false;
    const bool stopped_by_plan = r->outcome == TWIN_RUN_STOPPED && r->max_steps;
    /* Only a run that ended well is measured, or one that ended after the steps that were asked
     * for. */
    if (r->in_progress ||
        ((r->outcome != TWIN_RUN_EXITED || r->exit_code != 0) && !stopped_by_plan))
        why = tw_run_state(r, state);
    else if (m->metric == TW_METRIC_WALL || m->metric == TW_METRIC_IN_FILE)
        value = r->wall_s;
    else if (m->metric == TW_METRIC_STEP && isnan(value = mean_step(r)))
        why = "fewer than two steps were seen";
    else if (m->metric == TW_METRIC_LOSS && (isnan(value = last_loss(r, &nan)) || nan))
        why = nan ? "its last loss is NaN or infinite: this run diverged, and no test of the "
                    "others' values says so"
                  : "no loss was recorded with its value (level tensors does)";
    else if (m->metric == TW_METRIC_PRINTED &&
             isnan(value = last_printed(r, m->text + strlen("printed:"))))
        why = "it printed no such number";
    /* JSON has no other numbers, and what is read from a job was looked at */
    assert(why || isfinite(value));
    if (!why)
        return add_value(s, value, r, err);
    int rc = leave_out(s, tw_base_name(r->dir), why);
    twin_run_free(r);
    return rc ? tw_no_memory(err, "for a set of runs") : 0;
}

/* Every run of the home with this label, the oldest first. */
static int read_label(struct tw_set *s, const char *home, const char *label,
                      const struct tw_measure *m, struct twin_error *err)
{
    char **dirs = NULL;
    size_t count = 0;
    int rc = twin_run_list(home, &dirs, &count, err);
    for (size_t i = count; i-- > 0;) { /* the oldest first */
        struct twin_run *r = NULL;
        if (rc == 0 && twin_run_load(dirs[i], &r, NULL) == 0) {
            if (strcmp(r->label, label) == 0)
                rc = tw_set_add_run(s, m, r, err);
            else
                twin_run_free(r);
        }
        tw_free(dirs[i]);
    }
    tw_free(dirs);
    if (rc == 0 && s->n + s->left_out_count == 0)
        rc = twin_error_set(err, TWIN_ENOENT,
                            "no run in %s has the label \"%s\" (twinrun record --label %s -- ...)",
                            home, label, label);
    return rc;
}

/* The runs of a list with commas. One that is named twice would count twice. */
static int read_runs(struct tw_set *s, const char *home, const char *list,
                     const struct tw_measure *m, struct twin_error *err)
{
    char *copy = tw_strdup(list), *rest = copy;
    int rc = copy ? 0 : tw_no_memory(err, "for a set of runs");
    for (char *one; rc == 0 && (one = strsep(&rest, ",")) != NULL;) {
        char *dir = NULL;
        struct twin_run *r = NULL;
        rc = twin_run_resolve(home, one, &dir, err);
        rc = rc ? rc : twin_run_load(dir, &r, err);
        for (size_t i = 0; rc == 0 && i < s->n; i++)
            if (strcmp(s->run[i]->id, r->id) == 0) {
                rc = twin_error_set(err, TWIN_EINVAL,
                                    "the run %s is named twice in %s: it would count twice",
                                    tw_base_name(dir), list);
                twin_run_free(r);
            }
        rc = rc ? rc : tw_set_add_run(s, m, r, err);
        tw_free(dir);
    }
    tw_free(copy);
    return rc;
}

int tw_set_read(const char *operand, const char *home, const struct tw_measure *m,
                struct tw_set *out, struct twin_error *err)
{
    struct stat st;
    *out = (struct tw_set){.operand = operand};
    const char *colon = strrchr(operand, ':');
    char *path = colon ? tw_strndup(operand, (size_t)(colon - operand)) : NULL;
    const bool file = stat(operand, &st) == 0 && S_ISREG(st.st_mode);
    const bool column = !file && path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    int rc;
    if ((file || column) && m->metric != TW_METRIC_IN_FILE)
        rc = twin_error_set(
            err, TWIN_EINVAL,
            "--metric is measured in runs; %s is a file, whose numbers are the values", operand);
    else if (file || column)
        rc = read_values(out, column ? path : operand, column ? colon + 1 : NULL, err);
    else if (tw_starts(operand, "label:"))
        rc = read_label(out, home, operand + strlen("label:"), m, err);
    else
        rc = read_runs(out, home, operand, m, err);
    tw_free(path);
    if (rc == 0 && out->n == 0)
        rc = twin_error_set(err, TWIN_EINVAL, "%s: expected at least one value, found none%s%s",
                            operand, out->left_out_count ? "; left out: " : "",
                            out->left_out_count ? out->left_out[0] : "");
    return rc ? rc : tw_set_one_program(out, err);
}

/* ---- the worlds: every figure carries its configuration */

/* Of the set's first run, and the commands where the others have other ones. malloc'ed. */
static char *configuration_of(const struct tw_set *set)
{
    if (set->imported)
        return tw_strdup(set->imported);
    if (!set->run) /* every figure carries its configuration, or that it has none */
        return tw_printf("from %s, which does not say how they were measured", set->operand);
    char *first = tw_configuration(set->run[0]);
    char *commands = tw_set_commands(set);
    char *text = NULL;
    if (first && commands)
        text = tw_printf("%s%s%s", first, *commands ? "; " : "", commands);
    tw_free(first);
    tw_free(commands);
    return text;
}

int tw_significant_configure(struct tw_significant *s)
{
    for (int k = 0; k < 2; k++) {
        s->set[k].configuration = configuration_of(&s->set[k]);
        if (!s->set[k].configuration)
            return TWIN_ENOMEM;
    }
    return 0;
}
