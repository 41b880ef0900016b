/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_WORDING_H
#define TW_REPORT_WORDING_H
/* Wording shared by the forms of a report. Everything appended here is safe for terminals. */
#include "base.h"

#include "src/report/report.h"

/* Appends bytes of a job's making, made printable. max: cut behind that many bytes, with "..."; 0 =
 * whole. */
void tw_say_safe(struct tw_buf *b, const char *s, size_t max);
/* The same of text whose names are escaped already. */
void tw_say_again(struct tw_buf *b, const char *s, size_t max);
/* For XML and HTML, in text and in quoted attributes. s is printable already (no control characters
 * but newline, valid UTF-8): what is left are XML's own five, and the code points U+FFFE and
 * U+FFFF, which UTF-8 can say and XML cannot. */
void tw_say_markup(struct tw_buf *b, const char *s);
/* "grad of encoder.embed.weight", "state of torch.cpu", "sample indices" */
void tw_say_what(struct tw_buf *b, const struct twin_finding *f);
/*
 * "step 17 · rank 0 · backward · grad of ...", or what happened, for findings that are no records.
 */
void tw_say_place(struct tw_buf *b, const struct twin_finding *f, bool ranks);
/* "312 of 1,048,576 elements, at most 2 ulp, relative L2 3.1e-8"; nothing when nothing is known. */
/* nothing where the role is known */
void tw_say_between(struct tw_buf *b, const struct twin_finding *f);
void tw_say_size(struct tw_buf *b, const struct twin_finding *f);
/* One line: the verdict in a sentence. */
void tw_say_headline(struct tw_buf *b, const struct twin_verdict *v);
/* "steps 8 to 19 of 20 compared, 48 of 81 records"; false, and nothing, when every step of run 1
 * was compared. */
bool tw_say_range(struct tw_buf *b, const struct twin_verdict *v);
/* "rank 0: steps 0 to 4 of 10; rank 0, process 2: steps 5 to 9 of 10 (its 0 to 4)"; nothing where
 * one range says it all. */
void tw_say_ranges(struct tw_buf *b, const struct twin_verdict *v, size_t most);
/* "weights 17 -> loss 19 -> printed loss 24" */
void tw_say_onsets(struct tw_buf *b, const struct twin_verdict *v);
void tw_say_classes(struct tw_buf *b, const struct twin_verdict *v);
/* "expected.json, made 2026-11-21T08:00:00Z of 3 runs, signed by ..." */
void tw_say_against(struct tw_buf *b, const struct twin_against *a);
/* "another than then: torch 2.12.0 -> 2.13.0; ..." */
void tw_say_world(struct tw_buf *b, const struct twin_against *a, size_t most);
/* "optimizer/weight/fc (rtol 1e-05): 40% used; the reason" */
void tw_say_rule(struct tw_buf *b, const struct twin_rule_use *r);
/* True for findings about records, which have a step and a phase. */
bool tw_is_record(const struct twin_finding *f);
/* First source line of a finding: file (malloc'ed by the buffer) and line number; false when
 * unknown. */
bool tw_source_line(const struct twin_finding *f, struct tw_buf *file, unsigned long *line);
enum { TW_NEXT_MAX = 5 };
struct tw_next {
    struct tw_buf command;
    const char *why;
};
/* Commands to try next; returns how many. The buffers are the caller's to free. */
size_t tw_report_next(const struct twin_report *r, struct tw_next *n); /* n: TW_NEXT_MAX */
int tw_report_finish(struct tw_buf *b, char **out, struct twin_error *err);
#endif
