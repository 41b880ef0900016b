/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_IMAGE_PARTS_H
#define FUZZ_IMAGE_PARTS_H
/*
 * A text as an image's layout. It is index.json, a manifest, a configuration, and then layers,
 * between them a line of four equals signs. @M, @C, @0, @1, @2 stand for the digest of the
 * manifest, the configuration, a layer, and #M ... for how many bytes it has; the sums in headers
 * of tar are mended. tests/golden/image has some.
 */
#include "base.h"
#include "sha256.h"
#include "tar_sums.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTS = 6, INDEX = 0, MANIFEST, CONFIG, LAYER };

struct part {
    char *data;
    size_t n;
    char sha256[65];
    struct tw_buf own; /* its data, where something was put in */
};

static void must(int yes)
{
    if (!yes)
        abort();
}

static size_t split(char *text, size_t size, struct part part[PARTS])
{
    static const char between[] = "\n====\n";
    size_t count = 0;
    for (char *at = text, *end = text + size; count < PARTS && at <= end; count++) {
        char *next = memmem(at, (size_t)(end - at), between, strlen(between));
        part[count] = (struct part){.data = at, .n = (size_t)((next ? next : end) - at)};
        at = next ? next + strlen(between) : end + 1;
    }
    return count;
}

/* Puts digests and lengths into a text. */
static void fill(struct part *p, const struct part *all)
{
    struct tw_buf *room = &p->own;
    static const char names[] = "MC012"; /* as the parts come from MANIFEST on */
    for (size_t i = 0; i < p->n; i++) {
        const char *at = i + 1 < p->n ? memchr(names, p->data[i + 1], PARTS - MANIFEST) : NULL;
        const struct part *of = at ? &all[at - names + MANIFEST] : NULL;
        if (of && p->data[i] == '@')
            tw_buf_printf(room, "sha256:%s", of->sha256);
        else if (of && p->data[i] == '#')
            tw_buf_printf(room, "%zu", of->n);
        else {
            tw_buf_append(room, p->data + i, 1);
            continue;
        }
        i++;
    }
    must(!room->failed);
    p->data = room->data ? room->data : p->data;
    p->n = room->len;
}

static void write_at(int folder, const char *path, const void *data, size_t n)
{
    int fd = openat(folder, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && tw_write_all(fd, data, n) == 0 && close(fd) == 0);
}

static void write_layout(int folder, struct part part[PARTS], size_t count)
{
    static const char mark[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
    must(mkdirat(folder, "blobs", 0700) == 0 && mkdirat(folder, "blobs/sha256", 0700) == 0);
    /* the last first: what names others has their digests in it */
    for (size_t i = count; i-- > 0;) {
        char path[96];
        if (i < LAYER)
            fill(&part[i], part);
        else
            mend_sums((uint8_t *)part[i].data, part[i].n);
        must(tw_sha256_of(part[i].data, part[i].n, part[i].sha256));
        snprintf(path, sizeof path, "blobs/sha256/%.64s", part[i].sha256);
        write_at(folder, i == INDEX ? "index.json" : path, part[i].data, part[i].n);
    }
    write_at(folder, "oci-layout", mark, strlen(mark));
}

static void free_parts(struct part part[PARTS])
{
    for (size_t i = 0; i < PARTS; i++)
        tw_buf_free(&part[i].own);
}
#endif
