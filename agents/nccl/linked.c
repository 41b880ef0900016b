/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of NCCL's collectives is not seen. Their contents are recorded by the hooks of PyTorch
 * alone, so in any other process that has NCCL a note of the trace says that they are not, and why:
 * no call of a NCCL that is linked statically can be stepped in front of at all.
 */
#include "agents/common/defined.h"
#include "agents/common/life.h"
#include "src/trace/trace.h"

#include <stdio.h>

static void report(struct twin_writer *w)
{
    struct tw_nccl_home home;
    char text[400];
    tw_nccl_home(&home);
    if (home.linked == TW_LINKED_NOT || home.torch)
        return;
    if (home.linked == TW_LINKED_STATIC)
        snprintf(text, sizeof text, "NCCL is linked statically into %s", home.file);
    else
        snprintf(text, sizeof text, "what is given to %s is recorded for PyTorch alone", home.file);
    twin_writer_note(w, "nccl.unseen", text);
}

static const struct tw_agent_life linked_life = {.report = report};
TW_AGENT_REGISTER(linked_life);
