/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of tensors by several threads (src/snapshot/pieces.c): those of the page docs/digest.md,
 * made again here piece by piece, for any number of threads; the first error of the file, whichever
 * thread meets one; memory that runs out. To be run under ThreadSanitizer too.
 */
#include "src/snapshot/content.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "base.h"
#include "sha256.h"
#include "snapshot_inside.h"

enum { TENSORS = 40, MIB = 1 << 20 };

static char folder[] = "/tmp/twinrun-pieces-XXXXXX";
static char path[160];
static unsigned char *bytes; /* the file's tensors, one behind the other */
static size_t size[TENSORS], from[TENSORS], all;

/* Nothing, less than a piece, just one, several and a rest; bytes, so that any size is one. */
static void make_sizes(void)
{
    static const size_t sizes[] = {0, 1, 1000, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 7};
    all = 0;
    for (size_t i = 0; i < TENSORS; i++) {
        size[i] = sizes[i * 5 % 8];
        from[i] = all;
        all += size[i];
    }
}

static void write_file(void)
{
    struct tw_buf header = {0};
    for (size_t i = 0; i < TENSORS; i++)
        tw_buf_printf(&header,
                      "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
                      i ? "," : "{", i, size[i], from[i], from[i] + size[i]);
    tw_buf_puts(&header, "}");
    const uint64_t n = header.len;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&n, 8, 1, f), 1);
    assert_int_equal(fwrite(header.data, n, 1, f), 1);
    assert_int_equal(fwrite(bytes, all, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    tw_buf_free(&header);
}

static int make_file(void **state)
{
    (void)state;
    make_sizes();
    bytes = malloc(all);
    if (!mkdtemp(folder) || !bytes)
        return -1;
    for (size_t i = 0; i < all; i++)
        bytes[i] = (unsigned char)(tw_mix64(i / 8) >> i % 8 * 8);
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    write_file();
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    uint64_t n;
    free(bytes);
    return tw_remove_tree(folder, &n, NULL);
}

static struct twin_content opened(void)
{
    struct twin_content c = {0};
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_tensors_open_all(path, &c.tensors, &err) != 0)
        fail_msg("%s", err.message);
    c.count = twin_tensors_count(c.tensors);
    c.tensor = calloc(c.count + 1, sizeof *c.tensor);
    assert_int_equal(c.count, TENSORS);
    return c;
}

/* By the page, one piece after the other. */
static void plain_digest(size_t i, unsigned char digest[32])
{
    struct tw_sha256 whole = {0}, piece = {0};
    const uint64_t dimensions = 1, elements = size[i];
    char name[16];
    snprintf(name, sizeof name, "t%zu", i);
    assert_true(tw_sha256_begin(&whole));
    tw_sha256_add(&whole, "twinrun.tensor/2", 17);
    tw_take_text(&whole, name);
    tw_take_text(&whole, "u8");
    tw_sha256_add(&whole, &dimensions, 8);
    tw_sha256_add(&whole, &elements, 8);
    for (size_t at = 0; at < size[i]; at += MIB) {
        const size_t n = size[i] - at < MIB ? size[i] - at : MIB;
        unsigned char of_piece[32];
        assert_true(tw_sha256_begin(&piece));
        tw_sha256_add(&piece, bytes + from[i] + at, n);
        assert_true(tw_sha256_end(&piece, of_piece));
        tw_sha256_add(&whole, of_piece, 32);
    }
    assert_true(tw_sha256_end(&whole, digest));
    tw_sha256_free(&whole);
    tw_sha256_free(&piece);
}

static void any_number_of_threads(void **state)
{
    (void)state;
    static const unsigned threads[] = {1, 2, 3, 5, 16, 200};
    for (size_t k = 0; k < 2 * sizeof threads / sizeof *threads; k++) {
        const bool yes = k % 2 == 0;
        tw_sha256_use_instructions(yes);
        struct twin_content c = opened();
        assert_int_equal(tw_content_pieces(&c, threads[k / 2], NULL), 0);
        for (size_t i = 0; i < c.count; i++) {
            unsigned char digest[32];
            char hex[65];
            plain_digest(c.tensor[i].index, digest);
            tw_hex(digest, 32, hex);
            assert_string_equal(c.tensor[i].sha256, hex);
        }
        twin_content_free(&c);
    }
    tw_sha256_use_instructions(true);
}

/* The ways to a digest say the same; the file's own is made where it is wanted. */
static void ways_to_a_digest(void **state)
{
    (void)state;
    struct twin_content c[3];
    assert_int_equal(twin_content_read(path, &c[0], NULL), 0);
    assert_int_equal(twin_content_read_tensors(path, &c[1], NULL), 0);
    assert_int_equal(twin_content_read_quickly(path, &c[2], NULL), 0);
    for (int i = 1; i < 3; i++) {
        assert_string_equal(c[i].content, c[0].content);
        assert_int_equal(c[i].file_bytes, c[0].file_bytes);
    }
    assert_int_equal(strlen(c[0].file), 64);
    assert_string_equal(c[1].file, "");
    assert_string_equal(c[2].file, c[0].file_bytes <= TWIN_CONTENT_SMALL ? c[0].file : "");
    for (int i = 0; i < 3; i++)
        twin_content_free(&c[i]);
}

/* A file that ends early: the error is that of the first piece that is not there. */
static void first_error_counts(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < TENSORS; cut += 7) {
        struct twin_error first = TWIN_ERROR_INIT;
        for (unsigned threads = 1; threads <= 8; threads++) {
            struct twin_content c = opened();
            struct twin_error err = TWIN_ERROR_INIT;
            assert_int_equal(truncate(path, (off_t)(all / TENSORS * (TENSORS - cut))), 0);
            assert_int_equal(tw_content_pieces(&c, threads, &err), TWIN_EFORMAT);
            first = threads == 1 ? err : first;
            assert_string_equal(err.message, first.message);
            twin_content_free(&c);
            write_file();
        }
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    bool went_through = false;
    for (uint64_t n = 1; !went_through; n++) {
        struct twin_content c = opened();
        struct twin_error err = TWIN_ERROR_INIT;
        tw_alloc_fail_at(n, true);
        int rc = tw_content_pieces(&c, 4, &err);
        tw_alloc_fail_at(0, false);
        assert_true(rc == 0 || rc == TWIN_ENOMEM);
        assert_int_equal(err.code, rc);
        went_through = rc == 0;
        twin_content_free(&c);
    }
}

/* Packed members and transposed tensors go through the lock: as one thread reads them. */
static void what_one_thread_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"deflated.npz", "stored.npz", "fortran-big-endian.npy",
                                        "zip.pt",       "old.pt",     "three.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[512], one[64][65];
        struct twin_error first = TWIN_ERROR_INIT;
        snprintf(file, sizeof file, "%s/%s", GOLDEN, names[i]);
        for (unsigned threads = 1; threads <= 4; threads++) {
            struct twin_content c = {0};
            assert_int_equal(twin_tensors_open_all(file, &c.tensors, NULL), 0);
            c.count = twin_tensors_count(c.tensors);
            c.tensor = calloc(c.count + 1, sizeof *c.tensor);
            assert_true(c.count > 0 && c.count <= 64);
            struct twin_error err = TWIN_ERROR_INIT;
            tw_content_pieces(&c, threads, &err);
            first = threads == 1 ? err : first;
            assert_int_equal(err.code, first.code); /* some hold types that cannot be read */
            assert_string_equal(err.message, first.message);
            for (size_t k = 0; k < c.count && err.code == 0; k++) {
                if (threads == 1)
                    strcpy(one[k], c.tensor[k].sha256);
                assert_string_equal(one[k], c.tensor[k].sha256);
            }
            twin_content_free(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads), cmocka_unit_test(ways_to_a_digest),
        cmocka_unit_test(first_error_counts),    cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(what_one_thread_reads),
    };
    return cmocka_run_group_tests(tests, make_file, remove_all);
}
