/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_INSIDE_H
#define TW_REGISTRY_INSIDE_H
/* What the files of the registry share. The public contract is registry.h. */
#include "registry.h"

/* Applies an entry to what the ones before it came to. TWIN_EFORMAT: it does not fit, and says
 * why. */
int tw_state_apply(struct tw_registry *r, const struct tw_entry *e, struct twin_error *err);
void tw_state_free(struct tw_registry *r);

/* "log/00000007.dsse.json" */
enum { TW_LOG_NAME_BYTES = 32 };
void tw_log_name(uint64_t number, char out[TW_LOG_NAME_BYTES]);
/* Takes one entry more, which is the next: applied, and kept. Takes e over, also on error. */
int tw_registry_take(struct tw_registry *r, struct tw_entry *e, struct twin_error *err);

/* Are all files of the artifact among the subjects whose names begin with these bytes? */
bool tw_subjects_hold(const struct twin_subjects *s, const char *prefix, size_t prefix_bytes,
                      const struct tw_artifact *a);

/* Stores a file that was read already, by the digest of what was read: `text` of n bytes. */
int tw_store_put_read(struct tw_store *s, const char *path, const char *text, size_t n,
                      char sha256[65], struct twin_error *err);
#endif
