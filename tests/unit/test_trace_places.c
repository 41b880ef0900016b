/* SPDX-License-Identifier: Apache-2.0 */
/* Steps asked for one by one, in any order: whatever was asked before, the answer is that of a
 * reader who was asked nothing else, and that of the walk over the whole file. */
#include "trace_helper.h"

#include "reader.h"

#include <fcntl.h>

enum { JOB_STEPS = 3000, JOB_RECORDS = 5 };

/* What the walk says: the oracle, which has no table of places. */
struct seen {
    struct twin_step_hash hash[JOB_STEPS];
    struct twin_trace_record record[JOB_STEPS * JOB_RECORDS];
    size_t steps, records;
};

static int see_record(void *user, const struct twin_trace_record *r)
{
    struct seen *s = user;
    assert_true(s->records < JOB_STEPS * JOB_RECORDS);
    s->record[s->records++] = *r;
    return 0;
}

static int see_step(void *user, const struct twin_step_hash *h)
{
    struct seen *s = user;
    assert_true(s->steps < JOB_STEPS);
    s->hash[s->steps++] = *h;
    return 0;
}

static struct seen *see_all(const char *path)
{
    struct seen *s = calloc(1, sizeof *s);
    assert_non_null(s);
    struct twin_trace *t = open_trace(path);
    assert_int_equal(twin_trace_walk(t, see_record, see_step, s, NULL), 0);
    twin_trace_close(t);
    return s;
}

static void assert_same_record(const struct twin_trace_record *a, const struct twin_trace_record *b)
{
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->seq, b->seq);
    assert_int_equal(a->series, b->series);
    assert_int_equal(a->occurrence, b->occurrence);
    assert_memory_equal(&a->digest, &b->digest, sizeof a->digest);
}

static void ask_step(struct twin_trace *t, const struct seen *s, uint32_t step)
{
    struct twin_step_hash h;
    assert_int_equal(twin_trace_step_hash(t, step, &h, NULL), 0);
    assert_memory_equal(&h, &s->hash[step], sizeof h);
}

static void ask_records(struct twin_trace *t, const struct seen *s, uint32_t first, uint32_t last)
{
    struct twin_trace_record *r;
    size_t n;
    assert_int_equal(twin_trace_read(t, first, last, MANY, &r, &n, NULL), 0);
    const uint32_t end = last < JOB_STEPS ? last + 1 : JOB_STEPS;
    assert_int_equal(n, (size_t)(end - first) * JOB_RECORDS);
    for (size_t i = 0; i < n; i++)
        assert_same_record(&r[i], &s->record[(size_t)first * JOB_RECORDS + i]);
    twin_trace_records_free(r);
}

static void test_every_step_in_any_order(void **state)
{
    (void)state;
    const char *path = scratch_path("order.twt");
    write_job(path, JOB_STEPS, UINT32_MAX);
    struct seen *s = see_all(path);
    assert_int_equal(s->steps, JOB_STEPS);
    assert_int_equal(s->records, JOB_STEPS * JOB_RECORDS);
    struct twin_trace *t = open_trace(path);
    for (uint32_t i = 0; i < JOB_STEPS; i++) { /* as the heatmap asks */
        ask_step(t, s, i);
        ask_records(t, s, i, i);
        ask_step(t, s, i);
    }
    for (uint32_t i = JOB_STEPS; i-- > 0;)
        ask_step(t, s, i);
    srand(3);
    for (int i = 0; i < 4000; i++) {
        const uint32_t step = (uint32_t)rand() % JOB_STEPS, more = (uint32_t)rand() % 300;
        if (i % 3 == 0)
            ask_records(t, s, step, step + more);
        else
            ask_step(t, s, step);
        if (i % 100 == 99)
            twin_trace_rest(t);
    }
    struct twin_step_hash h;
    assert_int_equal(twin_trace_step_hash(t, JOB_STEPS, &h, NULL), TWIN_ENOENT);
    twin_trace_close(t);
    free(s);
}

/* One question reads a block and makes no table; of more questions a block is read once. */
static void test_a_block_is_read_once(void **state)
{
    (void)state;
    const char *path = scratch_path("once.twt");
    write_job(path, JOB_STEPS, UINT32_MAX);
    struct seen *s = see_all(path);
    struct twin_trace *t = open_trace(path);
    ask_step(t, s, 10);
    assert_null(t->places.place);
    for (uint32_t i = 0; i < JOB_STEPS; i++) {
        ask_step(t, s, i);
        ask_step(t, s, i);
    }
    /* Headers are met again, payloads are not. */
    assert_true(twin_trace_bytes_read(t) < 2 * twin_trace_info(t)->file_bytes);
    assert_non_null(t->places.place);
    assert_int_equal(t->places.stand, TW_PLACES_MADE);
    assert_true(t->places.room <= 2 * (TW_PAYLOAD_MAX / TW_STEP_END_FIXED));
    twin_trace_rest(t);
    assert_null(t->places.place);
    twin_trace_close(t);
    free(s);
}

/* ---- payloads that no writer makes, under checksums that are right */

struct image {
    char *bytes;
    size_t n;
};

static struct image load(const char *path)
{
    struct image i;
    assert_int_equal(tw_read_file(path, 1u << 30, &i.bytes, &i.n, NULL), 0);
    return i;
}

static void store(const char *path, const struct image *i)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(tw_write_all(fd, i->bytes, i->n), 0);
    close(fd);
}

/* The first block in which more than two steps end. */
static struct tw_block block_with_steps(const char *path)
{
    struct twin_trace *t = open_trace(path);
    struct tw_block b = {0};
    uint64_t before = 0;
    int look = tw_trace_scan_forward(t, sizeof t->header, &b, NULL);
    while (look == TW_GOOD && (b.type != TW_BLOCK_DATA || b.steps < before + 3)) {
        before = b.steps;
        look = tw_trace_scan_forward(t, b.offset + tw_block_span(&b), &b, NULL);
    }
    assert_int_equal(look, TW_GOOD);
    twin_trace_close(t);
    return b;
}

/* Where the entry `place` of a type stands in a payload, and the one behind it. */
static size_t entry_at(const char *payload, uint8_t type, int place)
{
    size_t at = 0;
    for (struct tw_entry e;; at += e.bytes) {
        memcpy(&e, payload + at, sizeof e);
        if (e.type == type && place-- == 0)
            return at;
    }
}

static void seal_again(struct image *i, const struct tw_block *b)
{
    struct tw_file_header header;
    struct tw_block again = *b;
    memcpy(&header, i->bytes, sizeof header);
    const char *payload = i->bytes + b->offset + sizeof *b;
    again.payload_crc = tw_crc32c(header.crc, payload, b->payload_bytes);
    again.crc = tw_crc32c(header.crc, &again, offsetof(struct tw_block, crc));
    memcpy(i->bytes + b->offset, &again, sizeof again);
}

/* Asked one after the other, and by a fresh reader each: the same answers. */
static void assert_asking_again_changes_nothing(const char *path)
{
    struct twin_trace *t = open_trace(path);
    const uint32_t steps = (uint32_t)twin_trace_info(t)->steps;
    for (uint32_t i = 0; i < steps; i++) {
        struct twin_trace *fresh[2] = {open_trace(path), open_trace(path)};
        struct twin_step_hash h[2];
        struct twin_trace_record *r[2];
        size_t n[2];
        memset(h, 0, sizeof h);
        const int rc = twin_trace_step_hash(t, i, &h[0], NULL);
        assert_int_equal(rc, twin_trace_step_hash(fresh[0], i, &h[1], NULL));
        if (rc == 0)
            assert_memory_equal(&h[0], &h[1], sizeof h[0]);
        assert_int_equal(twin_trace_read(t, i, i, MANY, &r[0], &n[0], NULL), 0);
        assert_int_equal(twin_trace_read(fresh[1], i, i, MANY, &r[1], &n[1], NULL), 0);
        assert_int_equal(n[0], n[1]);
        for (size_t k = 0; k < n[0]; k++)
            assert_same_record(&r[0][k], &r[1][k]);
        for (int k = 0; k < 2; k++) {
            twin_trace_records_free(r[k]);
            twin_trace_close(fresh[k]);
        }
    }
    twin_trace_close(t);
}

/* The step number of an entry becomes another one. */
static void renumber(char *entry, uint8_t type, uint32_t step)
{
    const size_t at = type == TW_ENTRY_RECORD ? offsetof(struct tw_record, step)
                                              : offsetof(struct tw_step_end, step);
    memcpy(entry + at, &step, sizeof step);
}

static void test_payloads_that_no_writer_makes(void **state)
{
    (void)state;
    const char *path = scratch_path("crafted.twt");
    write_job(path, 400, UINT32_MAX);
    struct image whole = load(path);
    const struct tw_block b = block_with_steps(path);
    for (int how = 0; how < 5; how++) {
        struct image i = {malloc(whole.n), whole.n};
        memcpy(i.bytes, whole.bytes, whole.n);
        char *payload = i.bytes + b.offset + sizeof b;
        char *record = payload + entry_at(payload, TW_ENTRY_RECORD, 7);
        char *end = payload + entry_at(payload, TW_ENTRY_STEP_END, 1);
        const uint32_t damaged = 4;
        switch (how) {
        case 0: renumber(record, TW_ENTRY_RECORD, b.first_step + 2); break; /* ahead of its step */
        case 1: renumber(record, TW_ENTRY_RECORD, b.first_step); break;     /* behind its end */
        case 2: renumber(end, TW_ENTRY_STEP_END, b.first_step); break; /* one step ends twice */
        case 3: memcpy(record, &damaged, sizeof damaged); break;       /* no entry */
        default: end[4] = 99; break;                                   /* of no known type */
        }
        seal_again(&i, &b);
        store(path, &i);
        struct twin_trace *t = open_trace(path);
        for (int k = 0; k < 3; k++) {
            struct twin_step_hash h;
            twin_trace_step_hash(t, (uint32_t)b.steps - 1, &h, NULL);
        }
        assert_int_equal(t->places.of, b.offset);
        assert_int_equal(t->places.stand, TW_PLACES_NONE);
        twin_trace_close(t);
        assert_asking_again_changes_nothing(path);
        free(i.bytes);
    }
    tw_free(whole.bytes);
}

/* Where there is no memory for the table the answer is that without it. */
static void test_without_memory_for_the_table(void **state)
{
    (void)state;
    const char *path = scratch_path("memory.twt");
    write_job(path, 400, UINT32_MAX);
    struct twin_trace *t = open_trace(path);
    struct twin_step_hash first, h;
    assert_int_equal(twin_trace_step_hash(t, 100, &first, NULL), 0);
    tw_alloc_fail_at(1, true);
    const int rc = twin_trace_step_hash(t, 100, &h, NULL);
    tw_alloc_fail_at(0, false);
    assert_int_equal(rc, 0);
    assert_memory_equal(&first, &h, sizeof h);
    assert_null(t->places.place);
    twin_trace_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_step_in_any_order),
        cmocka_unit_test(test_a_block_is_read_once),
        cmocka_unit_test(test_payloads_that_no_writer_makes),
        cmocka_unit_test(test_without_memory_for_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
