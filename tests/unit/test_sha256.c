/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of two messages at a time against OpenSSL's, in pieces of all sizes; the other way,
 * without the instructions, too. */
#include "sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

static unsigned char data[70000];

static void same(const unsigned char *p, size_t n, const unsigned char digest[32])
{
    unsigned char wanted[32];
    assert_int_equal(EVP_Digest(p, n, wanted, NULL, EVP_sha256(), NULL), 1);
    assert_memory_equal(digest, wanted, 32);
}

static void two(size_t n, size_t m, size_t step_n, size_t step_m)
{
    static struct tw_sha256 a, b;
    unsigned char x[32], y[32];
    const unsigned char *p = data, *q = data + 137;
    assert_true(tw_sha256_begin(&a) && tw_sha256_begin(&b));
    for (size_t i = 0, j = 0, k, l; i < n || j < m; i += k, j += l) {
        k = n - i < step_n ? n - i : step_n;
        l = m - j < step_m ? m - j : step_m;
        tw_sha256_add_two(&a, p + i, k, &b, q + j, l);
    }
    assert_true(tw_sha256_end(&a, x) && tw_sha256_end(&b, y));
    same(p, n, x);
    same(q, m, y);
    tw_sha256_free(&a);
    tw_sha256_free(&b);
}

static void every_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)tw_mix64(i);
    for (size_t n = 0; n < 300; n++) {
        two(n, 300 - n, 1000, 1000);
        two(n, n, 7, 64);
        two(n, 2 * n, 65, 130);
    }
    for (uint64_t i = 0; i < 300; i++) {
        const uint64_t r = tw_mix64(i + 1000);
        two(r % 60000, (r >> 20) % 60000, 1 + (r >> 40) % 5000, 1 + (r >> 52) % 3000);
    }
}

static void without(void **state)
{
    tw_sha256_use_instructions(false);
    every_size(state);
    tw_sha256_use_instructions(true);
}

/* One longer than 2^29 bytes: its bits need more than 32 bits to count. */
static void long_message(void **state)
{
    (void)state;
    static struct tw_sha256 s;
    unsigned char x[32], y[32];
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    assert_true(c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1 && tw_sha256_begin(&s));
    for (int i = 0; i < 8500; i++) {
        tw_sha256_add(&s, data, 65000);
        assert_int_equal(EVP_DigestUpdate(c, data, 65000), 1);
    }
    assert_true(tw_sha256_end(&s, x) && EVP_DigestFinal_ex(c, y, NULL) == 1);
    assert_memory_equal(x, y, 32);
    EVP_MD_CTX_free(c);
}

int main(void)
{
    printf("SHA instructions: %s\n", tw_sha256_use_instructions(true) ? "yes" : "no");
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size), cmocka_unit_test(without),
                                       cmocka_unit_test(long_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
