/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_VISIT_H
#define TW_AGENT_VISIT_H
/*
 * The calling thread in the context of a device for a while, which may be another than its current
 * one. The job's own context is current again when the visit ends, whatever was refused.
 */
#include "driver.h"

struct tw_visit {
    const struct tw_driver *driver;
    tw_cu_context before; /* what was current */
    int device;           /* whose primary context is retained, when away */
    bool away;            /* another context was made current */
    const char *refused;  /* the function that the driver has refused, with this code; or NULL */
    int code;
};

/* `number`: of the device, among those that the process sees. The current context is stayed in
 * when it is of that device; else its primary context is visited, if the job has made that: none is
 * made for us. False: there is nothing to visit, or `refused`, and no end is needed. */
bool tw_visit_begin(struct tw_visit *v, const struct tw_driver *d, unsigned number);
void tw_visit_end(struct tw_visit *v);
#endif
