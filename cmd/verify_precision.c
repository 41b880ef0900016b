/* SPDX-License-Identifier: Apache-2.0 */
/* verify RUN --precision POLICY: did the run keep to it? */
#include "verify.h"

#include "json.h"
#include "options.h"
#include "precision_words.h"
#include "runs.h"
#include "say.h"

#include "base.h"

#include <stdio.h>

int tw_verify_precision(const char *target, const struct tw_verify_args *a)
{
    static const int exits[] = {TW_EXIT_SAME, TW_EXIT_DIFFER, TW_EXIT_INCONCLUSIVE,
                                TW_EXIT_INCONCLUSIVE};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_precision_policy *p;
    struct twin_precision_verdict v;
    if (twin_precision_read(a->precision, &p, &err) != 0)
        return tw_trouble(&err, "verify: no policy");
    char *home = tw_home(a->home);
    struct twin_run *run = home ? tw_run_open(home, target) : NULL;
    int rc = run ? twin_precision_check(p, run, &v, &err) : TW_EXIT_TROUBLE;
    if (run && rc != 0)
        rc = tw_trouble(&err, "verify: the run was not judged");
    if (run && rc == 0) {
        if (a->json)
            rc = tw_json_print(tw_precision_json(&v, a->precision, run));
        else if (tw_precision_text(stdout, &v, a->precision, run) != 0)
            rc = tw_trouble(NULL, "verify: no memory for the answer");
        rc = rc ? rc : exits[v.outcome];
        twin_precision_verdict_free(&v);
    }
    twin_run_free(run);
    tw_free(home);
    twin_precision_free(p);
    return rc;
}
