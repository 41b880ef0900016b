/* SPDX-License-Identifier: Apache-2.0 */
/* Keys in tokens (smart cards, HSMs, SoftHSM) by Cryptoki, whose library is loaded here: OpenSSL 3
 * in Debian 12 brings no provider for it. The private half never leaves the token; ECDSA signs a
 * digest that is made here. */
#include "internal.h"
#include "cryptoki.h"
#include "pkcs11.h"

#include "base.h"

#include <dlfcn.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many slots are looked at, and the longest attribute or signature that is taken from a
 * token. */
enum { SLOTS_MAX = 256, VALUE_MAX = 1024 };

/* A session with a token. key is the private half's handle in it, good as long as the session is
 * open. */
struct token {
    struct ck_function_list *f;
    bool initialized, open;
    CK_SESSION_HANDLE session;
    CK_OBJECT_HANDLE key;
};

/* Cryptoki's table of functions has them all as one type; each is called by its own. */
#define CALL(t, type, place) ((type *)(uintptr_t)(t)->f->function[place])

/* Why a call failed, in words for what people can mend; else the code, written into text. */
static const char *reason_of(CK_RV rv, char text[32])
{
    static const struct {
        CK_RV rv;
        const char *text;
    } known[] = {
        {CKR_MECHANISM_INVALID, "the token does not make such signatures"},
        {CKR_PIN_INCORRECT, "the PIN is wrong"},
        {CKR_PIN_LEN_RANGE, "the PIN has a wrong length"},
        {CKR_PIN_LOCKED, "the PIN is locked after too many wrong ones"},
        {CKR_TOKEN_NOT_PRESENT, "the token is not there"},
        {CKR_USER_NOT_LOGGED_IN, "it needs a PIN: pin-source=file:PATH"},
        {CKR_USER_PIN_NOT_INITIALIZED, "the token has no PIN yet"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].rv == rv)
            return known[i].text;
    snprintf(text, 32, "CKR 0x%lx", rv);
    return text;
}

/* Sets err from Cryptoki's code and returns TWIN_EIO. */
static int failed_call(struct twin_error *err, CK_RV rv, const char *what)
{
    char text[32];
    return twin_error_set(err, TWIN_EIO, "pkcs11: %s: %s", what, reason_of(rv, text));
}

/* Ends what was begun, in reverse. A library that somebody else in the process had started is left
 * running. */
static void close_token(void *device)
{
    struct token *t = device;
    if (t->open)
        CALL(t, ck_close_session, CK_CLOSE_SESSION)(t->session);
    if (t->initialized)
        CALL(t, ck_initialize, CK_FINALIZE)(NULL);
    tw_free(t); /* the library stays mapped: some leave threads or handlers at exit behind */
}

/* ---- finding the key */

/* Loads the token's library and starts it. Its path comes from the URI, or else from the
 * environment; there is no default, since loading a library runs its code. */
static int load_token(struct token *t, const struct tw_pkcs11_uri *u, struct twin_error *err)
{
    const char *path = u->module_path.text ? u->module_path.text : getenv("TWINRUN_PKCS11_MODULE");
    if (!path || !*path)
        return twin_error_set(
            err, TWIN_EINVAL,
            "pkcs11: expected the token's library: module-path=PATH in the URI, or "
            "TWINRUN_PKCS11_MODULE (SoftHSM: /usr/lib/softhsm/libsofthsm2.so)");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return twin_error_set(err, TWIN_EUNSUPPORTED, "pkcs11: cannot load the token's library: %s",
                              dlerror());
    ck_get_function_list *get = (ck_get_function_list *)(uintptr_t)dlsym(library,
                                                                         "C_GetFunctionList");
    if (!get || get(&t->f) != CKR_OK || !t->f || t->f->version[0] < 2)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "pkcs11: %s: expected a Cryptoki library of version 2 or later "
                              "(C_GetFunctionList), found another one",
                              path);
    const CK_RV rv = CALL(t, ck_initialize, CK_INITIALIZE)(NULL);
    t->initialized = rv == CKR_OK;
    return rv == CKR_OK || rv == CKR_CRYPTOKI_ALREADY_INITIALIZED
               ? 0
               : failed_call(err, rv, "the token's library does not start");
}

/* Does the token's fixed-length field hold this text? Blanks behind it are not part of it; without
 * a wanted text every one fits. */
static bool field_is(const struct tw_pkcs11_text *wanted, const unsigned char *found, size_t n)
{
    while (n > 0 && found[n - 1] == ' ')
        n--;
    return !wanted->text || (wanted->bytes == n && memcmp(wanted->text, found, n) == 0);
}

/* The one slot whose token fits the URI; more than one is an error, since signing with whichever
 * came first would be chance. *login: whether it wants a PIN. */
static int find_slot(struct token *t, const struct tw_pkcs11_uri *u, CK_SLOT_ID *slot, bool *login,
                     struct twin_error *err)
{
    CK_SLOT_ID list[SLOTS_MAX];
    CK_ULONG count = SLOTS_MAX, found = 0;
    const CK_RV rv = CALL(t, ck_get_slot_list, CK_GET_SLOT_LIST)(1, list, &count);
    if (rv != CKR_OK)
        return failed_call(err, rv, "no list of tokens");
    for (CK_ULONG i = 0; i < count; i++) {
        struct ck_token_info info = {.flags = 0};
        if ((u->slot.text && u->slot_id != list[i]) ||
            CALL(t, ck_get_token_info, CK_GET_TOKEN_INFO)(list[i], &info) != CKR_OK ||
            !(info.flags & CKF_TOKEN_INITIALIZED))
            continue;
        if (!field_is(&u->token, info.label, sizeof info.label) ||
            !field_is(&u->manufacturer, info.manufacturer, sizeof info.manufacturer) ||
            !field_is(&u->model, info.model, sizeof info.model) ||
            !field_is(&u->serial, info.serial, sizeof info.serial))
            continue;
        found++;
        *slot = list[i];
        *login = info.flags & CKF_LOGIN_REQUIRED;
    }
    if (found == 1)
        return 0;
    const char *called = u->token.text ? "called " : "";
    return twin_error_set(
        err, found ? TWIN_EINVAL : TWIN_ENOENT,
        "pkcs11: expected one token %s%s, found %lu of %lu; token=LABEL or serial=NUMBER names one",
        called, u->token.text ? u->token.text : "", found, count);
}

/* Gives the token its PIN, which is read from a file only: not from the command line, which others
 * see, and not by starting a program that a URI names (RFC 7512 would allow both). */
static int log_in(struct token *t, const struct tw_pkcs11_uri *u, struct twin_error *err)
{
    const char *source = u->pin_source.text;
    if (!source)
        return twin_error_set(
            err, TWIN_EINVAL,
            "pkcs11: the token needs a PIN: pin-source=file:PATH names a file with it");
    if (tw_starts(source, "file://"))
        source += strlen("file://");
    else if (tw_starts(source, "file:"))
        source += strlen("file:");
    else if (source[0] != '/')
        return twin_error_set(
            err, TWIN_EINVAL,
            "pkcs11: pin-source: expected file:PATH, found \"%.60s\": programs are not started",
            source);
    char *pin = tw_secret_read(source, "the token's PIN", err);
    if (!pin)
        return err ? err->code : TWIN_EIO;
    const CK_RV rv = CALL(t, ck_login, CK_LOGIN)(t->session, CKU_USER, (const unsigned char *)pin,
                                                 strlen(pin));
    tw_secret_free(pin);
    return rv == CKR_OK || rv == CKR_USER_ALREADY_LOGGED_IN
               ? 0
               : failed_call(err, rv, "the token does not let us in");
}

/* The one object of a class with this label and id (NULL, or a NULL text: any). Two are asked for,
 * which is enough to see that one is not alone. */
static int find_object(struct token *t, CK_ULONG class, const struct tw_pkcs11_text *label,
                       const struct tw_pkcs11_text *id, CK_OBJECT_HANDLE *out, const char *what,
                       struct twin_error *err)
{
    struct ck_attribute wanted[3] = {{CKA_CLASS, &class, sizeof class}};
    CK_ULONG n = 1, found = 0;
    CK_OBJECT_HANDLE two[2];
    if (label && label->text)
        wanted[n++] = (struct ck_attribute){CKA_LABEL, label->text, label->bytes};
    if (id && id->text)
        wanted[n++] = (struct ck_attribute){CKA_ID, id->text, id->bytes};
    CK_RV rv = CALL(t, ck_find_objects_init, CK_FIND_OBJECTS_INIT)(t->session, wanted, n);
    if (rv == CKR_OK) {
        rv = CALL(t, ck_find_objects, CK_FIND_OBJECTS)(t->session, two, 2, &found);
        CALL(t, ck_find_objects_final, CK_FIND_OBJECTS_FINAL)(t->session);
    }
    if (rv != CKR_OK)
        return failed_call(err, rv, "no list of keys");
    if (found != 1)
        return twin_error_set(err, found ? TWIN_EINVAL : TWIN_ENOENT,
                              "pkcs11: expected one %s %s%s on the token, found %s", what,
                              label && label->text ? "called " : "",
                              label && label->text ? label->text : "",
                              found ? "several: id=%NN tells them apart" : "none");
    *out = two[0];
    return 0;
}

/* One attribute of an object into value, which has VALUE_MAX bytes; *n: how many it has. what: the
 * sentence when there is none. */
static int read_attribute(struct token *t, CK_OBJECT_HANDLE object, CK_ULONG type,
                          unsigned char *value, size_t *n, const char *what, struct twin_error *err)
{
    struct ck_attribute a = {type, value, VALUE_MAX};
    const CK_RV rv = CALL(t, ck_get_attribute_value, CK_GET_ATTRIBUTE_VALUE)(t->session, object, &a,
                                                                             1);
    if (rv != CKR_OK || a.length > VALUE_MAX)
        return failed_call(err, rv, what);
    *n = a.length;
    return 0;
}

/* ---- its public half */

/* The curves by the DER of their object identifiers, as CKA_EC_PARAMS holds it. group: OpenSSL's
 * name; NULL: Ed25519. */
static const struct curve {
    const char *group;
    size_t n;
    const unsigned char *oid;
} curves[] = {
    {"prime256v1", 10, (const unsigned char *)"\x06\x08\x2A\x86\x48\xCE\x3D\x03\x01\x07"},
    {"secp384r1", 7, (const unsigned char *)"\x06\x05\x2B\x81\x04\x00\x22"},
    {"secp521r1", 7, (const unsigned char *)"\x06\x05\x2B\x81\x04\x00\x23"},
    {NULL, 5, (const unsigned char *)"\x06\x03\x2B\x65\x70"}, /* Ed25519, as RFC 8410 has it */
    {NULL, 14,
     (const unsigned char *)"\x13\x0C"
                            "edwards25519"}, /* as PKCS #11 3.0 has it */
};

/* A public key of OpenSSL from a curve and a point; NULL: the point is not on it, or no memory. */
static EVP_PKEY *ec_key(const char *group, const unsigned char *point, size_t n)
{
    EVP_PKEY *pkey = NULL;
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    OSSL_PARAM p[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)(uintptr_t)group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)(uintptr_t)point, n),
        OSSL_PARAM_construct_end()};
    if (c && EVP_PKEY_fromdata_init(c) == 1)
        EVP_PKEY_fromdata(c, &pkey, EVP_PKEY_PUBLIC_KEY, p);
    EVP_PKEY_CTX_free(c);
    return pkey;
}

/* The point comes in a DER octet string, or bare. */
static EVP_PKEY *public_key(const unsigned char *params, size_t params_n,
                            const unsigned char *point, size_t n)
{
    if (n > 2 && point[0] == 4 && point[1] == n - 2)
        point += 2, n -= 2;
    else if (n > 3 && point[0] == 4 && point[1] == 0x81 && point[2] == n - 3)
        point += 3, n -= 3;
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        if (curves[i].n == params_n && memcmp(curves[i].oid, params, params_n) == 0)
            return curves[i].group ? ec_key(curves[i].group, point, n)
                                   : EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, point, n);
    return NULL;
}

/* The public half lies beside the private one, under the same id, or under the same label where the
 * key has no id. */
static int read_public(struct token *t, const struct tw_pkcs11_uri *u, EVP_PKEY **out,
                       struct twin_error *err)
{
    unsigned char id[VALUE_MAX], params[VALUE_MAX], point[VALUE_MAX];
    size_t id_n = 0, params_n, point_n;
    CK_OBJECT_HANDLE object;
    int rc = read_attribute(t, t->key, CKA_ID, id, &id_n, "the key has no id", err);
    const struct tw_pkcs11_text same = {(char *)id, id_n};
    const struct tw_pkcs11_text *label = id_n ? NULL : &u->object;
    const struct tw_pkcs11_text *with_id = id_n ? &same : NULL;
    rc = rc ? rc
            : find_object(t, CKO_PUBLIC_KEY, label, with_id, &object,
                          "public key with the private one's id", err);
    rc = rc ? rc
            : read_attribute(t, object, CKA_EC_PARAMS, params, &params_n,
                             "the key is not of an elliptic curve", err);
    rc = rc ? rc
            : read_attribute(t, object, CKA_EC_POINT, point, &point_n, "the key has no point", err);
    if (rc == 0 && !(*out = public_key(params, params_n, point, point_n)))
        rc = tw_key_openssl(err, TWIN_EUNSUPPORTED,
                            "expected a key of P-256, P-384, P-521 or Ed25519", "pkcs11");
    return rc;
}

/* ---- signing */

/* Signs on the token. ECDSA there signs a digest that is made here and gives r||s, which becomes
 * DER; EdDSA takes the message itself. */
static int sign(struct twin_key *k, const void *data, size_t n, unsigned char **signature,
                size_t *bytes, struct twin_error *err)
{
    struct token *t = k->device;
    const bool edwards = k->algorithm == TWIN_KEY_ED25519;
    unsigned char digest[EVP_MAX_MD_SIZE], raw[VALUE_MAX];
    unsigned digest_n = 0;
    CK_ULONG length = sizeof raw;
    struct ck_mechanism how = {edwards ? CKM_EDDSA : CKM_ECDSA, NULL, 0};
    if (!edwards && EVP_Digest(data, n, digest, &digest_n, tw_key_digest(k->algorithm), NULL) != 1)
        return tw_key_openssl(err, TWIN_EIO, "no digest", "pkcs11");
    CK_RV rv = CALL(t, ck_sign_init, CK_SIGN_INIT)(t->session, &how, t->key);
    const void *given = edwards ? data : digest;
    const size_t given_n = edwards ? n : digest_n;
    if (rv == CKR_OK)
        rv = CALL(t, ck_sign, CK_SIGN)(t->session, given, given_n, raw, &length);
    if (rv != CKR_OK || length > sizeof raw)
        return failed_call(err, rv, "the token did not sign");
    if (edwards && (*signature = tw_malloc(length + 1))) {
        memcpy(*signature, raw, length);
        *bytes = length;
    } else if (!edwards)
        *signature = tw_key_der(raw, length, bytes);
    return *signature
               ? 0
               : twin_error_set(err, TWIN_EIO,
                                "pkcs11: %lu bytes came back, which are no signature", length);
}

/* From here on the token is the key's: twin_key_close closes it. */
int tw_key_open_pkcs11(const char *uri, struct twin_key **out, struct twin_error *err)
{
    struct tw_pkcs11_uri u;
    struct token *t = tw_calloc(1, sizeof *t);
    CK_SLOT_ID slot;
    EVP_PKEY *pkey = NULL;
    bool login = false;
    int rc = t ? tw_pkcs11_uri_parse(uri, &u, err) : tw_no_memory(err, "for a token");
    if (rc != 0) {
        tw_free(t);
        return rc;
    }
    rc = load_token(t, &u, err);
    rc = rc ? rc : find_slot(t, &u, &slot, &login, err);
    if (rc == 0) {
        const CK_RV rv = CALL(t, ck_open_session, CK_OPEN_SESSION)(slot, CKF_SERIAL_SESSION, NULL,
                                                                   NULL, &t->session);
        t->open = rv == CKR_OK;
        rc = t->open ? 0 : failed_call(err, rv, "no session with the token");
    }
    if (rc == 0 && (login || u.pin_source.text))
        rc = log_in(t, &u, err);
    rc = rc ? rc : find_object(t, CKO_PRIVATE_KEY, &u.object, &u.id, &t->key, "private key", err);
    rc = rc ? rc : read_public(t, &u, &pkey, err);
    rc = rc ? rc : tw_key_wrap(pkey, "pkcs11", out, err);
    tw_pkcs11_uri_free(&u);
    if (rc != 0) {
        close_token(t);
        return rc;
    }
    (*out)->device = t;
    (*out)->close = close_token;
    (*out)->sign = sign;
    return 0;
}
