/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors: the samples of tests/golden/tensors (written by make.py there with NumPy,
 * PyTorch and safetensors, and by make_keras.py), wrong use, and every allocation made to fail.
 * tests/agents/test_tensors.py has the many cases. */
#include "src/formats/tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the five above */
#include <cmocka.h>

#include "base.h"

static const char *const samples[] = {"c-order.npy",
                                      "fortran-big-endian.npy",
                                      "version-3.npy",
                                      "stored.npz",
                                      "deflated.npz",
                                      "three.safetensors",
                                      "zip.pt",
                                      "old.pt",
                                      "module.pt",
                                      "old-groups.h5",
                                      "new-groups.h5",
                                      "model.keras",
                                      "tensorflow/ckpt.index"};

static void path_of(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%s", GOLDEN, name);
}

static struct twin_tensors *open_sample(const char *name)
{
    char path[512];
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_tensors *f = NULL;
    path_of(path, name);
    if (twin_tensors_open(path, &f, &err) != 0)
        fail_msg("%s", err.message);
    return f;
}

static size_t find(const struct twin_tensors *f, const char *name)
{
    for (size_t i = 0; i < twin_tensors_count(f); i++)
        if (strcmp(twin_tensors_at(f, i)->name, name) == 0)
            return i;
    fail_msg("no tensor %s", name);
    return 0;
}

/* What make.py wrote as w: 3 x 4, element i is i / 8. */
static void is_w(const char *sample, const char *name, enum twin_dtype dtype, int transposed)
{
    struct twin_tensors *f = open_sample(sample);
    size_t i = find(f, name);
    const struct twin_tensors_entry *e = twin_tensors_at(f, i);
    unsigned char data[12 * 8];
    struct twin_error err = TWIN_ERROR_INIT;
    assert_null(e->unreadable);
    assert_int_equal(e->dtype, dtype);
    assert_int_equal(e->ndim, 2);
    assert_int_equal(e->shape[0], transposed ? 4 : 3);
    assert_int_equal(e->shape[1], transposed ? 3 : 4);
    assert_int_equal(e->count, 12);
    assert_int_equal(twin_tensors_read(f, i, 0, 5, data, &err), 0);
    assert_int_equal(twin_tensors_read(f, i, 5, 7, data + 5 * twin_dtype_size(dtype), &err), 0);
    for (int k = 0; k < 12; k++) {
        const int from = transposed ? k % 3 * 4 + k / 3 : k;
        double v = 0;
        float x;
        if (dtype == TWIN_F64)
            memcpy(&v, data + 8 * k, 8);
        else if (dtype == TWIN_F32) {
            memcpy(&x, data + 4 * k, 4);
            v = (double)x;
        } else { /* f16 of k / 8: 0, or a number from 2^-3 on */
            uint16_t h;
            memcpy(&h, data + 2 * k, 2);
            v = h == 0 ? 0 : (double)(1024 + (h & 1023)) / 1024 * (double)(1 << (h >> 10)) / 32768;
        }
        assert_true(v == from / 8.0);
    }
    twin_tensors_close(f);
}

static void values(void **state)
{
    (void)state;
    is_w("c-order.npy", "array", TWIN_F32, 0);
    is_w("fortran-big-endian.npy", "array", TWIN_F64, 0);
    is_w("version-3.npy", "array", TWIN_F16, 0);
    is_w("stored.npz", "w", TWIN_F32, 0);
    is_w("deflated.npz", "w", TWIN_F32, 0);
    is_w("three.safetensors", "w", TWIN_F32, 0);
    is_w("old-groups.h5", "layers/dense/w", TWIN_F32, 0);
    is_w("new-groups.h5", "a/w", TWIN_F32, 0);
    is_w("new-groups.h5", "b/w", TWIN_F64, 0);
    const char *const torch[] = {"zip.pt", "old.pt"};
    for (int i = 0; i < 2; i++) {
        is_w(torch[i], "model/w", TWIN_F32, 0);
        is_w(torch[i], "model/tied", TWIN_F32, 0);
        is_w(torch[i], "model/wT", TWIN_F32, 1);
    }
}

static void lists(void **state)
{
    (void)state;
    struct twin_tensors *f = open_sample("zip.pt");
    assert_int_equal(twin_tensors_kind(f), TWIN_TENSORS_TORCH);
    assert_int_equal(twin_tensors_count(f), 5);
    assert_int_equal(twin_tensors_at(f, 1)->alias_of, 0);
    assert_int_equal(twin_tensors_at(f, 2)->alias_of, 2);
    assert_string_equal(twin_tensors_at(f, 3)->name, "optimizer/0/avg[0]");
    assert_string_equal(twin_tensors_at(f, 4)->stored_as, "torch.HalfStorage");
    assert_null(twin_tensors_at(f, 5));
    assert_int_equal(twin_tensors_skipped_count(f), 1);
    assert_string_equal(twin_tensors_skipped(f, 0), "torch.device");
    assert_null(twin_tensors_skipped(f, 1));
    twin_tensors_close(f);
    f = open_sample("old.pt");
    assert_int_equal(twin_tensors_kind(f), TWIN_TENSORS_TORCH_LEGACY);
    assert_int_equal(twin_tensors_count(f), 5);
    twin_tensors_close(f);
    f = open_sample("module.pt");
    assert_string_equal(twin_tensors_at(f, 0)->name, "_parameters/weight");
    assert_string_equal(twin_tensors_skipped(f, 0), "torch.nn.modules.linear.Linear");
    twin_tensors_close(f);
    f = open_sample("stored.npz");
    assert_non_null(strstr(twin_tensors_at(f, find(f, "objects"))->unreadable, "Python objects"));
    assert_int_equal(twin_tensors_at(f, find(f, "ids"))->dtype, TWIN_I64);
    twin_tensors_close(f);
    f = open_sample("three.safetensors");
    assert_int_equal(twin_tensors_at(f, find(f, "b"))->dtype, TWIN_BF16);
    twin_tensors_close(f);
    twin_tensors_close(NULL);
}

static void wrong_use(void **state)
{
    (void)state;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_tensors *f = NULL;
    float x[12];
    assert_int_equal(twin_tensors_open("/nonexistent/file.npy", &f, &err), TWIN_ENOENT);
    assert_null(f);
    f = open_sample("c-order.npy");
    assert_int_equal(twin_tensors_read(f, 1, 0, 1, x, NULL), TWIN_EINVAL);
    assert_int_equal(twin_tensors_read(f, 0, 12, 1, x, NULL), TWIN_EINVAL);
    assert_int_equal(twin_tensors_read(f, 0, UINT64_MAX, 2, x, NULL), TWIN_EINVAL);
    assert_int_equal(twin_tensors_read(f, 0, 12, 0, x, NULL), 0);
    twin_tensors_close(f);
    f = open_sample("stored.npz");
    assert_int_equal(twin_tensors_read(f, find(f, "objects"), 0, 1, x, NULL), TWIN_EUNSUPPORTED);
    twin_tensors_close(f);
}

/* Lists and reads everything; the first error code. */
static int read_all(const char *path)
{
    struct twin_tensors *f;
    int rc = twin_tensors_open(path, &f, NULL);
    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < twin_tensors_count(f); i++) {
        const struct twin_tensors_entry *e = twin_tensors_at(f, i);
        char *data = malloc(e->bytes + 1);
        if (!e->unreadable)
            rc = twin_tensors_read(f, i, 0, e->count, data, NULL);
        free(data);
    }
    twin_tensors_close(f);
    return rc;
}

/* jansson and zlib allocate by themselves or through us; either way a failure is said, and nothing
 * leaks (ASan). */
static void memory_runs_out(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
        char path[512];
        path_of(path, samples[s]);
        const uint64_t before = tw_alloc_count();
        assert_int_equal(read_all(path), 0);
        const uint64_t needed = tw_alloc_count() - before;
        assert_true(needed > 0);
        for (uint64_t n = 1; n <= needed; n++) {
            tw_alloc_fail_at(n, false);
            int rc = read_all(path);
            tw_alloc_fail_at(0, false);
            if (rc != TWIN_ENOMEM)
                fail_msg("%s: allocation %d of %d failed, and the answer was %d", samples[s],
                         (int)n, (int)needed, rc);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(lists),
        cmocka_unit_test(wrong_use),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
