/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_LEDGER_H
#define TW_CMD_LEDGER_H
/* What the commands write to the ledger, and how it catches up with the run folders. Trouble with
 * it is said, and changes no exit code. */
#include "options.h"

#include "src/compare/compare.h"
#include "src/launch/run.h"
#include "src/ledger/ledger.h"

#define TW_LEDGER_OPTION(s, f)                                                                    \
    {"ledger",                                                                                    \
     0,                                                                                           \
     TW_OPT_STRING,                                                                               \
     "URL",                                                                                       \
     NULL,                                                                                        \
     "Output",                                                                                    \
     "postgresql://... instead of ledger.db in the home (TWINRUN_LEDGER does the same), or none", \
     offsetof(struct s, f)}

/* What a command found out. first NULL: no divergence. */
struct tw_noted {
    const char *home, *url;
    const char *verb, *command, *outcome, *cause; /* verb NULL: runs only */
    const struct twin_finding *first;
    const struct twin_run *const *runs;
    size_t count;
};
void tw_ledger_note(const struct tw_noted *n);
void tw_ledger_note_run(const char *home, const char *url, const struct twin_run *r);

/* Opens the ledger of a home and catches up. NULL: there is none, and that was said unless it was
 * asked for; live (may be NULL) is called with each run that is going on, or that could not be
 * loaded (r NULL). */
typedef void tw_live_fn(void *user, const char *dir, const struct twin_run *r,
                        const struct twin_error *err);
struct twin_ledger *tw_ledger_open(const char *home, const char *url, tw_live_fn *live, void *user);
/* How the runs of this home are told from others in a shared ledger: "" or HOST:/home. malloc'ed;
 * NULL: no memory. */
char *tw_ledger_home(const char *home, const char *url);

#endif
