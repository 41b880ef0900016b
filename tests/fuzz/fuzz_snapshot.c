/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a snapshot's manifest, a pointer of Git LFS, a .dvc file: an error, or entries whose
 * every path stays below the folder. A manifest that is taken is written again with the same bytes'
 * meaning. */
#include "layout_inside.h"

#include "src/snapshot/snapshot.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int yes)
{
    if (!yes)
        abort();
}

static int each(void *user, const struct tw_dvc_out *out)
{
    (void)user;
    must(out->path && *out->path);
    return 0;
}

static void look(const struct twin_snapshot *s)
{
    struct twin_snapshot again;
    char path[64] = "/tmp/twinrun-fuzz-XXXXXX";
    struct twin_error err = TWIN_ERROR_INIT;
    for (size_t i = 0; i < s->count; i++) {
        const char *p = s->entry[i].path;
        must(p[0] != '/' && p[0] != '\0' && strncmp(p, "../", 3) != 0 && !strstr(p, "/../") &&
             strcmp(p, "..") != 0);
        must(i == 0 || strcmp(s->entry[i - 1].path, p) < 0);
        must((s->entry[i].kind != TWIN_SNAPSHOT_LINK) || s->entry[i].target);
    }
    const int fd = mkstemp(path);
    must(fd >= 0);
    close(fd);
    must(twin_snapshot_write(s, path, &err) == 0 && twin_snapshot_read(path, &again, &err) == 0);
    must(strcmp(again.root, s->root) == 0 && again.count == s->count &&
         again.id_count == s->id_count && again.exclude_count == s->exclude_count);
    twin_snapshot_free(&again);
    unlink(path);
}

/* The bytes as the inside of a manifest whose last line is right: or no mutation would come past
 * that. */
static void with_an_end(const uint8_t *data, size_t size)
{
    static const char last[] = "# end sha256:";
    const size_t tail = sizeof last - 1 + 65;
    const size_t n = size > tail && memcmp(data + size - tail, last, sizeof last - 1) == 0
                         ? size - tail
                         : size;
    unsigned char digest[32];
    struct twin_snapshot s;
    struct twin_error err = TWIN_ERROR_INIT;
    char *text = malloc(n + tail + 1), *at = text + n;
    must(text && EVP_Digest(data, n, digest, NULL, EVP_sha256(), NULL) == 1);
    memcpy(text, data, n);
    at += sprintf(at, "%s", last);
    for (int i = 0; i < 32; i++)
        at += sprintf(at, "%02x", digest[i]);
    *at++ = '\n';
    if (twin_snapshot_parse(text, n + tail, "fuzzed", &s, &err) == 0) {
        look(&s);
        twin_snapshot_free(&s);
    } else {
        must(err.message[0] != '\0');
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_snapshot s;
    struct tw_lfs_pointer pointer;
    struct twin_error err = TWIN_ERROR_INIT, yaml = TWIN_ERROR_INIT;
    if (twin_snapshot_parse((const char *)data, size, "fuzzed", &s, &err) == 0) {
        look(&s);
        twin_snapshot_free(&s);
    } else {
        must(err.message[0] != '\0');
    }
    with_an_end(data, size);
    if (tw_lfs_pointer_read((const char *)data, size, &pointer))
        must(strlen(pointer.sha256) == 64);
    if (size < 4096)
        must(tw_dvc_read((const char *)data, size, "fuzzed", size & 1, each, NULL, &yaml) == 0 ||
             yaml.message[0] != '\0');
    return 0;
}
