/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check --ranks 2,4 -- torchrun --nproc-per-node {ranks} train.py: one command with several numbers
 * of ranks. Here the list is read and the commands are made; the runs are those of check_series.c,
 * and what is compared between them src/compare/asked_ranks.c says.
 */
#include "check.h"

#include "base.h"
#include "filled.h"

#include <string.h>

/* More than any machine has; what is larger was mistyped. */
enum { RANKS_MAX = 1 << 20 };

static const char placeholder[] = "{ranks}";

/* A list of one number, two or more. The numbers go to n. */
static int read_list(const char *text, struct tw_check_numbers *n, struct twin_error *err)
{
    const char *at = text;
    n->count = 0;
    for (;;) {
        uint64_t number = 0;
        const size_t digits = strspn(at, "0123456789");
        for (size_t i = 0; i < digits && number <= RANKS_MAX; i++)
            number = 10 * number + (uint64_t)(at[i] - '0');
        if (digits == 0 || (at[digits] != '\0' && at[digits] != ','))
            return twin_error_set(err, TWIN_EINVAL,
                                  "--ranks: expected numbers of ranks with commas between them, "
                                  "such as 2,4, found \"%s\"",
                                  text);
        if (number < 1 || number > RANKS_MAX)
            return twin_error_set(err, TWIN_EINVAL,
                                  "--ranks: expected numbers from 1 to %d, found \"%.*s\"",
                                  RANKS_MAX, (int)digits, at);
        for (size_t i = 0; i < n->count; i++)
            if (n->number[i] == number)
                return twin_error_set(err, TWIN_EINVAL,
                                      "--ranks: expected each number once, found %llu twice; "
                                      "--runs 2 makes two runs with each number",
                                      (unsigned long long)number);
        if (n->count == TW_CHECK_NUMBERS_MAX)
            return twin_error_set(err, TWIN_EINVAL,
                                  "--ranks: expected at most %d numbers, found more",
                                  TW_CHECK_NUMBERS_MAX);
        n->number[n->count++] = (uint32_t)number;
        at += digits;
        if (*at == '\0')
            break;
        at++;
    }
    if (n->count == 1)
        return twin_error_set(err, TWIN_EINVAL,
                              "--ranks: expected two numbers or more, such as 2,4, found only %u: "
                              "runs with one number of ranks need no --ranks",
                              n->number[0]);
    return 0;
}

/* What --ranks does not go with, in the words of its option; NULL: nothing that was asked for. */
static const char *what_it_excludes(const struct tw_check_asked *a, const struct tw_check_beside *b)
{
    if (b->a || b->b)
        return "--a and --b, which are two commands: it runs one";
    if (a->resume_with)
        return "--resume-with, which runs a second command";
    if (a->against)
        return "--against: a baseline is of one number of ranks";
    if (a->save_baseline)
        return "--save-baseline: a baseline is of one number of ranks";
    if (a->transplant)
        return "--transplant: ranks of other numbers have other batches and parts";
    return NULL;
}

int tw_check_ranks_fit(const struct tw_check_asked *a, const struct tw_check_beside *b,
                       char *const *job, struct tw_check_numbers *n, struct twin_error *err)
{
    if (!a->ranks)
        return 0;
    const char *other = what_it_excludes(a, b);
    if (other)
        return twin_error_set(err, TWIN_EINVAL, "--ranks does not go with %s", other);
    int rc = read_list(a->ranks, n, err);
    if (rc != 0 || !b->job)
        return rc;
    bool found = false;
    for (size_t i = 0; job && job[i]; i++)
        found |= strstr(job[i], placeholder) != NULL;
    if (!found)
        return twin_error_set(err, TWIN_EINVAL,
                              "--ranks: expected {ranks} in the job's command, where each number "
                              "is to stand; write: twinrun check --ranks %s -- torchrun "
                              "--nproc-per-node {ranks} train.py",
                              a->ranks);
    return 0;
}

int tw_check_ranks_make(struct tw_check *c, char *const *job, struct twin_error *err)
{
    struct tw_check_numbers *n = &c->numbers;
    n->each = c->args.runs;
    c->args.runs = n->each * n->count;
    n->of_run = tw_calloc((size_t)c->args.runs, sizeof *n->of_run);
    bool made = n->of_run != NULL;
    for (size_t i = 0; made && i < n->count; i++) {
        n->argv[i] = tw_filled(job, placeholder, n->number[i]);
        made = n->argv[i] != NULL;
    }
    for (size_t i = 0; made && i < c->args.runs; i++)
        n->of_run[i] = n->number[tw_check_number_of(c, i)];
    return made ? 0 : tw_no_memory(err, "for the commands of --ranks");
}

void tw_check_ranks_free(struct tw_check_numbers *n)
{
    for (size_t i = 0; i < n->count; i++)
        tw_filled_free(n->argv[i]);
    tw_free(n->of_run);
    *n = (struct tw_check_numbers){.count = 0};
}

size_t tw_check_number_of(const struct tw_check *c, size_t i)
{
    return c->numbers.count ? i / (size_t)c->numbers.each : 0;
}

bool tw_check_as_first(const struct tw_check *c, size_t i)
{
    return tw_check_number_of(c, i) == 0;
}
