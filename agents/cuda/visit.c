/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context is pushed and popped, not set: so the job's stack of contexts is afterwards what it
 * was, also where nothing was current. The primary context is retained meanwhile, since another
 * thread of the job may give it back; a handle that was kept from visit to visit could name one
 * that is gone.
 */
#include "visit.h"

/* What the driver gave. The first refusal counts. */
static bool granted(struct tw_visit *v, const char *function, int code)
{
    if (code && !v->refused) {
        v->refused = function;
        v->code = code;
    }
    return code == 0;
}

/* Whether the current context is of this device. */
static bool is_there(struct tw_visit *v)
{
    int own = -1;
    return v->before && v->driver->context_device(&own) == 0 && own == v->device;
}

bool tw_visit_begin(struct tw_visit *v, const struct tw_driver *d, unsigned number)
{
    unsigned flags = 0;
    int active = 0;
    tw_cu_context primary = NULL;
    *v = (struct tw_visit){.driver = d};
    if (!granted(v, "cuCtxGetCurrent", d->context_current(&v->before)) ||
        !granted(v, "cuDeviceGet", d->device_get(&v->device, (int)number)))
        return false;
    if (is_there(v))
        return true;
    if (!granted(v, "cuDevicePrimaryCtxGetState", d->primary_state(v->device, &flags, &active)) ||
        !active || !granted(v, "cuDevicePrimaryCtxRetain", d->primary_retain(&primary, v->device)))
        return false;
    v->away = granted(v, "cuCtxPushCurrent", d->context_push(primary));
    if (!v->away)
        d->primary_release(v->device);
    return v->away;
}

void tw_visit_end(struct tw_visit *v)
{
    const struct tw_driver *d = v->driver;
    tw_cu_context popped = NULL, now = NULL;
    if (!v->away)
        return;
    v->away = false;
    granted(v, "cuCtxPopCurrent", d->context_pop(&popped));
    /* an error may be of work that was put on the device before: it does not say what was popped */
    if (d->context_current(&now) != 0 || now != v->before)
        granted(v, "cuCtxSetCurrent", d->context_set(v->before));
    d->primary_release(v->device);
}
