/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is missing is unknown. Every byte of a small trace is flipped, and the trace is cut at every
 * byte, and compared with its intact twin: never "same", and never a finding that damage alone
 * made. Then records that were dropped, here and there.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../src/trace/format.h"
#include "compare_test.h"
#include "internal.h"
#include "sanitized.h"
#include "scan.h"

enum { STEPS = 4 };

/* Every byte is damaged; under the sanitizers, where a comparison takes six times as long and only
 * memory is in question, every third: sizes in a trace are multiples of 8, so that each byte of a
 * struct that stands there three times has its turn. */
enum { STRIDE = SANITIZED ? 3 : 1 };

static void put(struct twin_writer *w, enum twin_phase phase, enum twin_kind kind, const char *name,
                float value)
{
    synth_put(w, (struct synth_record){.phase = phase, .kind = kind, .name = name}, &value, 1);
}

/* A few blocks: each step is sealed. The state of an idle generator differs in every run, and means
 * nothing. */
static struct synth *small_run(const char *label, float idle, int other_step)
{
    struct synth *s = synth_new(label);
    struct twin_writer *w = synth_process(s, 0, 1, NULL);
    for (int step = 0; step < STEPS; step++) {
        put(w, TWIN_PHASE_RNG, TWIN_KIND_STATE, "python.random", idle);
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)step);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "h", 1);
        put(w, TWIN_PHASE_FORWARD, TWIN_KIND_ACTIVATION, "h", 2);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", step == other_step ? 9 : 3);
        twin_writer_step_end(w);
        if (step != 1) /* two steps share a block */
            twin_writer_flush(w);
    }
    put(w, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "result", 5);
    return s;
}

struct bytes {
    char *at;
    size_t n;
    int fd;
};

static struct bytes bytes_of(struct synth *s)
{
    const char *path = synth_done(s)->traces[0];
    struct bytes b = {.fd = open(path, O_RDWR | O_CLOEXEC)};
    assert_true(b.fd >= 0);
    assert_int_equal(tw_read_file(path, 1u << 24, &b.at, &b.n, NULL), 0);
    return b;
}

static void set_byte(const struct bytes *b, size_t at, char value)
{
    assert_int_equal(pwrite(b->fd, &value, 1, (off_t)at), 1);
}

static void release(struct bytes *b)
{
    close(b->fd);
    tw_free(b->at);
}

/* Zeros between a block's contents and the next block's header, found by the block's own words
 * (docs/format/trace.md). */
static bool is_padding(const struct bytes *b, size_t at)
{
    for (size_t block = 512; block + 256 <= b->n;) {
        uint32_t payload;
        memcpy(&payload, b->at + block + 12, sizeof payload);
        size_t end = block + 256 + payload, next = (end + 63) / 64 * 64;
        if (at < next)
            return at >= end;
        block = next;
    }
    return false;
}

static bool value_finding(const struct twin_verdict *v)
{
    return v->first &&
           (v->first->type == TWIN_FINDING_VALUE || v->first->type == TWIN_FINDING_LAYOUT);
}

/* b's trace with a changed byte; other: b's weight differs in step 2. */
static void flip_each(bool other, bool verified)
{
    uint64_t usual = tw_verified_bytes;
    tw_verified_bytes = verified ? usual : 0;
    struct synth *a = small_run("a", 1, -1), *b = small_run("b", 2, other ? 2 : -1);
    struct bytes whole = bytes_of(b);
    size_t unnoticed = 0;
    for (size_t at = 0; at < whole.n; at += STRIDE) {
        set_byte(&whole, at, (char)(whole.at[at] ^ (at % 2 ? 0xFF : 1 << at / 2 % 8)));
        struct twin_verdict *v = compare(a, b, NULL);
        set_byte(&whole, at, whole.at[at]);
        bool right = v->outcome == TWIN_INCONCLUSIVE ||
                     (other && v->outcome == TWIN_DIFFER && value_finding(v));
        if (right && v->outcome == TWIN_DIFFER && v->first->kind == TWIN_KIND_WEIGHT)
            right = v->first->step_a == 2 && strcmp(v->first->name, "w") == 0;
        bool idle = is_padding(&whole, at); /* what no checksum covers holds nothing */
        if (idle && v->outcome == (other ? TWIN_DIFFER : TWIN_SAME)) {
            unnoticed++;
            right = true;
        }
        if (!right) {
            explain(v);
            fail_msg("byte %zu of %zu was flipped", at, whole.n);
        }
        assert_true(v->outcome != TWIN_INCONCLUSIVE || v->unseen_count > 0);
        twin_verdict_free(v);
    }
    if (verified && !other)
        assert_int_equal(unnoticed, 0); /* verification looks at the padding, too */
    tw_verified_bytes = usual;
    release(&whole);
    synth_free(a);
    synth_free(b);
}

static void each_byte_flipped(void **state)
{
    (void)state;
    flip_each(false, true);
    flip_each(false, false);
}

static void each_byte_flipped_of_another_run(void **state)
{
    (void)state;
    flip_each(true, true);
    flip_each(true, false);
}

static void cut_at_each_byte(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        struct synth *a = small_run("a", 1, -1), *b = small_run("b", 2, other ? 2 : -1);
        struct bytes whole = bytes_of(b);
        for (size_t n = whole.n; n >= STRIDE;) {
            n -= STRIDE;
            assert_int_equal(ftruncate(whole.fd, (off_t)n), 0);
            struct twin_verdict *v = compare(a, b, NULL);
            bool right = v->outcome == TWIN_INCONCLUSIVE ||
                         (other && v->outcome == TWIN_DIFFER && value_finding(v));
            if (!right) {
                explain(v);
                fail_msg("cut at byte %zu of %zu", n, whole.n);
            }
            twin_verdict_free(v);
        }
        assert_int_equal(pwrite(whole.fd, whole.at, whole.n, 0), (ssize_t)whole.n);
        struct twin_verdict *v = compare(a, b, NULL);
        expect_outcome(v, other ? TWIN_DIFFER : TWIN_SAME);
        twin_verdict_free(v);
        release(&whole);
        synth_free(a);
        synth_free(b);
    }
}

/* ---- the sentences that name what is damaged */

/* Flips a bit in the contents (or the header) of blocks [first, last]. */
static void damage(struct synth *s, size_t first, size_t last, bool header)
{
    struct bytes whole = bytes_of(s);
    size_t block = 512;
    for (size_t n = 0; n <= last && block + 256 <= whole.n; n++) {
        uint32_t payload;
        memcpy(&payload, whole.at + block + 12, sizeof payload);
        size_t at = header ? block + 20 : block + 256 + 60;
        if (n >= first)
            set_byte(&whole, at, (char)(whole.at[at] ^ 1));
        block += (256 + payload + 63) / 64 * 64;
    }
    release(&whole);
}

/* How a trace is cut into blocks is a matter of time, too: on a busy machine a block may be sealed
 * early. */
static bool is_cut_as_usual(struct synth *s)
{
    static const char usual[] = "NDDDNDE";
    char found[sizeof usual + 1] = "";
    struct bytes whole = bytes_of(s);
    struct tw_block b;
    size_t n = 0;
    for (size_t at = sizeof(struct tw_file_header); n < sizeof usual && at + sizeof b <= whole.n;
         at += tw_block_span(&b)) {
        memcpy(&b, whole.at + at, sizeof b);
        found[n++] = "?DNE"[b.type & 3];
    }
    release(&whole);
    return strcmp(found, usual) == 0;
}

static struct synth *run_cut_as_usual(const char *label, float idle)
{
    for (int tries = 0; tries < 200; tries++) {
        struct synth *s = small_run(label, idle, -1);
        if (is_cut_as_usual(s))
            return s;
        synth_free(s);
    }
    fail_msg("no trace of 200 was cut into the usual blocks");
    return NULL;
}

/* Block 0 holds names, block 1 step 0, block 2 steps 1 and 2, block 3 step 3, block 4 names, block
 * 5 the result, 6 the end. */
static struct twin_verdict *damaged(float idle, int which, size_t first, size_t last, bool header)
{
    struct synth *s[2] = {run_cut_as_usual("a", 1), run_cut_as_usual("b", idle)};
    damage(s[which], first, last, header);
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    synth_free(s[0]);
    synth_free(s[1]);
    return v;
}

static void damaged_block_is_named(void **state)
{
    (void)state;
    struct twin_verdict *v = damaged(2, 1, 2, 2, false);
    expect_reason(v, "run 2: block 2 of rank 0 (0.1000.twt) is damaged: its records are unknown");
    expect_reason(
        v, "step 2 of rank 0: 1 records have no details, so that what differs in it is not known");
    expect_reason(v, "whether something drew from generator python.random before or in step 3, "
                     "where records were dropped");
    twin_verdict_free(v);
    v = damaged(2, 0, 2, 2, false);
    expect_reason(v, "2 of 4 steps lie in damaged bytes");
    twin_verdict_free(v);
}

static void damaged_names_are_named(void **state)
{
    (void)state;
    struct twin_verdict *v = damaged(1, 1, 4, 4, false);
    expect_reason(v, "run 2: block 4 of rank 0 (0.1000.twt) is damaged: names that it may have "
                     "held are unknown");
    expect_reason(v, "run 2: 1 records of step 4 of rank 0 have names that lie in damaged bytes");
    twin_verdict_free(v);
}

/* Nothing good stands behind step 0: no later hash proves the others equal. */
static void damaged_steps_are_named(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct twin_verdict *v = damaged(1, which, 2, 5, true);
        expect_reason(v, "steps 1 to 3 of rank 0 lie in damaged bytes");
        twin_verdict_free(v);
    }
}

/* A disk that fails after the trace was opened: the file that is read is exchanged for a folder, of
 * which nothing can be read. */
static void a_trace_that_cannot_be_read(void **state)
{
    (void)state;
    struct synth *s = small_run("a", 1, -1);
    struct tw_cmp c = {
        .o = &(struct twin_compare_options){0}, .label_a = "run 1", .label_b = "run 2"};
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_side side;
    struct tw_view view;
    size_t exchanged = 0;
    const char *path = synth_done(s)->traces[0];
    int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    assert_int_equal(tw_side_open(&c, synth_done(s), 0, &side, &err), 0);
    assert_int_equal(c.unseen.n, 0);
    for (int fd = 3; fd < 256; fd++) {
        char name[64], target[400];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strcmp(target, path) == 0)
            exchanged += dup2(folder, fd) == fd;
    }
    assert_int_equal(exchanged, 1);
    assert_int_equal(tw_view_load(&c, &side.proc[0], 1, 2, &view, &err), 0);
    assert_int_equal(view.count, 0);
    assert_true(view.dropped > 0);
    assert_true(tw_starts(c.unseen.s[0], "steps 1 to 2 of rank 0 lie in damaged bytes: "));
    assert_non_null(strstr(c.unseen.s[0], path));
    close(folder);
    tw_view_free(&view);
    tw_side_close(&side);
    tw_texts_free(&c.unseen);
    tw_texts_free(&c.notes);
    synth_free(s);
}

/* ---- dropped records */

enum { FLOOD = 4000 };

struct flood {
    bool drops; /* else every record waits for room */
    enum twin_kind kind;
    uint32_t steps, step;          /* the flood comes in this step only; UINT32_MAX: in each */
    float other_weight;            /* of step 2 */
    uint32_t other_from, other_to; /* records of the flood that hold another value */
};

static float of_flood(uint32_t i, const void *flood)
{
    const struct flood *f = flood;
    return (float)i + (i >= f->other_from && i < f->other_to ? .5f : 0);
}

/* What comes before and after the flood is written out, so it is never dropped. */
static struct synth *flooded_run(const struct flood *f)
{
    struct synth *s = synth_new("flood");
    struct twin_writer *w = f->drops ? synth_dropping(s) : synth_process(s, 0, 1, NULL);
    const struct synth_record h = {.phase = f->kind == TWIN_KIND_STATE ? TWIN_PHASE_RNG
                                                                       : TWIN_PHASE_FORWARD,
                                   .kind = f->kind,
                                   .name = "h"};
    for (uint32_t step = 0; step < f->steps; step++) {
        put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", (float)step);
        twin_writer_flush(w);
        if (f->step == UINT32_MAX || f->step == step)
            synth_flood(w, h, FLOOD, of_flood, f);
        twin_writer_flush(w);
        put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w", 3 + (step == 2 ? f->other_weight : 0));
        twin_writer_flush(w);
        twin_writer_step_end(w);
    }
    return s;
}

static struct twin_verdict *flooded(struct flood x, struct flood y,
                                    const struct twin_compare_options *o)
{
    struct synth *a = flooded_run(&x), *b = flooded_run(&y);
    struct twin_verdict *v = compare(a, b, o);
    assert_true(v->lost_records > 0);
    synth_free(a);
    synth_free(b);
    return v;
}

static const struct flood usual = {
    .drops = true, .kind = TWIN_KIND_ACTIVATION, .steps = 4, .step = UINT32_MAX};

static void drops_are_no_finding(void **state)
{
    (void)state;
    struct flood once = usual, lossless = usual;
    lossless.drops = false;
    once.step = 1;
    struct twin_verdict *v = flooded(usual, usual, NULL);
    assert_int_not_equal(v->outcome, TWIN_DIFFER);
    twin_verdict_free(v);
    v = flooded(usual, lossless, NULL);
    assert_int_not_equal(v->outcome, TWIN_DIFFER);
    twin_verdict_free(v);
    v = flooded(once, once, NULL);
    assert_int_not_equal(v->outcome, TWIN_DIFFER);
    twin_verdict_free(v);
}

/* Another weight in a step with drops on both sides, on one, or in another step: it is named, and
 * not what was dropped. */
static void difference_beside_drops(void **state)
{
    (void)state;
    struct flood other = usual, lossless = usual, once = usual, once_other = usual;
    other.other_weight = once_other.other_weight = 1;
    lossless.drops = false;
    once.step = once_other.step = 1;
    const struct flood pair[][2] = {{usual, other}, {lossless, other}, {once, once_other}};
    for (size_t i = 0; i < 3; i++) {
        struct twin_verdict *v = flooded(pair[i][0], pair[i][1], NULL);
        expect_outcome(v, TWIN_DIFFER);
        if (v->first->kind != TWIN_KIND_WEIGHT || v->first->step_a != 2)
            explain(v);
        assert_int_equal(v->first->kind, TWIN_KIND_WEIGHT);
        assert_string_equal(v->first->name, "w");
        assert_int_equal(v->first->step_a, 2);
        assert_int_equal(v->first->role, i < 2 ? TWIN_ROLE_UNKNOWN : TWIN_ORIGIN);
        twin_verdict_free(v);
    }
}

/*
 * What differs was dropped, in part or all: the value hash proves it, and nothing else is blamed.
 */
static void difference_among_the_dropped(void **state)
{
    (void)state;
    struct flood other = usual;
    other.other_from = FLOOD / 2;
    for (int many = 0; many < 2; many++) {
        other.other_to = many ? FLOOD : other.other_from + 1;
        struct twin_verdict *v = flooded(usual, other, NULL);
        expect_outcome(v, TWIN_DIFFER);
        assert_int_equal(v->first->phase, TWIN_PHASE_FORWARD);
        assert_int_equal(v->first->step_a, 0);
        assert_int_equal(v->first->type, TWIN_FINDING_VALUE);
        if (v->first->kind == TWIN_KIND_ACTIVATION)
            assert_true(v->first->occurrence >= other.other_from);
        else
            assert_non_null(strstr(v->first->name, "dropped records of step 0"));
        twin_verdict_free(v);
    }
}

/* What does not count may be among the dropped: no finding, and no "same". */
static void dropped_and_not_counted(void **state)
{
    (void)state;
    const char *patterns[] = {"forward/activation/h"};
    struct twin_compare_options ignore = {.ignore = patterns, .ignore_count = 1};
    struct twin_compare_options arms = {.arms = true};
    struct flood idle = usual, other = usual;
    idle.kind = TWIN_KIND_STATE;
    other.other_to = FLOOD;
    struct flood idle_other = idle;
    idle_other.other_to = FLOOD;
    struct twin_verdict *v = flooded(usual, other, &ignore);
    expect_outcome(v, TWIN_INCONCLUSIVE);
    assert_true(has_unseen(v, "records have no details"));
    twin_verdict_free(v);
    /* both had as many records: their numbers say which is which */
    v = flooded(usual, other, &arms);
    expect_outcome(v, TWIN_DIFFER);
    twin_verdict_free(v);
    v = flooded(idle, idle_other, NULL);
    assert_int_not_equal(v->outcome, TWIN_SAME);
    twin_verdict_free(v);
}

/* A tolerance cannot be held against what was dropped. */
static void dropped_records_are_not_inside(void **state)
{
    (void)state;
    static const char rules[] = "[[tolerance]]\npattern = '*'\nabs = 10\nreason = 'r'\n";
    char policy[64] = "/tmp/twin-damage-XXXXXX";
    int fd = mkstemp(policy);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tw_write_file_atomic(policy, rules, sizeof rules - 1, NULL), 0);
    const struct twin_compare_options o = {.tolerance_file = policy};
    struct flood other = usual;
    other.other_weight = 1;
    struct twin_verdict *v = flooded(usual, other, &o);
    expect_outcome(v, TWIN_DIFFER);
    expect_note(v, "outside the tolerance: step 2 has dropped records, which cannot be judged");
    twin_verdict_free(v);
    unlink(policy);
}

/* ---- limits */

static void steps_with_too_many_records(void **state)
{
    (void)state;
    size_t limit = tw_view_limit;
    tw_view_limit = 8;
    for (int other = 0; other < 2; other++)
        for (int steps = 0; steps < 2; steps++) {
            struct synth *s[2];
            for (int i = 0; i < 2; i++) {
                s[i] = synth_new("many");
                struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
                for (int k = 0; k < 12; k++)
                    put(w, TWIN_PHASE_OUTPUT, TWIN_KIND_VALUE, "v",
                        (float)k + (float)(other && i && k == 10));
                if (steps)
                    twin_writer_step_end(w);
            }
            struct twin_verdict *v = compare(s[0], s[1], NULL);
            /* of a finished step the value hash tells */
            enum twin_verdict_outcome known = other ? TWIN_DIFFER : TWIN_SAME;
            expect_outcome(v, steps ? known : TWIN_INCONCLUSIVE);
            assert_true(
                has_unseen(v,
                           "of rank 0 has more than 8 records: those behind were not compared") ==
                (!steps || other));
            if (steps && other) {
                assert_string_equal(v->first->name, "value hash of step 0");
                assert_string_equal(v->first->text,
                                    "proven by the value hash; no record that was read differs");
            }
            twin_verdict_free(v);
            synth_free(s[0]);
            synth_free(s[1]);
        }
    tw_view_limit = limit;
}

/* A search that ends before the run does says where. Verifying has looked at every record: a search
 * for NaN that was not made is said only where there is one to find. */
static void searches_that_end_early(void **state)
{
    (void)state;
    uint64_t bytes = tw_nonfinite_bytes;
    for (int round = 0; round < 3; round++) {
        const bool late = round > 0, nan = round > 1;
        struct synth *s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = synth_new("long");
            struct twin_writer *w = synth_process(s[i], 0, 1, NULL);
            for (int step = 0; step < 4200; step++) {
                put(w, TWIN_PHASE_DATA, TWIN_KIND_BATCH, "x", nan && step == 7 ? NAN : (float)step);
                put(w, TWIN_PHASE_FORWARD, TWIN_KIND_LOSS, "loss", (float)(i && step == 2));
                put(w, TWIN_PHASE_OPTIMIZER, TWIN_KIND_WEIGHT, "w",
                    (float)(i && late && step == 4190));
                twin_writer_step_end(w);
            }
        }
        tw_nonfinite_bytes = late ? 0 : bytes;
        struct twin_verdict *v = compare(s[0], s[1], NULL);
        expect_outcome(v, TWIN_DIFFER);
        assert_true(has_note(v, "what diverges for the first time after step 4097 is not listed: "
                                "onsets were looked for until there") == late);
        assert_true(has_note(v, "NaN and Inf were looked for in 0 of 2 traces: the others are "
                                "larger than 0 MiB together with them") == nan);
        twin_verdict_free(v);
        synth_free(s[0]);
        synth_free(s[1]);
    }
    tw_nonfinite_bytes = bytes;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_flipped),
        cmocka_unit_test(each_byte_flipped_of_another_run),
        cmocka_unit_test(cut_at_each_byte),
        cmocka_unit_test(damaged_block_is_named),
        cmocka_unit_test(damaged_names_are_named),
        cmocka_unit_test(damaged_steps_are_named),
        cmocka_unit_test(a_trace_that_cannot_be_read),
        cmocka_unit_test(drops_are_no_finding),
        cmocka_unit_test(difference_beside_drops),
        cmocka_unit_test(difference_among_the_dropped),
        cmocka_unit_test(dropped_and_not_counted),
        cmocka_unit_test(dropped_records_are_not_inside),
        cmocka_unit_test(steps_with_too_many_records),
        cmocka_unit_test(searches_that_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
