/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_KNOWN_H
#define TW_REPORT_KNOWN_H
/*
 * Known cases: those that twinrun ships with, and the user's own in <home>/cases, which come first.
 */
#include "front.h"

#include "src/cases/cases.h"
#include "src/report/report.h"

#include <stdbool.h>

enum { TW_KNOWN_HINTS = 3 };

struct tw_known {
    struct twin_cases cases;
    struct twin_case_match match[TW_KNOWN_HINTS];
    struct twin_hint hint[TW_KNOWN_HINTS]; /* into the two above */
    size_t count;
};

/* What the first finding of a verdict shows; borrows from it. arms: "same", "two", "resumed". */
struct twin_signature tw_known_signature(const struct twin_finding *f, const char *arms);
/* Settings of the run that held from its first record to its end, for s->settings; the strings are
 * malloc'ed, and so is the list. */
size_t tw_known_settings(const struct twin_run *run, char ***out);
void tw_known_settings_free(char **settings, size_t count);
/* Fills k (tw_known_free). The front hears of files that are wrong; they are skipped: hints are
 * never worth a failure. */
void tw_known_look_up(const char *home, const struct twin_signature *s, struct tw_known *k,
                      const struct tw_front *front);
void tw_known_free(struct tw_known *k);
/* Could a case be written under this id? TWIN_EINVAL: no such id, or it is there; TWIN_ENOMEM. */
int tw_known_may_save(const char *home, const char *id, struct twin_error *err);
/* Writes <home>/cases/ID.toml; the front is told where. 0, or a TWIN_E*. */
int tw_known_save(const char *home, const char *id, const struct twin_signature *s,
                  const char *title, const char *cause, const char *fix,
                  const struct tw_front *front, struct twin_error *err);
#endif
