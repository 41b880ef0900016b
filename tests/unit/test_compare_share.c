/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comparison that several processes share has the verdict of one alone, whatever its traces are
 * like; and what a process is sent is foreign: a broken message ends the comparison, and one that
 * speaks of another file is not believed.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "compare_test.h"
#include "share.h"

enum { RANKS = 5, STEPS = 6, MOST_BYTES = 1 << 16 };

/* What the other processes send: made when it is asked for, or given. */
struct others {
    const struct twin_run *const *runs;
    size_t parts;
    void (*change)(struct tw_buf *message, size_t part); /* NULL: as it was made */
    const char *trouble;                                 /* of the last process */
    size_t asked;
};

static int collect(void *user, size_t part, struct tw_buf *out, struct twin_error *err)
{
    struct others *o = user;
    const struct twin_share theirs = {.part = part, .parts = o->parts};
    assert_int_equal(part, ++o->asked);
    int rc;
    if (o->trouble && part + 1 == o->parts)
        rc = twin_share_trouble(part, o->parts, o->trouble, out);
    else
        rc = twin_share_verify(o->runs, 2, &theirs, out, err);
    if (rc == 0 && o->change)
        o->change(out, part);
    return rc;
}

static int share(struct others *o, struct twin_verdict **v, struct twin_error *err)
{
    const struct twin_share mine = {.parts = o->parts, .collect = collect, .user = o};
    const struct twin_compare_options options = {.share = &mine};
    o->asked = 0;
    return twin_compare(o->runs, 2, &options, v, err);
}

/* All that a verdict says, as the text of its claims. */
static char *claims(struct twin_verdict *v)
{
    char *text = NULL;
    assert_int_equal(twin_verdict_claims(v, &text, NULL), 0);
    twin_verdict_free(v);
    return text;
}

/* rank `other` of the second run differs from step 3 on; -1: none does */
static struct synth *job(int other)
{
    struct synth *s = synth_new("share");
    for (int rank = 0; rank < RANKS; rank++) {
        struct synth_model m;
        synth_model_init(&m, STEPS);
        m.rank = rank;
        m.world = RANKS;
        m.disturbances = rank == other || (other >= 0 && rank == RANKS - 1);
        m.disturb[0].place = AT_GRADIENT;
        m.disturb[0].step = 3;
        m.disturb[0].by = 1e-4f;
        synth_train(&m, synth_process(s, rank, RANKS, NULL));
    }
    return s;
}

static void flip(const char *path, off_t at)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x20;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* The verdict of one process, and of 2, 3 and more than there are traces. */
static char *expect_alike(const struct twin_run *const *runs)
{
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_compare(runs, 2, NULL, &v, &err), 0);
    char *alone = claims(v);
    static const size_t parts[] = {1, 2, 3, 4 * RANKS};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct others o = {.runs = runs, .parts = parts[i]};
        if (share(&o, &v, &err) != 0)
            fail_msg("%zu processes: %s", parts[i], err.message);
        assert_int_equal(o.asked, parts[i] - 1);
        char *shared = claims(v);
        assert_string_equal(alone, shared);
        tw_free(shared);
    }
    return alone;
}

static void expect_says(char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("expected \"%s\" in %s", part, text);
    tw_free(text);
}

static void verdicts_are_alike(void **state)
{
    (void)state;
    struct synth *a = job(-1), *b = job(-1), *c = job(2);
    const struct twin_run *equal[2] = {synth_done(a), synth_done(b)};
    const struct twin_run *differing[2] = {equal[0], synth_done(c)};
    expect_says(expect_alike(equal), "\"outcome\":\"same\"");
    expect_says(expect_alike(differing), "\"outcome\":\"differ\"");
    /* in the middle, at the end, torn, and no trace any more */
    flip(equal[1]->traces[1], 1500);
    expect_says(expect_alike(equal), "damaged");
    flip(equal[1]->traces[2], size_of(equal[1]->traces[2]) - 100);
    expect_says(expect_alike(equal), "\"outcome\":\"inconclusive\"");
    assert_int_equal(truncate(equal[1]->traces[0], 4000), 0);
    tw_free(expect_alike(equal));
    assert_int_equal(truncate(equal[1]->traces[3], 100), 0);
    tw_free(expect_alike(equal));
    assert_int_equal(unlink(equal[1]->traces[4]), 0);
    expect_says(expect_alike(equal), "cannot be read");
    synth_free(a);
    synth_free(b);
    synth_free(c);
}

/* ---- broken messages */

static size_t flip_at;

static void flip_byte(struct tw_buf *message, size_t part)
{
    if (part == 1 && flip_at < message->len)
        message->data[flip_at] ^= 0x41;
    else if (part == 1)
        flip_at = SIZE_MAX;
}

static void cut(struct tw_buf *message, size_t part)
{
    message->len = part == 1 ? flip_at : message->len;
}

static void none(struct tw_buf *message, size_t part)
{
    (void)part;
    tw_buf_free(message);
}

static void of_the_first(struct tw_buf *message, size_t part)
{
    static char kept[MOST_BYTES];
    static size_t length;
    if (part == 1) {
        length = message->len;
        assert_true(length < sizeof kept);
        memcpy(kept, message->data, length);
    } else {
        message->len = 0;
        tw_buf_append(message, kept, length);
    }
}

static void expect_no_verdict(struct others *o, const char *part)
{
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_not_equal(share(o, &v, &err), 0);
    assert_null(v);
    if (!strstr(err.message, part))
        fail_msg("expected \"%s\", found \"%s\"", part, err.message);
}

static void broken_messages_end_it(void **state)
{
    (void)state;
    struct synth *a = job(-1), *b = job(-1), *fewer = synth_new("share");
    struct twin_verdict *v = NULL;
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    struct others o = {.runs = runs, .parts = 3, .change = flip_byte};
    size_t flips = 0;
    for (flip_at = 0;; flip_at += flip_at < 64 ? 1 : 5, flips++) {
        struct twin_error err = TWIN_ERROR_INIT;
        int rc = share(&o, &v, &err);
        if (flip_at == SIZE_MAX) { /* behind its end: it was as it should be */
            assert_int_equal(rc, 0);
            twin_verdict_free(v);
            break;
        }
        assert_int_equal(rc, TWIN_EFORMAT);
        assert_null(v);
        assert_non_null(strstr(err.message, "process 1: what it sent cannot be used"));
    }
    assert_true(flips > 80);
    o.change = cut;
    for (flip_at = 0; flip_at < flips; flip_at += 7)
        expect_no_verdict(&o, "process 1: what it sent cannot be used");
    o.change = none;
    expect_no_verdict(&o, "it is shorter than its head");
    o.change = of_the_first;
    expect_no_verdict(&o, "it is of another process");
    o.change = NULL;
    o.trouble = "/shared/ranks/7.twt: cannot read 4096 bytes at 512";
    expect_no_verdict(&o, "process 2 of 3: /shared/ranks/7.twt: cannot read 4096 bytes at 512");
    /* the others see another run */
    struct synth_model m;
    synth_model_init(&m, STEPS);
    synth_train(&m, synth_process(fewer, 0, 1, NULL));
    const struct twin_run *theirs[2] = {runs[0], synth_done(fewer)};
    const struct twin_share part = {.part = 1, .parts = 2}, whole = {.parts = 2};
    struct tw_buf message;
    struct tw_shares shares = {.found = tw_calloc(2 * RANKS, sizeof *shares.found),
                               .count = 2 * RANKS};
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_share_verify(theirs, 2, &part, &message, NULL), 0);
    assert_int_equal(tw_shares_read(runs, 2, &whole, 1, message.data, message.len, &shares, &err),
                     TWIN_EIO);
    assert_non_null(strstr(err.message, "process 1 of 2 sees other traces than process 0"));
    tw_buf_free(&message);
    tw_shares_free(&shares);
    synth_free(a);
    synth_free(b);
    synth_free(fewer);
}

/* ---- what is said of another file */

/* A trace that another process verified, and that is a different one now. */
static const char *replaced;

static void replace(struct tw_buf *message, size_t part)
{
    (void)message;
    if (part == 1)
        assert_int_equal(truncate(replaced, size_of(replaced) - 64), 0);
}

static void another_file_is_looked_at(void **state)
{
    (void)state;
    struct synth *a = job(-1), *b = job(-1);
    const struct twin_run *runs[2] = {synth_done(a), synth_done(b)};
    struct others o = {.runs = runs, .parts = 2, .change = replace};
    struct twin_verdict *v = NULL;
    struct twin_error err = TWIN_ERROR_INIT;
    replaced = runs[0]->traces[1]; /* number 1 of all: the other process's */
    assert_int_equal(share(&o, &v, &err), 0);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    twin_verdict_free(v);
    synth_free(a);
    synth_free(b);
}

static void believes_only_its_own_file(void **state)
{
    (void)state;
    struct synth *a = job(-1), *c = job(1);
    const struct twin_run *runs[2] = {synth_done(a), synth_done(c)};
    struct twin_trace *x, *y;
    struct twin_trace_verified v, w;
    struct twin_error err = TWIN_ERROR_INIT;
    assert_int_equal(twin_trace_open(runs[0]->traces[1], &x, NULL), 0);
    assert_int_equal(twin_trace_open(runs[1]->traces[1], &y, NULL), 0);
    assert_int_equal(twin_trace_hand_over(x, &v, &err), TWIN_EINVAL); /* not verified yet */
    assert_int_equal(twin_trace_verify(x, NULL), 0);
    assert_int_equal(twin_trace_hand_over(x, &v, NULL), 0);
    assert_int_equal(twin_trace_take_over(y, &v, &err), TWIN_EINVAL);
    assert_null(twin_trace_summary(y));
    twin_trace_close(y);
    assert_int_equal(twin_trace_open(runs[0]->traces[1], &y, NULL), 0);
    for (int i = 0; i < 7; i++) { /* each says what cannot be so */
        w = v;
        w.bytes += i == 0;
        w.seal[0] ^= (uint64_t)(i == 1);
        w.seal[1] ^= (uint64_t)(i == 2);
        w.summary.records += i == 3;
        w.summary.unfinished = i == 4 ? v.summary.records + 1 : v.summary.unfinished;
        w.summary.finished = i == 5 ? UINT64_MAX : v.summary.finished;
        w.summary.unobserved = i == 6 ? UINT64_MAX : v.summary.unobserved;
        assert_int_equal(twin_trace_take_over(y, &w, NULL), TWIN_EINVAL);
        assert_null(twin_trace_summary(y));
    }
    assert_int_equal(twin_trace_take_over(y, &v, NULL), 0);
    assert_memory_equal(twin_trace_summary(y), twin_trace_summary(x), sizeof v.summary);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(twin_trace_observed(y, i), twin_trace_observed(x, i));
    tw_free(v.observed);
    twin_trace_close(x);
    twin_trace_close(y);
    synth_free(a);
    synth_free(c);
}

static void every_allocation_failure(void **state)
{
    (void)state;
    struct synth *a = job(-1), *c = job(2);
    const struct twin_run *runs[2] = {synth_done(a), synth_done(c)};
    uint64_t all = 1;
    for (uint64_t n = 0; n <= all; n += n < 20 ? 1 : all / 60 + 1) {
        struct others o = {.runs = runs, .parts = 2};
        struct twin_verdict *v = NULL;
        struct twin_error err = TWIN_ERROR_INIT;
        const uint64_t before = tw_alloc_count();
        tw_alloc_fail_at(n, false); /* 0: none, to count them */
        int rc = share(&o, &v, &err);
        tw_alloc_fail_at(0, false);
        all = n == 0 ? tw_alloc_count() - before : all;
        if (rc == 0) {
            expect_outcome(v, TWIN_DIFFER);
            twin_verdict_free(v);
            continue;
        }
        assert_null(v);
        assert_true(err.message[0] != '\0');
    }
    assert_true(all > 100);
    synth_free(a);
    synth_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_are_alike),        cmocka_unit_test(broken_messages_end_it),
        cmocka_unit_test(another_file_is_looked_at), cmocka_unit_test(believes_only_its_own_file),
        cmocka_unit_test(every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
