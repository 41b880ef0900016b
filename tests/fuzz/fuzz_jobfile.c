/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a manifest or a script for sbatch. What is refused has a message; what is accepted
 * has findings with all of their texts, and a fix exactly where a rule does not hold. Built with
 * libFuzzer (-Dfuzz=true), or with replay.c. */
#include <stdlib.h>
#include <string.h>

#include "jobfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {"k", NULL};
    const struct tw_jobfile_asked asked = {.pool_labels = labels, .image_digest = {"sha256:00"}};
    struct tw_jobfile_findings found;
    struct twin_error err = TWIN_ERROR_INIT;
    const int rc = tw_jobfile_lint("input", (const char *)data, size, &asked, &found, &err);
    must(rc == 0 || (rc == err.code && err.message[0] != '\0'));
    for (size_t i = 0; rc == 0 && i < found.count; i++) {
        const struct tw_jobfile_finding *f = &found.item[i];
        must(f->rule < TW_RULES && f->line >= 1 && f->line <= size + 1);
        must(f->where && f->what && (f->fix == NULL) == (f->state == TW_RULE_HOLDS));
    }
    must(rc != 0 || found.count == 0 || found.jobs > 0);
    tw_jobfile_findings_free(&found);
    return 0;
}
