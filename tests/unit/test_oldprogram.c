/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/oldprogram.c: a program bound to the functions of an old glibc starts as others do, and
 * they give what the new ones give. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static int constructed;
static int arguments_seen;

__attribute__((constructor)) static void construct_once(int argc, char **argv)
{
    constructed++;
    arguments_seen = argv && argv[0] ? argc : 0;
}

static void constructors_run_once(void **state)
{
    (void)state;
    assert_int_equal(constructed, 1);
    assert_int_equal(arguments_seen, 1);
}

/* dlsym gives the newest version. */
static void compare(const char *name, double (*ours)(double))
{
    double (*newest)(double) = NULL;
    void *found = dlsym(RTLD_DEFAULT, name);
    assert_non_null(found);
    memcpy(&newest, &found, sizeof newest);
    const double values[] = {0x1p-1074, 0.1, 0.5, 1.0, 1.0000000001, 2.5, 17.3, 700.0, 1e300};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const double a = ours(values[i]), b = newest(values[i]);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static double one_power(double x)
{
    return pow(x, 1.75);
}

static void functions_give_the_same_bits(void **state)
{
    (void)state;
    compare("exp", exp);
    compare("exp2", exp2);
    compare("log", log);
    compare("log2", log2);
    double (*newest)(double, double) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "pow");
    memcpy(&newest, &found, sizeof newest);
    const double a = one_power(3.7), b = newest(3.7, 1.75);
    assert_memory_equal(&a, &b, sizeof a);
}

/* A buffer that is longer than what the kernel gives at once: its end is drawn, too. */
static void randomness_fills_all(void **state)
{
    (void)state;
    extern void __wrap_arc4random_buf(void *, size_t);
    extern uint32_t __wrap_arc4random(void);
    enum { BYTES = 1000, PIECE = 16 };
    static unsigned char drawn[BYTES + 1], again[BYTES + 1];
    __wrap_arc4random_buf(drawn, BYTES);
    __wrap_arc4random_buf(again, BYTES);
    assert_int_equal(drawn[BYTES], 0);
    for (size_t at = 0; at + PIECE <= BYTES; at += PIECE)
        assert_memory_not_equal(drawn + at, again + at, PIECE);
    const uint32_t four[] = {__wrap_arc4random(), __wrap_arc4random(), __wrap_arc4random(),
                             __wrap_arc4random()};
    assert_false(four[0] == four[1] && four[1] == four[2] && four[2] == four[3]);
}

static void files_and_locks_work(void **state)
{
    (void)state;
    struct stat st, same;
    assert_int_equal(stat("/", &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(lstat("/", &same), 0);
    assert_true(st.st_ino == same.st_ino);
    assert_int_equal(stat("/no such file", &st), -1);
    pthread_rwlock_t lock;
    assert_int_equal(pthread_rwlock_init(&lock, NULL), 0);
    assert_int_equal(pthread_rwlock_wrlock(&lock), 0);
    assert_int_equal(pthread_rwlock_unlock(&lock), 0);
    assert_int_equal(pthread_rwlock_destroy(&lock), 0);
    assert_null(dlopen("no such library", RTLD_NOW));
    assert_non_null(dlerror());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructors_run_once),
        cmocka_unit_test(functions_give_the_same_bits),
        cmocka_unit_test(randomness_fills_all),
        cmocka_unit_test(files_and_locks_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
