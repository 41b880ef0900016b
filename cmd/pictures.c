/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun --pictures OTHER ID FOLDER [ID FOLDER...]: what `twinrun serve` starts for a comparison
 * of its live page, and nobody types. Compares the first run with the one of this number (from 1)
 * and writes what the page shows to stdout; src/serve/child.c reads it.
 *
 * A process of its own, since run folders may be huge, damaged or made to do harm: it has limits of
 * memory and time, writes no file, and ends with whoever started it.
 *
 * Written are a header (struct tw_pictures_head), two texts of JSON, the steps (u32) and the cells
 * (u16, row after row), in the order of bytes of this machine.
 */
#include "pictures.h"

#include "options.h"

#include "base.h"
#include "verdict_data.h"

#include "src/launch/run.h"
#include "src/serve/child.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* Mapped traces do not count: they are read-only pages of files. */
static const rlim_t MEMORY = (rlim_t)3 << 30;

static bool limit(int what, rlim_t most)
{
    struct rlimit l;
    if (getrlimit(what, &l) != 0)
        return false;
    l.rlim_cur = l.rlim_cur < most ? l.rlim_cur : most;
    l.rlim_max = l.rlim_max < most ? l.rlim_max : most;
    return setrlimit(what, &l) == 0;
}

/* False: it is not safe to read anything. */
static bool limit_all(void)
{
    return limit(RLIMIT_DATA, MEMORY) && limit(RLIMIT_CPU, SERVE_CHILD_S + 1) &&
           limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_CORE, 0) &&
           prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           nice(5) != -1;
}

static int put_all(const struct tw_verdict_data *d)
{
    const struct twin_field *f = &d->field;
    char *head = json_dumps(d->head, JSON_COMPACT | JSON_ENSURE_ASCII);
    char *rows = json_dumps(d->rows, JSON_COMPACT | JSON_ENSURE_ASCII);
    int rc = head && rows ? 0 : -1;
    if (rc == 0) {
        const struct serve_child_head h = {.magic = SERVE_CHILD_MAGIC,
                                           .head_bytes = (uint32_t)strlen(head),
                                           .rows_bytes = (uint32_t)strlen(rows),
                                           .rows = (uint32_t)f->rows,
                                           .steps = (uint32_t)f->steps};
        const struct {
            const void *data;
            size_t bytes;
        } part[] = {{&h, sizeof h},
                    {head, h.head_bytes},
                    {rows, h.rows_bytes},
                    {f->step, f->steps * sizeof *f->step},
                    {f->cell, f->rows * f->steps * sizeof *f->cell}};
        for (size_t i = 0; rc == 0 && i < sizeof part / sizeof part[0]; i++)
            rc = part[i].bytes ? tw_write_all(1, part[i].data, part[i].bytes) : 0;
    }
    free(head);
    free(rows);
    return rc;
}

int tw_pictures(int argc, char **argv)
{
    struct twin_run *run[SERVE_CHILD_RUNS] = {NULL};
    struct tw_verdict_data d;
    uint64_t other = 0;
    const size_t count = argc > 1 ? (size_t)(argc - 1) / 2 : 0;
    if (count < 2 || argc % 2 == 0 || count > SERVE_CHILD_RUNS || !limit_all() ||
        tw_parse_u64(argv[0], count - 1, &other) != 0 || other == 0)
        return TW_EXIT_TROUBLE;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = twin_run_load(argv[2 + 2 * i], &run[i], NULL) == 0 ? 0 : SERVE_CHILD_GONE;
        /* another run may lie under that name by now */
        if (rc == 0 && (!run[i]->id || strcmp(run[i]->id, argv[1 + 2 * i]) != 0))
            rc = SERVE_CHILD_GONE;
    }
    if (rc == 0) {
        rc = tw_verdict_data((const struct twin_run *const *)run, count, (size_t)other, &d, NULL);
        rc = rc == 0 && put_all(&d) == 0 ? 0 : SERVE_CHILD_CANNOT;
        tw_verdict_data_free(&d);
    }
    for (size_t i = 0; i < count; i++)
        twin_run_free(run[i]);
    return rc;
}
