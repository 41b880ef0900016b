/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What twinrun serve writes, without a client: metrics, page and answers from a ledger that is made
 * here. Each allocation fails once: an error, no leak, and never half an answer that looks like a
 * whole one. With a server in the build also its threads, which the thread sanitizer watches here.
 */
#include "answer.h"
#include "metrics.h"
#include "serve.h"
#include "share.h"
#ifdef TWIN_HAVE_EVENT
#include "workers.h"
#endif

#include "base.h"

#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

static const int64_t HOUR_NS = (int64_t)3600 * 1000000000;
static char home[64];
static struct tw_slo_targets targets;

static const char *id_of(int kind, int number)
{
    static char id[4][33];
    static unsigned at;
    char *x = id[at++ % 4];
    snprintf(x, 33, "%x%031x", (unsigned)kind, (unsigned)number);
    return x;
}

/* A pair of runs of a job, which agrees or does not. */
static void put_pair(struct twin_ledger *l, int number)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const bool bad = number % 3 == 0;
    int rc = twin_ledger_begin(l, &err);
    for (int i = 0; rc == 0 && i < 2; i++) {
        const char *id = id_of(1, 2 * number + i);
        const struct twin_ledger_run r = {.id = id,
                                          .name = id,
                                          .command = "train \"x\" <b>",
                                          .argv = "[\"train\"]",
                                          .host = "node",
                                          .state = "ok",
                                          .start_ns = tw_realtime_ns(),
                                          .wall_s = 3,
                                          .steps = 10,
                                          .records = 100};
        const struct twin_ledger_facts f = {.run_id = id,
                                            .project = number % 2 ? "vision" : "text",
                                            .family = "resnet",
                                            .contributor = "ana",
                                            .inputs = "i",
                                            .ci = true,
                                            .snapshots = 1,
                                            .deterministic = 1,
                                            .nondeterministic = bad,
                                            .loss = NAN};
        const struct twin_ledger_artifact a = {"model.pt", "checkpoint", "00", 7};
        rc = twin_ledger_put_run(l, &r, &a, 1, &err);
        rc = rc ? rc : twin_ledger_put_facts(l, &f, &err);
    }
    char first[33], second[33];
    snprintf(first, sizeof first, "%s", id_of(1, 2 * number));
    snprintf(second, sizeof second, "%s", id_of(1, 2 * number + 1));
    const char *const runs[] = {first, second};
    const enum twin_ledger_agreed agreed[] = {TWIN_AGREED_NOT_SAID,
                                              bad ? TWIN_AGREED_NOT : TWIN_AGREED};
    const struct twin_ledger_comparison c = {.id = id_of(2, number),
                                             .time_ns = tw_realtime_ns(),
                                             .verb = number % 5 ? "check" : "isolate",
                                             .command = "train \"x\" <b>",
                                             .outcome = bad ? "differ" : "same",
                                             .first = bad ? "step 3, rank 0" : "",
                                             .first_step = bad ? 3 : -1,
                                             .layer = bad ? "backward" : "",
                                             .repeats = true,
                                             .checkpoints = {1, !bad, 0, 0},
                                             .run_id = runs,
                                             .agreed = agreed,
                                             .run_count = 2};
    rc = rc ? rc : twin_ledger_put_comparison(l, &c, &err);
    rc = rc ? rc : twin_ledger_end(l, true, &err);
    if (rc != 0)
        fail_msg("%s", err.message);
}

static struct twin_ledger *opened(bool to_read)
{
    struct twin_ledger *l = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    if ((to_read ? twin_ledger_open_to_read : twin_ledger_open)(home, NULL, &l, &err) != 0)
        fail_msg("%s", err.message);
    return l;
}

static int fill(void **state)
{
    (void)state;
    snprintf(home, sizeof home, "/tmp/twin-serve-XXXXXX");
    assert_non_null(mkdtemp(home));
    assert_int_equal(tw_slo_targets_default(&targets, NULL), 0);
    struct twin_ledger *l = opened(false);
    for (int i = 0; i < 6; i++)
        put_pair(l, i);
    twin_ledger_close(l);
    return 0;
}

static int empty(void **state)
{
    (void)state;
    tw_slo_targets_free(&targets);
    tw_remove_tree(home, NULL, NULL);
    return 0;
}

/* ---- each allocation fails once */

static struct serve_state *snapshot(struct twin_ledger *l)
{
    struct tw_slo_history *h = NULL;
    struct tw_slo_counted high = {.count = 0};
    struct serve_state *s = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    int rc = tw_slo_history_load(l, NULL, INT64_MIN, &h, &err);
    const struct serve_incident_rules rules = {.lasts_ns = HOUR_NS, .cool_down_ns = HOUR_NS};
    const struct serve_making m = {l, h, &targets, &rules, &high, tw_realtime_ns()};
    rc = rc ? rc : serve_state_make(&m, &s, &err);
    tw_slo_history_free(h);
    tw_slo_counted_free(&high);
    assert_true(rc == 0 || (rc == TWIN_ENOMEM && !s));
    return s;
}

static void test_snapshot_without_memory(void **state)
{
    struct twin_ledger *l = opened(true);
    struct serve_state *s = NULL;
    (void)state;
    for (uint64_t n = 1; !s; n++) {
        tw_alloc_fail_at(n, true);
        s = snapshot(l);
        tw_alloc_fail_at(0, false);
        assert_true(n < 20000);
    }
    assert_true(s->counted.count == 2 && s->divergences == 2 && s->incidents.count == 1);
    serve_state_free(s);
    twin_ledger_close(l);
}

/* What is written from a snapshot: number 0 to 5. */
static void write_one(int which, const struct serve_state *s, struct tw_buf *b)
{
    const struct serve_live live = {.version = "1", .up = true, .age_s = 2, .event_clients = 1};
    const struct serve_query q = {.route = SERVE_INDICATORS};
    const struct serve_incident_rules rules = {.lasts_ns = HOUR_NS};
    struct serve_shown shown = {.count = 0};
    switch (which) {
    case 0: serve_metrics(s, &live, false, NULL, b); break;
    case 1: serve_metrics(s, &live, true, &shown, b); break;
    case 2: serve_page(s, true, 2, b); break;
    case 3: serve_indicators(s, &q, b); break;
    case 4: serve_incidents_answer(&s->incidents, &rules, s->made_ns, s->made_ns, b); break;
    default: serve_schema_list(b); break;
    }
    serve_shown_free(&shown);
}

/* Either it says that it failed, or it is the text that it is with all memory. */
static void test_text_without_memory(void **state)
{
    struct twin_ledger *l = opened(true);
    struct serve_state *s = snapshot(l);
    (void)state;
    assert_non_null(s);
    for (int which = 0; which < 6; which++) {
        struct tw_buf whole = {0};
        write_one(which, s, &whole);
        assert_true(!whole.failed && whole.len > 100);
        bool failed = true;
        for (uint64_t n = 1; failed; n++) {
            struct tw_buf b = {0};
            tw_alloc_fail_at(n, false);
            write_one(which, s, &b);
            tw_alloc_fail_at(0, false);
            failed = b.failed;
            if (!failed && (b.len != whole.len || memcmp(b.data, whole.data, b.len) != 0))
                fail_msg("writer %d, allocation %d: half an answer", which, (int)n);
            tw_buf_free(&b);
            assert_true(n < 5000);
        }
        tw_buf_free(&whole);
    }
    serve_state_free(s);
    twin_ledger_close(l);
}

static void test_answers_without_memory(void **state)
{
    struct twin_ledger *l = opened(true);
    (void)state;
    for (int which = 0; which < 4; which++) {
        static const enum serve_route route[] = {SERVE_RUNS, SERVE_RUN, SERVE_VERDICTS,
                                                 SERVE_SEARCHES};
        struct serve_query q = {.route = route[which], .limit = 3};
        if (q.route == SERVE_RUN)
            snprintf(q.name, sizeof q.name, "%s", id_of(1, 1));
        struct tw_buf whole = {0};
        struct twin_error err = TWIN_ERROR_INIT;
        assert_int_equal(serve_answer(l, &q, &whole, &err), 0);
        int rc = TWIN_ENOMEM;
        for (uint64_t n = 1; rc != 0; n++) {
            struct tw_buf b = {0};
            tw_alloc_fail_at(n, true);
            rc = serve_answer(l, &q, &b, &err);
            tw_alloc_fail_at(0, false);
            assert_true(rc == 0 || rc == TWIN_ENOMEM);
            if (rc == 0 && (b.len != whole.len || memcmp(b.data, whole.data, b.len) != 0))
                fail_msg("route %d, allocation %d: half an answer", which, (int)n);
            tw_buf_free(&b);
            assert_true(n < 5000);
        }
        tw_buf_free(&whole);
    }
    twin_ledger_close(l);
}

static void test_query_needs_no_memory(void **state)
{
    struct serve_query q;
    char why[200];
    (void)state;
    tw_alloc_fail_at(1, true);
    assert_int_equal(serve_query_parse("/api/v1/runs?project=a%20b&limit=7", 0, &q, why), 200);
    assert_int_equal(serve_query_parse("/api/v1/runs?limit=x", 0, &q, why), 400);
    tw_alloc_fail_at(0, false);
    assert_true(strlen(why) > 0);
}

/* ---- the threads */
#ifdef TWIN_HAVE_EVENT

/* What the thread of the clients has got so far. */
struct got {
    struct serve_state *state;
    unsigned states, answers, news;
    double counted;
};

static double comparisons_of(const struct serve_state *s)
{
    double n = 0;
    for (size_t i = 0; s && i < s->counted.count; i++)
        for (int k = TW_COUNT_COMPARISONS_MATCH; k <= TW_COUNT_COMPARISONS_ERROR; k++)
            n += (double)s->counted.project[i].count[k].n;
    return n;
}

/* Takes what is there, as http.c does. */
static void take(struct serve_workers *w, struct got *g)
{
    struct serve_taken t;
    serve_workers_take(w, &t);
    assert_true(t.up);
    if (t.state) {
        struct serve_state *old = g->state;
        g->state = t.state;
        g->states++;
        g->counted = comparisons_of(t.state);
        if (old)
            serve_workers_drop(w, old);
    }
    for (struct serve_job *j = t.done, *next; j; j = next) {
        next = j->next;
        assert_int_equal(j->status, 200);
        assert_true(j->body.len > 50);
        g->answers++;
        tw_buf_free(&j->body);
        tw_free(j);
    }
    for (struct serve_news *x = t.news, *next; x; x = next) {
        next = x->next;
        g->news++;
        tw_free(x->text);
        tw_free(x);
    }
}

static void ask(struct serve_workers *w, enum serve_route route)
{
    struct serve_job *job = tw_calloc(1, sizeof *job);
    assert_non_null(job);
    job->query = (struct serve_query){.route = route, .limit = 5};
    assert_true(serve_workers_ask(w, job));
}

/* A writer adds, the watcher looks, the asker answers, and this thread shows it. */
static void test_threads(void **state)
{
    enum { ROUNDS = 3, ASKED = 20, PATIENCE_MS = 120000 };
    const struct tw_serve_options o = {.home = home, .targets = &targets, .version = "1"};
    struct twin_error err = TWIN_ERROR_INIT;
    struct serve_workers *w = NULL;
    struct twin_ledger *l = opened(false);
    struct got g = {.states = 0};
    unsigned asked = 0;
    int fd = -1;
    (void)state;
    if (serve_workers_start(&o, &w, &fd, &err) != 0)
        fail_msg("%s", err.message);
    for (int round = 0; round < ROUNDS; round++) {
        const double goal = 6 + round;
        if (round)
            put_pair(l, 100 + round);
        for (int i = 0; i < ASKED; i++, asked++)
            ask(w, i % 2 ? SERVE_RUNS : SERVE_VERDICTS);
        while (g.counted < goal || g.answers < asked) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
            take(w, &g);
            struct tw_buf b = {0};
            const struct serve_live live = {.version = "1", .up = true};
            serve_metrics(g.state, &live, true, NULL, &b);
            assert_false(b.failed);
            tw_buf_free(&b);
        }
    }
    assert_true(g.states >= ROUNDS && g.answers == asked);
    /* events of the two pairs that came while it ran: four runs and two verdicts */
    assert_int_equal(g.news, 6);
    ask(w, SERVE_RUNS); /* one that nobody takes */
    serve_workers_stop(w);
    serve_state_free(g.state);
    twin_ledger_close(l);
}
#endif

/* A piece of work of 2 s each time that it may: a fleet that writes for an hour gets a fifth, and
 * the first ones after quiet begin at once, however long that was. */
static void test_share(void **state)
{
    const int64_t second_ns = 1000000000;
    struct serve_share s;
    int64_t now_ns = 77 * second_ns;
    (void)state;
    serve_share_init(&s, now_ns);
    for (int round = 0; round < 3; round++) {
        int at_once = 0, worked_s = 0;
        const int64_t begin_ns = now_ns;
        while (serve_share_may(&s, now_ns)) {
            serve_share_spend(&s, 2);
            now_ns += 2 * second_ns;
            at_once++;
        }
        assert_int_equal(at_once, 8); /* 12 s, and a fifth of these 16 s */
        worked_s = 2 * at_once;
        while (now_ns < begin_ns + 3600 * second_ns) {
            const bool may = serve_share_may(&s, now_ns);
            if (may)
                serve_share_spend(&s, 2);
            worked_s += may ? 2 : 0;
            now_ns += (may ? 2 : 1) * second_ns;
        }
        assert_in_range(worked_s, 720, 720 + 12 + 2);
        now_ns += (round ? 90 : 100000) * second_ns; /* quiet */
    }
    /* what is owed is paid: one that takes a minute waits for five */
    serve_share_init(&s, now_ns);
    assert_true(serve_share_may(&s, now_ns));
    serve_share_spend(&s, 12 + 60);
    assert_false(serve_share_may(&s, now_ns + 300 * second_ns));
    assert_true(serve_share_may(&s, now_ns + 301 * second_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_without_memory),
        cmocka_unit_test(test_text_without_memory),
        cmocka_unit_test(test_answers_without_memory),
        cmocka_unit_test(test_query_needs_no_memory),
#ifdef TWIN_HAVE_EVENT
        cmocka_unit_test(test_threads),
#endif
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests(tests, fill, empty);
}
