/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run may be made, and how what waits is handed to the engine: in batches of one place. */
#include "remote_inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- placing */

/* A processor that a run has shown counts; of a node that had no run yet, the engine's word. */
static bool is_of_other_type(const struct tw_remote *r, const struct tw_node *n)
{
    if (!r->processor)
        return false;
    if (n->processor)
        return strcmp(n->processor, r->processor) != 0;
    return r->type && strcmp(n->type, r->type) != 0;
}

/* Nodes of another type than the first run's, with commas; "" when there is none. */
static char *nodes_of_other_types(const struct tw_remote *r)
{
    struct tw_buf b = {0};
    size_t n;
    const struct tw_node *node = tw_engine_nodes(r->engine, &n);
    tw_buf_puts(&b, "");
    for (size_t i = 0; i < n; i++)
        if (is_of_other_type(r, &node[i]))
            tw_buf_printf(&b, "%s%s", b.len ? "," : "", node[i].name);
    return tw_buf_steal(&b);
}

/* What the engine is told of a run's place: only names, since types are ours to compare. */
static int place_now(const struct tw_remote_run *x, struct tw_place *out, struct twin_error *err)
{
    if (x->place.kind != TW_PLACE_SAME_TYPE)
        return tw_place_copy(&x->place, out, err);
    *out = (struct tw_place){.kind = TW_PLACE_ANY};
    char *others = nodes_of_other_types(x->of);
    if (!others)
        return tw_no_memory(err, "for a place");
    if (*others)
        *out = (struct tw_place){.kind = TW_PLACE_AVOID, .hosts = others};
    else
        tw_free(others);
    return 0;
}

/* ---- handing over */

static int draw_number(char out[TW_TICKET_DIGITS + 1], struct twin_error *err)
{
    unsigned char bytes[TW_TICKET_DIGITS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return twin_error_system(err, "no random bytes for a ticket");
    tw_hex(bytes, sizeof bytes, out);
    return 0;
}

/* A new ticket for the next attempt, in a folder of the batch. Takes the place. */
static int write_ticket(struct tw_remote_run *x, const char *batch, size_t i,
                        struct tw_place *place, struct twin_error *err)
{
    tw_place_free(&x->ticket.place);
    tw_free(x->ticket.folder);
    x->ticket = (struct tw_ticket){.attempt = x->attempt + 1, .place = *place};
    *place = (struct tw_place){.kind = TW_PLACE_ANY};
    x->ticket.folder = tw_printf("%s/%zu", batch, i);
    int rc = x->ticket.folder ? draw_number(x->ticket.number, err)
                              : tw_no_memory(err, "for a ticket");
    rc = rc ? rc : tw_mkdirs(x->ticket.folder, err);
    return rc ? rc : tw_order_write(&x->ticket, tw_engine_name(x->of->engine), &x->body, err);
}

/* Hands over the runs of one place, as many as the engine takes. *sent: how many. */
static int send_batch(struct tw_remote *r, const struct tw_place *place, size_t room, size_t *sent,
                      struct twin_error *err)
{
    struct tw_ticket **ticket = tw_calloc(r->count + 1, sizeof *ticket);
    struct tw_remote_run **of = tw_calloc(r->count + 1, sizeof *of);
    char *batch = tw_printf("%s/b%u", r->folder, ++r->batches);
    int rc = ticket && of && batch ? tw_mkdirs(batch, err) : tw_no_memory(err, "for tickets");
    size_t n = 0;
    for (size_t i = 0; rc == 0 && i < r->count && n < room; i++) {
        struct tw_remote_run *x = r->run[i];
        struct tw_place its = {.kind = TW_PLACE_ANY};
        if (x->phase != TW_REMOTE_WAITS)
            continue;
        rc = place_now(x, &its, err);
        if (rc == 0 && tw_place_equal(&its, place)) {
            rc = write_ticket(x, batch, n, &its, err);
            of[n] = x;
            ticket[n++] = &x->ticket;
        }
        tw_place_free(&its);
    }
    if (rc == 0)
        rc = tw_engine_submit(r->engine, batch, ticket, n, err);
    for (size_t i = 0; i < n; i++)
        if (ticket[i]->job[0]) {
            of[i]->phase = TW_REMOTE_SENT;
            of[i]->attempt++;
            of[i]->started_ns = of[i]->gone_ns = of[i]->stop_ns = of[i]->watched_ns = 0;
            of[i]->misplaced = of[i]->cancelled = false;
            (*sent)++;
        }
    tw_free(ticket);
    tw_free(of);
    tw_free(batch);
    return rc;
}

int tw_remote_send(struct tw_remote *r, struct twin_error *err)
{
    for (size_t i = 0; i < r->count;) {
        struct tw_place place = {.kind = TW_PLACE_ANY};
        size_t sent = 0;
        int rc = 0;
        if (r->run[i]->phase == TW_REMOTE_WAITS)
            rc = place_now(r->run[i], &place, err);
        size_t room = rc == 0 && r->run[i]->phase == TW_REMOTE_WAITS
                          ? tw_engine_room(r->engine, &place)
                          : 0;
        if (room)
            rc = send_batch(r, &place, room, &sent, err);
        tw_place_free(&place);
        if (rc != 0)
            return rc;
        i += sent == 0; /* a batch may have taken run i, or filled its places only in part */
    }
    return 0;
}
