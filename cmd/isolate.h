/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_ISOLATE_H
#define TW_CMD_ISOLATE_H
/* twinrun isolate as the command line gave it: isolate.c (table, order of events, output),
 * isolate_next.c (what to type next). The search is the room src/isolate's, its words are those of
 * src/report/isolation. */
#include "data.h"
#include "isolate_result.h"
#include "options.h"

/* The options, as the table of isolate.c fills them in. */
struct tw_isolate_options {
    struct tw_isolate_args search; /* what the search needs */
    const char *home, *html, *save_case, *ledger;
    struct tw_strings data;
    bool json, no_cases, verbose;
};

/* One call of twinrun isolate. */
struct tw_isolate_command {
    struct tw_isolate_options args;
    struct tw_isolate search;
    struct tw_remote remote; /* who makes its runs */
    bool reported;           /* the result is out */
};

/* ---- isolate_next.c. The command to go on with, or ""; malloc'ed, NULL: no memory. */
char *tw_isolate_next(const struct tw_isolate_command *command, const struct twin_search_report *r);
/* The one that comes after it, the same way: a cause has both a proof and a use of its pin. */
char *tw_isolate_then(const struct tw_isolate_command *command, const struct twin_search_report *r);

#endif
