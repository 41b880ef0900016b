/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an order file (src/trace/order.h), read as by the agent of MPI inside of a job. What
 * is accepted holds what the agent relies on. Built with libFuzzer (-Dfuzz=true), or with replay.c.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agents/mpi/order_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

static void is_message(const struct tw_order *o, const struct tw_order_match *m)
{
    must(m->comm < o->head.comms && strlen(o->names[m->comm]) < TW_ORDER_NAME);
    must(m->source >= 0 && m->tag >= -1 && m->tag < TW_ORDER_TAGS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct tw_order o;
    if (fd < 0)
        fd = memfd_create("order", MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    if (!tw_order_load(fd, &o)) {
        must(!o.names && !o.matches && !o.ends && o.head.matches == 0 && o.head.ends == 0);
        return 0;
    }
    must(o.head.wait_ms <= TW_ORDER_WAIT_MOST_MS);
    for (uint32_t i = 0; i < o.head.matches; i++)
        if (o.matches[i].open)
            is_message(&o, &o.matches[i]);
        else
            must(o.matches[i].source == TW_ORDER_NOBODY);
    for (uint32_t i = 0; i < o.head.ends; i++)
        is_message(&o, &o.ends[i]);
    tw_order_drop(&o);
    return 0;
}
