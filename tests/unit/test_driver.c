/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver is looked for among loaded libraries alone, and each of its functions goes to its
 * own place (agents/cuda/driver.h). A library of the driver's name stands in for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>

#include "agents/cuda/driver.h"

static void test_no_driver_is_loaded(void **state)
{
    (void)state;
    assert_null(tw_driver());
    assert_null(tw_driver_lacks());
}

static void test_an_old_driver_is_told(void **state)
{
    (void)state;
    void *old = dlopen(OLD_CUDA, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(old);
    assert_null(tw_driver());
    assert_string_equal(tw_driver_lacks(), "cuGetErrorName");
    dlclose(old);
}

/* Each function of the stand-in returns a number of its own (fake_cuda.c). */
static void test_every_function_has_its_place(void **state)
{
    (void)state;
    assert_non_null(dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL));
    const struct tw_driver *d = tw_driver();
    assert_non_null(d);
    assert_int_equal(d->context_current(NULL), 1);
    assert_int_equal(d->module_load(NULL, NULL), 2);
    assert_int_equal(d->module_function(NULL, NULL, NULL), 3);
    assert_int_equal(d->allocate(NULL, 0), 4);
    assert_int_equal(d->release(0), 5);
    assert_int_equal(d->allocate_host(NULL, 0, 0), 6);
    assert_int_equal(d->clear(0, 0, 0, NULL), 7);
    assert_int_equal(d->launch(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL), 8);
    assert_int_equal(d->to_host(NULL, 0, 0, NULL), 9);
    assert_int_equal(d->wait(NULL), 10);
    assert_int_equal(d->is_capturing(NULL, NULL), 11);
    assert_int_equal(d->exchange_capture_mode(NULL), 12);
    assert_int_equal(d->error_name(0, NULL), 13);
    assert_int_equal(d->release_host(NULL), 14);
    assert_int_equal(d->event_create(NULL, 0), 15);
    assert_int_equal(d->event_record(NULL, NULL), 16);
    assert_int_equal(d->event_query(NULL), 17);
    assert_int_equal(d->event_wait(NULL), 18);
    assert_int_equal(d->event_destroy(NULL), 19);
    assert_int_equal(d->context_set(NULL), 20);
    assert_int_equal(d->context_push(NULL), 21);
    assert_int_equal(d->context_pop(NULL), 22);
    assert_int_equal(d->context_device(NULL), 23);
    assert_int_equal(d->device_get(NULL, 0), 24);
    assert_int_equal(d->primary_state(0, NULL, NULL), 25);
    assert_int_equal(d->primary_retain(NULL, 0), 26);
    assert_int_equal(d->primary_release(0), 27);
    assert_ptr_equal(tw_driver(), d);
}

int main(void)
{
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD))
        return 77; /* the real one is in every process here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_driver_is_loaded),
        cmocka_unit_test(test_an_old_driver_is_told),
        cmocka_unit_test(test_every_function_has_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
