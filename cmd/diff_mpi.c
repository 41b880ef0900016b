/* SPDX-License-Identifier: Apache-2.0 */
#include "diff_mpi.h"

#include "options.h"
#include "say.h"

#include "base.h"

#include <assert.h>
#include <stdio.h>

/* struct twin_share's collect(): in the order of the processes, each once. */
static int collect(void *user, size_t part, struct tw_buf *out, struct twin_error *err)
{
    struct tw_processes *p = user;
    assert(part == p->taken + 1);
    int rc = tw_group_receive(&p->group, (int)part, out, err);
    if (rc == 0) {
        p->taken = part;
        return 0;
    }
    /* What else this process sends cannot be told from a message any more. */
    tw_trouble(err, "diff: --mpi");
    tw_group_abort(&p->group, TW_EXIT_TROUBLE);
}

int tw_processes_begin(struct tw_processes *p)
{
    struct twin_error err = TWIN_ERROR_INIT;
    *p = (struct tw_processes){.taken = 0};
    if (tw_group_join(&p->group, &err) != 0)
        return tw_trouble(&err, "diff: --mpi");
    p->share = (struct twin_share){.part = (size_t)p->group.rank,
                                   .parts = (size_t)p->group.size,
                                   .collect = collect,
                                   .user = p};
    if (p->group.rank > 0)
        tw_say_nothing();
    return 0;
}

void tw_processes_help(struct tw_processes *p, const struct twin_run *const *runs, size_t count)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_buf message = {0};
    const char *trouble = runs ? NULL : tw_said();
    if (runs && twin_share_verify(runs, count, &p->share, &message, &err) != 0)
        trouble = err.message;
    if (trouble && twin_share_trouble(p->share.part, p->share.parts, trouble, &message) != 0)
        tw_group_abort(&p->group, TW_EXIT_TROUBLE); /* not even that fits into memory */
    if (tw_group_send(&p->group, message.data, message.len, &err) != 0)
        tw_group_abort(&p->group, TW_EXIT_TROUBLE);
    tw_buf_free(&message);
}

int tw_processes_end(struct tw_processes *p, int code)
{
    while (p->share.part == 0 && p->taken + 1 < p->share.parts) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct tw_buf unused = {0};
        collect(p, p->taken + 1, &unused, &err);
        tw_buf_free(&unused);
    }
    /* A verdict that did not reach its reader must not look like one that did, in any of them. */
    if (p->share.part == 0 && fflush(stdout) != 0)
        code = TW_EXIT_TROUBLE;
    code = tw_group_agree(&p->group, code);
    tw_group_leave(&p->group);
    return code;
}
