/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that have begun and not ended: they are in no ledger yet, but their places among the others
 * are taken (pairs.c), so that what is paired does not hang on who ended first. And runs that the
 * ledger calls interrupted, of which that cannot be known from here.
 */
#include "rollout_inside.h"

#include "base.h"

#include "src/launch/redact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The command as the ledger will have it, without secrets. */
static char *command_of(const char *home, const struct twin_run *run)
{
    struct twin_redactor *safe = NULL;
    char **argv = twin_redactor_open(home, &safe, NULL) == 0
                      ? twin_redact_argv(safe, run->argv, run->argc)
                      : NULL;
    char *command = argv ? tw_shell_quote(argv, run->argc) : NULL;
    twin_redact_free(argv);
    twin_redactor_close(safe);
    return command;
}

/* Without memory the run is left out, and the next look sees it. */
static void add(struct rollout_live *l, const struct twin_run *run)
{
    struct rollout_runs *to = &l->runs;
    char *command = command_of(l->home, run);
    struct rollout_run *grown = tw_reallocarray(to->run, to->count + 1, sizeof *grown);
    if (grown)
        to->run = grown;
    if (!grown || !command) {
        tw_free(command);
        return;
    }
    struct rollout_run *r = &to->run[to->count];
    const struct tw_hash128 h = tw_hash_bytes(run->rollout.key, strlen(run->rollout.key),
                                              TW_ROLLOUT_KEY_SEED);
    *r = (struct rollout_run){
        .wall_s = NAN,
        .loss = NAN,
        .start_ns = run->start_realtime_ns,
        .share = run->rollout.share,
        .known = true,
        .name = tw_strdup(tw_base_name(run->dir)),
        .home = tw_strdup(l->home),
        .inputs = tw_strdup(""),
        .kind = tw_rollout_kind(run->belongs.project ? run->belongs.project : "", command)};
    snprintf(r->id, sizeof r->id, "%s", run->id);
    snprintf(r->arm, sizeof r->arm, "%s", run->rollout.arm);
    tw_hex_128(h.a, h.b, r->key);
    tw_free(command);
    if (r->name && r->home && r->inputs && r->kind)
        to->count++;
    else
        tw_rollout_forget(r);
}

void tw_rollout_see_live(void *user, const char *dir, const struct twin_run *run,
                         const struct twin_error *err)
{
    struct rollout_live *l = user;
    (void)dir;
    (void)err;
    if (run && run->rollout.arm && run->rollout.id && run->rollout.key && *run->rollout.key &&
        strcmp(run->rollout.id, l->id) == 0)
        add(l, run);
}

void tw_rollout_doubt(const char *home, const char *owner, struct rollout_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        struct rollout_run *x = &runs->run[i];
        struct twin_run *run = NULL;
        if (!x->inferred)
            continue;
        char *dir = x->gone || strcmp(x->home, owner) != 0 ? NULL
                                                           : tw_printf("%s/runs/%s", home, x->name);
        /* of a run whose folder is not here nobody here can say that it has ended */
        if (!dir || twin_run_load(dir, &run, NULL) != 0 || run->elsewhere || run->in_progress)
            x->ended = x->outside = false;
        twin_run_free(run);
        tw_free(dir);
    }
}
