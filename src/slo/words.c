/* SPDX-License-Identifier: Apache-2.0 */
/* Names of indicators, states, scopes and units. */
#include "slo.h"

#include "base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *words;
} indicator[] = {
    [TW_SLO_RUNS] = {"M1", "repeated runs that agree"},
    [TW_SLO_CHECKPOINTS] = {"M2", "checkpoints that match"},
    [TW_SLO_VARIANCE] = {"M3", "variance of the loss over its limit"},
    [TW_SLO_FLAKES] = {"M4", "CI results that changed without a change of inputs"},
    [TW_SLO_DATA] = {"M5", "runs whose data matched their snapshot"},
    [TW_SLO_OPERATORS] = {"M6", "nondeterministic calls of deterministic runs"},
    [TW_SLO_RUN_TIME] = {"M7", "spread of the run time over its median"},
    [TW_SLO_ROLLBACKS] = {"M8", "rollbacks and drills that restored the state"},
    [TW_SLO_ARTIFACTS] = {"M9", "artifacts signed and verified"},
    [TW_SLO_BURN] = {"M10", "budget burned in one hour"},
    [TW_SLO_REPRODUCE] = {"reproduce", "time to reproduce"},
    [TW_SLO_PROVENANCE] = {"provenance", "areas of audits that pass"},
    [TW_SLO_RANKING] = {"ranking", "stability of rankings of sweeps"},
};
_Static_assert(sizeof indicator / sizeof indicator[0] == TW_SLO_IDS, "one row for each");

const char *tw_slo_name(enum tw_slo_id id)
{
    return indicator[id].name;
}

const char *tw_slo_words(enum tw_slo_id id)
{
    return indicator[id].words;
}

int tw_slo_parse(const char *name, enum tw_slo_id *out)
{
    for (size_t i = 0; i < TW_SLO_IDS; i++)
        if (strcmp(indicator[i].name, name) == 0) {
            *out = (enum tw_slo_id)i;
            return 0;
        }
    return TWIN_EINVAL;
}

const char *tw_slo_state_name(enum tw_slo_state s)
{
    static const char *const name[] = {[TW_SLO_KEPT] = "kept",
                                       [TW_SLO_BROKEN] = "broken",
                                       [TW_SLO_NOT_KNOWN] = "not-known",
                                       [TW_SLO_SHOWN] = "shown"};
    return name[s];
}

const char *tw_slo_scope_name(enum tw_slo_scope s)
{
    static const char *const name[] = {[TW_SLO_ALL] = "all",
                                       [TW_SLO_PROJECT] = "project",
                                       [TW_SLO_FAMILY] = "family",
                                       [TW_SLO_CONTRIBUTOR] = "contributor"};
    return name[s];
}

const char *tw_slo_unit_name(enum tw_slo_unit u)
{
    static const char *const name[] = {[TW_SLO_SHARE] = "share",
                                       [TW_SLO_RATIO] = "ratio",
                                       [TW_SLO_COUNT] = "count",
                                       [TW_SLO_SECONDS] = "seconds",
                                       [TW_SLO_TAU] = "tau"};
    return name[u];
}

const char *tw_slo_figure(enum tw_slo_unit unit, double v, char out[32])
{
    char seconds[24];
    if (isnan(v))
        snprintf(out, 32, "-");
    else if (unit == TW_SLO_SHARE)
        snprintf(out, 32, "%.4g%%", 100 * v);
    else if (unit == TW_SLO_SECONDS)
        snprintf(out, 32, "%s", tw_human_seconds(v, seconds));
    else
        snprintf(out, 32, "%.4g", v);
    return out;
}
