/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_ASKING_LINES_H
#define TWIN_ASKING_LINES_H
/*
 * Which of the lines that ask for an isolated cause matter? Room: src/isolate.
 *
 * Under the cause's pin runs agree. In a trial some of the lines get other values than the pin
 * gives them, and all others the same: when that run diverges from the pinned one, a value of one
 * of those lines has reached what diverged. The caller makes the trials.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

enum twin_line_trial {
    TWIN_TRIAL_AGREES, /* with the pinned run */
    TWIN_TRIAL_DIVERGES,
    TWIN_TRIAL_VOID /* says nothing: the lines did not ask in it, or it did not end well */
};
/* One run in which the lines i with other[i] got other values. 0, or an error that ends the
 * experiment. */
typedef int twin_lines_try(void *user, const bool *other, size_t count, enum twin_line_trial *out,
                           struct twin_error *err);

enum twin_line_answer {
    TWIN_LINE_NOT_TRIED, /* nothing is known of it */
    TWIN_LINE_AGREES,    /* a run agreed in which it, perhaps among others, got other values */
    TWIN_LINE_DIVERGES   /* a run diverged in which it alone got other values */
};

/* Fills answer[0..count) with at most max_runs trials; *runs is how many were made. When no trial
 * agreed, one without other values shows whether that is the trial's own doing; then nothing is
 * known of any line. An error of the caller's, or its TWIN_EINTR, leaves all lines as not tried. */
int twin_lines_test(size_t count, uint32_t max_runs, twin_lines_try *make, void *user,
                    enum twin_line_answer *answer, uint32_t *runs, struct twin_error *err);
#endif
