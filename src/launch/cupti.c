/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the CUDA driver is asked to load our agent when it starts, by the variable
 * CUDA_INJECTION64_PATH: the agent then subscribes to CUPTI's callbacks (agents/cupti). The driver
 * loads one such library: one of the user's own (a profiler's) stays, and a note says what is not
 * seen for it. It is asked with TWINRUN_CUPTI=on only: it has not run in a job on a GPU yet, and
 * CUPTI before CUDA 13.2 has one subscriber, which torch.profiler would then not be
 * (docs/internals/cupti.md).
 */
#include "launch.h"

#include <string.h>

static const char variable[] = "CUDA_INJECTION64_PATH";

void tw_cupti_prepare(struct tw_agent_setup *a, const struct tw_env *e, struct twin_run *run)
{
    const char *said = tw_env_get(e, "TWINRUN_CUPTI"), *set = tw_env_get(e, variable);
    if (!a->preload || !said || !*said || strcmp(said, "off") == 0)
        return;
    a->cupti = !set || !*set;
    if (!a->cupti)
        tw_run_note(run,
                    "which kernels are launched on a GPU is not seen: %s is set to %s already, and "
                    "the CUDA driver loads one such library only",
                    variable, set);
}

int tw_cupti_protocol(struct tw_env *e, const struct tw_agent_setup *a, struct twin_error *err)
{
    return a->cupti ? tw_env_set(e, variable, a->library, err) : 0;
}

void tw_cupti_not_outer(struct tw_env *e)
{
    const char *set = tw_env_get(e, variable), *outer = tw_env_get(e, "TWINRUN_LIB");
    if (set && outer && strcmp(set, outer) == 0)
        tw_env_unset(e, variable);
}
