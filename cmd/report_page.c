/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun report --html: recorded runs as a page. */
#include "report.h"

#include "page.h"
#include "runs.h"
#include "say.h"
#include "verdict.h"

#include "base.h"

#include "src/compare/compare.h"

#include <string.h>

static int page(const struct twin_run *const *runs, size_t count, const char *command, bool arms,
                const struct tw_report_page *what)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_verdict *v = NULL;
    const struct twin_compare_options o = {.arms = arms,
                                           .find_shift = arms,
                                           .ignore = what->ignore->items,
                                           .ignore_count = what->ignore->count,
                                           .tolerance_file = what->tolerance};
    if (twin_compare(runs, count, &o, &v, &err) != 0)
        return tw_trouble(&err, "report: cannot compare the runs");
    const struct twin_report r = {.verdict = v,
                                  .runs = runs,
                                  .run_count = count,
                                  .verb = "report",
                                  .command = arms ? NULL : command};
    int rc = tw_verdict_page(&r, &o, what->html);
    twin_verdict_free(v);
    return rc;
}

int tw_report_page(const char *home, const struct tw_operands *names,
                   const struct tw_report_page *what)
{
    struct twin_run **runs = tw_calloc(names->count, sizeof *runs);
    char *first = NULL;
    size_t count = 0;
    bool arms = false;
    int rc = tw_page_check("report", what->html);
    if (rc == 0 && !runs)
        rc = tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "report: cannot open the runs");
    for (; rc == 0 && count < names->count; count += rc == 0) {
        runs[count] = tw_run_open(home, names->items[count]);
        char *command = runs[count] ? tw_shell_quote(runs[count]->argv, runs[count]->argc) : NULL;
        rc = runs[count] ? 0 : TW_EXIT_TROUBLE;
        arms |= first && command && strcmp(first, command) != 0;
        if (first)
            tw_free(command);
        else
            first = command;
    }
    if (rc == 0)
        rc = page((const struct twin_run *const *)runs, count, first, arms, what);
    for (size_t i = 0; i < count; i++)
        twin_run_free(runs[i]);
    tw_free(runs);
    tw_free(first);
    return rc;
}
