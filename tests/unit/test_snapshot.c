/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a folder holds (src/snapshot): a snapshot that is taken, written, read and held against the
 * folder later; a pointer of Git LFS held against a file; what several results of another tool's
 * layout say together. tests/agents/test_snapshot.py and test_layouts.py have the other
 * implementations.
 */
#include "src/snapshot/layout.h"
#include "src/snapshot/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "base.h"

static char folder[] = "/tmp/twinrun-snapshot-XXXXXX";

/* Of a file that holds "two". */
static const char pointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3\n"
    "size 3\n";

static const char *at(const char *name)
{
    static char path[4][160];
    static unsigned turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void write_text(const char *name, const char *text)
{
    assert_int_equal(tw_write_file_atomic(at(name), text, strlen(text), NULL), 0);
}

struct seen {
    size_t count[4];
};

static int see(void *user, const struct twin_snapshot_difference *d)
{
    struct seen *s = user;
    s->count[d->change]++;
    return 0;
}

static void later(void **state)
{
    const struct twin_snapshot_options o = {.paranoid = true};
    struct twin_snapshot was, read, is;
    struct seen seen = {{0}};
    (void)state;
    assert_int_equal(mkdir(at("data"), 0700), 0);
    write_text("data/a", "one");
    write_text("data/b", "two");
    assert_int_equal(twin_snapshot_take(at("data"), &o, &was, NULL), 0);
    assert_int_equal(twin_snapshot_write(&was, at("data.snapshot"), NULL), 0);
    assert_int_equal(twin_snapshot_read(at("data.snapshot"), &read, NULL), 0);
    assert_string_equal(read.root, was.root);
    assert_int_equal(read.files, 2);
    write_text("data/a", "ONE");
    assert_int_equal(remove(at("data/b")), 0);
    write_text("data/c", "three");
    assert_int_equal(twin_snapshot_take_again(&read, at("data"), &o, &is, NULL), 0);
    assert_int_equal(twin_snapshot_compare(&read, &is, see, &seen), 3);
    assert_int_equal(seen.count[TWIN_SNAPSHOT_CHANGED], 1);
    assert_int_equal(seen.count[TWIN_SNAPSHOT_MISSING], 1);
    assert_int_equal(seen.count[TWIN_SNAPSHOT_ADDED], 1);
    twin_snapshot_free(&was);
    twin_snapshot_free(&read);
    twin_snapshot_free(&is);
}

static void what_it_is(void **state)
{
    (void)state;
    assert_true(twin_snapshot_is("data.snapshot", ""));
    assert_true(twin_snapshot_is("data", "# twinrun.snapshot/1\n"));
    assert_false(twin_snapshot_is("data", "# another"));
    assert_int_equal(twin_layout_of("x.dvc", "outs:\n", 6), TWIN_LAYOUT_DVC);
    assert_int_equal(twin_layout_of("x.bin", pointer, sizeof pointer - 1), TWIN_LAYOUT_LFS);
    assert_int_equal(twin_layout_of("x.bin", pointer, sizeof pointer - 9), TWIN_LAYOUT_NONE);
    assert_int_equal(twin_layout_of("x.bin", "", 0), TWIN_LAYOUT_NONE);
}

struct told {
    struct twin_layout_sum sum;
    enum twin_layout_outcome last;
};

static void tell(void *user, const struct twin_layout_result *r)
{
    struct told *t = user;
    twin_layout_add(&t->sum, r);
    t->last = r->outcome;
}

static void pointers(void **state)
{
    const struct twin_snapshot_options o = {.paranoid = true};
    struct told same = {{0}}, other = {{0}};
    (void)state;
    write_text("big", "two");
    write_text("other", "TWO");
    write_text("pointer", pointer);
    assert_int_equal(
        twin_layout_verify(TWIN_LAYOUT_LFS, at("pointer"), at("big"), &o, tell, &same, NULL), 0);
    assert_int_equal(same.last, TWIN_LAYOUT_SAME);
    assert_int_equal(twin_layout_together(&same.sum, 0), TWIN_LAYOUT_SAME);
    assert_int_equal(same.sum.bytes, 3);
    assert_int_equal(
        twin_layout_verify(TWIN_LAYOUT_LFS, at("pointer"), at("other"), &o, tell, &other, NULL), 1);
    assert_int_equal(twin_layout_together(&other.sum, 1), TWIN_LAYOUT_CHANGED);
}

static void together(void **state)
{
    struct twin_layout_sum s = {0};
    struct twin_layout_result r = {.outcome = TWIN_LAYOUT_UNKNOWN, .scheme = "sha256"};
    (void)state;
    assert_int_equal(twin_layout_together(&s, 0), TWIN_LAYOUT_UNKNOWN); /* nothing was there */
    twin_layout_add(&s, &r);
    assert_int_equal(twin_layout_together(&s, 0), TWIN_LAYOUT_UNKNOWN);
    r = (struct twin_layout_result){
        .outcome = TWIN_LAYOUT_SAME, .scheme = "git", .files = 1, .bytes = 7};
    twin_layout_add(&s, &r);
    assert_int_equal(twin_layout_together(&s, 0), TWIN_LAYOUT_SAME);
    assert_string_equal(s.scheme, "sha256 and git");
    assert_int_equal(twin_layout_together(&s, 2), TWIN_LAYOUT_CHANGED);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    return setenv("XDG_CACHE_HOME", folder, 1); /* what hash_cache.c keeps goes with it */
}

static int tear_down(void **state)
{
    (void)state;
    return tw_remove_tree(folder, NULL, NULL);
}

/* What is left out stays out, whichever allocation fails: the snapshot is the right one or none. */
static void each_allocation_may_fail(void **state)
{
    static char *const exclude[] = {"skip/", "*.tmp", "in/deep/x", NULL};
    const struct twin_snapshot_options o = {.paranoid = true, .exclude = exclude};
    struct twin_snapshot right, s;
    (void)state;
    assert_int_equal(mkdir(at("part"), 0700), 0);
    assert_int_equal(mkdir(at("part/skip"), 0700), 0);
    assert_int_equal(mkdir(at("part/in"), 0700), 0);
    assert_int_equal(mkdir(at("part/in/deep"), 0700), 0);
    write_text("part/a", "one");
    write_text("part/b.tmp", "not this");
    write_text("part/skip/c", "nor this");
    write_text("part/in/deep/x", "nor this");
    write_text("part/in/deep/y", "two");
    assert_int_equal(twin_snapshot_take(at("part"), &o, &right, NULL), 0);
    assert_int_equal(right.files, 2);
    size_t refused = 0;
    for (uint64_t n = 1;; n++) {
        const uint64_t before = tw_alloc_count();
        struct twin_error err = TWIN_ERROR_INIT;
        tw_alloc_fail_at(n, false);
        int rc = twin_snapshot_take(at("part"), &o, &s, &err);
        tw_alloc_fail_at(0, false);
        refused += rc != 0;
        if (rc == 0) {
            assert_string_equal(s.root, right.root);
            twin_snapshot_free(&s);
        }
        if (rc == 0 && tw_alloc_count() - before < n)
            break; /* there are no more */
    }
    assert_true(refused > 10);
    twin_snapshot_free(&right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later),
        cmocka_unit_test(what_it_is),
        cmocka_unit_test(pointers),
        cmocka_unit_test(together),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
