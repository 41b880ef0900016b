/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several ranks diverged by itself, and which only took it: by messages and collectives,
 * where steps would name the wrong rank; and cases in which nothing may be concluded from them.
 */
#include "exchange.h"

#include "ranks_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void whose_step_is_smaller_is_not_first(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, skewed);
    expect_rank(v, 2, 5, "MPI_Send to rank 0, tag 7");
    assert_true(v->order->known && v->order->exchanges);
    const struct twin_ranked *zero = place_of(v, 0, TWIN_RANK_CARRIED);
    assert_int_equal(zero->step_a, 3);
    assert_int_equal(zero->from, 2);
    assert_int_equal(zero->from_step, 5);
    assert_true(zero->message);
    assert_int_equal(zero->number_a, 2);
    const struct twin_ranked *one = place_of(v, 1, TWIN_RANK_CARRIED);
    assert_int_equal(one->from, 0);
    assert_false(one->message);
    expect_note(v, "carried to rank 0 by message 2 from rank 2, tag 7, on MPI_COMM_WORLD");
    expect_note(v, "carried to rank 1 from rank 0 by call 1 of MPI_Bcast on MPI_COMM_WORLD");
    expect_note(v, "rank 2 diverged in its step 5 before rank 0 did in its step 3, as messages and "
                   "collectives order them");
    assert_int_equal(v->origin_count, 1);
    assert_false(has_note(v, "diverging in the same step")); /* rank 1, in a step 5 of its own */
    twin_verdict_free(v);
}

/* The send is not there: another rank may have made it, or rank 2 may have. */
static void a_missing_trace(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, 2, skewed);
    /* what rank 0 sent to all is known: rank 1 took it from there */
    expect_rank(v, 0, 3, "MPI_Recv from rank 2, tag 7");
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN);
    place_of(v, 1, TWIN_RANK_CARRIED);
    expect_unknown(v, "not every rank has a trace");
    assert_false(has_note(v, "from rank 2, tag 7, on"));
    twin_verdict_free(v);
}

/* Rank 1 did not record what it sent. */
static void unsent(struct rank *r, int rank)
{
    if (rank == 0) {
        take(r, "MPI_Recv from rank 1, tag 1", value(r));
    } else {
        steps(r, 1);
        give(r, "MPI_Send to rank 0, tag 2", value(r));
    }
    steps(r, 1);
}

static void an_unmatched_message(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, unsent);
    expect_rank(v, 0, 0, "MPI_Recv from rank 1, tag 1");
    place_of(v, 1, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "what rank 0 took in step 0 was not found with who gave it");
    expect_note(v,
                "which of the ranks diverged first was judged by their steps, since messages and "
                "collectives do not tell: what rank 0 took in step 0 was not found with who "
                "gave it");
    assert_int_equal(v->origin_count, 1);
    twin_verdict_free(v);
}

/* A message of which the numbers do not fit: what was sent is not what arrived. */
static void misnumbered(struct rank *r, int rank)
{
    if (rank == 0) {
        take(r, "MPI_Recv from rank 1, tag 1", value(r));
    } else {
        steps(r, 1);
        give(r, "MPI_Send to rank 0, tag 1", 7 * value(r));
    }
    steps(r, 1);
}

static void contents_that_do_not_fit(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, misnumbered);
    expect_rank(v, 0, 0, "MPI_Recv from rank 1, tag 1");
    place_of(v, 1, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "what rank 0 took in step 0 was not found with who gave it");
    twin_verdict_free(v);
}

/* Two that have nothing to do with each other, in steps of other numbers. */
static void apart(struct rank *r, int rank)
{
    give(r, "MPI_Allreduce", 1);
    take(r, "MPI_Allreduce", 3);
    steps(r, 1 + rank);
    if (rank > 0)
        give(r, rank == 1 ? "MPI_Send to rank 0, tag 1" : "MPI_Send to rank 0, tag 2", value(r));
    steps(r, 1);
}

static void several_by_themselves(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, apart);
    expect_rank(v, 1, 2, "MPI_Send to rank 0, tag 1");
    place_of(v, 2, TWIN_RANK_FRONTIER);
    assert_true(v->order->known);
    assert_int_equal(v->origin_count, 2);
    assert_int_equal(v->origins[1].rank, 2);
    assert_int_equal(v->origins[1].step_a, 3);
    expect_note(v, "no message or collective brought what differs to any of these ranks: 1 (step "
                   "2), 2 (step 3)");
    twin_verdict_free(v);
}

/* Rank 2 gives something else in its step 5, and what comes out is the same all the same. Rank 0
 * differs by itself, after that, in a step of a smaller number. */
static void absorbed(struct rank *r, int rank)
{
    steps(r, rank == 2 ? 5 : 2);
    give(r, "MPI_Allreduce", rank == 2 ? value(r) : 1);
    take(r, "MPI_Allreduce", 4);
    steps(r, 1);
    if (rank == 0)
        give(r, "MPI_Bcast", value(r));
    else
        take(r, "MPI_Bcast", value(r));
    steps(r, 1);
}

static void the_order_of_two_by_themselves(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, absorbed);
    expect_rank(v, 2, 5, "MPI_Allreduce");
    place_of(v, 0, TWIN_RANK_FRONTIER);
    place_of(v, 1, TWIN_RANK_CARRIED);
    assert_int_equal(v->origin_count, 2);
    assert_int_equal(v->origins[1].rank, 0);
    assert_int_equal(v->origins[1].step_a, 3);
    twin_verdict_free(v);
}

/* PyTorch's collectives: by their place in the flow of a step all ranks would be alike. */
static void with_torch(struct rank *r, int rank)
{
    const char *const group = rank == 1 ? "0" : NULL; /* the group of all need not be named */
    put(r, TWIN_KIND_IN, "all_reduce", group, rank == 2 ? value(r) : 1);
    put(r, TWIN_KIND_OUT, "all_reduce", group, 2 + value(r));
    steps(r, 1);
}

static void a_collective_of_torch(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, with_torch);
    expect_rank(v, 2, 0, "all_reduce");
    assert_int_equal(v->first->kind, TWIN_KIND_IN);
    expect_note(v, "carried to ranks 0, 1 from rank 2 by call 1 of all_reduce, group 0");
    twin_verdict_free(v);
}

/* ---- what PyTorch's agent records of messages and of calls with a root */

static void put_torch(struct rank *r, enum twin_kind kind, const char *name, const char *group,
                      const char *op, float x)
{
    synth_put(
        r->w,
        (struct synth_record){TWIN_PHASE_COLLECTIVE, kind, .name = name, .scope = group, .op = op},
        &x, 1);
}

/* Rank 0 adds up what two others send, in whatever order it comes, and gives the sum to all. */
static void adds_what_comes(struct rank *r, int rank)
{
    static const char *const received[] = {"recv from rank 1, tag 0", "recv from rank 2, tag 0"};
    steps(r, rank == 0 ? 5 : 2);
    if (rank == 0) {
        put_torch(r, TWIN_KIND_OUT, received[r->other], NULL, "any source", r->other ? 2 : 1);
        put_torch(r, TWIN_KIND_OUT, received[!r->other], NULL, "any source", r->other ? 1 : 2);
    } else {
        put_torch(r, TWIN_KIND_IN, "send to rank 0, tag 0", NULL, "send", (float)rank);
    }
    put_torch(r, rank == 0 ? TWIN_KIND_IN : TWIN_KIND_OUT, "broadcast", NULL, "root 0", value(r));
    steps(r, 1);
}

static void a_sum_in_the_order_of_arrival(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, adds_what_comes);
    expect_rank(v, 0, 5, "broadcast");
    assert_int_equal(v->first->role, TWIN_ROLE_UNKNOWN); /* the sum itself is not recorded */
    assert_true(v->order->known);
    place_of(v, 1, TWIN_RANK_CARRIED);
    place_of(v, 2, TWIN_RANK_CARRIED);
    expect_note(v, "carried to ranks 1, 2 from rank 0 by call 1 of broadcast, group 0");
    expect_note(v, "rank 0: call 1 of broadcast on group 0 in run 1, behind 2 messages received");
    expect_note(v, "before that, in step 5, messages came to rank 0 from ranks 1, 2 in run 1 and "
                   "from ranks 2, 1 in run 2; contents were equal until then. That is what was "
                   "recorded; whether it is the cause was not tried");
    twin_verdict_free(v);
}

/* What rank 1 sends to rank 0 in its step 5 and rank 0 gets in its step 0, as `how` of it says. */
static struct {
    const char *sent, *got, *group[2], *members[2], *unseen;
} how;

static void one_message(struct rank *r, int rank)
{
    const char *group = how.group[rank];
    if (how.members[rank])
        twin_writer_note(r->w, "group", how.members[rank]);
    if (how.unseen)
        twin_writer_note(r->w, "exchange.unseen", how.unseen);
    steps(r, rank ? 5 : 0);
    put_torch(r, rank ? TWIN_KIND_IN : TWIN_KIND_OUT, rank ? how.sent : how.got, group,
              rank ? "isend" : "irecv", value(r));
    steps(r, 1);
}

static void expect_carried(const char *note)
{
    struct twin_verdict *v = compare_ranks(2, -1, one_message);
    if (note) {
        expect_rank(v, 1, 5, how.sent);
        place_of(v, 0, TWIN_RANK_CARRIED);
        expect_note(v, note);
    } else {
        expect_rank(v, 0, 0, how.got);
        place_of(v, 1, TWIN_RANK_UNKNOWN);
        assert_false(has_note(v, "carried to"));
        if (how.unseen)
            expect_unknown(v, "rank 0 of run 1: some of its messages or collectives were not seen");
    }
    twin_verdict_free(v);
}

#define SENT "isend to rank 0, tag 0", "irecv from rank 1, tag 0"

static void messages_of_torch(void **state)
{
    (void)state;
    const char *const by = "carried to rank 0 by message 1 from rank 1, tag 0, on group 0";
    memset(&how, 0, sizeof how);
    how.sent = "isend to rank 0, tag 0";
    how.got = "irecv from rank 1, tag 0";
    expect_carried(by);
    how.group[1] = "0"; /* the group of all need not be named */
    expect_carried(by);
    how.group[0] = how.group[1] = "1";
    how.members[0] = how.members[1] = "1 1,0";
    expect_carried("carried to rank 0 by message 1 from rank 1, tag 0, on group 1");
}

/* None of these is known to be the message that was sent. */
static void messages_of_torch_that_do_not_match(void **state)
{
    (void)state;
    static const struct {
        const char *sent, *got, *group[2], *members[2], *unseen;
    } mutants[] = {
        {"isend to rank 0, tag 1", "irecv from rank 1, tag 0", {0}, {0}, NULL}, /* another tag */
        {"isend to rank 1, tag 0", "irecv from rank 1, tag 0", {0}, {0}, NULL}, /* to another */
        {"isend to rank 0, tag 0", "irecv from rank 0, tag 0", {0}, {0}, NULL}, /* from another */
        {"isend to rank 0, tag 0", "irecv", {0}, {0}, NULL},                    /* from whom? */
        {SENT, {"1", "2"}, {"1 0,1", "2 0,1"}, NULL},                           /* another group */
        {SENT, {"1", "1"}, {"1 0,1", "1 0,1,2"}, NULL}, /* a group of that name, of others */
        {SENT, {"1", "1"}, {"1 0,1", "1 1,0"}, NULL},   /* whose ranks are renumbered */
        {SENT, {"1", "1"}, {"1 0,1", NULL}, NULL},      /* who is in it is not said */
        {SENT, {0}, {0}, "it did not wait for what a message or a collective brought"},
    };
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        memcpy(&how, &mutants[i], sizeof how);
        expect_carried(NULL);
    }
}

/* A call with a root of PyTorch, as `root_op` says who that is. */
static const char *root_op[2];

static void with_root(struct rank *r, int rank)
{
    steps(r, rank ? 0 : 5);
    put_torch(r, rank ? TWIN_KIND_OUT : TWIN_KIND_IN, "broadcast", NULL, root_op[rank], value(r));
    steps(r, 1);
}

static void calls_of_torch_that_do_not_match(void **state)
{
    (void)state;
    static const char *const mutants[][2] = {
        {"broadcast", "broadcast"}, /* of an older agent: on every rank something went in */
        {"root 0", "root 1"},       /* they do not mean the same */
        {"root 0", "root 0, beside others"},
    };
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        memcpy(root_op, mutants[i], sizeof root_op);
        struct twin_verdict *v = compare_ranks(2, -1, with_root);
        expect_rank(v, 1, 0, "broadcast");
        place_of(v, 0, TWIN_RANK_UNKNOWN);
        assert_false(has_note(v, "carried to"));
        if (strstr(root_op[1], "beside"))
            expect_unknown(v, "rank 1 of run 1: several of its calls with a root were under way at "
                              "once");
        twin_verdict_free(v);
    }
}

/* Parts that a root scatters are one call, and what it gathers is given by all. */
static void scatters(struct rank *r, int rank)
{
    steps(r, rank ? 0 : 3);
    for (int call = 0; call < 2; call++) {
        const float x = call ? value(r) : 1;
        if (rank == 0) {
            put_torch(r, TWIN_KIND_IN, "scatter[0]", NULL, "root 0", 7);
            put_torch(r, TWIN_KIND_IN, "scatter[1]", NULL, "root 0", x);
        }
        put_torch(r, TWIN_KIND_OUT, "scatter", NULL, "root 0", rank ? x : 7);
    }
    steps(r, 1);
}

static void parts_that_are_scattered(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, scatters);
    expect_rank(v, 0, 3, "scatter[1]");
    place_of(v, 1, TWIN_RANK_CARRIED);
    expect_note(v, "carried to rank 1 from rank 0 by call 2 of scatter, group 0");
    twin_verdict_free(v);
}

/* Parts of tensors pass between ranks unseen: whoever differs may have got it so. */
static void cut_tensors(struct rank *r, int rank)
{
    twin_writer_note(r->w, "shard", "12 32,8 16,0 16,8 1");
    apart(r, rank);
}

static void tensors_that_are_cut_over_ranks(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, cut_tensors);
    expect_rank(v, 1, 2, "MPI_Send to rank 0, tag 1");
    place_of(v, 2, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "parts of tensors pass between ranks by calls that are not recorded");
    twin_verdict_free(v);
}

/* What all gave was equal: the call made it. */
static void by_the_call(struct rank *r, int rank)
{
    give(r, "MPI_Allreduce", (float)rank);
    take(r, "MPI_Allreduce", value(r));
    steps(r, 1);
}

static void a_collective_that_made_it(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, by_the_call);
    expect_rank(v, 0, 0, "MPI_Allreduce");
    assert_int_equal(v->first->role, TWIN_ORIGIN);
    assert_true(v->order->known);
    assert_int_equal(v->origin_count, 3);
    assert_false(has_note(v, "carried to"));
    assert_false(has_note(v, "no message or collective brought"));
    twin_verdict_free(v);
}

/* Each takes what the other gives later: no run can have done that. */
static void in_a_circle(struct rank *r, int rank)
{
    steps(r, rank);
    take(r, rank ? "MPI_Recv from rank 0, tag 1" : "MPI_Recv from rank 1, tag 1", value(r));
    give(r, rank ? "MPI_Send to rank 0, tag 1" : "MPI_Send to rank 1, tag 1", value(r));
    steps(r, 1);
}

/* The same with something else between, so that what is taken leads to nobody's own difference. */
static void in_a_circle_of_order(struct rank *r, int rank)
{
    steps(r, rank);
    take(r, rank ? "MPI_Recv from rank 0, tag 1" : "MPI_Recv from rank 1, tag 1", 3);
    give(r, rank ? "MPI_Send to rank 0, tag 1" : "MPI_Send to rank 1, tag 1", 3);
    give(r, rank ? "MPI_Send to rank 0, tag 2" : "MPI_Send to rank 1, tag 2", value(r));
    steps(r, 1);
}

static void events_in_a_circle(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, in_a_circle);
    expect_rank(v, 0, 0, "MPI_Recv from rank 1, tag 1");
    place_of(v, 1, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "what rank 0 took came from a rank of which no earlier difference is known");
    assert_false(has_note(v, "carried to"));
    twin_verdict_free(v);
    v = compare_ranks(2, -1, in_a_circle_of_order);
    expect_rank(v, 0, 0, "MPI_Send to rank 1, tag 2");
    expect_unknown(v, "they wait for each other in a circle, which no run can do");
    assert_false(has_note(v, "carried to"));
    twin_verdict_free(v);
}

/* The name of such a communicator need not mean the same on two ranks. */
static void in_a_group(struct rank *r, int rank)
{
    const char *group = WORLD "/group 1 of rank 0";
    steps(r, rank);
    put(r, TWIN_KIND_IN, "MPI_Allreduce", group, rank ? value(r) : 1);
    put(r, TWIN_KIND_OUT, "MPI_Allreduce", group, value(r));
    steps(r, 1);
}

static void a_communicator_without_a_name(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, in_a_group);
    expect_rank(v, 0, 0, "MPI_Allreduce");
    expect_unknown(v, "the order of MPI_Allreduce is not followed (rank 0 of run 1)");
    twin_verdict_free(v);
}

/* Two calls are under way at once: which of them came out first is not in the records. */
static void two_under_way(struct rank *r, int rank)
{
    steps(r, rank ? 1 : 0);
    give(r, "MPI_Iallreduce", rank ? value(r) : 1);
    give(r, "MPI_Iallreduce", 5);
    take(r, "MPI_Iallreduce", value(r));
    take(r, "MPI_Iallreduce", 10);
    steps(r, 1);
}

static void calls_beside_each_other(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, two_under_way);
    /* that rank 1's input came first is known: its call, or a later one, is what came out */
    expect_rank(v, 1, 1, "MPI_Iallreduce");
    place_of(v, 0, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "what rank 0 took in step 0 was not found with who gave it");
    assert_false(has_note(v, "carried to"));
    twin_verdict_free(v);
}

static void unseen_calls(struct rank *r, int rank)
{
    if (rank == 2)
        twin_writer_note(r->w, "unseen", "MPI_Put: what one-sided calls move is not seen");
    skewed(r, rank);
}

static void calls_that_were_not_seen(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, unseen_calls);
    place_of(v, 2, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "rank 2 of run 1: some of its calls of MPI were not seen");
    assert_false(has_note(v, "from rank 2, tag 7, on"));
    twin_verdict_free(v);
}

struct beside {
    struct rank *r;
};

static void give_beside(void *user)
{
    struct beside *b = user;
    give(b->r, "MPI_Send to rank 0, tag 9", 0.25f);
}

static void in_two_threads(struct rank *r, int rank)
{
    if (rank == 2) {
        struct beside b = {r};
        struct synth_crew *crew = synth_crew_open();
        synth_crew_do(crew, 1, give_beside, &b);
        synth_crew_close(crew);
    }
    skewed(r, rank);
}

static void messages_of_two_threads(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, in_two_threads);
    place_of(v, 2, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "rank 2 of run 1: several threads exchange messages");
    assert_false(has_note(v, "from rank 2, tag 7, on"));
    twin_verdict_free(v);
}

static void put_weight(void *user)
{
    struct beside *b = user;
    const float x = value(b->r);
    synth_put(b->r->w, (struct synth_record){TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, .name = "w"},
              &x, 1);
}

/* What differs is recorded by a thread that exchanges nothing. */
static void beside_messages(struct rank *r, int rank)
{
    struct beside b = {r};
    steps(r, rank);
    give(r, "MPI_Allreduce", 1);
    take(r, "MPI_Allreduce", 2);
    if (rank == 0) {
        struct synth_crew *crew = synth_crew_open();
        synth_crew_do(crew, 1, put_weight, &b);
        synth_crew_close(crew);
    } else {
        put_weight(&b);
    }
    steps(r, 1);
}

static void a_difference_beside_the_messages(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, beside_messages);
    expect_rank(v, 0, 0, "w");
    place_of(v, 1, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "what differs on rank 0 of run 1 was recorded by another thread than its "
                      "messages");
    twin_verdict_free(v);
}

/* DDP reduces gradients from C++: what one rank's backward made reaches the others unseen. */
static void reduced_unseen(struct rank *r, int rank)
{
    const float local = rank == 1 ? value(r) : 1, reduced = 3 * value(r), loss = 1;
    give(r, "all_reduce", loss);
    take(r, "all_reduce", loss);
    synth_put(r->w,
              (struct synth_record){TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT_LOCAL, .name = "g"},
              &local, 1);
    synth_put(r->w, (struct synth_record){TWIN_PHASE_BACKWARD, TWIN_KIND_GRADIENT, .name = "g"},
              &reduced, 1);
    steps(r, 1);
}

static void gradients_that_are_reduced_unseen(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(3, -1, reduced_unseen);
    expect_rank(v, 1, 0, "g");
    assert_int_equal(v->first->kind, TWIN_KIND_GRADIENT_LOCAL);
    assert_int_equal(v->origin_count, 1);
    place_of(v, 0, TWIN_RANK_UNKNOWN);
    expect_unknown(v, "gradients are reduced by calls that are not recorded");
    twin_verdict_free(v);
}

/* Nothing passes between these ranks, as far as was recorded. */
static void without_exchange(struct rank *r, int rank)
{
    struct beside b = {r};
    steps(r, rank);
    put_weight(&b);
    steps(r, 1);
}

static void no_exchange_at_all(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(2, -1, without_exchange);
    expect_rank(v, 0, 0, "w");
    assert_false(v->order->exchanges);
    expect_unknown(v, "no messages or collectives were recorded");
    assert_false(has_note(v, "no messages or collectives"));
    twin_verdict_free(v);
}

/* One rank sends what differs to eleven others. */
static void to_many(struct rank *r, int rank)
{
    char name[64];
    for (int to = 1; to < 12 && rank == 0; to++) {
        snprintf(name, sizeof name, "MPI_Isend to rank %d, tag 1", to);
        give(r, name, value(r));
    }
    if (rank > 0)
        take(r, "MPI_Recv from rank 0, tag 1", value(r));
    steps(r, 1);
}

static void many_messages(void **state)
{
    (void)state;
    struct twin_verdict *v = compare_ranks(12, -1, to_many);
    expect_rank(v, 0, 0, "MPI_Isend to rank 1, tag 1");
    assert_true(v->order->known);
    expect_note(v, "carried to rank 8 by message 1 from rank 0, tag 1, on MPI_COMM_WORLD");
    assert_false(has_note(v, "carried to rank 9 "));
    expect_note(v, "carried by 3 more messages or calls: --json lists them");
    twin_verdict_free(v);
}

/* The other run sends one more message before. */
static void renumbered(struct rank *r, int rank)
{
    if (rank == 1) {
        steps(r, 1);
        if (r->other)
            give(r, "MPI_Send to rank 0, tag 1", 9);
        give(r, "MPI_Send to rank 0, tag 2", value(r));
    } else {
        if (r->other)
            take(r, "MPI_Recv from rank 1, tag 1", 9);
        take(r, "MPI_Recv from rank 1, tag 2", value(r));
    }
    steps(r, 1);
}

static void numbers_of_both_runs(void **state)
{
    (void)state;
    /* what one run alone has stands first; who took it from whom is not followed */
    struct twin_verdict *v = compare_ranks(2, -1, renumbered);
    assert_false(has_note(v, "carried to"));
    assert_false(v->order->known);
    twin_verdict_free(v);
}

/* Flips a byte in the middle of what a trace holds. */
static void damage(const char *path)
{
    struct stat st;
    unsigned char byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    const off_t at = 512 + 200; /* behind the header of the file: in its first block */
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_damaged_block(void **state)
{
    (void)state;
    struct synth *s[2];
    record_ranks(s, 3, -1, skewed);
    const struct twin_run *run = synth_done(s[0]);
    synth_done(s[1]);
    for (size_t i = 0; i < run->trace_count; i++)
        if (strstr(run->traces[i], "/2."))
            damage(run->traces[i]);
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    synth_free(s[0]);
    synth_free(s[1]);
    if (v->order)
        assert_false(v->order->known);
    assert_false(has_note(v, "from rank 2, tag 7, on"));
    twin_verdict_free(v);
}

static void limits_are_said(void **state)
{
    (void)state;
    const size_t most = tw_exchange_most;
    const uint64_t records = tw_exchange_records;
    tw_exchange_records = 4;
    struct twin_verdict *v = compare_ranks(3, -1, skewed);
    expect_unknown(v, "their traces hold more than 4 records until then");
    twin_verdict_free(v);
    tw_exchange_records = records;
    tw_exchange_most = 3; /* one of each rank */
    v = compare_ranks(3, -1, skewed);
    expect_unknown(v, "rank 0 of run 1 has more of them than are looked at");
    assert_false(has_note(v, "carried to"));
    twin_verdict_free(v);
    tw_exchange_most = most;
    const size_t work = tw_causal_work;
    tw_causal_work = 1;
    v = compare_ranks(3, -1, apart);
    expect_unknown(v, "there are more of them than are put in order");
    twin_verdict_free(v);
    tw_causal_work = work;
}

/* Each allocation fails once: an error, never another verdict. */
static void without_memory(void **state)
{
    (void)state;
    struct synth *s[2];
    record_ranks(s, 3, -1, skewed);
    const struct twin_run *runs[2] = {synth_done(s[0]), synth_done(s[1])};
    struct twin_verdict *v = NULL;
    int rc = TWIN_ENOMEM;
    for (uint64_t n = 1; rc != 0; n++) {
        tw_alloc_fail_at(n, false);
        rc = twin_compare(runs, 2, NULL, &v, NULL);
        tw_alloc_fail_at(0, false);
        assert_true(n < 20000);
        if (rc == 0 && v->outcome == TWIN_DIFFER && v->order)
            expect_rank(v, 2, 5, "MPI_Send to rank 0, tag 7");
        if (rc == 0 &&
            v->outcome != TWIN_DIFFER) { /* a trace that could not be read, and is said */
            assert_int_equal(v->outcome, TWIN_INCONCLUSIVE);
            rc = TWIN_ENOMEM;
            twin_verdict_free(v);
        }
    }
    twin_verdict_free(v);
    synth_free(s[0]);
    synth_free(s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whose_step_is_smaller_is_not_first),
        cmocka_unit_test(a_missing_trace),
        cmocka_unit_test(an_unmatched_message),
        cmocka_unit_test(contents_that_do_not_fit),
        cmocka_unit_test(several_by_themselves),
        cmocka_unit_test(the_order_of_two_by_themselves),
        cmocka_unit_test(a_collective_of_torch),
        cmocka_unit_test(a_sum_in_the_order_of_arrival),
        cmocka_unit_test(messages_of_torch),
        cmocka_unit_test(messages_of_torch_that_do_not_match),
        cmocka_unit_test(calls_of_torch_that_do_not_match),
        cmocka_unit_test(parts_that_are_scattered),
        cmocka_unit_test(tensors_that_are_cut_over_ranks),
        cmocka_unit_test(a_collective_that_made_it),
        cmocka_unit_test(events_in_a_circle),
        cmocka_unit_test(a_communicator_without_a_name),
        cmocka_unit_test(calls_beside_each_other),
        cmocka_unit_test(calls_that_were_not_seen),
        cmocka_unit_test(messages_of_two_threads),
        cmocka_unit_test(a_difference_beside_the_messages),
        cmocka_unit_test(gradients_that_are_reduced_unseen),
        cmocka_unit_test(no_exchange_at_all),
        cmocka_unit_test(many_messages),
        cmocka_unit_test(numbers_of_both_runs),
        cmocka_unit_test(a_damaged_block),
        cmocka_unit_test(limits_are_said),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
