/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions in the ledger: events whose ids follow from the rollout and the number of the decision,
 * so that writing one twice is writing it once.
 */
#include "rollout_inside.h"

#include "base.h"

#include "src/ledger/noted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tw_rollout_log_put(const struct tw_rollout_call *c, const struct tw_rollout_flag *f,
                       struct twin_error *err)
{
    /* where others may leave an event out, a decision would be nowhere */
    if (twin_ledger_off(c->url))
        return twin_error_set(err, TWIN_ENOENT, "there is no ledger: it is switched off");
    if (access(c->home, W_OK) != 0)
        return twin_error_system(err, "%s cannot be written", c->home);
    char id[33], *name = tw_printf("%s %llu", f->id, (unsigned long long)f->sequence);
    char *subject = name ? tw_printf("%s %s", name, f->said) : NULL;
    int rc = subject ? 0 : tw_no_memory(err, "for a decision");
    if (rc == 0) {
        const struct tw_hash128 h = tw_hash_bytes(name, strlen(name), 0x726f6c6c6f7574);
        const struct twin_ledger_event e = {.id = tw_hex_128(h.a, h.b, id),
                                            .time_ns = f->decided_ns,
                                            .kind = TW_ROLLOUT_KIND,
                                            .outcome = tw_rollout_decision_name(f->decision),
                                            .subject = subject,
                                            .run_id = ""};
        rc = tw_ledger_write_event(c->home, c->url, &e, err);
    }
    tw_free(subject);
    tw_free(name);
    return rc;
}

/* ---- reading */

struct loading {
    struct tw_rollout_log *to;
    const char *id;
    struct twin_error *err;
};

const char *tw_rollout_decision_parse(const struct twin_ledger_event *e, char id[17],
                                      unsigned long long *sequence)
{
    int behind = 0;
    if (strcmp(e->kind, TW_ROLLOUT_KIND) != 0 ||
        sscanf(e->subject, "%16[0-9a-f] %20llu %n", id, sequence, &behind) != 2 || !behind)
        return NULL;
    return e->subject + behind;
}

static int see_event(void *user, const struct twin_ledger_event *e)
{
    struct loading *l = user;
    struct tw_rollout_log *to = l->to;
    unsigned long long sequence = 0;
    char id[17] = "";
    const char *said = tw_rollout_decision_parse(e, id, &sequence);
    if (!said || (l->id && strcmp(l->id, id) != 0))
        return 0;
    if (to->count == to->room) {
        const size_t room = to->room ? 2 * to->room : 32;
        struct tw_rollout_entry *grown = tw_reallocarray(to->entry, room, sizeof *grown);
        if (!grown)
            return tw_no_memory(l->err, "for the decisions of a rollout");
        to->entry = grown;
        to->room = room;
    }
    struct tw_rollout_entry *x = &to->entry[to->count++];
    *x = (struct tw_rollout_entry){.sequence = sequence,
                                   .time_ns = e->time_ns,
                                   .decision = tw_strdup(e->outcome),
                                   .said = tw_strdup(said)};
    memcpy(x->id, id, sizeof x->id);
    return x->decision && x->said ? 0 : tw_no_memory(l->err, "for the decisions of a rollout");
}

static int by_rollout(const void *x, const void *y)
{
    const struct tw_rollout_entry *a = x, *b = y;
    const int by = strcmp(a->id, b->id);
    if (by != 0)
        return by;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

int tw_rollout_log_load(const struct tw_rollout_call *c, const char *id, struct tw_rollout_log *out,
                        struct twin_error *err)
{
    struct loading loading = {.to = out, .id = id, .err = err};
    struct twin_ledger *l = NULL;
    *out = (struct tw_rollout_log){.count = 0};
    int rc = tw_ledger_catch_up(c->home, c->url, NULL, NULL, &l, err);
    if (rc == 0 && l)
        rc = twin_ledger_events(l, INT64_MIN, see_event, &loading, err);
    if (l)
        twin_ledger_close(l);
    if (out->count)
        qsort(out->entry, out->count, sizeof *out->entry, by_rollout);
    return rc;
}

void tw_rollout_log_free(struct tw_rollout_log *l)
{
    for (size_t i = 0; i < l->count; i++) {
        tw_free(l->entry[i].decision);
        tw_free(l->entry[i].said);
    }
    tw_free(l->entry);
    *l = (struct tw_rollout_log){.count = 0};
}
