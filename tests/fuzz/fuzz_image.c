/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a container image. They are index.json, a manifest, a configuration, and then
 * layers, between them a line of four equals signs. So that a changed byte gets beyond the digests,
 * they are put in here: @C, @M, @0, @1 ... stand for the digest of the configuration, the manifest,
 * a layer, and #C ... for how many bytes it has; the sums in headers of tar are mended. What
 * becomes a root lies below its folder, and has no bits for other rights and no devices. Built with
 * libFuzzer
 * (-Dfuzz=true), or with replay.c.
 */
#include "src/image/image.h"

#include "base.h"
#include "sha256.h"
#include "tar_sums.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 6, INDEX = 0, MANIFEST, CONFIG, LAYER };

struct part {
    char *data;
    size_t n;
    char sha256[65];
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

/* Puts digests and lengths into a text; *room is it. */
static void fill(struct part *p, const struct part *all, struct tw_buf *room)
{
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
    struct tw_buf room[LAYER] = {{0}};
    must(mkdirat(folder, "blobs", 0700) == 0 && mkdirat(folder, "blobs/sha256", 0700) == 0);
    /* the last first: what names others has their digests in it */
    for (size_t i = count; i-- > 0;) {
        char path[96];
        if (i < LAYER)
            fill(&part[i], part, &room[i]);
        else
            mend_sums((uint8_t *)part[i].data, part[i].n);
        must(tw_sha256_of(part[i].data, part[i].n, part[i].sha256));
        snprintf(path, sizeof path, "blobs/sha256/%.64s", part[i].sha256);
        write_at(folder, i == INDEX ? "index.json" : path, part[i].data, part[i].n);
    }
    write_at(folder, "oci-layout", mark, strlen(mark));
    for (size_t i = 0; i < LAYER; i++)
        tw_buf_free(&room[i]);
}

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path, (void)at;
    must(type == FTW_D || type == FTW_F || type == FTW_SL);
    must(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
    must(!(st->st_mode & (S_ISUID | S_ISGID)));
    return 0;
}

static void unpack(const struct tw_image *image, const char *base, struct twin_error *err)
{
    struct tw_root_counts counts;
    char root[64], copy[64];
    snprintf(root, sizeof root, "%s/root", base);
    snprintf(copy, sizeof copy, "%s/copy", base);
    must(mkdir(root, 0700) == 0 && mkdir(copy, 0700) == 0);
    int rc = tw_image_root(image, root, &counts, err);
    must(rc == 0 || (rc < 0 && err->message[0]));
    must(nftw(root, look, 16, FTW_PHYS) == 0);
    must(tw_remove_tree(root, NULL, NULL) == 0);
    struct twin_error why = TWIN_ERROR_INIT;
    /* a copy of an image that is right is one */
    if (tw_image_verify(image, NULL) == 0 && tw_image_copy(image, copy, &why) == 0) {
        struct tw_image again;
        must(tw_image_open(copy, NULL, image->config, &again, &why) == 0);
        must(tw_image_verify(&again, &why) == 0 && strcmp(again.config, image->config) == 0);
        tw_image_close(&again);
    }
    must(tw_remove_tree(copy, NULL, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *given, size_t size)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct part part[PARTS] = {{0}};
    struct tw_image image;
    char base[32] = "/dev/shm/fuzz-image-XXXXXX", layout[64];
    char *text = malloc(size + 1), digest[TW_DIGEST_ROOM], config[TW_DIGEST_ROOM];
    must(text != NULL);
    memcpy(text, given, size);
    text[size] = '\0';
    if (access("/dev/shm", W_OK) != 0)
        strcpy(base, "/tmp/fuzz-image-XXXXXX");
    must(mkdtemp(base) != NULL);
    snprintf(layout, sizeof layout, "%s/layout", base);
    must(mkdir(layout, 0700) == 0);
    int folder = open(layout, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(folder >= 0);
    const size_t count = split(text, size, part);
    for (size_t i = 0; i < count && i < LAYER; i++) {
        int rc = tw_image_manifest_of(part[i].data, part[i].n, digest, config, &err);
        must(rc == 0 ? tw_image_is_digest(digest) : err.code < 0 && err.message[0]);
        err = (struct twin_error)TWIN_ERROR_INIT;
    }
    write_layout(folder, part, count);
    close(folder);
    int rc = tw_image_open(layout, NULL, NULL, &image, &err);
    must(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    if (rc == 0)
        unpack(&image, base, &err);
    tw_image_close(&image);
    must(tw_remove_tree(layout, NULL, NULL) == 0);
    must(rmdir(base) == 0); /* nothing beside what was made here */
    free(text);
    return 0;
}
