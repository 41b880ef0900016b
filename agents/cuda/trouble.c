/* SPDX-License-Identifier: Apache-2.0 */
/* The line is written where the trouble is, so that report() only has to add how many tensors were
 * left out. */
#include "trouble.h"
#include "driver.h"
#include "src/trace/trace.h"

#include <stdatomic.h>
#include <stdio.h>

/* From NONE one thread takes it to WRITING, and then to what it is. */
enum { NONE, WRITING, COPIED, OFF };

static atomic_int trouble;
static char what[160];
static atomic_size_t unread;
static atomic_bool off;

/* Keeps the first one. */
static void keep(int kind, const struct tw_driver *d, const char *function, int code)
{
    int none = NONE;
    const char *name = NULL;
    if (!atomic_compare_exchange_strong(&trouble, &none, WRITING))
        return;
    if (code == 0)
        snprintf(what, sizeof what, "the driver has no %s", function);
    else if (d && d->error_name(code, &name) == 0 && name)
        snprintf(what, sizeof what, "%s failed with %s (%d)", function, name, code);
    else
        snprintf(what, sizeof what, "%s failed with error %d", function, code);
    atomic_store(&trouble, kind);
}

void tw_trouble_copied(const struct tw_driver *d, const char *function, int code)
{
    keep(COPIED, d, function, code);
}

/* Worse than having to copy, so it takes that one's place. */
void tw_trouble_off(const struct tw_driver *d, const char *function, int code)
{
    int copied = COPIED;
    atomic_store(&off, true);
    atomic_compare_exchange_strong(&trouble, &copied, NONE);
    keep(OFF, d, function, code);
}

bool tw_trouble_is_off(void)
{
    return atomic_load(&off);
}

void tw_trouble_unread(size_t tensors)
{
    atomic_fetch_add(&unread, tensors);
}

void tw_trouble_report(struct twin_writer *w)
{
    char line[320];
    const int kind = atomic_load(&trouble);
    if (kind == COPIED) {
        snprintf(line, sizeof line,
                 "tensors on the GPU were copied to the host, which is slower: %s; try a newer "
                 "driver, or a build with a newer nvcc",
                 what);
        twin_writer_note(w, "gpu.copied", line);
    } else if (kind == OFF) {
        snprintf(line, sizeof line,
                 "fingerprints on the GPU were switched off: %s; %zu tensors there were not read; "
                 "the error may be of a kernel of the job before: try compute-sanitizer",
                 what, atomic_load(&unread));
        twin_writer_note(w, "unseen", line);
    }
}

/* The text is left alone: the parent may have been writing it. */
void tw_trouble_forget(void)
{
    atomic_store(&trouble, NONE);
    atomic_store(&off, false);
    atomic_store(&unread, 0);
}
