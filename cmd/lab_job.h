/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_LAB_JOB_H
#define TW_CMD_LAB_JOB_H
/* What twinrun lab runs. */
#include "data.h"
#include "lab.h"
#include "options.h"

/* The user's command, or one of the two jobs that come with twinrun, whose data are weighed first.
 * -1, or the exit code after a complaint. */
int tw_lab_choose_job(struct tw_lab *lab, const struct tw_operands *job);
#endif
