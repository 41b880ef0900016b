/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_PKCS11_H
#define TW_SIGN_PKCS11_H
/* PKCS #11 URIs (RFC 7512) as they are given for a key: read here, used by key_pkcs11.c. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* One value of a URI with its percent signs decoded: any bytes, a NUL byte behind them. text NULL:
 * the URI does not have it. */
struct tw_pkcs11_text {
    char *text;
    size_t bytes;
};
/* A URI that was read. Each value narrows the search for token and key; slot_id is slot as a
 * number. */
struct tw_pkcs11_uri {
    struct tw_pkcs11_text token, manufacturer, model, serial, object, id, type, slot, module_path,
        pin_source;
    uint64_t slot_id;
};
/* uri begins with "pkcs11:". TWIN_EINVAL says what is wrong with it. */
int tw_pkcs11_uri_parse(const char *uri, struct tw_pkcs11_uri *u, struct twin_error *err);
void tw_pkcs11_uri_free(struct tw_pkcs11_uri *u);
#endif
