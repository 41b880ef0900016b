/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that may be part of a rollout: TWINRUN_ROLLOUT names the flag file. Whatever goes wrong,
 * the run is made as if there were no rollout.
 */
#include "rollout_run.h"

#include "say.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

/* The arm becomes "off", since the pins cannot be had. */
static void give_up(struct tw_rollout_run *r, const struct twin_error *err)
{
    char *arm = tw_strdup("off"), *why = tw_strdup(err->message);
    tw_free(r->joined.pins);
    r->joined.pins = NULL;
    if (arm && why) {
        tw_free(r->joined.run.arm);
        tw_free(r->joined.run.why);
        r->joined.run.arm = arm;
        r->joined.run.why = why;
    } else { /* better no record of the rollout than a wrong one */
        tw_free(arm);
        tw_free(why);
        tw_rollout_joined_free(&r->joined);
    }
}

bool tw_rollout_run_join(struct tw_rollout_run *r, const char *given, const char *factor_file,
                         char **argv, bool quiet)
{
    struct twin_error err = TWIN_ERROR_INIT;
    *r = (struct tw_rollout_run){.plan = {.cpu = -1}};
    tw_rollout_join(getenv("TWINRUN_ROLLOUT"), given, factor_file, &r->joined);
    if (r->joined.pins) {
        int rc = twin_factors_load(factor_file, &r->factors, &err);
        rc = rc ? rc : twin_world_parse(&r->factors, r->joined.pins, &r->world, &r->left_out, &err);
        rc = rc ? rc : twin_world_plan(&r->world, argv, &r->plan, &err);
        if (rc != 0)
            give_up(r, &err);
    }
    const char *arm = r->joined.run.arm;
    if (!quiet && arm && (strcmp(arm, "off") == 0 || strcmp(arm, "overridden") == 0))
        tw_say("rollout: this run is no part of it: %s", r->joined.run.why);
    else if (!quiet && r->joined.pins)
        tw_say("rollout %s: this run has its pins (%s)", r->joined.run.id, arm);
    return r->joined.pins != NULL;
}

void tw_rollout_run_free(struct tw_rollout_run *r)
{
    twin_world_plan_free(&r->plan);
    twin_world_free(&r->world);
    twin_factors_free(&r->factors);
    tw_free(r->left_out);
    tw_rollout_joined_free(&r->joined);
}
