/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items that lie on several GPUs: each is looked at on its own, behind its stream, and finds what
 * was found of it, in the order of the array. The GPUs are a double that tells what it was asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "agents/common/gpu.h"
#include "agents/common/state.h"

__thread int tw_agent_inside; /* of agent.c */

enum { DEVICES = 3, BROKEN = 2, MOST = 16 };

static struct call {
    unsigned device;
    void *stream;
    size_t n;
} calls[MOST];
static size_t made;

static bool is_ready(unsigned device)
{
    return device < DEVICES;
}

/* The digest says which tensor it is of, and where it was looked at. */
static bool look(unsigned device, const struct tw_device_tensor *tensors, size_t n, void *stream,
                 struct tw_device_found *found)
{
    assert_true(made < MOST);
    calls[made++] = (struct call){device, stream, n};
    for (size_t i = 0; i < n; i++)
        found[i].digest = (struct twin_digest){(uintptr_t)tensors[i].data, device};
    return device != BROKEN;
}

static const struct tw_agent_device gpus = {.ready = is_ready, .look = look};
static const struct tw_agent_life life = {.device = &gpus};
TW_AGENT_REGISTER(life);

static struct tw_agent_item item(uintptr_t at, uint32_t device)
{
    return (struct tw_agent_item){.data = (const void *)at,
                                  .count = 1,
                                  .flags = TW_ITEM_DEVICE | device << TW_ITEM_DEVICE_AT,
                                  .dtype = TWIN_F32};
}

static void check_next(struct tw_gpu_batch *b, uintptr_t at, unsigned device)
{
    const struct tw_device_found *found = tw_gpu_next(b);
    assert_non_null(found);
    assert_int_equal(found->digest.a, at);
    assert_int_equal(found->digest.b, device);
}

static void each_on_its_own(void **state)
{
    const struct tw_agent_item items[] = {
        item(10, 1), item(20, 0), item(30, 1), {.data = "host", .count = 4, .dtype = TWIN_U8},
        item(40, 0), item(50, 1)};
    (void)state;
    made = 0;
    assert_true(tw_agent_device(0, 100) && tw_agent_device(1, 101));
    struct tw_gpu_batch b = tw_gpu_look(items, 6, true, false);
    assert_int_equal(made, 2); /* one call for each */
    assert_true(calls[0].device == 0 && calls[0].n == 2 && calls[0].stream == (void *)100);
    assert_true(calls[1].device == 1 && calls[1].n == 3 && calls[1].stream == (void *)101);
    check_next(&b, 10, 1);
    check_next(&b, 20, 0);
    check_next(&b, 30, 1);
    check_next(&b, 40, 0);
    check_next(&b, 50, 1);
    tw_gpu_free(&b);
}

/* What one GPU refuses is unread, and no other. */
static void one_is_broken(void **state)
{
    const struct tw_agent_item items[] = {item(10, BROKEN), item(20, 0), item(30, BROKEN)};
    (void)state;
    struct tw_gpu_batch b = tw_gpu_look(items, 3, true, false);
    assert_null(tw_gpu_next(&b));
    check_next(&b, 20, 0);
    assert_null(tw_gpu_next(&b));
    tw_gpu_free(&b);
}

/* A stream is of the thread's last word, and a number beyond the table is no GPU. */
static void streams_follow(void **state)
{
    const struct tw_agent_item items[] = {item(10, 1)};
    (void)state;
    made = 0;
    assert_false(tw_agent_device(TW_ITEM_DEVICES, 7) || tw_agent_device(UINT32_MAX, 7));
    assert_false(tw_agent_device(DEVICES, 7));
    assert_true(tw_agent_device(1, 8));
    struct tw_gpu_batch b = tw_gpu_look(items, 1, true, false);
    assert_true(made == 1 && calls[0].stream == (void *)8);
    tw_gpu_free(&b);
}

static void nothing_there(void **state)
{
    const struct tw_agent_item items[] = {{.data = "host", .count = 4, .dtype = TWIN_U8}};
    (void)state;
    made = 0;
    struct tw_gpu_batch b = tw_gpu_look(items, 1, true, false);
    assert_int_equal(made, 0);
    tw_gpu_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_on_its_own), cmocka_unit_test(one_is_broken),
        cmocka_unit_test(streams_follow), cmocka_unit_test(nothing_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
