/* SPDX-License-Identifier: Apache-2.0 */
/* Keys in PEM files, and what all keys do: sign, verify, be called by the digest of their public
 * half. */
#include "internal.h"

#include "base.h"
#include "sha256.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A PEM file with a key has some hundred bytes; OpenSSL gives a callback for passphrases 1024. */
enum { PEM_MAX = 64 << 10, PASSPHRASE_MAX = 1024 };

/* What the algorithms are called: by people and in options, and by OpenSSL (the curve). */
static const struct {
    const char *name, *group;
} algorithms[] = {
    [TWIN_KEY_P256] = {"ecdsa-p256", "prime256v1"},
    [TWIN_KEY_P384] = {"ecdsa-p384", "secp384r1"},
    [TWIN_KEY_P521] = {"ecdsa-p521", "secp521r1"},
    [TWIN_KEY_ED25519] = {"ed25519", NULL},
};
enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };
_Static_assert(ALGORITHMS == TWIN_KEY_ED25519 + 1, "a row for each algorithm");

const char *twin_key_algorithm_name(enum twin_key_algorithm a)
{
    assert((unsigned)a < ALGORITHMS);
    return algorithms[a].name;
}

int twin_key_algorithm_parse(const char *s, enum twin_key_algorithm *out)
{
    for (int i = 0; i < ALGORITHMS; i++)
        if (strcmp(s, algorithms[i].name) == 0) {
            *out = (enum twin_key_algorithm)i;
            return 0;
        }
    return TWIN_EINVAL;
}

int tw_key_openssl(struct twin_error *err, int code, const char *what, const char *name)
{
    const unsigned long e = ERR_peek_last_error();
    const char *reason = e ? ERR_reason_error_string(e) : NULL;
    int rc = twin_error_set(err, code, "%s: %s%s%s", name, what, reason ? ": " : "",
                            reason ? reason : "");
    ERR_clear_error();
    return rc;
}

void tw_sign_sha256(const void *data, size_t n, char out[65])
{
    /* SHA-256 of memory has no way to fail but a broken library; a digest of nothing must not pass
     * as one */
    if (!tw_sha256_of(data, n, out))
        abort();
}

/* ---- secrets */

void tw_secret_free(char *s)
{
    if (s)
        OPENSSL_cleanse(s, strlen(s));
    tw_free(s);
}

/* The buffer is wiped in each case; what is returned is the one copy. */
char *tw_secret_read(const char *path, const char *what, struct twin_error *err)
{
    char text[4098], *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : tw_pread_all(fd, text, sizeof text - 1, 0);
    if (n < 0)
        twin_error_system(err, "cannot read %s from %s", what, path);
    else if (n == sizeof text - 1)
        twin_error_set(err, TWIN_ELIMIT, "%s: expected %s in its first line, found more than 4 KiB",
                       path, what);
    else {
        text[n] = '\0';
        text[strcspn(text, "\r\n")] = '\0';
        if (!(out = tw_strdup(text)))
            tw_no_memory(err, "for %s", what);
    }
    if (fd >= 0)
        close(fd);
    OPENSSL_cleanse(text, sizeof text);
    return out;
}

/* From the environment; never from the command line, which every user of the machine can see. *out
 * NULL: none was given. */
static int find_passphrase(char **out, struct twin_error *err)
{
    const char *direct = getenv("TWINRUN_KEY_PASSPHRASE");
    const char *file = getenv("TWINRUN_KEY_PASSPHRASE_FILE");
    *out = NULL;
    if (!direct && !file)
        return 0;
    *out = direct ? tw_strdup(direct) : tw_secret_read(file, "the key's passphrase", err);
    if (!*out && direct)
        return tw_no_memory(err, "for a passphrase");
    if (!*out)
        return err ? err->code : TWIN_EIO;
    if (strlen(*out) >= PASSPHRASE_MAX || !**out) {
        int rc = twin_error_set(err, TWIN_EINVAL,
                                "the key's passphrase: expected 1 to %d bytes, found %zu",
                                PASSPHRASE_MAX - 1, strlen(*out));
        tw_secret_free(*out);
        *out = NULL;
        return rc;
    }
    return 0;
}

/* What the callback of OpenSSL needs, and whether it was called: only an encrypted key asks. */
struct asked {
    const char *passphrase;
    bool asked;
};

/* OpenSSL's callback. -1 makes the reading fail, which tells an encrypted key without a passphrase
 * from a damaged one. */
static int give_passphrase(char *buffer, int size, int writing, void *user)
{
    struct asked *a = user;
    (void)writing;
    a->asked = true;
    const size_t n = a->passphrase ? strlen(a->passphrase) : 0;
    if (n == 0 || n > (size_t)size)
        return -1;
    memcpy(buffer, a->passphrase, n);
    return (int)n;
}

/* ---- a key as an object */

const EVP_MD *tw_key_digest(enum twin_key_algorithm a)
{
    switch (a) {
    case TWIN_KEY_P256: return EVP_sha256();
    case TWIN_KEY_P384: return EVP_sha384();
    case TWIN_KEY_P521: return EVP_sha512();
    default: return NULL;
    }
}

/* Which algorithm of ours the key has; TWIN_EUNSUPPORTED says what it is instead. A curve without a
 * name is none of ours. */
static int algorithm_of(EVP_PKEY *pkey, const char *name, enum twin_key_algorithm *out,
                        struct twin_error *err)
{
    char group[64] = "";
    if (EVP_PKEY_get_base_id(pkey) == EVP_PKEY_ED25519) {
        *out = TWIN_KEY_ED25519;
        return 0;
    }
    if (EVP_PKEY_get_base_id(pkey) == EVP_PKEY_EC &&
        EVP_PKEY_get_group_name(pkey, group, sizeof group, NULL) == 1)
        for (int i = 0; i < ALGORITHMS; i++)
            if (algorithms[i].group && strcmp(group, algorithms[i].group) == 0) {
                *out = (enum twin_key_algorithm)i;
                return 0;
            }
    const char *type = EVP_PKEY_get0_type_name(pkey);
    ERR_clear_error();
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "%s: expected a key of ECDSA P-256, P-384, P-521 or Ed25519, found %s %s",
                          name, type ? type : "another kind", group);
}

/* The id is the digest of the one canonical PEM text of the public half, so that a key has one id
 * however it was written or whoever holds it. */
int tw_key_wrap(EVP_PKEY *pkey, const char *name, struct twin_key **out, struct twin_error *err)
{
    struct twin_key *k = tw_calloc(1, sizeof *k);
    int rc = 0;
    if (!k) {
        EVP_PKEY_free(pkey);
        return tw_no_memory(err, "for the key %s", name);
    }
    rc = algorithm_of(pkey, name, &k->algorithm, err);
    if (rc == 0) {
        k->pem = tw_key_canonical_pem(pkey, algorithms[k->algorithm].group);
        if (!k->pem)
            rc = tw_key_openssl(err, TWIN_EFORMAT,
                                "a key without a public half that can be written", name);
    }
    if (rc != 0) {
        EVP_PKEY_free(pkey);
        tw_free(k);
        return rc;
    }
    k->pkey = pkey;
    tw_sign_sha256(k->pem, strlen(k->pem), k->id);
    *out = k;
    return 0;
}

void twin_key_close(struct twin_key *k)
{
    if (!k)
        return;
    if (k->close)
        k->close(k->device);
    EVP_PKEY_free(k->pkey);
    tw_free(k->pem);
    tw_free(k);
}

const char *twin_key_id(const struct twin_key *k)
{
    return k->id;
}

const char *twin_key_pem(const struct twin_key *k)
{
    return k->pem;
}

enum twin_key_algorithm twin_key_algorithm(const struct twin_key *k)
{
    return k->algorithm;
}

/* ---- files */

/* The text of a file that looks like PEM, NUL-terminated; the caller wipes and frees it, since it
 * may hold a private key. */
static int read_pem(const char *path, char **text, size_t *n, struct twin_error *err)
{
    int rc = tw_read_file(path, PEM_MAX, text, n, err);
    if (rc != 0)
        return rc;
    if (!strstr(*text, "-----BEGIN ")) {
        OPENSSL_cleanse(*text, *n);
        tw_free(*text);
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: expected a key as PEM text (-----BEGIN ...), found none; "
                              "twinrun sign --new-key PATH makes one",
                              path);
    }
    return 0;
}

/* A private key from a file. All that held it is wiped before this returns, but the key in
 * OpenSSL's hands. */
int twin_key_read_private(const char *path, struct evp_pkey_st **out, struct twin_error *err)
{
    char *text, *passphrase;
    size_t n;
    int rc = read_pem(path, &text, &n, err);
    if (rc != 0)
        return rc;
    BIO *b = NULL;
    *out = NULL;
    if ((rc = find_passphrase(&passphrase, err)) != 0)
        goto out;
    if (!strstr(text, "PRIVATE KEY-----")) {
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected a private key, found %s", path,
                            strstr(text, "PUBLIC KEY-----") ? "a public one" : "something else");
        goto out;
    }
    struct asked asked = {passphrase, false};
    b = BIO_new_mem_buf(text, (int)n);
    *out = b ? PEM_read_bio_PrivateKey(b, NULL, give_passphrase, &asked) : NULL;
    if (!*out && asked.asked && !passphrase) {
        ERR_clear_error();
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s: the key is encrypted: set TWINRUN_KEY_PASSPHRASE_FILE to a file "
                            "that holds its passphrase, or TWINRUN_KEY_PASSPHRASE",
                            path);
    } else if (!*out)
        rc = tw_key_openssl(err, TWIN_EFORMAT,
                            asked.asked ? "not a private key, or the passphrase is not its own"
                                        : "not a private key",
                            path);
out:
    BIO_free(b);
    tw_secret_free(passphrase);
    OPENSSL_cleanse(text, n);
    tw_free(text);
    return rc;
}

static int open_file(const char *path, struct twin_key **out, struct twin_error *err)
{
    EVP_PKEY *pkey = NULL;
    int rc = twin_key_read_private(path, &pkey, err);
    rc = rc ? rc : tw_key_wrap(pkey, path, out, err);
    if (rc == 0)
        (*out)->secret = true;
    return rc;
}

int twin_key_open(const char *spec, struct twin_key **out, struct twin_error *err)
{
    if (tw_starts(spec, "pkcs11:"))
        return tw_key_open_pkcs11(spec, out, err);
    return tw_starts(spec, "vault:") ? tw_key_open_vault(spec, out, err)
                                     : open_file(spec, out, err);
}

int twin_key_read_public(const char *path, struct twin_key **out, struct twin_error *err)
{
    char *text;
    size_t n;
    if (tw_starts(path, "pkcs11:") || tw_starts(path, "vault:"))
        return twin_error_set(err, TWIN_EINVAL,
                              "%.60s...: signatures are verified with the public key in a file: "
                              "twinrun sign --public-key --key '%.60s...' prints it",
                              path, path);
    int rc = read_pem(path, &text, &n, err);
    if (rc != 0)
        return rc;
    BIO *b = BIO_new_mem_buf(text, (int)n);
    EVP_PKEY *pkey = NULL;
    if (strstr(text, "PRIVATE KEY-----"))
        rc = twin_error_set(
            err, TWIN_EFORMAT,
            "%s: expected a public key, found a private one, which nobody who verifies should "
            "have; its public half is in %s.pub when twinrun made it",
            path, path);
    else if (strstr(strstr(text, "-----BEGIN ") + 1, "-----BEGIN "))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected one public key, found more: give each a file of its own",
                            path);
    else if (!b || !(pkey = PEM_read_bio_PUBKEY(b, NULL, NULL, NULL)))
        rc = tw_key_openssl(err, TWIN_EFORMAT, "not a public key", path);
    else
        rc = tw_key_wrap(pkey, path, out, err);
    BIO_free(b);
    OPENSSL_cleanse(text, n);
    tw_free(text);
    return rc;
}

/* ---- a new one */

/* Writes a file that was not there. O_EXCL decides that, not a look before: two commands at the
 * same time cannot both win. What could not be written in full is removed. */
static int write_new(const char *path, const char *text, size_t n, mode_t mode,
                     struct twin_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 && errno == EEXIST)
        return twin_error_set(
            err, TWIN_EIO, "%s is there already, and keys are never replaced: choose another name",
            path);
    if (fd < 0)
        return twin_error_system(err, "cannot create %s", path);
    int rc = tw_write_all(fd, text, n) != 0 || fsync(fd) != 0
                 ? twin_error_system(err, "cannot write %s", path)
                 : 0;
    if (close(fd) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s", path);
    if (rc != 0)
        unlink(path);
    return rc;
}

/* The private half comes first. Where the public one cannot be written it is removed again: half a
 * pair is of no use, and a second attempt would find its name taken. The BIO is of secure memory,
 * which is wiped when it is freed. */
int twin_key_new(const char *path, enum twin_key_algorithm a, struct twin_error *err)
{
    char *passphrase, *text = NULL, *public_path = tw_printf("%s.pub", path);
    struct twin_key *k = NULL;
    BIO *b = BIO_new(BIO_s_secmem());
    int rc = find_passphrase(&passphrase, err);
    EVP_PKEY *pkey = NULL;
    if (rc == 0 && a == TWIN_KEY_ED25519)
        pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    else if (rc == 0)
        pkey = EVP_PKEY_Q_keygen(NULL, NULL, "EC", algorithms[a].group);
    if (rc == 0 && (!pkey || !b || !public_path))
        rc = tw_key_openssl(err, TWIN_ENOMEM, "no key could be made", path);
    if (rc == 0 &&
        PEM_write_bio_PKCS8PrivateKey(b, pkey, passphrase ? EVP_aes_256_cbc() : NULL, passphrase,
                                      passphrase ? (int)strlen(passphrase) : 0, NULL, NULL) != 1)
        rc = tw_key_openssl(err, TWIN_EIO, "the key has no text", path);
    if (rc == 0) {
        rc = tw_key_wrap(pkey, path, &k, err);
        pkey = NULL;
    }
    const long n = rc == 0 ? BIO_get_mem_data(b, &text) : 0;
    if (rc == 0 && access(public_path, F_OK) == 0)
        rc = twin_error_set(err, TWIN_EIO,
                            "%s is there already, and keys are never replaced: choose another name",
                            public_path);
    rc = rc ? rc : write_new(path, text, (size_t)n, 0600, err);
    if (rc == 0 && (rc = write_new(public_path, k->pem, strlen(k->pem), 0666, err)) != 0)
        unlink(path);
    twin_key_close(k);
    EVP_PKEY_free(pkey);
    BIO_free(b);
    tw_secret_free(passphrase);
    tw_free(public_path);
    return rc;
}

/* ---- signatures */

bool twin_key_verify(const struct twin_key *k, const void *data, size_t n,
                     const unsigned char *signature, size_t bytes)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    const bool good = c &&
                      EVP_DigestVerifyInit(c, NULL, tw_key_digest(k->algorithm), NULL, k->pkey) ==
                          1 &&
                      EVP_DigestVerify(c, signature, bytes, data, n) == 1;
    EVP_MD_CTX_free(c);
    ERR_clear_error(); /* why a signature is not good is no trouble of ours */
    return good;
}

/* Signs with a key in our own memory. The first call asks for the room, the second one signs. */
static int sign_here(struct twin_key *k, const void *data, size_t n, unsigned char **signature,
                     size_t *bytes, struct twin_error *err)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    unsigned char *out = NULL;
    size_t room = 0;
    int rc = 0;
    if (!c || EVP_DigestSignInit(c, NULL, tw_key_digest(k->algorithm), NULL, k->pkey) != 1 ||
        EVP_DigestSign(c, NULL, &room, data, n) != 1 || !(out = tw_malloc(room)) ||
        EVP_DigestSign(c, out, &room, data, n) != 1)
        rc = tw_key_openssl(err, TWIN_EIO, "signing failed", k->id);
    EVP_MD_CTX_free(c);
    if (rc != 0)
        tw_free(out);
    else
        *signature = out, *bytes = room;
    return rc;
}

/* Whatever made the signature, it leaves here in one form (the lower s) and verified. */
int twin_key_sign(struct twin_key *k, const void *data, size_t n, unsigned char **signature,
                  size_t *bytes, struct twin_error *err)
{
    if (!k->secret && !k->sign)
        return twin_error_set(err, TWIN_EINVAL, "the key %.16s... is a public one: it cannot sign",
                              k->id);
    int rc = k->sign ? k->sign(k, data, n, signature, bytes, err)
                     : sign_here(k, data, n, signature, bytes, err);
    if (rc == 0 && tw_key_signature_lower(k, signature, bytes) != 0) {
        tw_free(*signature);
        return twin_error_set(
            err, TWIN_EIO,
            "what came back from the key %.16s... is no signature of ECDSA, or memory is short",
            k->id);
    }
    /* a token or server may say anything */
    if (rc == 0 && !twin_key_verify(k, data, n, *signature, *bytes)) {
        tw_free(*signature);
        rc = twin_error_set(err, TWIN_EIO,
                            "the signature that came back does not verify with the public key "
                            "%.16s...: it was thrown away",
                            k->id);
    }
    return rc;
}

/* BN_bin2bn takes the halves as big-endian numbers without a sign. ECDSA_SIG_set0 takes both over,
 * which is why they are forgotten then. */
unsigned char *tw_key_der(const unsigned char *raw, size_t n, size_t *bytes)
{
    ECDSA_SIG *s = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, (int)(n / 2), NULL), *v = BN_bin2bn(raw + n / 2, (int)(n / 2), NULL);
    unsigned char *out = NULL;
    if (s && r && v && n > 0 && n % 2 == 0 && ECDSA_SIG_set0(s, r, v) == 1) {
        r = v = NULL;
        const int length = i2d_ECDSA_SIG(s, NULL);
        unsigned char *p = out = length > 0 ? tw_malloc((size_t)length) : NULL;
        if (out)
            *bytes = (size_t)i2d_ECDSA_SIG(s, &p);
    }
    BN_free(r);
    BN_free(v);
    ECDSA_SIG_free(s);
    return out;
}
