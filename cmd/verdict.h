/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_VERDICT_H
#define TW_CMD_VERDICT_H
/* How check, diff and zoom hand their verdict out. */
#include "paragraphs.h"

#include "src/compare/compare.h"
#include "src/report/report.h"

#include <stdbool.h>
#include <stddef.h>

/* What a command adds to a verdict: how it was asked for, which forms are wanted, and what may be
 * suggested next. */
struct tw_verdict_output {
    const char *verb;    /* "check", "diff", "zoom" */
    const char *command; /* the job, as one could type it; for the "next" line */
    const char *junit;   /* file to write, or NULL */
    const char *html;    /* the same, a page */
    /* of the page: how the runs were compared; NULL: as they stand */
    const struct twin_compare_options *compare;
    bool json, github;
    bool plain;    /* stdout leads to a launcher, which may make a terminal of a file */
    bool can_zoom; /* a zoom may add to this verdict: suggest it */
    /* the cause is not known and the job can be run again: suggest twinrun isolate */
    bool can_isolate;
    bool shares_files; /* a run found files that earlier ones wrote */
    /* it is known that this is no matter of chance: do not ask "how often?" */
    bool repeats;
    const struct twin_hint *hint;
    size_t hint_count;
    struct twin_report_again again; /* what suggested commands need (again.h) */
};

/* Prints the verdict in every form that was asked for. Returns the exit code that belongs to it. */
int tw_verdict_print(const struct twin_verdict *v, const struct twin_run *const *runs, size_t count,
                     const struct tw_verdict_output *o);
/*
 * Writes the verdict as a page, with pictures of what the runs recorded. 0, or an exit code; said.
 */
int tw_verdict_page(const struct twin_report *report, const struct twin_compare_options *compare,
                    const char *path);
/* The object that --json prints when no verdict was reached: outcome "error" and what was said.
 * Returns code. */
int tw_verdict_json_error(int code);
/* With --bisect 2 and 3 become 125, so that `git bisect run` skips. */
int tw_bisect_code(int code, bool bisect);

/* While jobs run whose output is shown, our stdout is theirs. With --json it must hold nothing but
 * the object: theirs then goes to stderr until _restore. */
void tw_stdout_reserve(void);
void tw_stdout_restore(void);

/* What stdout can show of a text for people: its width within what can be read, and colours. */
struct tw_look tw_text_look(void);
/* The same for answers of which a program may want a line for each fact: lines are broken for a
 * terminal, or where COLUMNS asks for it. */
struct tw_look tw_lines_look(void);

#endif
