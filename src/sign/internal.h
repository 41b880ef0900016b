/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_INTERNAL_H
#define TW_SIGN_INTERNAL_H
/* What the files of the signing room share. The public contract is src/sign/sign.h. */
#include "src/sign/sign.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>

/* A key: the public half as OpenSSL has it, and the means to sign, if any. */
struct twin_key {
    /* whole pair for a file's private key; else the public half */
    EVP_PKEY *pkey;
    enum twin_key_algorithm algorithm;
    char *pem; /* public half */
    char id[65];
    void *device; /* token or server; NULL for files */
    /* *signature: ECDSA as DER, Ed25519 as 64 bytes; malloc'ed. NULL: cannot sign, or pkey signs
     * itself. */
    int (*sign)(struct twin_key *k, const void *data, size_t n, unsigned char **signature,
                size_t *bytes, struct twin_error *err);
    void (*close)(void *device);
    bool secret; /* pkey holds the private half */
};

/* Takes pkey over, also on error. `name` stands in messages. */
int tw_key_wrap(EVP_PKEY *pkey, const char *name, struct twin_key **out, struct twin_error *err);
int tw_key_open_pkcs11(const char *uri, struct twin_key **out, struct twin_error *err);
int tw_key_open_vault(const char *spec, struct twin_key **out, struct twin_error *err);
/* The digest that goes with the curve; NULL for Ed25519. */
const EVP_MD *tw_key_digest(enum twin_key_algorithm a);
/*
 * The public half as PEM text in the one form that ids are made from: a named curve (group; NULL:
 * Ed25519), the point uncompressed. malloc'ed; NULL: the key has no such form, or no memory.
 */
char *tw_key_canonical_pem(EVP_PKEY *pkey, const char *group);
/* Is it the one of an ECDSA key's two signatures that has the lower s? */
bool tw_key_signature_is_canonical(const struct twin_key *k, const unsigned char *signature,
                                   size_t n);
/* Replaces a signature by the one with the lower s. 0 or TWIN_ENOMEM. */
int tw_key_signature_lower(const struct twin_key *k, unsigned char **signature, size_t *n);
/* r||s, each half of the bytes, as tokens give it -> DER. malloc'ed; NULL: no memory or no such
 * signature. */
unsigned char *tw_key_der(const unsigned char *raw, size_t n, size_t *bytes);
/* err's text with OpenSSL's last reason; its queue is emptied. */
int tw_key_openssl(struct twin_error *err, int code, const char *what, const char *name);
/* First line of a file that holds a secret (at most 4 KiB). malloc'ed, NULL with err set.
 * tw_secret_free wipes it. */
char *tw_secret_read(const char *path, const char *what, struct twin_error *err);
void tw_secret_free(char *s);

/* twin_trust_read of text, which ends in a NUL byte and is changed; path: says where the keys'
 * paths begin, and stands in messages. */
int tw_trust_parse(char *text, size_t n, const char *path, struct twin_trust **out,
                   struct twin_error *err);

/* SHA-256 of bytes in memory as lower-case hex. It never fails: a broken library ends the
 * program. */
void tw_sign_sha256(const void *data, size_t n, char out[65]);

/* JSON of foreign making: duplicate keys, lone surrogates, NUL and bytes that are no UTF-8 are
 * refused. A new reference. */
struct json_t *tw_sign_json(const char *text, size_t n, const char *name, struct twin_error *err);
#endif
