/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a file as lines of JSON, with their bytes in hex: what
 * tests/agents/test_tensors.py compares with NumPy and PyTorch. */
#include "src/formats/tensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

static int print(struct twin_tensors *f, size_t i, uint64_t piece, struct twin_error *err)
{
    const struct twin_tensors_entry *e = twin_tensors_at(f, i);
    json_t *shape = json_array();
    int rc = 0;
    for (uint32_t d = 0; d < e->ndim; d++)
        json_array_append_new(shape, json_integer(e->shape[d]));
    json_t *j = json_pack("{s:s, s:s, s:s, s:s?, s:o, s:I, s:I, s:I}", "name", e->name, "dtype",
                          twin_dtype_name(e->dtype), "stored_as", e->stored_as, "unreadable",
                          e->unreadable, "shape", shape, "count", (json_int_t)e->count, "bytes",
                          (json_int_t)e->bytes, "alias_of", (json_int_t)e->alias_of);
    if (!e->unreadable) {
        unsigned char *data = malloc(e->bytes + 1);
        char *hex = malloc(2 * e->bytes + 1);
        size_t size = twin_dtype_size(e->dtype);
        for (uint64_t at = 0; data && rc == 0 && at < e->count; at += piece)
            rc = twin_tensors_read(f, i, at, piece < e->count - at ? piece : e->count - at,
                                   data + at * size, err);
        if (data && hex && rc == 0) {
            tw_hex(data, e->bytes, hex);
            json_object_set_new(j, "data", json_string(hex));
        }
        free(data);
        free(hex);
    }
    char *line = json_dumps(j, JSON_COMPACT);
    puts(line ? line : "null");
    free(line);
    json_decref(j);
    return rc;
}

int main(int argc, char **argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_tensors *f;
    int rc = argc < 2 ? TWIN_EINVAL : twin_tensors_open(argv[1], &f, &err);
    if (rc == 0) {
        uint64_t piece = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX / 2;
        printf("%s\n", twin_tensors_kind_name(twin_tensors_kind(f)));
        for (size_t i = 0; rc == 0 && i < twin_tensors_count(f); i++)
            rc = print(f, i, piece, &err);
        for (size_t i = 0; i < twin_tensors_skipped_count(f); i++)
            printf("skipped %s\n", twin_tensors_skipped(f, i));
        twin_tensors_close(f);
    }
    if (rc != 0)
        fprintf(stderr, "%s: %s\n", twin_error_name(rc), err.message);
    return rc ? 1 : 0;
}
