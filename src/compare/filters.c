/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of output and of text files that --ignore 'line:REGEX' leaves out of a comparison. The
 * expressions are compiled once, before anything is read, so that a wrong one ends the command at
 * once and not after an hour of runs. */
#include "internal.h"
#include "printed.h"
#include "scan.h"

#include <regex.h>

/* The compiled expressions of one comparison. Only patterns with "line:" are here; names of records
 * and files are matched by tw_cmp_ignored(). */
struct tw_filters {
    regex_t *regex;
    size_t count;
};

int tw_lines_filters(struct tw_cmp *c, struct twin_error *err)
{
    struct tw_filters *f = tw_calloc(1, sizeof *f);
    if (f)
        f->regex = tw_calloc(c->o->ignore_count + 1, sizeof *f->regex);
    c->filters = f;
    if (!f || !f->regex)
        return tw_no_memory(err, "for the filters of lines");
    for (size_t i = 0; i < c->o->ignore_count; i++) {
        char why[128] = "";
        struct tw_number_pattern number;
        if (tw_number_pattern_is(c->o->ignore[i]) &&
            !tw_number_pattern_read(c->o->ignore[i], &number))
            return twin_error_set(err, TWIN_EINVAL,
                                  "--ignore '%.200s': expected number:FIRST-LAST:PATTERN, such as "
                                  "number:117-144:collective/*/MPI_Allreduce",
                                  c->o->ignore[i]);
        if (!tw_starts(c->o->ignore[i], "line:"))
            continue;
        int rc = regcomp(&f->regex[f->count], c->o->ignore[i] + 5, REG_EXTENDED | REG_NOSUB);
        if (rc != 0) {
            regerror(rc, NULL, why, sizeof why);
            return twin_error_set(err, TWIN_EINVAL,
                                  "--ignore '%.200s': not an extended regular expression (%s)",
                                  c->o->ignore[i], why);
        }
        f->count++;
    }
    return 0;
}

void tw_lines_filters_free(struct tw_cmp *c)
{
    struct tw_filters *f = c->filters;
    for (size_t i = 0; f && i < f->count; i++)
        regfree(&f->regex[i]);
    if (f)
        tw_free(f->regex);
    tw_free(f);
    c->filters = NULL;
}

int twin_ignore_check(const char *const *pattern, size_t count, struct twin_error *err)
{
    const struct twin_compare_options o = {.ignore = pattern, .ignore_count = count};
    struct tw_cmp c = {.o = &o};
    int rc = tw_lines_filters(&c, err);
    tw_lines_filters_free(&c);
    return rc;
}

bool tw_lines_left_out(const struct tw_cmp *c, const char *text, size_t n)
{
    if (!c->filters || c->filters->count == 0)
        return false;
    /* regexec() wants a text that ends; a line is a piece of a larger one. */
    char *copy = tw_strndup(text, n);
    bool out = false;
    for (size_t i = 0; copy && !out && i < c->filters->count; i++)
        out = regexec(&c->filters->regex[i], copy, 0, NULL, 0) == 0;
    tw_free(copy);
    return out;
}
