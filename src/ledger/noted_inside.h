/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_LEDGER_NOTED_INSIDE_H
#define TW_LEDGER_NOTED_INSIDE_H
/* The two kinds of records, as the rest of the program has them: a loaded run, and the file of a
 * comparison. */
#include "src/compare/compare.h"
#include "src/launch/redact.h"
#include "src/launch/run.h"
#include "src/ledger/ledger.h"

#include <jansson.h>

/*
 * Writes a run as a record with its artifacts. home: as tw_ledger_home names it. safe: redacts the
 * command of a run that was just made; NULL for a run that was loaded, whose secrets are gone.
 */
int tw_ledger_put_folder(struct twin_ledger *l, const char *home, const struct twin_run *run,
                         const struct twin_redactor *safe, struct twin_error *err);

/* Writes the facts of a run (src/ledger/facts.c), once; read from its folder, where secrets are
 * gone. */
int tw_ledger_put_facts_of(struct twin_ledger *l, const struct twin_run *run,
                           struct twin_error *err);

/* By its name. */
bool tw_is_checkpoint(const char *path);
/* Of a verdict about count runs: which of them agree with the first one, into out[count]; and how
 * the checkpoints fared that they wrote. */
void tw_agreed_of(const struct twin_verdict *v, size_t count, enum twin_ledger_agreed *out);
struct twin_ledger_checkpoints tw_checkpoints_of(const struct twin_verdict *v,
                                                 const struct twin_run *const *runs, size_t count);

/* A JSON file of at most `most` bytes as a tree, for json_decref; NULL: there is none that can be
 * read. */
json_t *tw_noted_load(const char *dir, const char *name, size_t most);
/* A text of an object; "": there is none. Points into o. */
const char *tw_noted_text(const json_t *o, const char *key);
/* Writes j as FOLDER/ID.json in the home, all of it or nothing; makes both. NULL: no memory. */
int tw_noted_save(const char *home, const char *folder, const char *id, const json_t *j,
                  struct twin_error *err);

/* 32 random hex digits, for a comparison or an event. */
int tw_ledger_new_id(char id[33], struct twin_error *err);
/* Puts the event of a file that tw_event_save wrote into the ledger; others are passed over: 0. */
int tw_event_put_file(struct twin_ledger *l, const char *dir, const char *name,
                      struct twin_error *err);
/* Writes <home>/events/<id>.json. */
int tw_event_save(const char *home, const struct twin_ledger_event *e, struct twin_error *err);

/* Writes <home>/comparisons/<id>.json. */
int tw_comparison_save(const char *home, const struct twin_ledger_comparison *c,
                       struct twin_error *err);
/* Puts the comparison of a file that tw_comparison_save wrote into the ledger. A file that is
 * something else, or is called otherwise than its id, is passed over: 0. */
int tw_comparison_put_file(struct twin_ledger *l, const char *dir, const char *name,
                           struct twin_error *err);

#endif
