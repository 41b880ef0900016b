/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LEDGER_NOTED_INSIDE_H
#define TW_LEDGER_NOTED_INSIDE_H
/* The two kinds of records, as the rest of the program has them: a loaded run, and the file of a
 * comparison. */
#include "src/launch/redact.h"
#include "src/launch/run.h"
#include "src/ledger/ledger.h"

/*
 * Writes a run as a record with its artifacts. home: as tw_ledger_home names it. safe: redacts the
 * command of a run that was just made; NULL for a run that was loaded, whose secrets are gone.
 */
int tw_ledger_put_folder(struct twin_ledger *l, const char *home, const struct twin_run *run,
                         const struct twin_redactor *safe, struct twin_error *err);

/* Writes <home>/comparisons/<id>.json. */
int tw_comparison_save(const char *home, const struct twin_ledger_comparison *c,
                       struct twin_error *err);
/* Puts the comparison of a file that tw_comparison_save wrote into the ledger. A file that is
 * something else, or is called otherwise than its id, is passed over: 0. */
int tw_comparison_put_file(struct twin_ledger *l, const char *dir, const char *name,
                           struct twin_error *err);

#endif
