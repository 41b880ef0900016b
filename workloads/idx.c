/* SPDX-License-Identifier: Apache-2.0 */
#include "idx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_COUNT 1000000u

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads one file whose header holds `dims` sizes; each item has `item` bytes. */
static uint8_t *load(const char *dir, const char *prefix, const char *kind, uint32_t dims,
                     size_t item, size_t *count)
{
    char path[4096];
    uint8_t header[16], *data = NULL;
    size_t header_bytes = 4 + 4 * (size_t)dims;
    snprintf(path, sizeof path, "%s/%s-%s-idx%u-ubyte", dir, prefix, kind, (unsigned)dims);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "trainer: cannot open %s: %s\n", path, strerror(errno));
        return NULL;
    }
    if (fread(header, 1, header_bytes, f) != header_bytes || big_endian(header) != (0x800 | dims) ||
        (dims == 3 && (big_endian(header + 8) != 28 || big_endian(header + 12) != 28))) {
        fprintf(stderr, "trainer: %s: expected an idx file of %s\n", path,
                dims == 3 ? "28 x 28 images" : "labels");
        goto out;
    }
    *count = big_endian(header + 4);
    if (*count == 0 || *count > MAX_COUNT) {
        fprintf(stderr, "trainer: %s: expected 1 to %u items, found %zu\n", path, MAX_COUNT,
                *count);
        goto out;
    }
    data = malloc(*count * item);
    if (!data || fread(data, item, *count, f) != *count) {
        fprintf(stderr, "trainer: %s: %s\n", path,
                data ? "the file is shorter than its header says" : "out of memory");
        free(data);
        data = NULL;
    }
out:
    fclose(f);
    return data;
}

int idx_load(const char *dir, const char *prefix, struct idx_set *out)
{
    size_t labels = 0;
    *out = (struct idx_set){0};
    out->pixels = load(dir, prefix, "images", 3, IDX_PIXELS, &out->count);
    out->labels = out->pixels ? load(dir, prefix, "labels", 1, 1, &labels) : NULL;
    int rc = out->labels ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < labels; i++)
        if (out->labels[i] >= IDX_CLASSES || labels != out->count) {
            fprintf(stderr, "trainer: %s: labels and images of %s do not fit together\n", dir,
                    prefix);
            rc = -1;
        }
    if (rc != 0)
        idx_free(out);
    return rc;
}

void idx_free(struct idx_set *s)
{
    free(s->pixels);
    free(s->labels);
    *s = (struct idx_set){0};
}

const char *idx_default_folder(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    if (n > 0) {
        path[n] = '\0';
        char *slash = strrchr(path, '/');
        /* beside the program (a build folder, the wheel), or installed; whoever opens the last says
         * that it is not there */
        static const char *const places[] = {"/data", "/../../share/twinrun/data"};
        for (size_t i = 0; slash && i < 2; i++) {
            strcpy(slash, places[i]);
            if (access(path, F_OK) == 0)
                return path;
        }
    }
    return path;
}
