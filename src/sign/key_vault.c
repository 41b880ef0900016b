/* SPDX-License-Identifier: Apache-2.0 */
/* Keys in HashiCorp Vault's transit engine, by its HTTP interface
 * (https://developer.hashicorp.com/vault/api-docs/secret/transit): the server signs, the key never
 * leaves it. */
#include "internal.h"

#include "base.h"
#include "json_load.h"

#include "src/net/http.h"

#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

/* Where the key is, and what opens the door. All texts are its own; the token is wiped when
 * freed. */
struct vault {
    char *address, *mount, *name, *token; /* token: "X-Vault-Token: ..." */
    uint64_t version;                     /* 0: the latest */
};

static void close_vault(void *device)
{
    struct vault *v = device;
    tw_free(v->address);
    tw_free(v->mount);
    tw_free(v->name);
    tw_secret_free(v->token);
    tw_free(v);
}

/* ---- where it is */

/* May this stand in a URL as it is? Letters, digits and ._-/ need no escape, and ".." would lead to
 * another endpoint. */
static bool is_path(const char *s)
{
    return *s &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") ==
               strlen(s) &&
           !strstr(s, "..") && *s != '/' && s[strlen(s) - 1] != '/';
}

/* vault:[MOUNT/]NAME[?version=N] */
static int read_spec(struct vault *v, const char *spec, struct twin_error *err)
{
    const char *path = spec + strlen("vault:"), *query = strchr(path, '?');
    char *whole = query ? tw_strndup(path, (size_t)(query - path)) : tw_strdup(path);
    if (!whole)
        return tw_no_memory(err, "for a key in a Vault");
    char *slash = strrchr(whole, '/');
    int rc = 0;
    if (!is_path(whole) ||
        (query && (!tw_starts(query, "?version=") ||
                   tw_parse_u64(query + strlen("?version="), UINT32_MAX, &v->version) != 0 ||
                   v->version == 0)))
        rc = twin_error_set(
            err, TWIN_EINVAL,
            "%.100s: expected vault:NAME, vault:MOUNT/NAME or vault:NAME?version=NUMBER", spec);
    else if (!(v->mount = slash ? tw_strndup(whole, (size_t)(slash - whole))
                                : tw_strdup("transit")) ||
             !(v->name = tw_strdup(slash ? slash + 1 : whole)))
        rc = tw_no_memory(err, "for a key in a Vault");
    tw_free(whole);
    return rc;
}

/* A token would be readable on its way by http; only to this machine that does not matter. */
static bool is_safe(const char *address)
{
    return tw_starts(address, "https://") ||
           (tw_starts(address, "http://") && tw_http_is_loopback(address + strlen("http://")));
}

/* Address and token as Vault's own client takes them: from VAULT_ADDR, VAULT_TOKEN,
 * VAULT_TOKEN_FILE, or ~/.vault-token. An address that could carry more than a host (a query, a
 * user) is refused, and a line break in the token would add a header. */
static int read_surroundings(struct vault *v, struct twin_error *err)
{
    const char *address = getenv("VAULT_ADDR");
    const char *token = getenv("VAULT_TOKEN");
    const char *file = getenv("VAULT_TOKEN_FILE");
    const char *home = getenv("HOME");
    char *text = NULL, *default_file = NULL;
    int rc = 0;
    if (!address || !*address)
        return twin_error_set(err, TWIN_EINVAL,
                              "expected where the Vault is: VAULT_ADDR=https://HOST:8200");
    if (!is_safe(address) || strpbrk(address, " @?#\r\n"))
        return twin_error_set(err, TWIN_EINVAL,
                              "VAULT_ADDR: expected https://HOST[:PORT], found \"%.100s\" (http is "
                              "for this machine only: others could read the token)",
                              address);
    size_t n = strlen(address);
    while (n > 0 && address[n - 1] == '/')
        n--;
    v->address = tw_strndup(address, n);
    if (token && *token)
        text = tw_strdup(token);
    else if (file && *file)
        text = tw_secret_read(file, "the Vault's token", err);
    else if (home && (default_file = tw_path_join(home, ".vault-token")) != NULL)
        text = tw_secret_read(default_file,
                              "the Vault's token (or set VAULT_TOKEN or VAULT_TOKEN_FILE)", err);
    else
        rc = twin_error_set(err, TWIN_EINVAL,
                            "expected a token for the Vault in VAULT_TOKEN, or in the file that "
                            "VAULT_TOKEN_FILE names");
    if (rc == 0 && !text)
        rc = err && err->code ? err->code : tw_no_memory(err, "for a key in a Vault");
    if (rc == 0 && (!*text || strpbrk(text, "\r\n")))
        rc = twin_error_set(err, TWIN_EINVAL,
                            "the Vault's token is empty or has a line break in it");
    if (rc == 0 && (!(v->token = tw_printf("X-Vault-Token: %s", text)) || !v->address))
        rc = tw_no_memory(err, "for a key in a Vault");
    tw_secret_free(text);
    tw_free(default_file);
    return rc;
}

/* ---- a request */

/* VAULT_CLIENT_TIMEOUT: 60 or 60s. */
static long timeout_of(void)
{
    const char *text = getenv("VAULT_CLIENT_TIMEOUT");
    char *end;
    const long n = text ? strtol(text, &end, 10) : 0;
    return n > 0 && n <= 3600 && (*end == '\0' || strcmp(end, "s") == 0) ? n : 60;
}

/* What a status of Vault most often means. */
static const char *hint_of(long status)
{
    if (status == 403)
        return "; has the token a policy for this path, and has it not expired?";
    return status == 404 ? "; is the engine mounted there, and is there such a key?" : "";
}

/* Says the status with the Vault's first own word for it, made printable: it comes from
 * elsewhere. */
static int complain(const struct vault *v, const char *url, long status, const json_t *answer,
                    struct twin_error *err)
{
    const char *first = json_string_value(json_array_get(json_object_get(answer, "errors"), 0));
    const char *words = first ? first : "";
    char *said = tw_printable(words, strnlen(words, 200));
    const char *colon = said && *said ? ": " : "";
    int rc = twin_error_set(err, status == 404 ? TWIN_ENOENT : TWIN_EIO,
                            "%s: the Vault answered %ld for the key %s in %s%s%s%s", url, status,
                            v->name, v->mount, colon, said ? said : "", hint_of(status));
    tw_free(said);
    return rc;
}

/* Makes one request and checks that the answer has the shape of a Vault's. *data: `data` of the
 * answer, a new reference. The namespace is a header that enterprise servers need. */
static int ask_vault(const struct vault *v, const char *url, const char *body, json_t **data,
                     struct twin_error *err)
{
    const char *namespace = getenv("VAULT_NAMESPACE");
    char *text = NULL;
    char *in = namespace && *namespace && !strpbrk(namespace, "\r\n")
                   ? tw_printf("X-Vault-Namespace: %s", namespace)
                   : NULL;
    const char *const headers[] = {v->token, "X-Vault-Request: true",
                                   "Content-Type: application/json", in, NULL};
    const struct tw_http_request q = {
        .url = url,
        .body = body,
        .headers = headers,
        .ca_file = getenv("VAULT_CACERT"),
        .ca_folder = getenv("VAULT_CAPATH"),
        .timeout_s = timeout_of(),
        .server = "a Vault",
    };
    size_t n = 0;
    long status = 0;
    int rc = tw_http(&q, &status, &text, &n, err);
    json_t *answer = rc == 0 ? tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (rc == 0 && status != 200)
        rc = complain(v, url, status, answer, err);
    else if (rc == 0 && !json_is_object(json_object_get(answer, "data")))
        rc = twin_error_set(
            err, TWIN_EFORMAT,
            "%s: expected JSON with \"data\", as a Vault answers, found something else", url);
    if (rc == 0)
        *data = json_incref(json_object_get(answer, "data"));
    json_decref(answer);
    tw_free(text);
    tw_free(in);
    return rc;
}

/* ---- the key */

/* A PEM text, or of Ed25519 the 32 bytes in base64. */
static EVP_PKEY *public_key(const char *text)
{
    size_t n = 0;
    if (strstr(text, "-----BEGIN")) {
        BIO *b = BIO_new_mem_buf(text, -1);
        EVP_PKEY *pkey = b ? PEM_read_bio_PUBKEY(b, NULL, NULL, NULL) : NULL;
        BIO_free(b);
        return pkey;
    }
    unsigned char *raw = tw_base64_read(text, false, &n);
    EVP_PKEY *pkey = raw && n == 32 ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, n)
                                    : NULL;
    tw_free(raw);
    return pkey;
}

/* Reads the public half of the wanted version, and settles which one that is: what signs later must
 * be what was read now, though the key may be rotated in between. */
static int read_key(struct vault *v, EVP_PKEY **out, struct twin_error *err)
{
    json_t *data = NULL;
    char version[24], *url = tw_printf("%s/v1/%s/keys/%s", v->address, v->mount, v->name);
    int rc = url ? ask_vault(v, url, NULL, &data, err) : tw_no_memory(err, "for a key in a Vault");
    if (rc == 0 && v->version == 0)
        v->version = (uint64_t)json_integer_value(json_object_get(data, "latest_version"));
    snprintf(version, sizeof version, "%llu", (unsigned long long)v->version);
    const json_t *key = json_object_get(json_object_get(data, "keys"), version);
    const char *text = json_string_value(json_object_get(key, "public_key"));
    const char *type = json_string_value(json_object_get(data, "type"));
    if (rc == 0 && !key)
        rc = twin_error_set(err, TWIN_ENOENT, "the key %s in %s has no version %s", v->name,
                            v->mount, version);
    else if (rc == 0 && (!text || !(*out = public_key(text))))
        rc = tw_key_openssl(err, TWIN_EUNSUPPORTED,
                            "expected a key of type ecdsa-p256, ecdsa-p384, ecdsa-p521 or ed25519, "
                            "found another one",
                            type ? type : v->name);
    json_decref(data);
    tw_free(url);
    return rc;
}

/* Vault's name for the digest that goes with the curve. Ed25519 has none, but the URL needs one. */
static const char *hash_name(enum twin_key_algorithm a)
{
    if (a == TWIN_KEY_P384)
        return "sha2-384";
    return a == TWIN_KEY_P521 ? "sha2-512" : "sha2-256";
}

/* Reads "vault:v3:BASE64". The version must be the one that was asked for: a signature by another
 * one would not verify. */
static int read_signature(const struct vault *v, const char *text, unsigned char **signature,
                          size_t *bytes, struct twin_error *err)
{
    char prefix[40];
    snprintf(prefix, sizeof prefix, "vault:v%llu:", (unsigned long long)v->version);
    *signature = text && tw_starts(text, prefix)
                     ? tw_base64_read(text + strlen(prefix), false, bytes)
                     : NULL;
    if (*signature)
        return 0;
    const char *found = text ? text : "nothing";
    char *safe = tw_printable(found, strnlen(found, 40));
    int rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected a signature %sBASE64, found %s",
                            v->address, prefix, safe ? safe : "something else");
    tw_free(safe);
    return rc;
}

/* Has the server sign. It is given the bytes and hashes them itself; asn1 is DER. */
static int sign(struct twin_key *k, const void *bytes_to_sign, size_t n, unsigned char **signature,
                size_t *bytes, struct twin_error *err)
{
    struct vault *v = k->device;
    json_t *data = NULL;
    char *input = tw_base64(bytes_to_sign, n);
    char *url = tw_printf("%s/v1/%s/sign/%s/%s", v->address, v->mount, v->name,
                          hash_name(k->algorithm));
    json_t *request = input ? json_pack("{s:s, s:I, s:s}", "input", input, "key_version",
                                        (json_int_t)v->version, "marshaling_algorithm", "asn1")
                            : NULL;
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    int rc = body && url ? ask_vault(v, url, body, &data, err)
                         : tw_no_memory(err, "for a key in a Vault");
    rc = rc ? rc
            : read_signature(v, json_string_value(json_object_get(data, "signature")), signature,
                             bytes, err);
    json_decref(data);
    json_decref(request);
    free(body);
    tw_free(input);
    tw_free(url);
    return rc;
}

int tw_key_open_vault(const char *spec, struct twin_key **out, struct twin_error *err)
{
    struct vault *v = tw_calloc(1, sizeof *v);
    EVP_PKEY *pkey = NULL;
    struct twin_error own = TWIN_ERROR_INIT;
    err = err ? err : &own;
    if (!v)
        return tw_no_memory(err, "for a key in a Vault");
    int rc = read_spec(v, spec, err);
    rc = rc ? rc : read_surroundings(v, err);
    rc = rc ? rc : read_key(v, &pkey, err);
    rc = rc ? rc : tw_key_wrap(pkey, spec, out, err);
    if (rc != 0) {
        close_vault(v);
        return rc;
    }
    (*out)->device = v;
    (*out)->close = close_vault;
    (*out)->sign = sign;
    return 0;
}
