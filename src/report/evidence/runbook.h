/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_RUNBOOK_H
#define TW_RUNBOOK_H
#include "src/report/incident.h"

/* page: its name in docs/runbooks/; NULL: none fits. why: how that is known. Both are static. */
struct twin_runbook {
    const char *page, *why;
};

/* cause: as isolate named it, the first factor at its beginning; NULL: no search found one. */
struct twin_runbook twin_runbook_of(const char *cause, const struct twin_incident *x);
#endif
