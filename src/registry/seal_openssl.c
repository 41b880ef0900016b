/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sealed file, by OpenSSL's primitives alone:
 *
 *     twinrun.sealed/1\n
 *     {"chunk": 65536, "keys": [{"how", "key", "ephemeral", "wrapped"}]}\n
 *     chunks of 65,536 bytes, the last one shorter or not, each with its tag of 16 bytes
 *
 * Each file has a random key of its own. It is wrapped for each recipient: for X25519 by
 * AES-256-GCM with a key that HKDF-SHA256 makes of the secret that an ephemeral key shares with the
 * recipient's (the key is used once, so its nonce is zero), for RSA by OAEP with SHA-256. The
 * chunks are AES-256-GCM; their nonce is their number and whether they are the last, so none can be
 * left out, moved or cut off unseen. Their key comes by HKDF from the file's and from the digest of
 * the two lines, so these cannot be changed either. "key" is the digest of the recipient's public
 * key: who holds another one is told so.
 */
#include "seal.h"

#include "src/sign/sign.h"

#include "json_load.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "twinrun.sealed/1\n"
enum {
    KEY = 32,
    TAG = 16,
    NONCE = 12,
    CHUNK = 65536,
    X25519_BYTES = 32,
    PEM_MAX = 16 << 10,
    HEAD_MAX = 256 << 10, /* bytes of the second line */
    RSA_LEAST = 2048,     /* bits */
    RSA_MOST = 16384,
    WRAPPED_MAX = RSA_MOST / 8
};

static int openssl_failed(struct twin_error *err, const char *what, const char *shown)
{
    const unsigned long e = ERR_peek_last_error();
    const char *reason = e ? ERR_reason_error_string(e) : NULL;
    int rc = twin_error_set(err, TWIN_EIO, "%s: %s%s%s", shown, what, reason ? ": " : "",
                            reason ? reason : "");
    ERR_clear_error();
    return rc;
}

/* ---- primitives */

/* HKDF-SHA256. */
static bool derive(const unsigned char *secret, size_t n, const unsigned char *salt, size_t salt_n,
                   const char *info, unsigned char out[KEY])
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    char digest[] = "SHA256";
    OSSL_PARAM p[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret, n),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt, salt_n),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info,
                                          strlen(info)),
        OSSL_PARAM_construct_end()};
    const bool done = ctx && EVP_KDF_derive(ctx, out, KEY, p) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return done;
}

/* AES-256-GCM both ways; to[] is data and tag. False: it failed; of opening: it was changed. */
static bool gcm_seal(const unsigned char key[KEY], const unsigned char nonce[NONCE],
                     const unsigned char *from, int n, unsigned char *to)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int got = 0, more = 0;
    const bool done = c && EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
                      EVP_EncryptUpdate(c, to, &got, from, n) == 1 &&
                      EVP_EncryptFinal_ex(c, to + got, &more) == 1 && got + more == n &&
                      EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, to + n) == 1;
    EVP_CIPHER_CTX_free(c);
    return done;
}

static bool gcm_open(const unsigned char key[KEY], const unsigned char nonce[NONCE],
                     unsigned char *from, int n, unsigned char *to)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int got = 0, more = 0;
    const bool done = c && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
                      EVP_DecryptUpdate(c, to, &got, from, n) == 1 &&
                      EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, from + n) == 1 &&
                      EVP_DecryptFinal_ex(c, to + got, &more) == 1;
    EVP_CIPHER_CTX_free(c);
    ERR_clear_error();
    return done;
}

/* The digest of a public key, by which wrapped keys are told apart. */
static bool name_of(EVP_PKEY *k, char hex[65])
{
    unsigned char *der = NULL;
    const int n = i2d_PUBKEY(k, &der);
    const bool done = n > 0 && tw_sha256_of(der, (size_t)n, hex);
    OPENSSL_free(der);
    return done;
}

/* ---- recipients */

static bool is_x25519(const EVP_PKEY *k)
{
    return EVP_PKEY_is_a(k, "X25519");
}

/* Can a file be sealed for this key, or opened with it? */
static int key_fits(EVP_PKEY *k, const char *shown, struct twin_error *err)
{
    const int bits = EVP_PKEY_get_bits(k);
    if (is_x25519(k) || (EVP_PKEY_is_a(k, "RSA") && bits >= RSA_LEAST && bits <= RSA_MOST))
        return 0;
    return twin_error_set(err, TWIN_EINVAL,
                          "%s: expected a key of X25519, or of RSA with %d bits or more, found one "
                          "of %s with %d; openssl genpkey -algorithm X25519 makes one",
                          shown, RSA_LEAST, EVP_PKEY_get0_type_name(k), bits);
}

static int read_public(const char *pem, const char *shown, EVP_PKEY **out, struct twin_error *err)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    *out = b ? PEM_read_bio_PUBKEY(b, NULL, NULL, NULL) : NULL;
    BIO_free(b);
    ERR_clear_error();
    if (!*out)
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: expected a public key as PEM text (-----BEGIN PUBLIC KEY-----), "
                              "found %s",
                              shown,
                              strstr(pem, "PRIVATE KEY-----") ? "a private one" : "something else");
    int rc = key_fits(*out, shown, err);
    if (rc != 0) {
        EVP_PKEY_free(*out);
        *out = NULL;
    }
    return rc;
}

static int recipient(const char *given, char **text, struct twin_error *err)
{
    EVP_PKEY *k = NULL;
    char *pem = NULL, *data = NULL;
    size_t n = 0;
    int rc = tw_read_file(given, PEM_MAX, &pem, &n, err);
    rc = rc ? rc : read_public(pem, given, &k, err);
    OPENSSL_cleanse(pem, pem ? n : 0); /* it may have been a private one */
    tw_free(pem);
    BIO *b = k ? BIO_new(BIO_s_mem()) : NULL;
    long size = 0;
    if (rc == 0 && b && PEM_write_bio_PUBKEY(b, k) == 1)
        size = BIO_get_mem_data(b, &data);
    if (rc == 0 && !(*text = size > 0 ? tw_strndup(data, (size_t)size) : NULL))
        rc = tw_no_memory(err, "reading %s", given);
    BIO_free(b);
    EVP_PKEY_free(k);
    return rc;
}

/* ---- wrapping the file's key */

/* The key that wraps, of what two keys of X25519 share. */
static bool agree(EVP_PKEY *mine, EVP_PKEY *other, const unsigned char ephemeral[X25519_BYTES],
                  const unsigned char to[X25519_BYTES], unsigned char out[KEY])
{
    unsigned char shared[X25519_BYTES], salt[2 * X25519_BYTES];
    size_t n = sizeof shared;
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new(mine, NULL);
    memcpy(salt, ephemeral, X25519_BYTES);
    memcpy(salt + X25519_BYTES, to, X25519_BYTES);
    const bool done = c && EVP_PKEY_derive_init(c) == 1 &&
                      EVP_PKEY_derive_set_peer(c, other) == 1 &&
                      EVP_PKEY_derive(c, shared, &n) == 1 && n == sizeof shared &&
                      derive(shared, n, salt, sizeof salt, "twinrun.sealed/1 x25519", out);
    EVP_PKEY_CTX_free(c);
    OPENSSL_cleanse(shared, sizeof shared);
    return done;
}

static bool raw_public(const EVP_PKEY *k, unsigned char out[X25519_BYTES])
{
    size_t n = X25519_BYTES;
    return EVP_PKEY_get_raw_public_key(k, out, &n) == 1 && n == X25519_BYTES;
}

static json_t *wrap_x25519(EVP_PKEY *to, const char *name, const unsigned char key[KEY])
{
    static const unsigned char nonce[NONCE];
    unsigned char ephemeral[X25519_BYTES], other[X25519_BYTES], kek[KEY], wrapped[KEY + TAG];
    char a[2 * sizeof ephemeral + 1], b[2 * sizeof wrapped + 1];
    json_t *o = NULL;
    EVP_PKEY *mine = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    if (mine && raw_public(mine, ephemeral) && raw_public(to, other) &&
        agree(mine, to, ephemeral, other, kek) && gcm_seal(kek, nonce, key, KEY, wrapped)) {
        tw_hex(ephemeral, sizeof ephemeral, a);
        tw_hex(wrapped, sizeof wrapped, b);
        o = json_pack("{s:s, s:s, s:s, s:s}", "how", "x25519", "key", name, "ephemeral", a,
                      "wrapped", b);
    }
    EVP_PKEY_free(mine);
    OPENSSL_cleanse(kek, sizeof kek);
    return o;
}

static bool oaep(EVP_PKEY_CTX *c)
{
    return EVP_PKEY_CTX_set_rsa_padding(c, RSA_PKCS1_OAEP_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_oaep_md(c, EVP_sha256()) == 1 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(c, EVP_sha256()) == 1;
}

static json_t *wrap_rsa(EVP_PKEY *to, const char *name, const unsigned char key[KEY])
{
    unsigned char wrapped[WRAPPED_MAX];
    char text[2 * WRAPPED_MAX + 1];
    size_t n = sizeof wrapped;
    json_t *o = NULL;
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new(to, NULL);
    if (c && EVP_PKEY_encrypt_init(c) == 1 && oaep(c) &&
        EVP_PKEY_encrypt(c, wrapped, &n, key, KEY) == 1) {
        tw_hex(wrapped, n, text);
        o = json_pack("{s:s, s:s, s:s}", "how", "rsa-oaep-sha256", "key", name, "wrapped", text);
    }
    EVP_PKEY_CTX_free(c);
    return o;
}

static bool unwrap_x25519(EVP_PKEY *mine, const json_t *w, unsigned char key[KEY])
{
    static const unsigned char nonce[NONCE];
    const char *a = json_string_value(json_object_get(w, "ephemeral"));
    const char *b = json_string_value(json_object_get(w, "wrapped"));
    unsigned char ephemeral[X25519_BYTES], own[X25519_BYTES], kek[KEY], wrapped[KEY + TAG];
    if (!tw_is_hex(a, 2 * sizeof ephemeral) || !tw_is_hex(b, 2 * sizeof wrapped) ||
        !tw_unhex(a, sizeof ephemeral, ephemeral) || !tw_unhex(b, sizeof wrapped, wrapped))
        return false;
    EVP_PKEY *other = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, ephemeral,
                                                  sizeof ephemeral);
    const bool done = other && raw_public(mine, own) && agree(mine, other, ephemeral, own, kek) &&
                      gcm_open(kek, nonce, wrapped, KEY, key);
    EVP_PKEY_free(other);
    OPENSSL_cleanse(kek, sizeof kek);
    return done;
}

static bool unwrap_rsa(EVP_PKEY *mine, const json_t *w, unsigned char key[KEY])
{
    const char *text = json_string_value(json_object_get(w, "wrapped"));
    unsigned char wrapped[WRAPPED_MAX], plain[WRAPPED_MAX];
    const size_t n = (size_t)EVP_PKEY_get_size(mine);
    size_t got = sizeof plain;
    if (n > sizeof wrapped || !tw_is_hex(text, 2 * n) || !tw_unhex(text, n, wrapped))
        return false;
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new(mine, NULL);
    const bool done = c && EVP_PKEY_decrypt_init(c) == 1 && oaep(c) &&
                      EVP_PKEY_decrypt(c, plain, &got, wrapped, n) == 1 && got == KEY;
    if (done)
        memcpy(key, plain, KEY);
    OPENSSL_cleanse(plain, sizeof plain);
    EVP_PKEY_CTX_free(c);
    return done;
}

/* ---- chunks */

static void nonce_of(uint64_t number, bool last, unsigned char out[NONCE])
{
    memset(out, 0, NONCE);
    for (int i = 0; i < 8; i++)
        out[NONCE - 2 - i] = (unsigned char)(number >> 8 * i);
    out[NONCE - 1] = last;
}

/* The key of the chunks, bound to the two lines before them. */
static bool chunk_key(const unsigned char key[KEY], const char *head, size_t n,
                      unsigned char out[KEY])
{
    char hex[65];
    unsigned char salt[32];
    return tw_sha256_of(head, n, hex) && tw_unhex(hex, sizeof salt, salt) &&
           derive(key, KEY, salt, sizeof salt, "twinrun.sealed/1 chunks", out);
}

/* Two buffers: whether a chunk is the last one is known when the next one has been tried. */
struct chunks {
    unsigned char *room, *next, *out;
    size_t size; /* of one that is read */
    ssize_t have, ahead;
};

static int chunks_begin(struct chunks *c, size_t size, const struct tw_seal_flow *f,
                        struct twin_error *err)
{
    c->size = size;
    c->room = tw_malloc(3 * (size + TAG));
    if (!c->room)
        return tw_no_memory(err, "for %s", f->shown);
    c->next = c->room + size + TAG;
    c->out = c->next + size + TAG;
    c->have = tw_read_up_to(f->in, c->room, size);
    return c->have < 0 ? twin_error_system(err, "cannot read %s", f->shown) : 0;
}

static int chunks_look(struct chunks *c, const struct tw_seal_flow *f, struct twin_error *err)
{
    c->ahead = (size_t)c->have < c->size ? 0 : tw_read_up_to(f->in, c->next, c->size);
    return c->ahead < 0 ? twin_error_system(err, "cannot read %s", f->shown) : 0;
}

static void chunks_step(struct chunks *c)
{
    unsigned char *done = c->room;
    c->room = c->next;
    c->next = done;
    c->have = c->ahead;
}

static void chunks_end(struct chunks *c)
{
    unsigned char *first = c->room < c->next ? c->room : c->next;
    if (first)
        OPENSSL_cleanse(first, 3 * (c->size + TAG));
    tw_free(first);
}

static int seal_chunks(const unsigned char key[KEY], struct tw_seal_flow *f, struct twin_error *err)
{
    struct chunks c = {0};
    unsigned char nonce[NONCE];
    bool last = false;
    int rc = chunks_begin(&c, CHUNK, f, err);
    for (uint64_t i = 0; rc == 0 && !last; i++) {
        if ((rc = chunks_look(&c, f, err)) != 0)
            break;
        last = c.ahead == 0;
        nonce_of(i, last, nonce);
        rc = tw_seal_pass(f, c.room, (size_t)c.have, err);
        if (rc == 0 && !gcm_seal(key, nonce, c.room, (int)c.have, c.out))
            rc = openssl_failed(err, "cannot encrypt it", f->shown);
        if (rc == 0 && tw_write_all(f->sealed, c.out, (size_t)c.have + TAG) != 0)
            rc = twin_error_system(err, "cannot write a sealed copy of %s", f->shown);
        chunks_step(&c);
    }
    chunks_end(&c);
    return rc;
}

static int open_chunks(const unsigned char key[KEY], struct tw_seal_flow *f, struct twin_error *err)
{
    struct chunks c = {0};
    unsigned char nonce[NONCE];
    bool last = false;
    int rc = chunks_begin(&c, CHUNK + TAG, f, err);
    for (uint64_t i = 0; rc == 0 && !last; i++) {
        if ((rc = chunks_look(&c, f, err)) != 0)
            break;
        last = c.ahead == 0;
        nonce_of(i, last, nonce);
        if (c.have < TAG || (c.have == TAG && i > 0) ||
            !gcm_open(key, nonce, c.room, (int)(c.have - TAG), c.out))
            rc = twin_error_set(err, TWIN_EFORMAT,
                                "%s: the sealed bytes were changed, or end too early: chunk %llu "
                                "is not what was sealed",
                                f->shown, (unsigned long long)i + 1);
        else
            rc = tw_seal_pass(f, c.out, (size_t)(c.have - TAG), err);
        chunks_step(&c);
    }
    chunks_end(&c);
    return rc;
}

/* ---- sealing */

static int wrap_for(const json_t *recipients, const unsigned char key[KEY], json_t *keys,
                    const struct tw_seal_flow *f, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < json_array_size(recipients) && rc == 0; i++) {
        const char *pem = json_string_value(json_array_get(recipients, i));
        EVP_PKEY *k = NULL;
        char name[65];
        rc = read_public(pem ? pem : "", "a recipient of the log", &k, err);
        json_t *w = NULL;
        if (rc == 0 && name_of(k, name))
            w = is_x25519(k) ? wrap_x25519(k, name, key) : wrap_rsa(k, name, key);
        if (rc == 0 && json_array_append_new(keys, w) != 0)
            rc = openssl_failed(err, "its key cannot be wrapped", f->shown);
        EVP_PKEY_free(k);
    }
    return rc;
}

static int seal(const json_t *recipients, struct tw_seal_flow *f, struct twin_error *err)
{
    unsigned char key[KEY], of_chunks[KEY];
    struct tw_buf head = {0};
    json_t *keys = json_array();
    int rc = keys ? 0 : tw_no_memory(err, "for %s", f->shown);
    if (rc == 0 && RAND_bytes(key, sizeof key) != 1)
        rc = openssl_failed(err, "no random key for it", f->shown);
    rc = rc ? rc : wrap_for(recipients, key, keys, f, err);
    json_t *o = json_pack("{s:i, s:O}", "chunk", CHUNK, "keys", keys);
    char *text = rc || !o ? NULL : json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
    tw_buf_printf(&head, "%s%s\n", FIRST_LINE, text ? text : "");
    if (rc == 0 && (!text || head.failed || !chunk_key(key, head.data, head.len, of_chunks)))
        rc = openssl_failed(err, "cannot be sealed", f->shown);
    /* readers read no more of it: better now than when it is needed */
    if (rc == 0 && head.len >= HEAD_MAX)
        rc = twin_error_set(err, TWIN_ELIMIT,
                            "%s: the keys of %zu recipients take %zu bytes, and a sealed file has "
                            "room for %d: expected fewer recipients, or X25519 keys",
                            f->shown, json_array_size(recipients), head.len, HEAD_MAX - 1);
    if (rc == 0 && tw_write_all(f->sealed, head.data, head.len) != 0)
        rc = twin_error_system(err, "cannot write a sealed copy of %s", f->shown);
    rc = rc ? rc : seal_chunks(of_chunks, f, err);
    free(text);
    json_decref(o);
    json_decref(keys);
    tw_buf_free(&head);
    OPENSSL_cleanse(key, sizeof key);
    OPENSSL_cleanse(of_chunks, sizeof of_chunks);
    return rc;
}

/* ---- opening */

static int unwrap_with(const char *identity, const json_t *keys, bool *found,
                       unsigned char key[KEY], struct twin_error *err)
{
    EVP_PKEY *k = NULL;
    char name[65] = "";
    int rc = twin_key_read_private(identity, &k, err);
    rc = rc ? rc : key_fits(k, identity, err);
    if (rc == 0 && !name_of(k, name))
        rc = openssl_failed(err, "has no public half", identity);
    for (size_t i = 0; i < json_array_size(keys) && rc == 0 && !*found; i++) {
        const json_t *w = json_array_get(keys, i);
        const char *of = json_string_value(json_object_get(w, "key"));
        if (!of || strcmp(of, name) != 0)
            continue;
        *found = is_x25519(k) ? unwrap_x25519(k, w, key) : unwrap_rsa(k, w, key);
        ERR_clear_error();
        if (!*found)
            rc = twin_error_set(err, TWIN_EFORMAT,
                                "the key in its head was changed: %s does not open it", identity);
    }
    EVP_PKEY_free(k);
    return rc;
}

/* The two lines; the file stands behind them. */
static int read_head(struct tw_seal_flow *f, char **text, size_t *n, struct twin_error *err)
{
    const size_t first = strlen(FIRST_LINE);
    char *room = tw_malloc(HEAD_MAX);
    if (!room)
        return tw_no_memory(err, "reading %s", f->shown);
    const ssize_t got = tw_pread_all(f->in, room, HEAD_MAX - 1, 0);
    room[got < 0 ? 0 : got] = '\0';
    const char *end = got < (ssize_t)first || memcmp(room, FIRST_LINE, first) != 0
                          ? NULL
                          : memchr(room + first, '\n', (size_t)got - first);
    int rc = 0;
    if (got < 0)
        rc = twin_error_system(err, "cannot read %s", f->shown);
    else if (!end)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected sealed bytes that begin with twinrun.sealed/1 and a "
                            "line with keys, found others",
                            f->shown);
    else if (lseek(f->in, end + 1 - room, SEEK_SET) < 0)
        rc = twin_error_system(err, "cannot read %s", f->shown);
    if (rc == 0) {
        *n = (size_t)(end + 1 - room);
        *text = room;
    } else {
        tw_free(room);
    }
    return rc;
}

static int find_key(const struct tw_strings *identities, const json_t *keys,
                    const struct tw_seal_flow *f, unsigned char key[KEY], struct twin_error *err)
{
    bool found = false;
    int rc = 0;
    for (size_t i = 0; i < identities->count && rc == 0 && !found; i++)
        rc = unwrap_with(identities->items[i], keys, &found, key, err);
    if (rc == 0 && !found)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: --identity: none of the keys opens it: it is sealed for %zu "
                            "other%s, the first one %.12s",
                            f->shown, json_array_size(keys), json_array_size(keys) == 1 ? "" : "s",
                            json_string_value(json_object_get(json_array_get(keys, 0), "key"))
                                ? json_string_value(json_object_get(json_array_get(keys, 0), "key"))
                                : "unnamed");
    return rc;
}

static int open_sealed(const struct tw_strings *identities, struct tw_seal_flow *f,
                       struct twin_error *err)
{
    unsigned char key[KEY], of_chunks[KEY];
    const size_t first = strlen(FIRST_LINE);
    char *head = NULL;
    size_t n = 0;
    int rc = read_head(f, &head, &n, err);
    if (rc != 0)
        return rc;
    json_t *o = tw_json_load(head + first, n - first - 1, JSON_REJECT_DUPLICATES, NULL);
    if (json_integer_value(json_object_get(o, "chunk")) != CHUNK)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected a head with chunks of %d bytes",
                            f->shown, CHUNK);
    rc = rc ? rc : find_key(identities, json_object_get(o, "keys"), f, key, err);
    if (rc == 0 && !chunk_key(key, head, n, of_chunks))
        rc = openssl_failed(err, "cannot be opened", f->shown);
    rc = rc ? rc : open_chunks(of_chunks, f, err);
    json_decref(o);
    tw_free(head);
    OPENSSL_cleanse(key, sizeof key);
    OPENSSL_cleanse(of_chunks, sizeof of_chunks);
    return rc;
}

const struct tw_seal_way tw_seal_openssl = {"openssl", recipient, seal, open_sealed};
