/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_CASES_H
#define TWIN_CASES_H
/*
 * Known cases: what a divergence looked like when its cause was known, so that one that looks alike
 * can be recognised. A match is a hint and no proof. Room: src/cases. File format: docs/cases.md.
 */
#include "src/compare/compare.h"

#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

/* What a verdict shows. Borrowed; "" is not known. */
struct twin_signature {
    const char *layer, *phase, *kind, *op, *name; /* of the first finding */
    /* its source lines, innermost first, joined by '\n' */
    const char *site;
    const char *arms; /* "same", "two", "resumed": what was compared */
    const char *const *factors;
    size_t factor_count; /* that were isolated; 0: nothing was */
    /* in force from the first record to the end: "deterministic_algorithms=True" */
    char *const *settings;
    size_t setting_count;
};

/* The keys of a signature: the points each is worth are in docs/cases.md. */
enum twin_case_key {
    TWIN_CASE_FACTORS,
    TWIN_CASE_OP,
    TWIN_CASE_STACK,
    TWIN_CASE_ARMS,
    TWIN_CASE_KIND,
    TWIN_CASE_PHASE,
    TWIN_CASE_LAYER,
    TWIN_CASE_NAME,
    TWIN_CASE_KEYS
};
/* A known case: how it looks (accepts), what it was (cause) and what helped (fix). Owns all its
 * texts. */
struct twin_case {
    char *id, *title, *cause, *fix;
    /* patterns, any of which will do; count 0: not asked for */
    struct {
        char **text;
        size_t count;
    } accepts[TWIN_CASE_KEYS];
    char **unless;
    size_t unless_count; /* patterns over settings: the remedy is in force already */
    char **references;
    size_t reference_count;
};
/* All cases that were read, and the files that could not be. Needs twin_cases_free. */
struct twin_cases {
    struct twin_case *one;
    size_t count;
    char **problem;
    size_t problem_count;
};

/* Reads every *.toml of these folders, in the order of their names; a folder that is missing is an
 * empty one, NULL is none. A file that is wrong is left out as a whole and named in `problem`; of
 * two cases with one id the first is kept. Only TWIN_ENOMEM is an error. */
int twin_cases_load(const char *const *folders, size_t count, struct twin_cases *out,
                    struct twin_error *err);
void twin_cases_free(struct twin_cases *c);

/* A case that looks alike: the points of the keys that agree, of those that it has. */
struct twin_case_match {
    const struct twin_case *one;
    unsigned points, of;
    char why[128]; /* "factor hash-seed, kind batch, phase data" */
};
/* The cases that look alike, best first; at most room. A key that contradicts rules a case out;
 * what is known must be worth TWIN_CASE_POINTS at least, with one of factors, op, stack and arms
 * among it. */
#define TWIN_CASE_POINTS 6
size_t twin_cases_match(const struct twin_cases *c, const struct twin_signature *s,
                        struct twin_case_match *out, size_t room);

/* Letters, digits, - _ . ; at most 64, no dot first. */
bool twin_case_id_ok(const char *id);
/*
 * A case file for this signature, as text. malloc'ed (tw_free). TWIN_EINVAL: the id is none
 * (letters, digits, - _ .), or too little is known for a case that matches anything in particular.
 */
int twin_case_text(const struct twin_signature *s, const char *id, const char *title,
                   const char *cause, const char *fix, char **out, struct twin_error *err);
#endif
