/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `twinrun serve` starts for a comparison of its live page, and nobody types;
 * src/serve/child.c reads what is written to stdout.
 *
 *   twinrun --pictures OTHER ID FOLDER [ID FOLDER...]   compares the first run with the one of this
 *     number (from 1). Written are a header (struct serve_child_head), two texts of JSON, the steps
 *     (u32) and the cells (u16, row after row), in the order of bytes of this machine.
 *   twinrun --postmortem HOME ID FOLDER ID FOLDER   what twinrun report --postmortem writes. The
 *     checks on record come as JSON on stdin, since this process knows no ledger.
 *
 * A process of its own, since run folders may be huge, damaged or made to do harm: it has limits of
 * memory and time, writes no file, and ends with whoever started it.
 */
#include "pictures.h"

#include "incident_facts.h"
#include "options.h"

#include "base.h"
#include "json_load.h"
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

/* words: ID and FOLDER of each. 0, or SERVE_CHILD_GONE. */
static int load(char **words, struct twin_run **run, size_t count)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = twin_run_load(words[2 * i + 1], &run[i], NULL) == 0 ? 0 : SERVE_CHILD_GONE;
        /* another run may lie under that name by now */
        if (rc == 0 && (!run[i]->id || strcmp(run[i]->id, words[2 * i]) != 0))
            rc = SERVE_CHILD_GONE;
    }
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
    int rc = load(argv + 1, run, count);
    if (rc == 0) {
        rc = tw_verdict_data((const struct twin_run *const *)run, count, (size_t)other, &d, NULL);
        rc = rc == 0 && put_all(&d) == 0 ? 0 : SERVE_CHILD_CANNOT;
        tw_verdict_data_free(&d);
    }
    for (size_t i = 0; i < count; i++)
        twin_run_free(run[i]);
    return rc;
}

/* ---- a postmortem */

/* Reads the checks from stdin. */
static bool read_checks(struct tw_incident_facts *f)
{
    char *text = NULL;
    size_t bytes = 0;
    if (tw_read_file("/dev/stdin", SERVE_CHILD_BYTES, &text, &bytes, NULL) != 0)
        return false;
    json_t *list = tw_json_load(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const bool ok = tw_incident_checks_read(list, f) == 0;
    json_decref(list);
    tw_free(text);
    return ok;
}

/* Where the folders lie is nobody's concern, and a list of thousands nobody reads. */
static int put_postmortem(const struct twin_incident *x, const char *text)
{
    json_t *j = tw_incident_json(x, text), *checks = json_object_get(j, "checks");
    const char *const ours[] = {"schema", "kind", "runs"};
    const size_t all = json_array_size(checks);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        json_object_del(j, ours[i]);
    while (json_array_size(checks) > SERVE_CHILD_CHECKS)
        json_array_remove(checks, 0);
    json_object_set_new(j, "checks_all", json_integer((json_int_t)all));
    char *line = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    const int rc = line ? tw_write_all(1, line, strlen(line)) : -1;
    free(line);
    json_decref(j);
    return rc;
}

/* As `twinrun report --postmortem A B` without further options (cmd/report.c). */
static int write_postmortem(struct tw_incident_case *c, struct twin_run *const run[2],
                            const char *home)
{
    struct twin_verdict *v = NULL;
    char *text = NULL;
    const struct twin_compare_options o = {.arms = !c->x.same_command,
                                           .find_shift = !c->x.same_command};
    int rc = twin_compare((const struct twin_run *const *)run, 2, &o, &v, NULL);
    if (rc == 0) {
        c->x.ledger = true;
        tw_incident_gather(c, v, home, NULL);
        rc = twin_incident_markdown(&c->x, &text, NULL);
    }
    if (rc == 0)
        rc = put_postmortem(&c->x, text);
    tw_free(text);
    twin_verdict_free(v);
    return rc == 0 ? 0 : SERVE_CHILD_CANNOT;
}

int tw_postmortem(int argc, char **argv)
{
    struct twin_run *run[2] = {NULL, NULL};
    struct tw_incident_case c;
    if (argc != 5 || !limit_all())
        return TW_EXIT_TROUBLE;
    int rc = load(argv + 1, run, 2);
    if (rc == 0) {
        tw_incident_open(&c, run);
        rc = read_checks(&c.checks) ? write_postmortem(&c, run, argv[0]) : TW_EXIT_TROUBLE;
        tw_incident_close(&c);
    }
    twin_run_free(run[0]);
    twin_run_free(run[1]);
    return rc;
}
