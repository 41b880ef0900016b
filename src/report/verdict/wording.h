/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_WORDING_H
#define TW_REPORT_WORDING_H
/*
 * Wording shared by the forms of a report: text for people, JSON, pages, JUnit and GitHub. One
 * place for each phrase, so that all forms say the same of one verdict.
 *
 * The functions append to a buffer and return nothing unless said otherwise; without memory the
 * buffer is marked as failed. Everything that they append of a job's making is safe for terminals:
 * control characters are escaped.
 */
#include "base.h"

#include "src/report/report.h"

/* Appends bytes of a job's making, made printable. max: cut behind that many bytes of s, never
 * inside of a character, with "..."; 0: whole. */
void tw_say_safe(struct tw_buf *b, const char *s, size_t max);
/* The same of text whose names are escaped already: a \xNN in it stays as it is. */
void tw_say_again(struct tw_buf *b, const char *s, size_t max);
/* Appends s for XML and HTML, in text and in quoted attributes. s is printable already (no control
 * characters but newline, valid UTF-8): what is left to escape are XML's own five characters, and
 * the code points U+FFFE and U+FFFF, which UTF-8 can say and XML cannot. */
void tw_say_markup(struct tw_buf *b, const char *s);
/* What a finding is about: "grad of encoder.embed.weight", "state of torch.cpu", "sample indices"
 */
void tw_say_what(struct tw_buf *b, const struct twin_finding *f);
/* "rank 3", with what it does in the job where that is known: "rank 3 (pp 1, dp 1)". */
void tw_say_rank(struct tw_buf *b, const struct twin_finding *f);
/* Where a finding is: "step 17 · rank 0 · backward · grad of ...", or what happened, for findings
 * that are no records. ranks: say the rank even when it is 0, because other ranks are spoken of as
 * well. */
void tw_say_place(struct tw_buf *b, const struct twin_finding *f, bool ranks);
/* Of a finding whose role is not known: between which two records its origin must lie. Nothing
 * where the role is known. */
void tw_say_between(struct tw_buf *b, const struct twin_finding *f);
/* How far apart the values are: "312 of 1,048,576 elements, at most 2 ulp, relative L2 3.1e-8".
 * Nothing of what is no tensor with values in both runs. */
void tw_say_size(struct tw_buf *b, const struct twin_finding *f);
/* The sentence behind the outcome's word, in one line: "from step 17 on (3 of 20 steps)". */
void tw_say_headline(struct tw_buf *b, const struct twin_verdict *v);
/* "steps 8 to 19 of 20 compared, 48 of 81 records"; false, and nothing, when every step of run 1
 * was compared. */
bool tw_say_range(struct tw_buf *b, const struct twin_verdict *v);
/* The same of each process: "rank 0: steps 0 to 4 of 10; rank 0, process 2: steps 5 to 9 of 10 (its
 * 0 to 4)"; nothing where one range says it all. most: how many are listed. */
void tw_say_ranges(struct tw_buf *b, const struct twin_verdict *v, size_t most);
/* When each kind of thing first differs, at most eight, without the kind of the first finding:
 * "weights 17 -> loss 19 -> printed loss 24" */
void tw_say_onsets(struct tw_buf *b, const struct twin_verdict *v);
/* Which runs agree and which diverge: "runs 1,3 agree; run 2 diverges at step 5". */
void tw_say_classes(struct tw_buf *b, const struct twin_verdict *v);
/* The baseline that a run was held against: "expected.json, made 2026-11-21T08:00:00Z of 3 runs,
 * signed by ..." */
void tw_say_against(struct tw_buf *b, const struct twin_against *a);
/* The pins that the runs of a verdict were made under: who named them, whether they took effect,
 * and of what the verdict is therefore. Only of a verdict that has them. */
void tw_say_pinned(struct tw_buf *b, const struct twin_verdict *v);
/* How the world is another one than when the baseline was made: "another than then: torch 2.12.0 ->
 * 2.13.0; ..." most: how many changes are listed. */
void tw_say_world(struct tw_buf *b, const struct twin_against *a, size_t most);
/* What became of a rule of the tolerance file: "optimizer/weight/fc (rtol 1e-05): 40% used; the
 * reason" */
void tw_say_rule(struct tw_buf *b, const struct twin_rule_use *r);
/* True for findings about records, which have a step and a phase. */
bool tw_is_record(const struct twin_finding *f);
/* The first line of a place in the source, taken apart: "train.py:12 in step" and "train.py:12, 3
 * calls: ..." give train.py and 12.
 * file is appended to and the caller's to free. False, with file as far as it was filled, when the
 * line names no file and number. */
bool tw_source_line(const char *site, struct tw_buf *file, unsigned long *line);
/* Most suggestions of one verdict. */
enum { TW_NEXT_MAX = 5 };
/* One suggestion. why: what it is good for, in a few words; static. A command is not always one of
 * twinrun: it may be a line that the user is to add to the job. */
struct tw_next {
    struct tw_buf command;
    const char *why;
};
/* Fills n, an array of TW_NEXT_MAX, with what to try next; returns how many.
 * The buffers are the caller's to free, also those that failed. */
size_t tw_report_next(const struct twin_report *r, struct tw_next *n); /* room for TW_NEXT_MAX */
/* Ends a report: *out takes the text, malloc'ed, and b is empty after. 0, or TWIN_ENOMEM with *out
 * NULL when b had failed. */
int tw_report_finish(struct tw_buf *b, char **out, struct twin_error *err);
#endif
