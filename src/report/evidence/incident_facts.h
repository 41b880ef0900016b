/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_INCIDENT_FACTS_H
#define TW_REPORT_INCIDENT_FACTS_H
/* What an incident document says besides the verdict. */
#include "src/launch/run.h"
#include "src/ledger/ledger.h"
#include "src/report/incident.h"

#include <jansson.h>

/* Checks on record, each once. Zeroed; tw_incident_facts_free. */
struct tw_incident_facts {
    struct twin_incident_check *check;
    char **id; /* of each check, until they are put in order */
    size_t count;
};
/* Adds those of the command and of both runs, the oldest first. TWIN_EIO, TWIN_ENOMEM: what was
 * read until then stays. */
int tw_incident_ask(struct twin_ledger *l, const char *command, struct twin_run *const runs[2],
                    struct tw_incident_facts *f, struct twin_error *err);
void tw_incident_facts_free(struct tw_incident_facts *f);

/* p: the provenance of a run, or NULL. Commit, and whether something was changed since; versions of
 * what computed; "" where it is not known. malloc'ed; NULL: no memory. */
char *tw_incident_code(const json_t *p);
char *tw_incident_versions(const json_t *p);
/* When b recorded what differs, by the time in its trace; 0: not known. */
int64_t tw_incident_diverged_at(const struct twin_verdict *v, const struct twin_run *b);
/* The same as one object, with the document in it. The caller's; NULL: no memory. */
json_t *tw_incident_json(const struct twin_incident *x, const char *markdown);

#endif
