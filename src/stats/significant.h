/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_SIGNIFICANT_H
#define TWIN_SIGNIFICANT_H
/*
 * Is a difference between two sets of runs real? The question chooses the method
 * (docs/significant.md); a difference below the floor does not count, whatever its p. Room:
 * src/stats. Pure, thread-safe; nothing is allocated that stays.
 */
#include "src/stats/stats.h"

enum twin_question {
    /* do the values differ? Mann and Whitney's test; the difference B - A, Hodges and Lehmann */
    TWIN_ASK_METRIC,
    TWIN_ASK_SPEED, /* the same of the logarithms: times and rates, the ratio B / A */
    /* do they spread differently? Brown and Forsythe; the ratio of standard deviations */
    TWIN_ASK_VARIANCE,
    TWIN_ASK_WITHIN, /* are they equal within a margin? two one-sided tests on the logarithms */
    TWIN_ASK_BITWISE /* is it one value, bit for bit? */
};
enum twin_real {
    TWIN_REAL,        /* a difference is shown, and it exceeds the floor */
    TWIN_REAL_BELOW,  /* a difference is shown; that it exceeds the floor is not */
    TWIN_REAL_WITHIN, /* they are shown to be equal within the margin; bitwise: one value */
    TWIN_REAL_NOT,    /* neither is shown */
    TWIN_REAL_TOO_FEW /* so few values that no difference could have been shown */
};
const char *twin_question_name(enum twin_question q); /* metric|speed|variance|within|bitwise */
int twin_question_parse(const char *s, enum twin_question *out); /* TWIN_EINVAL */
const char *twin_real_name(enum twin_real r); /* real|below-floor|within|not-shown|too-few */

struct twin_asked {
    enum twin_question question;
    /* 0 < alpha < .5: level of the test; the interval's confidence is 1 - alpha (within: 1 - 2
     * alpha) */
    double alpha;
    double margin; /* within: > 1, 1.05 for 5% */
    /* >= 0: the smallest difference that means anything; in the unit of the values, of a ratio its
     * distance from 1 */
    double floor;
};

struct twin_set_summary {
    size_t n, distinct;          /* distinct: bit patterns */
    double min, max, mean, sd;   /* sd NaN below two values */
    struct twin_estimate median; /* with its 95% interval from six values on */
    /* outliers by modified z; mad 0: more than half are equal, none can be told */
    struct twin_mad mad;
};

struct twin_significance {
    enum twin_real answer;
    struct twin_set_summary set[2];
    struct twin_estimate effect; /* B - A, or B / A */
    bool ratio;                  /* the effect is one */
    double p;                    /* NaN where the question has none */
    enum twin_method method;     /* of Mann and Whitney's test */
    /* Brown and Forsythe; NaN below three values a set, or without any spread */
    struct twin_f_test spread;
    /* values a set for an answer, from what was seen; 0: not to be had with any number, or an
     * answer is there */
    size_t needed;
    /* too few or not shown: the smallest effect that this many would show in 8 of 10 cases (normal
     * approximation); NaN */
    double visible;
};

/* a, b: finite values; for speed and within positive. TWIN_EINVAL (which, is the caller's to say:
 * ranges above), TWIN_ENOMEM. */
int twin_significance(const double *a, size_t na, const double *b, size_t nb,
                      const struct twin_asked *asked, struct twin_significance *out);
#endif
