/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_INCIDENT_FACTS_H
#define TW_REPORT_INCIDENT_FACTS_H
/* What an incident document says besides the verdict. */
#include "front.h"
#include "known.h"

#include "src/launch/run.h"
#include "src/ledger/ledger.h"
#include "src/provenance/provenance.h"
#include "src/report/incident.h"

#include <jansson.h>

/* Checks on record, each once. Zeroed; tw_incident_facts_free. */
struct tw_incident_facts {
    struct twin_incident_check *check;
    size_t count, room;
    size_t most; /* more are TWIN_ELIMIT; 0: any number */
};
/* Adds those of the command and of both runs (by id), the oldest first. TWIN_EIO, TWIN_ENOMEM,
 * TWIN_ELIMIT: what was read until then stays. */
int tw_incident_ask(struct twin_ledger *l, const char *command, const char *const run_id[2],
                    struct tw_incident_facts *f, struct twin_error *err);
void tw_incident_facts_free(struct tw_incident_facts *f);

/* p: the provenance of a run, or NULL. Commit, and whether something was changed since; versions of
 * what computed; "" where it is not known. malloc'ed; NULL: no memory. */
char *tw_incident_code(const json_t *p);
char *tw_incident_versions(const json_t *p);
/* When b recorded what differs, by the time in its trace; 0: not known. */
int64_t tw_incident_diverged_at(const struct twin_verdict *v, const struct twin_run *b);
/* Two runs and all that is known of them. x is what the document is made of; it points into the
 * rest, so a case must not be moved while it is open. */
struct tw_incident_case {
    struct twin_incident x;
    struct tw_incident_facts checks; /* the caller's to fill, by tw_incident_ask */
    struct twin_run *const *runs;    /* borrowed */
    char *command[2], *code[2], *versions[2], state[2][32];
    json_t *provenance[2]; /* NULL: of a version that kept none */
    struct twin_world_differences differences;
    struct twin_incident_world *world;
    struct tw_known known;
};
/* Reads what the runs say of themselves: x.command and x.same_command are known then, by which the
 * caller compares and asks the ledger. What cannot be read, and what there is no memory for, is
 * left empty: the document makes a question of it. tw_incident_close in any case. */
void tw_incident_open(struct tw_incident_case *c, struct twin_run *const runs[2]);
/* Fills in the rest of x: how the worlds differ, how the runs ended, when they diverged, the checks
 * on record, cases that look alike. v must live as long as the case. */
void tw_incident_gather(struct tw_incident_case *c, const struct twin_verdict *v, const char *home,
                        const struct tw_front *front);
void tw_incident_close(struct tw_incident_case *c);
/* Checks as an array, for another process. NULL: no memory. And out of one, added to f:
 * TWIN_EINVAL: it is none. */
json_t *tw_incident_checks_json(const struct twin_incident_check *check, size_t count);
int tw_incident_checks_read(const json_t *list, struct tw_incident_facts *f);
/* The same as one object, with the document in it. The caller's; NULL: no memory. */
json_t *tw_incident_json(const struct twin_incident *x, const char *markdown);

#endif
