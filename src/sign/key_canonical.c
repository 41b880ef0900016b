/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One key has one name, and one statement one signature. A public key can be written in several
 * ways (a compressed point, the curve's parameters spelled out), and of an ECDSA signature (r, s)
 * anybody can make (r, n - s), which is good, too. Ids are made from one way of writing a key; of
 * the two signatures the one with the lower s is ours.
 */
#include "internal.h"

#include "base.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <string.h>

/* An uncompressed point of P-521: a byte that says so and two coordinates of 66 bytes. */
enum { POINT_MAX = 1 + 2 * 66, ED25519_BYTES = 32 };

/* The public half on a named curve, its point uncompressed; NULL: the key has no such form, or no
 * memory. */
static EVP_PKEY *plain_ec(EVP_PKEY *pkey, const char *group)
{
    BIGNUM *x = NULL, *y = NULL;
    unsigned char point[POINT_MAX] = {POINT_CONVERSION_UNCOMPRESSED};
    EVP_PKEY *out = NULL;
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    OSSL_PARAM *params = NULL;
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    const size_t half = ((size_t)EVP_PKEY_get_bits(pkey) + 7) / 8;
    bool ok = build && c && 1 + 2 * half <= sizeof point;
    ok = ok && EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_EC_PUB_X, &x) == 1;
    ok = ok && EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_EC_PUB_Y, &y) == 1;
    ok = ok && BN_bn2binpad(x, point + 1, (int)half) == (int)half;
    ok = ok && BN_bn2binpad(y, point + 1 + half, (int)half) == (int)half;
    ok = ok && OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) == 1;
    ok = ok &&
         OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * half) == 1;
    ok = ok && (params = OSSL_PARAM_BLD_to_param(build)) != NULL;
    ok = ok && EVP_PKEY_fromdata_init(c) == 1;
    if (ok && EVP_PKEY_fromdata(c, &out, EVP_PKEY_PUBLIC_KEY, params) != 1)
        out = NULL;
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(c);
    BN_free(x);
    BN_free(y);
    return out;
}

/* RFC 8032 decodes y below 2^255 - 19 only; OpenSSL takes the 19 others as second names of small
 * ones. */
static bool ed25519_is_canonical(EVP_PKEY *pkey)
{
    unsigned char raw[ED25519_BYTES];
    size_t n = sizeof raw;
    if (EVP_PKEY_get_raw_public_key(pkey, raw, &n) != 1 || n != sizeof raw)
        return false;
    bool large = (raw[31] & 0x7F) == 0x7F;
    for (size_t i = 1; i < 31; i++)
        large &= raw[i] == 0xFF;
    return !(large && raw[0] >= 0xED);
}

/* An Ed25519 key has one way to be written but for the second names of small numbers, which are
 * refused. */
char *tw_key_canonical_pem(EVP_PKEY *pkey, const char *group)
{
    EVP_PKEY *plain = group ? plain_ec(pkey, group) : NULL;
    EVP_PKEY *source = group ? plain : pkey;
    BIO *b = BIO_new(BIO_s_mem());
    char *text = NULL, *out = NULL;
    bool ok = b && source && (group || ed25519_is_canonical(pkey));
    if (ok && PEM_write_bio_PUBKEY(b, source) == 1) {
        const long n = BIO_get_mem_data(b, &text);
        out = tw_strndup(text, (size_t)n);
    }
    BIO_free(b);
    EVP_PKEY_free(plain);
    return out;
}

/* ---- of two signatures, one */

/* The parts of an ECDSA signature in DER, and is its s above half of the order? */
static ECDSA_SIG *split_signature(const struct twin_key *k, const unsigned char *der, size_t n,
                                  BIGNUM **order, bool *high)
{
    BIGNUM *half = BN_new();
    const unsigned char *p = der;
    ECDSA_SIG *s = d2i_ECDSA_SIG(NULL, &p, (long)n);
    bool ok = s && half && EVP_PKEY_get_bn_param(k->pkey, OSSL_PKEY_PARAM_EC_ORDER, order) == 1;
    ok = ok && BN_rshift1(half, *order) == 1;
    *high = ok && BN_cmp(ECDSA_SIG_get0_s(s), half) > 0;
    BN_free(half);
    if (!ok) {
        ECDSA_SIG_free(s);
        s = NULL;
    }
    ERR_clear_error();
    return s;
}

bool tw_key_signature_is_canonical(const struct twin_key *k, const unsigned char *signature,
                                   size_t n)
{
    BIGNUM *order = NULL;
    bool high = false;
    if (k->algorithm == TWIN_KEY_ED25519)
        return true; /* RFC 8032 takes s below the order only, and OpenSSL checks it */
    ECDSA_SIG *s = split_signature(k, signature, n, &order, &high);
    bool canonical = s && !high;
    ECDSA_SIG_free(s);
    BN_free(order);
    return canonical;
}

/* n - s is the other s that verifies. A signature that has the lower one already is left as it is,
 * byte for byte. */
int tw_key_signature_lower(const struct twin_key *k, unsigned char **signature, size_t *n)
{
    BIGNUM *order = NULL, *low = BN_new(), *r = NULL;
    unsigned char *out = NULL;
    bool high = false;
    if (k->algorithm == TWIN_KEY_ED25519) {
        BN_free(low);
        return 0;
    }
    ECDSA_SIG *s = split_signature(k, *signature, *n, &order, &high);
    bool ok = s && low;
    if (ok && high) {
        r = BN_dup(ECDSA_SIG_get0_r(s));
        ok = r && BN_sub(low, order, ECDSA_SIG_get0_s(s)) == 1 && ECDSA_SIG_set0(s, r, low) == 1;
        if (ok)
            r = low = NULL;
        const int length = ok ? i2d_ECDSA_SIG(s, NULL) : 0;
        unsigned char *p = out = length > 0 ? tw_malloc((size_t)length) : NULL;
        ok = out != NULL;
        if (ok) {
            *n = (size_t)i2d_ECDSA_SIG(s, &p);
            tw_free(*signature);
            *signature = out;
        }
    }
    BN_free(r);
    BN_free(low);
    BN_free(order);
    ECDSA_SIG_free(s);
    return ok ? 0 : TWIN_ENOMEM;
}
