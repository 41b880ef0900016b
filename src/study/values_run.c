/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the files that a run wrote hold numbers, and are still as it left them. */
#include "values.h"

#include "src/formats/tensors.h"
#include "src/launch/run.h"
#include "src/snapshot/sha256.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 1 << 16 };

/* Does the file have this digest? One that cannot be read has none. */
static bool has_digest(const char *path, const char *expected)
{
    unsigned char digest[32], buffer[CHUNK];
    char hex[2 * sizeof digest + 1] = "";
    struct tw_sha256 sum = {.other = NULL};
    FILE *f = fopen(path, "rbe");
    bool ok = f && tw_sha256_begin(&sum);
    for (size_t n; ok && (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        tw_sha256_add(&sum, buffer, n);
    ok = ok && !ferror(f) && tw_sha256_end(&sum, digest);
    if (ok)
        tw_hex(digest, sizeof digest, hex);
    tw_sha256_free(&sum);
    if (f)
        fclose(f);
    return ok && strcmp(hex, expected) == 0;
}

static bool is_tensor_file(const char *path)
{
    struct twin_tensors *f;
    if (twin_tensors_open(path, &f, NULL) != 0)
        return false;
    twin_tensors_close(f);
    return true;
}

int tw_values_of_run(const struct twin_run *r, struct tw_values_files *out, struct twin_error *err)
{
    *out = (struct tw_values_files){.path = tw_calloc(r->file_count + 1, sizeof *out->path)};
    if (!out->path)
        return twin_error_set(err, TWIN_ENOMEM, "out of memory");
    for (size_t i = 0; i < r->file_count; i++) {
        char *path = tw_path_join(r->cwd, r->files[i].path);
        bool tensors = path && is_tensor_file(path);
        if (tensors && has_digest(path, r->files[i].sha256)) {
            out->path[out->count++] = path;
            continue;
        }
        out->changed += tensors;
        tw_free(path);
    }
    return 0;
}

void tw_values_files_free(struct tw_values_files *f)
{
    for (size_t i = 0; i < f->count; i++)
        tw_free(f->path[i]);
    tw_free(f->path);
    *f = (struct tw_values_files){.count = 0};
}
