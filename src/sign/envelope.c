/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DSSE envelopes: https://github.com/secure-systems-lab/dsse. A signature is over the PAE of type
 * and payload (twin_pae), never over JSON: that a parser took an envelope one way or another
 * changes nothing about what was signed.
 *
 * An envelope of ours has one text only, canonical JSON with canonical base64, and reading insists
 * on it. A file that differs in one byte is then a file that was changed, and no two files are the
 * same signature. Envelopes of other tools are taken on request (`foreign`).
 */
#include "internal.h"
#include "jcs.h"

#include "base.h"
#include "json_load.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Far above what anybody signs with, and small enough that a hostile file costs little. */
    SIGNATURES_MAX = 64,
    SIGNATURE_BYTES_MAX = 1024,
    TYPE_BYTES_MAX = 256,
    KEYID_BYTES_MAX = 256
};

json_t *tw_sign_json(const char *text, size_t n, const char *name, struct twin_error *err)
{
    json_error_t e;
    json_t *value = tw_json_load(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!value) {
        char *why = tw_printable(e.text, strlen(e.text));
        twin_error_set(err, TWIN_EFORMAT, "%s: not JSON: line %d: %s", name, e.line,
                       why ? why : "");
        tw_free(why);
    }
    return value;
}

/* Lengths stand before what they count, so that no two pairs of type and payload have the same
 * PAE. */
char *twin_pae(const char *type, const void *payload, size_t payload_bytes, size_t *bytes)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "DSSEv1 %zu %s %zu ", strlen(type), type, payload_bytes);
    tw_buf_append(&b, payload, payload_bytes);
    *bytes = b.len;
    char *out = tw_buf_steal(&b);
    tw_buf_free(&b);
    return out;
}

void twin_envelope_free(struct twin_envelope *e)
{
    for (size_t i = 0; i < e->signature_count; i++) {
        tw_free(e->signature[i].keyid);
        tw_free(e->signature[i].bytes);
    }
    tw_free(e->signature);
    tw_free(e->type);
    tw_free(e->payload);
    memset(e, 0, sizeof *e);
}

int twin_envelope_make(const char *type, const void *payload, size_t n, struct twin_envelope *out,
                       struct twin_error *err)
{
    memset(out, 0, sizeof *out);
    if (n > TWIN_ENVELOPE_MAX)
        return twin_error_set(err, TWIN_ELIMIT,
                              "a payload of %zu bytes: at most %zu are signed in one envelope; "
                              "sign a digest of it (twinrun snapshot)",
                              n, TWIN_ENVELOPE_MAX);
    out->type = tw_strdup(type);
    out->payload = tw_malloc(n + 1);
    if (!out->type || !out->payload) {
        twin_envelope_free(out);
        return tw_no_memory(err, "for an envelope");
    }
    if (n)
        memcpy(out->payload, payload, n);
    out->payload[n] = '\0';
    out->payload_bytes = n;
    return 0;
}

/* Appends a signature. Takes bytes over, also on error. The longer list is kept even when the id
 * could not be copied: it is as valid as the old one, and e frees it. */
static int add_signature(struct twin_envelope *e, const char *keyid, unsigned char *bytes, size_t n,
                         struct twin_error *err)
{
    struct twin_signature *list = tw_reallocarray(e->signature, e->signature_count + 1,
                                                  sizeof *list);
    char *id = tw_strdup(keyid);
    if (list)
        e->signature = list;
    if (!list || !id) {
        tw_free(id);
        tw_free(bytes);
        return tw_no_memory(err, "for an envelope");
    }
    list[e->signature_count++] = (struct twin_signature){id, bytes, n};
    return 0;
}

/* A key signs an envelope once: two signatures of one key would look like two signers. */
int twin_envelope_sign(struct twin_envelope *e, struct twin_key *k, struct twin_error *err)
{
    unsigned char *signature;
    size_t n, bytes;
    for (size_t i = 0; i < e->signature_count; i++)
        if (strcmp(e->signature[i].keyid, k->id) == 0)
            return twin_error_set(err, TWIN_EINVAL,
                                  "the key %.16s... has signed this envelope already", k->id);
    if (e->signature_count >= SIGNATURES_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "an envelope takes at most %d signatures",
                              SIGNATURES_MAX);
    char *pae = twin_pae(e->type, e->payload, e->payload_bytes, &n);
    int rc = pae ? twin_key_sign(k, pae, n, &signature, &bytes, err)
                 : tw_no_memory(err, "for an envelope");
    tw_free(pae);
    return rc ? rc : add_signature(e, k->id, signature, bytes, err);
}

/* The envelope as an object with the fields that DSSE names. A new reference; NULL: no memory. A
 * NULL signature makes the append fail, which drops the whole. */
static json_t *to_json(const struct twin_envelope *e)
{
    char *payload = tw_base64(e->payload, e->payload_bytes);
    json_t *list = json_array();
    json_t *o = payload ? json_pack("{s:s, s:s, s:O}", "payload", payload, "payloadType", e->type,
                                    "signatures", list)
                        : NULL;
    for (size_t i = 0; i < e->signature_count; i++) {
        char *sig = tw_base64(e->signature[i].bytes, e->signature[i].length);
        json_t *one = sig ? json_pack("{s:s, s:s}", "keyid", e->signature[i].keyid, "sig", sig)
                          : NULL;
        tw_free(sig);
        if (json_array_append_new(list, one) != 0) {
            json_decref(o);
            o = NULL;
            break;
        }
    }
    json_decref(list);
    tw_free(payload);
    return o;
}

int twin_envelope_text(const struct twin_envelope *e, char **text, size_t *bytes,
                       struct twin_error *err)
{
    struct tw_buf b = {0};
    json_t *o = to_json(e);
    int rc = o ? tw_jcs_write(o, &b, err) : tw_no_memory(err, "for an envelope");
    tw_buf_puts(&b, "\n");
    json_decref(o);
    *bytes = b.len;
    if (rc == 0 && !(*text = tw_buf_steal(&b)))
        rc = tw_no_memory(err, "for an envelope");
    tw_buf_free(&b);
    return rc;
}

/* ---- reading */

/* Says what was expected at which place, and what stood there: its first 60 bytes, made printable.
 * found NULL: nothing. Returns TWIN_EFORMAT. */
static int refuse_envelope(struct twin_error *err, const char *name, const char *where,
                           const char *expected, const char *found)
{
    char *safe = found ? tw_printable(found, strnlen(found, 60)) : NULL;
    const char *quote = safe ? "\"" : "";
    int rc = twin_error_set(err, TWIN_EFORMAT, "%s: %s: expected %s, found %s%s%s", name, where,
                            expected, quote, safe ? safe : "none", quote);
    tw_free(safe);
    return rc;
}

/* Appends one signature from JSON. A key id may be missing or null; what stands there must be a
 * text. The length is looked at before base64 is decoded, since it bounds the memory. */
static int read_signature(const json_t *one, const char *name, bool foreign,
                          struct twin_envelope *e, struct twin_error *err)
{
    const char *keyid = json_string_value(json_object_get(one, "keyid"));
    const char *sig = json_string_value(json_object_get(one, "sig"));
    const json_t *id = json_object_get(one, "keyid");
    if (id && !json_is_null(id) && (!keyid || strlen(keyid) > KEYID_BYTES_MAX))
        return refuse_envelope(err, name, "signatures: keyid", "a text of at most 256 bytes",
                               "another value");
    if (!sig)
        return refuse_envelope(err, name, "signatures: sig", "a text", NULL);
    size_t n = 0;
    errno = 0;
    unsigned char *bytes = strlen(sig) > SIGNATURE_BYTES_MAX * 2 ? NULL
                                                                 : tw_base64_read(sig, foreign, &n);
    if (!bytes && errno == ENOMEM)
        return tw_no_memory(err, "for an envelope");
    if (!bytes || n == 0 || n > SIGNATURE_BYTES_MAX) {
        tw_free(bytes);
        return refuse_envelope(
            err, name, "signatures: sig",
            foreign ? "base64" : "canonical base64 (--foreign takes other forms)", sig);
    }
    return add_signature(e, keyid ? keyid : "", bytes, n, err);
}

/* Reads an envelope from an object that a parser has made, without the question whether its text
 * was the canonical one. On an error out is empty. */
static int from_json(const json_t *o, const char *name, bool foreign, struct twin_envelope *out,
                     struct twin_error *err)
{
    const char *payload = json_string_value(json_object_get(o, "payload"));
    const char *type = json_string_value(json_object_get(o, "payloadType"));
    const json_t *list = json_object_get(o, "signatures");
    int rc;
    memset(out, 0, sizeof *out);
    out->foreign = foreign;
    if (!json_is_object(o) || !payload || !type || !json_is_array(list))
        return refuse_envelope(err, name, "envelope",
                               "an object with payload, payloadType and signatures (DSSE)",
                               "something else");
    if (!*type || strlen(type) > TYPE_BYTES_MAX)
        return refuse_envelope(err, name, "payloadType", "a text of 1 to 256 bytes", type);
    if (json_array_size(list) == 0 || json_array_size(list) > SIGNATURES_MAX)
        return twin_error_set(err, TWIN_EFORMAT, "%s: signatures: expected 1 to %d, found %zu",
                              name, SIGNATURES_MAX, json_array_size(list));
    out->type = tw_strdup(type);
    out->payload = (char *)tw_base64_read(payload, foreign, &out->payload_bytes);
    rc = 0;
    if (!out->type || (!out->payload && errno == ENOMEM))
        rc = tw_no_memory(err, "for an envelope");
    else if (!out->payload)
        rc = refuse_envelope(err, name, "payload",
                             foreign ? "base64" : "canonical base64 (--foreign takes other forms)",
                             payload);
    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++)
        rc = read_signature(json_array_get(list, i), name, foreign, out, err);
    if (rc != 0)
        twin_envelope_free(out);
    return rc;
}

int twin_envelope_from_json(const json_t *object, const char *name, struct twin_envelope *out,
                            struct twin_error *err)
{
    return from_json(object, name, true, out, err);
}

/* The first byte at which two texts differ; the shorter length when one begins the other. */
static size_t first_difference(const char *a, size_t an, const char *b, size_t bn)
{
    size_t i = 0;
    while (i < an && i < bn && a[i] == b[i])
        i++;
    return i;
}

/* Refuses a text that is not the one its meaning has. The place is said: it tells a changed byte in
 * the middle from another tool's spaces at the start. */
static int must_be(const char *what, const char *name, const char *found, size_t n,
                   const char *canonical, size_t canonical_bytes, struct twin_error *err)
{
    if (n == canonical_bytes && memcmp(found, canonical, n) == 0)
        return 0;
    return twin_error_set(
        err, TWIN_EFORMAT,
        "%s: %s: expected canonical JSON (RFC 8785), found something else from byte %zu on: "
        "changed on its way, or written by another tool (--foreign takes those)",
        name, what, first_difference(found, n, canonical, canonical_bytes));
}

/* Is the payload, as in-toto's statements are written here, the canonical text of its own value?
 * Returns 0, TWIN_EFORMAT, or what reading it gave. */
static int payload_is_canonical(const struct twin_envelope *e, const char *name,
                                struct twin_error *err)
{
    struct tw_buf b = {0};
    json_t *value = tw_sign_json(e->payload, e->payload_bytes, name, err);
    int rc = err ? err->code : TWIN_EFORMAT;
    if (value)
        rc = tw_jcs_write(value, &b, err);
    if (rc == 0)
        rc = must_be("payload", name, e->payload, e->payload_bytes, b.data, b.len, err);
    json_decref(value);
    tw_buf_free(&b);
    return rc;
}

/* The envelope is read, written again, and compared with what was read: so the canonical form is
 * defined by the one function that writes it. */
int twin_envelope_parse(const char *text, size_t n, const char *name, bool foreign,
                        struct twin_envelope *out, struct twin_error *err)
{
    char *again = NULL;
    size_t bytes;
    struct twin_error own = TWIN_ERROR_INIT;
    err = err ? err : &own;
    memset(out, 0, sizeof *out);
    if (n > TWIN_ENVELOPE_MAX)
        return twin_error_set(err, TWIN_ELIMIT,
                              "%s: an envelope of %zu bytes: at most %zu are read", name, n,
                              TWIN_ENVELOPE_MAX);
    json_t *o = tw_sign_json(text, n, name, err);
    int rc = o ? from_json(o, name, foreign, out, err) : err->code;
    json_decref(o);
    if (rc != 0)
        return rc;
    if (!foreign) {
        rc = twin_envelope_text(out, &again, &bytes, err);
        rc = rc ? rc : must_be("envelope", name, text, n, again, bytes, err);
        if (rc == 0 && strcmp(out->type, TWIN_PAYLOAD_INTOTO) == 0)
            rc = payload_is_canonical(out, name, err);
        tw_free(again);
    }
    if (rc != 0)
        twin_envelope_free(out);
    return rc;
}
