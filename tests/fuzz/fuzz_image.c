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

#include "image_parts.h"

#include <ftw.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    free_parts(part);
    free(text);
    return 0;
}
