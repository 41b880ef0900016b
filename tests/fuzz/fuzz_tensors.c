/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of tensors: an error, or tensors whose every element can be read, in one
 * piece and in two, or refused. */
#include "src/formats/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"

enum { MOST = 1 << 20 }; /* bytes of values that are read of one tensor */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

static void look(struct twin_tensors *f, size_t i, unsigned char *whole, unsigned char *parts)
{
    const struct twin_tensors_entry *e = twin_tensors_at(f, i);
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t count = 1;
    must(e->name && e->stored_as && e->ndim <= TWIN_MAX_NDIM && e->alias_of <= i);
    for (uint32_t d = 0; d < e->ndim; d++)
        count *= (uint64_t)e->shape[d];
    must(count == e->count && e->bytes == count * twin_dtype_size(e->dtype));
    if (e->unreadable) {
        must(twin_tensors_read(f, i, 0, e->count, whole, &err) == TWIN_EUNSUPPORTED);
        return;
    }
    must(twin_tensors_read(f, i, e->count, 1, whole, NULL) == TWIN_EINVAL);
    if (e->bytes > MOST)
        return;
    if (twin_tensors_read(f, i, 0, count, whole, &err) != 0) {
        must(err.message[0] != '\0');
        return;
    }
    size_t first = (size_t)count / 3, each = twin_dtype_size(e->dtype);
    must(twin_tensors_read(f, i, 0, first, parts, NULL) == 0);
    must(twin_tensors_read(f, i, first, count - first, parts + first * each, NULL) == 0);
    must(memcmp(whole, parts, e->bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_tensors *f;
    struct twin_error err = TWIN_ERROR_INIT;
    if (twin_tensors_open_all_bytes(data, size, "fuzzed", &f, &err) != 0) {
        must(err.message[0] != '\0');
        return 0;
    }
    unsigned char *buffers = malloc(2 * MOST);
    must(buffers != NULL);
    for (size_t i = 0; i < twin_tensors_count(f) && i < 64; i++)
        look(f, i, buffers, buffers + MOST);
    for (size_t i = 0; i < twin_tensors_value_count(f); i++) {
        const struct twin_tensors_value *v = twin_tensors_value_at(f, i);
        must(v->name && v->kind <= TWIN_VALUE_EMPTY &&
             (v->kind < TWIN_VALUE_TEXT || (v->text && v->text[v->text_bytes] == '\0')));
    }
    for (size_t i = 0; i < twin_tensors_skipped_count(f); i++)
        must(twin_tensors_skipped(f, i) != NULL);
    free(buffers);
    twin_tensors_close(f);
    return 0;
}
