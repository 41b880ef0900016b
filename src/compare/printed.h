/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_COMPARE_PRINTED_H
#define TW_COMPARE_PRINTED_H
/* Evidence of last resort: what two runs printed and wrote, without its noise. */
#include "internal.h"

/* ---- run_facts.c: what is known of a run itself. Where it shows in what the job printed or named,
 * it means nothing. */
/* The seconds since 1970 in which a bare number is a time stamp: of numbers of ten digits almost
 * every fourth lies in this century's first third, and most of those are checksums, seeds and
 * results. */
struct tw_noise_span {
    /* [0] by this machine's clock, which files keep; [1] by the one that the job was shown */
    double from[2], to[2];
};
/* from a day before the run to a day after it */
struct tw_noise_span tw_noise_span(const struct twin_run *run);

struct tw_facts {
    struct tw_noise_span span;
    /* seconds since 1970, of the run as the job saw it; end < start: any time of day fits */
    double start, end;
    double elapsed; /* of the run, in seconds; infinite when not known */
    double clock;   /* CLOCK_MONOTONIC when the run began, in seconds; 0: not known */
    long *id;       /* processes of the run and its launcher, sorted */
    size_t id_count;
    /* every process and thread that was made during the run has an id between these; 0, 0: not
     * known */
    long id_low, id_high;
    int exit_code;   /* of the job's command, where it failed with one; else 0 */
    const char *dir; /* the run folder; everything borrowed lives as long as the run */
    const char *host;
    char *const *fresh; /* folders that took the next free number: "version_1" */
    size_t fresh_count;
    /* arms: "name=value" of options that only this arm has, or has with another value */
    char **option;
    size_t option_count;
};
bool tw_facts_load(const struct twin_run *run, struct tw_facts *out); /* false: no memory */
/* Arms: the options of a run whose command is not that of the run it is compared with. False: no
 * memory. */
bool tw_facts_options(const struct twin_run *run, const struct twin_run *other,
                      struct tw_facts *out);
/* One more id that means this run, such as its number in a queue. False: no memory. */
bool tw_facts_add_id(struct tw_facts *f, long id);
void tw_facts_free(struct tw_facts *f);
bool tw_facts_has_id(const struct tw_facts *f, long id);
bool tw_facts_near_id(const struct tw_facts *f, long id);           /* made during the run */
bool tw_facts_has_second(const struct tw_facts *f, double seconds); /* since 1970: near the run */
/* CLOCK_MONOTONIC: during the run */
bool tw_facts_has_reading(const struct tw_facts *f, double seconds);
/* year 0: any of the run's */
bool tw_facts_has_date(const struct tw_facts *f, int year, int month, int day);
/* a time of day, or elapsed */
bool tw_facts_has_clock(const struct tw_facts *f, int hour, int minute, double second);

/* ---- shape.c: forms that a fact of the run can take in a text: dates, clocks, time stamps, ids,
 * addresses, temporary names. Returns how many bytes at `at` are noise, 0 when none are. */
size_t tw_shape_at(const char *line, size_t at, const struct tw_facts *f);
size_t tw_number_length(const char *p); /* of the number that begins there; 0: none does */

/* ---- grammar.c: what kind of number is it, by its unit and its label? */
enum tw_worth { TW_RESULT, TW_OPEN, TW_NOISE };
/* The number line[at .. at + n). *length is what belongs to it: the number, with its unit when that
 * makes it noise. */
enum tw_worth tw_grammar_worth(const char *line, size_t at, size_t n, size_t *length,
                               bool *by_label);

bool tw_grammar_names_result(const char *line, size_t at); /* "loss", "acc" */

/* ---- duration.c. The number line[at .. at + n) has a unit of time behind it: can the run have
 * measured so much? */
bool tw_duration_fits(const char *line, size_t at, size_t n, const struct tw_facts *f);

/* ---- clock_world.c: learns from c->o->faster, held against the first run */
int tw_clock_experiment(struct tw_cmp *c, struct tw_side *first, struct twin_error *err);
void tw_clock_free(struct tw_cmp *c); /* clock_columns.c */

/* ---- noise.c: lines and names with their noise masked */
enum tw_mask {
    TW_MASK_NOISE,  /* '~' for each part that is shown to be noise */
    TW_MASK_OPEN,   /* and for each of which it is not known */
    TW_MASK_NUMBERS /* and '#' for every number, noise or not: what the line says, not how much */
};
/* A copy of the line with parts masked and white space left out where it only separates. NULL = no
 * memory. */
char *tw_noise_mask(const char *line, size_t n, const struct tw_facts *f, enum tw_mask mask);
/* Two lines of one meaning: is every number that differs noise in both? *open: no, but none of
 * those is surely a result. */
bool tw_noise_equal(const char *a, size_t n, const struct tw_facts *fa, const char *b, size_t m,
                    const struct tw_facts *fb, bool *open);
/* A number of two lines of one meaning of which it is not known whether it is a result, with its
 * unit. */
struct tw_noise_pair {
    size_t token;
    const char *a, *b;
    size_t a_bytes, b_bytes;
    bool of_result; /* its label names a result */
};
typedef void tw_noise_pair_fn(void *user, const struct tw_noise_pair *p);
/* Calls `each` for every such number. False: no memory. */
bool tw_noise_each_open(const char *a, size_t n, const struct tw_facts *fa, const char *b, size_t m,
                        const struct tw_facts *fb, tw_noise_pair_fn *each, void *user);
/* How much of their words two lines share, 0 to 1. */
double tw_noise_alike(const char *a, size_t n, const char *b, size_t m);
/* A path, or a name of a file in a record, with the facts of its own run masked: the same file has
 * the same one in both runs. NULL = no memory. */
char *tw_noise_name(const char *name, const struct tw_facts *f);
/* Step named by a printed line ("step 12", "epoch 3"); -1 when none. */
int64_t tw_noise_step(const char *line);

/* ---- output.c, files.c: evidence of last resort */
struct tw_last_resort {
    /* in: b's step = a's step + shift, for lines that name their step */
    int64_t shift;
    /* in: arms that end at other steps show other results at their ends */
    bool other_ends;
    struct tw_findings findings; /* differences that are real */
    struct tw_findings benign;
    struct tw_texts unknown; /* differences of which it is not known whether they matter */
};
/* ---- lines.c: two texts, line by line */
struct tw_text {
    const char *data;
    size_t bytes;
    const struct tw_facts *facts;
};
struct tw_lines {
    const char *name;    /* "stdout", or a file's path */
    const char *name_b;  /* the same file in the other run */
    enum twin_kind kind; /* TWIN_KIND_LINE or TWIN_KIND_FILE */
    struct tw_text a, b;
    bool ordered; /* the order of its lines is part of what it says */
    /* both are all that was written by runs that ended: text of one alone counts */
    bool whole;
    /* processes that print at once: one's line may begin where another's has not ended */
    bool several_writers;
    int64_t shift;
    bool other_ends; /* numbers count only in lines that name a step */
    bool grows;      /* only what was added to it is looked at */
};
void tw_lines_compare(struct tw_cmp *c, const struct tw_lines *l, struct tw_last_resort *out);
/* json_order.c: the text with the members of each object sorted by their keys, and else as it is
 * (compact: without blanks between values). *sorted is NULL when the text is no JSON; malloc'ed.
 * 0 or TWIN_ENOMEM. */
int tw_json_sorted(const char *text, size_t n, bool compact, char **sorted, size_t *length);
/* The finding or the note that says `text` (taken; may be NULL) of a file or a stream. */
struct twin_finding *tw_lines_finding(struct tw_cmp *c, const char *name, const char *name_b,
                                      enum twin_kind kind, char *text);
/* ---- filters.c: --ignore 'line:REGEX'. 0, or TWIN_EINVAL that names the expression. */
bool tw_lines_left_out(const struct tw_cmp *c, const char *text, size_t n);
int tw_lines_filters(struct tw_cmp *c, struct twin_error *err);
void tw_lines_filters_free(struct tw_cmp *c);

/* The last line that a run wrote to stderr (to stdout where they were one), 200 bytes at most, as
 * it is: not made safe to print. The caller frees it. NULL: there is none, or it was not kept. */
char *tw_last_printed(struct tw_cmp *c, const struct twin_run *run);
int tw_output_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                      struct tw_last_resort *out);
int tw_files_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                     struct tw_last_resort *out);
/* Of runs without records: how many printed lines of a, and files of both, are compared? */
size_t tw_output_lines(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b);
size_t tw_files_known(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b);
void tw_last_resort_free(struct tw_last_resort *r);

#endif
