/* SPDX-License-Identifier: Apache-2.0 */
/* PKCS #11 URIs (RFC 7512): which key of which token, and where the library and the PIN are. */
#include "pkcs11.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of one value that are taken. */
enum { VALUE_MAX = 4096 };

/* %41 -> A; n bytes of s. NULL: no memory, or a % without two digits behind it. */
static char *decoded(const char *s, size_t n, size_t *bytes)
{
    char *out = n > VALUE_MAX ? NULL : tw_malloc(n + 1);
    size_t o = 0;
    for (size_t i = 0; out && i < n; i++) {
        if (s[i] != '%') {
            out[o++] = s[i];
            continue;
        }
        const int high = i + 2 < n ? tw_hex_digit(s[i + 1]) : -1;
        const int low = i + 2 < n ? tw_hex_digit(s[i + 2]) : -1;
        if (high < 0 || low < 0) {
            tw_free(out);
            return NULL;
        }
        out[o++] = (char)(high << 4 | low);
        i += 2;
    }
    if (out)
        out[o] = '\0';
    *bytes = o;
    return out;
}

/* Quotes the part of the URI that is wrong, at most 60 bytes of it, made printable. */
static int refuse_part(struct twin_error *err, const char *what, const char *part, size_t n)
{
    char *safe = tw_printable(part, n < 60 ? n : 60);
    int rc = twin_error_set(err, TWIN_EINVAL, "pkcs11: %s \"%s\"", what, safe ? safe : "");
    tw_free(safe);
    return rc;
}

/* Puts one NAME=VALUE where it belongs. query: it stands behind the question mark, where other
 * names are known. Unknown names are refused, though RFC 7512 lets them be ignored: one that was
 * misspelt would choose another key. */
static int set_part(struct tw_pkcs11_uri *u, bool query, const char *part, size_t n,
                    struct twin_error *err)
{
    const struct {
        const char *name;
        bool query;
        struct tw_pkcs11_text *to;
    } known[] = {
        {"token", false, &u->token},
        {"manufacturer", false, &u->manufacturer},
        {"model", false, &u->model},
        {"serial", false, &u->serial},
        {"object", false, &u->object},
        {"id", false, &u->id},
        {"type", false, &u->type},
        {"slot-id", false, &u->slot},
        {"module-path", true, &u->module_path},
        {"pin-source", true, &u->pin_source},
    };
    const char *equals = memchr(part, '=', n);
    const size_t name = equals ? (size_t)(equals - part) : 0;
    if (!equals)
        return refuse_part(err, "expected NAME=VALUE, found", part, n);
    if (name == 9 && memcmp(part, "pin-value", 9) == 0)
        return twin_error_set(err, TWIN_EINVAL,
                              "pkcs11: a PIN on the command line can be seen by others: "
                              "pin-source=file:PATH names a file with it");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].query != query || strlen(known[i].name) != name ||
            memcmp(known[i].name, part, name) != 0)
            continue;
        if (known[i].to->text)
            return refuse_part(err, "twice in one URI:", part, name);
        known[i].to->text = decoded(equals + 1, n - name - 1, &known[i].to->bytes);
        return known[i].to->text
                   ? 0
                   : refuse_part(err,
                                 "expected a value of at most 4 KiB, with two hex digits "
                                 "behind each %, found",
                                 part, n);
    }
    return refuse_part(
        err,
        query ? "expected module-path=PATH or pin-source=file:PATH, found"
              : "expected token, object, id, serial, manufacturer, model, slot-id or type, found",
        part, n);
}

/* Values are bytes, but paths and numbers are used as C strings. */
static bool has_nul(const struct tw_pkcs11_text *t)
{
    return t->text && strlen(t->text) != t->bytes;
}

/* Parts before the question mark are separated by ';', behind it by '&'. Empty ones are passed
 * over. On an error u is empty. */
int tw_pkcs11_uri_parse(const char *uri, struct tw_pkcs11_uri *u, struct twin_error *err)
{
    const char *p = uri + strlen("pkcs11:");
    int rc = 0;
    memset(u, 0, sizeof *u);
    for (bool query = false; rc == 0 && *p;) {
        const size_t n = strcspn(p, query ? "&" : ";?");
        if (n > 0)
            rc = set_part(u, query, p, n, err);
        p += n;
        query = query || *p == '?';
        p += *p != '\0';
    }
    if (rc == 0 && (has_nul(&u->module_path) || has_nul(&u->pin_source) || has_nul(&u->slot) ||
                    has_nul(&u->type)))
        rc = twin_error_set(err, TWIN_EINVAL, "pkcs11: a NUL byte in a path");
    if (rc == 0 && u->type.text && strcmp(u->type.text, "private") != 0)
        rc = refuse_part(err, "expected type=private, found", u->type.text, u->type.bytes);
    if (rc == 0 && u->slot.text && tw_parse_u64(u->slot.text, UINT32_MAX, &u->slot_id) != 0)
        rc = refuse_part(err, "slot-id: expected a number, found", u->slot.text, u->slot.bytes);
    if (rc == 0 && !u->object.text && !u->id.text)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "pkcs11: expected which key: object=LABEL or id=%%01");
    if (rc != 0)
        tw_pkcs11_uri_free(u);
    return rc;
}

void tw_pkcs11_uri_free(struct tw_pkcs11_uri *u)
{
    struct tw_pkcs11_text *const all[] = {&u->token,       &u->manufacturer, &u->model, &u->serial,
                                          &u->object,      &u->id,           &u->type,  &u->slot,
                                          &u->module_path, &u->pin_source};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tw_free(all[i]->text);
    memset(u, 0, sizeof *u);
}
