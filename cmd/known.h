/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_KNOWN_H
#define TW_CMD_KNOWN_H
/*
 * Known cases: those that twinrun ships with, and the user's own in <home>/cases, which come first.
 */
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
/* Fills k (tw_known_free). Files that are wrong are said and skipped: hints are never worth a
 * failure. */
void tw_known_look_up(const char *home, const struct twin_signature *s, struct tw_known *k);
void tw_known_free(struct tw_known *k);
/* Could a case be written under this id? Says why not. 0, or TW_EXIT_TROUBLE. */
int tw_known_may_save(const char *home, const char *id);
/* Writes <home>/cases/ID.toml; says where, or what was wrong. 0, or TW_EXIT_TROUBLE. */
int tw_known_save(const char *home, const char *id, const struct twin_signature *s,
                  const char *title, const char *cause, const char *fix);
#endif
