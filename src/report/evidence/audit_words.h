/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_AUDIT_WORDS_H
#define TW_REPORT_AUDIT_WORDS_H
/* What an audit found of one target, and what is said of it. */
#include "src/package/package.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct tw_audited {
    const char *given, *kind; /* "package", "run", "folder" */
    struct twin_packed found;
    struct twin_bag_verdict verdict; /* of a package */
    char name[65];                   /* SHA-256 of what was audited; "" when it has no such name */
    const char *named;               /* what that is the digest of */
    json_t *operations; /* answers of a checklist of operations (operations.h), or NULL */
};

/* All five areas, and a package is what its manifests say. */
bool tw_audited_passes(const struct tw_audited *t);
/* checklist: a venue's name, that of the answers in `operations`, or NULL. The caller's; NULL: no
 * memory. */
json_t *tw_audited_json(const struct tw_audited *t, const char *checklist);
/* several: another target comes behind it. */
void tw_audited_text(FILE *out, const struct tw_audited *t, const char *checklist, bool several);
/* Of an in-toto statement of test results. version: of this program. The caller's. */
json_t *tw_audited_predicate(const struct tw_audited *t, const char *version);

#endif
