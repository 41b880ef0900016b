/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what a command found out: its runs, and the comparison that it made of them. */
#include "noted.h"

#include "base.h"
#include "noted_inside.h"

#include "src/trace/trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

char *tw_ledger_home(const char *home, const char *url)
{
    const char *given = getenv("TWINRUN_LEDGER");
    char host[256] = "";
    if (!url && !(given && *given))
        return tw_strdup("");
    gethostname(host, sizeof host - 1);
    char *path = tw_path_absolute(home, NULL), *name = path ? tw_printf("%s:%s", host, path) : NULL;
    tw_free(path);
    return name;
}

int tw_ledger_new_id(char id[33], struct twin_error *err)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return twin_error_system(err, "no random bytes");
    tw_hex(bytes, sizeof bytes, id);
    return 0;
}

/* The first divergence in one line. A record is named by its place; of ends, ranks and output only
 * the finding's own words say something. malloc'ed; NULL: no memory. */
static char *first_line(const struct twin_finding *f)
{
    struct tw_buf b = {0};
    bool record = f->name[0] && f->type != TWIN_FINDING_OUTCOME && f->type != TWIN_FINDING_RANKS &&
                  f->type != TWIN_FINDING_OUTPUT;
    if (record)
        tw_buf_printf(&b, "step %u, rank %d, %s %s %s%s%s", f->step_a, f->rank,
                      twin_phase_name(f->phase), twin_kind_name(f->kind), f->name,
                      f->op[0] ? ", " : "", f->op);
    else
        tw_buf_puts(&b, f->text);
    char *raw = tw_buf_steal(&b), *safe = raw ? tw_printable(raw, strlen(raw)) : NULL;
    tw_free(raw);
    return safe;
}

/* The command without its secrets: that of the runs is redacted by argument, anything else as text.
 * malloc'ed; NULL: no memory. */
static char *safe_command(const struct tw_noted *n, const struct twin_redactor *safe)
{
    const struct twin_run *first = n->runs[0];
    char *given = tw_shell_quote(first->argv, first->argc);
    char **argv = given && strcmp(given, n->command) == 0
                      ? twin_redact_argv(safe, first->argv, first->argc)
                      : NULL;
    char *command = argv ? tw_shell_quote(argv, first->argc) : twin_redact(safe, n->command, NULL);
    twin_redact_free(argv);
    tw_free(given);
    return command;
}

/* Does the folder lie in runs, this home's folder of runs? Runs of other homes, which diff compares
 * too, are not for this ledger. */
static bool lies_in(const char *dir, const char *runs)
{
    size_t length = strlen(runs);
    return length && tw_starts(dir, runs) && dir[length] == '/';
}

static int put_runs(struct twin_ledger *l, const struct tw_noted *n,
                    const struct twin_redactor *safe, struct twin_error *err)
{
    char *owner = tw_ledger_home(n->home, n->url);
    char *runs = tw_path_join(n->home, "runs"), *dir = runs ? tw_path_absolute(runs, NULL) : NULL;
    int rc = owner && dir ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < n->count; i++)
        if (lies_in(n->runs[i]->dir, dir) && !n->runs[i]->in_progress && !n->runs[i]->elsewhere)
            rc = tw_ledger_put_folder(l, owner, n->runs[i], safe, err);
    tw_free(owner);
    tw_free(runs);
    tw_free(dir);
    return rc;
}

/* Were the runs the same job, made again? Not where they are arms, or were made to start alike, or
 * to agree (by pins). Whether they had the same inputs, facts of the runs say. */
static bool repeats(const struct tw_noted *n)
{
    if (!n->verdict || n->arms || n->verdict->transplant || n->verdict->against ||
        n->verdict->pinned)
        return false;
    for (size_t i = 1; i < n->count; i++) {
        const struct twin_run *a = n->runs[0], *b = n->runs[i];
        if (a->argc != b->argc)
            return false;
        for (size_t k = 0; k < a->argc; k++)
            if (strcmp(a->argv[k], b->argv[k]) != 0)
                return false;
    }
    return n->count > 1;
}

/* What the verdict says of each run, and of their checkpoints. */
static void describe_agreement(const struct tw_noted *n, enum twin_ledger_agreed *agreed,
                               struct twin_ledger_comparison *c)
{
    c->checkpoints = (struct twin_ledger_checkpoints){.compared = -1};
    c->repeats = repeats(n);
    if (!n->verdict)
        return;
    tw_agreed_of(n->verdict, n->count, agreed);
    c->checkpoints = tw_checkpoints_of(n->verdict, n->runs, n->count);
}

/* Fills c in, whose id and list of runs are the caller's. Of its strings the caller frees command
 * and first. */
static int describe_comparison(const struct tw_noted *n, const struct twin_redactor *safe,
                               char id[33], const char **ids, enum twin_ledger_agreed *agreed,
                               struct twin_ledger_comparison *c, struct twin_error *err)
{
    for (size_t i = 0; i < n->count; i++)
        ids[i] = n->runs[i]->id;
    *c = (struct twin_ledger_comparison){
        .id = id,
        .time_ns = tw_realtime_ns(),
        .verb = n->verb,
        .command = n->command ? safe_command(n, safe) : NULL,
        .outcome = n->outcome,
        .first = n->first ? first_line(n->first) : tw_strdup(""),
        .first_step = n->first ? (int64_t)n->first->step_a : -1,
        .cause = n->cause,
        .layer = n->first ? n->first->layer : "",
        .run_id = ids,
        .agreed = agreed,
        .run_count = n->count,
    };
    describe_agreement(n, agreed, c);
    if (!c->first || (n->command && !c->command))
        return twin_error_set(err, TWIN_ENOMEM, "out of memory");
    return tw_ledger_new_id(id, err);
}

int tw_ledger_write(const struct tw_noted *n, struct twin_error *err)
{
    if (twin_ledger_off(n->url) || !n->count)
        return 0;
    struct twin_ledger *l = NULL;
    struct twin_redactor *safe = NULL;
    struct twin_ledger_comparison c = {.id = NULL};
    char id[33];
    const char **ids = tw_calloc(n->count, sizeof *ids);
    enum twin_ledger_agreed *agreed = tw_calloc(n->count, sizeof *agreed);
    int rc = ids && agreed ? twin_redactor_open(n->home, &safe, err)
                           : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (rc == 0 && n->verb)
        rc = describe_comparison(n, safe, id, ids, agreed, &c, err);
    /* The file first: where no ledger can be written, one catches up from it later. */
    if (rc == 0 && n->verb)
        rc = tw_comparison_save(n->home, &c, err);
    if (rc == 0)
        rc = twin_ledger_open(n->home, n->url, &l, err);
    if (rc == 0)
        rc = put_runs(l, n, safe, err);
    if (rc == 0 && n->verb)
        rc = twin_ledger_put_comparison(l, &c, err);
    twin_ledger_close(l);
    twin_redactor_close(safe);
    tw_free((char *)(uintptr_t)c.command);
    tw_free((char *)(uintptr_t)c.first);
    tw_free(agreed);
    tw_free(ids);
    return rc;
}
