/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of matches out of traces. A record of the agent of MPI says who sent a message ("MPI_Recv
 * from rank 2, tag 7"), on which communicator (scope), and what the receive had left open (op: "any
 * source"); one of the agent of PyTorch likewise ("recv from rank 2, tag 7", its scope a group).
 * Records stand in the order in which receives were complete; the op says also how many that were
 * posted before it were then still open ("any source, behind 2 open"). So they are put into the
 * order in which the receives were posted, which is all that a replay needs.
 */
#include "match_inside.h"

#include "base.h"

#include "src/trace/trace.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A walk over one trace. */
struct reading {
    struct twin_trace *trace;
    const char *path;
    bool torch;  /* which messages it looks for */
    bool others; /* there are some of the other agent */
    struct tw_matches_rank *to;
    struct twin_error *err;
    uint32_t open[TW_ORDER_OPEN_MOST]; /* places in `match` that no record has filled, ascending */
    uint32_t opened;
    uint32_t thread, end_thread;
    bool seen, end_seen;
};

/* What a receive left open, by its operation, and how many before it were still open; 0: nothing.
 */
static unsigned open_of(const char *op, uint32_t *behind)
{
    static const struct {
        const char *says;
        unsigned open;
    } known[] = {{"any source, any tag", TW_ORDER_ANY_SOURCE | TW_ORDER_ANY_TAG},
                 {"any source", TW_ORDER_ANY_SOURCE},
                 {"any tag", TW_ORDER_ANY_TAG}};
    unsigned open = 0;
    *behind = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && !open; i++) {
        const size_t n = strlen(known[i].says);
        if (strncmp(op, known[i].says, n) == 0 && (op[n] == 0 || op[n] == ',')) {
            open = known[i].open;
            op += n;
        }
    }
    if (open && strncmp(op, ", probed", 8) == 0) {
        open |= TW_ORDER_PROBED;
        op += 8;
    }
    unsigned number;
    if (open && sscanf(op, ", behind %u open", &number) == 1)
        *behind = number;
    return open;
}

/* Is it a record of one of these functions? "MPI_Recv_c from rank 1" is one of MPI_Recv: its count
 * is of another type, and nothing else. */
static bool is_of(const char *name, const char *const *those, size_t count)
{
    size_t length = strcspn(name, " ");
    if (length > 2 && strncmp(name + length - 2, "_c", 2) == 0)
        length -= 2;
    for (size_t i = 0; i < count; i++)
        if (strlen(those[i]) == length && strncmp(name, those[i], length) == 0)
            return true;
    return false;
}

/* Receives that the agent can make take a message of its choice. MPI_Mrecv and MPI_Imrecv: what a
 * probe found. */
static bool is_replayed(const char *name)
{
    static const char *const those[] = {"MPI_Recv",      "MPI_Irecv",    "MPI_Mrecv",
                                        "MPI_Imrecv",    "MPI_Sendrecv", "MPI_Sendrecv_replace",
                                        "MPI_Recv_init", "recv",         "irecv"};
    return is_of(name, those, sizeof those / sizeof *those);
}

/* Receives that the program learns of by MPI_Wait, MPI_Testany, ... */
static bool has_end(const char *name)
{
    static const char *const those[] = {"MPI_Irecv", "MPI_Imrecv", "MPI_Recv_init"};
    return is_of(name, those, sizeof those / sizeof *those);
}

static bool is_of_interest(void *user, uint32_t id, const struct twin_series *s)
{
    struct reading *r = user;
    const char *name = twin_trace_string(r->trace, s->name);
    uint32_t behind;
    (void)id;
    if (s->phase != TWIN_PHASE_COLLECTIVE || s->kind == TWIN_KIND_IN ||
        !strstr(name, " from rank ") ||
        (!has_end(name) && open_of(twin_trace_string(r->trace, s->op), &behind) == 0))
        return false;
    const bool other = (strncmp(name, "MPI_", 4) != 0) != r->torch;
    r->others |= other;
    return !other;
}

/* The number of a communicator's name, which is added where it is new; -1 with an error. */
static int comm_number(struct tw_matches_rank *to, const char *name, struct twin_error *err)
{
    for (uint32_t i = 0; i < to->comms; i++)
        if (strcmp(to->comm[i], name) == 0)
            return (int)i;
    if (to->comms == TW_ORDER_COMMS_MOST || strlen(name) >= TW_ORDER_NAME) {
        twin_error_set(err, TWIN_ELIMIT, "rank %d received on too many communicators", to->rank);
        return -1;
    }
    char(*grown)[TW_ORDER_NAME] = tw_reallocarray(to->comm, to->comms + 1, sizeof *grown);
    if (!grown) {
        tw_no_memory(err, "for an order of matches");
        return -1;
    }
    to->comm = grown;
    memset(grown[to->comms], 0, sizeof *grown); /* it is written to a file whole */
    memcpy(grown[to->comms], name, strlen(name));
    return (int)to->comms++;
}

/* Room for one more of `count`. */
static int grow(struct reading *r, struct tw_order_match **list, uint32_t count)
{
    if (count == TW_ORDER_MATCHES_MOST)
        return twin_error_set(r->err, TWIN_ELIMIT, "rank %d received more than %d messages",
                              r->to->rank, TW_ORDER_MATCHES_MOST);
    if (count & (count - 1)) /* no power of two: it is not full */
        return 0;
    struct tw_order_match *grown = tw_reallocarray(*list, count ? 2 * (size_t)count : 1,
                                                   sizeof *grown);
    if (!grown)
        return tw_no_memory(r->err, "for an order of matches");
    *list = grown;
    return 0;
}

/* One place more, which is open. */
static int one_more(struct reading *r)
{
    struct tw_matches_rank *to = r->to;
    int rc = grow(r, &to->match, to->matches);
    if (rc != 0)
        return rc;
    to->match[to->matches] = (struct tw_order_match){.source = TW_ORDER_NOBODY, .tag = -1};
    r->open[r->opened++] = to->matches++;
    return 0;
}

/* Puts a match where it was posted: behind so many that are still open. */
static int add(struct reading *r, const struct tw_order_match *m, uint32_t behind)
{
    if (behind >= TW_ORDER_OPEN_MOST)
        return twin_error_set(r->err, TWIN_EFORMAT, "%s: more than %d open receives under way",
                              r->path, TW_ORDER_OPEN_MOST);
    while (r->opened <= behind) {
        int rc = one_more(r);
        if (rc != 0)
            return rc;
    }
    r->to->match[r->open[behind]] = *m;
    r->to->taken++;
    r->opened--;
    memmove(&r->open[behind], &r->open[behind + 1], (r->opened - behind) * sizeof *r->open);
    return 0;
}

/* The message of a record's name and scope. */
static int read_message(struct reading *r, const char *name, const char *scope,
                        struct tw_order_match *m)
{
    static const char from[] = " from rank ";
    char *end;
    long source = strtol(strstr(name, from) + sizeof from - 1, &end, 10);
    const char *tag = strncmp(end, ", tag ", 6) == 0 ? end + 6 : NULL;
    if (!tag || source < 0 || source > INT_MAX)
        return twin_error_set(r->err, TWIN_EFORMAT, "%s: \"%.80s\" is not the name of a message",
                              r->path, name);
    m->source = (int32_t)source;
    m->tag = -1;
    if (*tag >= '0' && *tag <= '9') {
        long number = strtol(tag, NULL, 10);
        m->tag = number < TW_ORDER_TAGS ? (int32_t)number : -1;
    }
    int comm = comm_number(r->to, scope, r->err);
    if (comm < 0)
        return r->err->code;
    m->comm = (uint16_t)comm;
    return 0;
}

static int add_end(struct reading *r, const struct tw_order_match *m)
{
    struct tw_matches_rank *to = r->to;
    int rc = grow(r, &to->end, to->ends);
    if (rc == 0) {
        to->end[to->ends] = *m;
        to->end[to->ends++].open = 0;
    }
    return rc;
}

static int take(void *user, const struct twin_trace_record *record)
{
    struct reading *r = user;
    const struct twin_series *s = twin_trace_series(r->trace, record->series);
    const char *name = twin_trace_string(r->trace, s->name);
    uint32_t behind;
    struct tw_order_match m = {
        .open = (uint16_t)open_of(twin_trace_string(r->trace, s->op), &behind)};
    int rc = read_message(r, name, twin_trace_string(r->trace, s->scope), &m);
    if (rc == 0 && has_end(name)) {
        if (r->end_seen && record->thread != r->end_thread)
            r->to->ends_unknown = true;
        r->end_seen = true;
        r->end_thread = record->thread;
        rc = add_end(r, &m);
    }
    if (rc != 0 || !m.open || !is_replayed(name))
        return rc;
    if (r->seen && record->thread != r->thread)
        return twin_error_set(r->err, TWIN_EINVAL,
                              "rank %d received in more than one thread, so that there is no one "
                              "order to replay",
                              r->to->rank);
    r->seen = true;
    r->thread = record->thread;
    return add(r, &m, behind);
}

static bool lacks_records(struct twin_trace *t)
{
    const struct twin_trace_info *info = twin_trace_info(t);
    struct twin_trace_hole hole;
    return info->dropped || info->lost || info->tail_bytes || twin_trace_hole(t, 0, &hole);
}

/* Records that are missing would shift all that come behind them. */
static int require_whole(struct twin_trace *t, const char *path, struct twin_error *err)
{
    const char *lost = twin_trace_note_of(t, TW_ORDER_LOST_NOTE);
    if (lost)
        return twin_error_set(err, TWIN_EINVAL, "the order of the messages in %s is not known: %s",
                              path, lost);
    if (lacks_records(t))
        return twin_error_set(err, TWIN_EINVAL,
                              "%s lacks records, so the order of its messages is not known; record "
                              "it again, with --lossless",
                              path);
    return 0;
}

static void free_rank(struct tw_matches_rank *r)
{
    tw_free(r->comm);
    tw_free(r->match);
    tw_free(r->end);
    *r = (struct tw_matches_rank){.rank = -1};
}

/* All matches of one trace, of one of the agents; none is no error. */
static int read_agent(struct reading *r, bool torch, bool whole, struct tw_matches_rank *to)
{
    *r = (struct reading){.trace = r->trace, .path = r->path, .err = r->err, .torch = torch};
    r->to = to;
    *to = (struct tw_matches_rank){.rank = twin_trace_info(r->trace)->rank, .torch = torch};
    int rc = twin_trace_walk_some(r->trace, is_of_interest, take, NULL, r, r->err);
    if (to->ends_unknown)
        to->ends = 0;
    if (rc == 0 && whole && (to->matches || to->ends))
        rc = require_whole(r->trace, r->path, r->err);
    to->incomplete = lacks_records(r->trace) || twin_trace_note_of(r->trace, TW_ORDER_LOST_NOTE);
    return rc;
}

/* Keeps what the trace has of a rank; out has room for it. */
static int keep_rank(struct tw_matches_rank *r, const struct twin_run *run, struct tw_matches *out,
                     struct twin_error *err)
{
    if (r->matches == 0 && r->ends == 0) {
        free_rank(r);
        return 0;
    }
    out->rank[out->count++] = *r;
    for (size_t k = 0; k + 1 < out->count; k++) /* sorted by rank, but a check costs nothing */
        if (out->rank[k].rank == r->rank && out->rank[k].torch == r->torch)
            return twin_error_set(err, TWIN_EINVAL,
                                  "two processes of %s received messages as rank "
                                  "%d",
                                  run->id, r->rank);
    return 0;
}

static int read_trace(const char *path, const struct twin_run *run, bool whole,
                      struct tw_matches *out, struct twin_error *err)
{
    struct reading *r = tw_calloc(1, sizeof *r);
    struct tw_matches_rank found;
    if (!r)
        return tw_no_memory(err, "for an order of matches");
    *r = (struct reading){.path = path, .err = err};
    int rc = twin_trace_open(path, &r->trace, err);
    if (rc == 0)
        rc = twin_trace_definitions(r->trace, err);
    for (int torch = 0; rc == 0 && torch < 2; torch++) {
        if (torch && !r->others)
            break;
        rc = read_agent(r, torch, whole, &found);
        if (rc == 0)
            rc = keep_rank(&found, run, out, err);
        else
            free_rank(&found);
    }
    twin_trace_close(r->trace);
    tw_free(r);
    return rc;
}

int tw_matches_read_run(const struct twin_run *run, bool whole, struct tw_matches *out,
                        struct twin_error *err)
{
    int rc = 0;
    out->rank = tw_calloc(2 * run->trace_count + 1, sizeof *out->rank);
    if (!out->rank)
        return tw_no_memory(err, "for an order of matches");
    for (size_t i = 0; rc == 0 && i < run->trace_count; i++)
        rc = read_trace(run->traces[i], run, whole, out, err);
    return rc;
}

int tw_matches_read(const struct twin_run *recorded, uint32_t wait_ms, struct tw_matches *out,
                    struct twin_error *err)
{
    *out = (struct tw_matches){.recorded = recorded, .wait_ms = wait_ms};
    int rc = tw_matches_read_run(recorded, true, out, err);
    out->none = rc == 0 && out->count == 0;
    if (out->none)
        rc = twin_error_set(
            err, TWIN_EINVAL,
            "run %.8s recorded no receive of MPI or torch.distributed that left its "
            "sender or tag open: there is no order to replay",
            recorded->id);
    return rc;
}

void tw_matches_free(struct tw_matches *o)
{
    for (size_t i = 0; i < o->count; i++)
        free_rank(&o->rank[i]);
    tw_free(o->rank);
    *o = (struct tw_matches){.count = 0};
}

static int write_rank(const struct tw_matches *o, const struct tw_matches_rank *r,
                      const char *run_dir, struct twin_error *err)
{
    struct tw_order_head head = {.magic = TW_ORDER_MAGIC,
                                 .version = TW_ORDER_VERSION,
                                 .comms = r->comms,
                                 .matches = r->matches,
                                 .ends = r->ends,
                                 .wait_ms = o->wait_ms};
    const size_t names = (size_t)r->comms * sizeof *r->comm;
    const size_t matches = (size_t)r->matches * sizeof *r->match;
    const size_t ends = (size_t)r->ends * sizeof *r->end;
    char *path = r->torch ? tw_printf(TW_ORDER_TORCH_FILE, run_dir, (int)r->rank)
                          : tw_printf(TW_ORDER_FILE, run_dir, (int)r->rank);
    char *all = tw_malloc(sizeof head + names + matches + ends);
    int rc = path && all ? 0 : tw_no_memory(err, "for an order of matches");
    if (rc == 0) {
        memcpy(all, &head, sizeof head);
        memcpy(all + sizeof head, r->comm, names);
        if (matches)
            memcpy(all + sizeof head + names, r->match, matches);
        if (ends)
            memcpy(all + sizeof head + names + matches, r->end, ends);
        rc = tw_write_file_atomic(path, all, sizeof head + names + matches + ends, err);
    }
    tw_free(all);
    tw_free(path);
    return rc;
}

int tw_matches_fill(void *user, const char *run_dir, struct twin_error *err)
{
    const struct tw_matches *o = user;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->count; i++)
        rc = write_rank(o, &o->rank[i], run_dir, err);
    return rc;
}
