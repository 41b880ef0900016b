/* SPDX-License-Identifier: Apache-2.0 */
/* check --against with --key or --trust: whom they name, and whether those signed the baseline's
 * bytes (src/sign/bytes.c). */
#include "check.h"
#include "signed.h"

#include "base.h"
#include "verified.h"

int tw_check_signature(struct tw_check *c, const char *text, size_t bytes, struct twin_error *err)
{
    const struct tw_check_args *a = &c->args;
    if (!a->keys.count && !a->trust)
        return 0;
    struct tw_verify_args how = {.keys = a->keys, .trust = a->trust};
    struct twin_trust *trust = NULL;
    int64_t at_ns;
    int rc = tw_signed_trust(&how, &trust, &at_ns, err);
    rc = rc ? rc : tw_signed_bytes(a->against, text, bytes, trust, at_ns, &c->signer, err);
    twin_trust_free(trust);
    return rc;
}
