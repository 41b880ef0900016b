/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_PKCS11_H
#define TW_SIGN_PKCS11_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct tw_pkcs11_text {
    char *text;
    size_t bytes;
}; /* NULL: not in the URI */
struct tw_pkcs11_uri {
    struct tw_pkcs11_text token, manufacturer, model, serial, object, id, type, slot, module_path,
        pin_source;
    uint64_t slot_id;
};
/* uri begins with "pkcs11:". TWIN_EINVAL says what is wrong with it. */
int tw_pkcs11_uri_parse(const char *uri, struct tw_pkcs11_uri *u, struct twin_error *err);
void tw_pkcs11_uri_free(struct tw_pkcs11_uri *u);
#endif
