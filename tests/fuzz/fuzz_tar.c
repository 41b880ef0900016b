/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a tar archive. Whatever is made lies below the folder, and is a file or a folder;
 * what is written is no more than what was read. Built with libFuzzer (-Dfuzz=true), or with
 * replay.c.
 */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "tar.h"
#include "tar_sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t written;

static void must(int yes)
{
    if (!yes)
        abort();
}

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path, (void)at;
    must(type == FTW_D || type == FTW_F);
    must(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));
    written += S_ISREG(st->st_mode) ? (size_t)st->st_size : 0;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *given, size_t size)
{
    uint8_t *data = malloc(size + 1);
    must(data != NULL);
    memcpy(data, given, size);
    mend_sums(data, size);
    struct twin_error err = TWIN_ERROR_INIT;
    char dir[] = "/dev/shm/fuzz-tar-XXXXXX", outside[sizeof dir + 16];
    if (access("/dev/shm", W_OK) != 0)
        strcpy(dir, "/tmp/fuzz-tar-XXXXXX");
    must(mkdtemp(dir) != NULL);
    snprintf(outside, sizeof outside, "%s/in", dir);
    must(mkdir(outside, 0700) == 0);
    snprintf(outside, sizeof outside, "%s/archive", dir);
    int in = open(outside, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(in >= 0 && write(in, data, size) == (ssize_t)size && lseek(in, 0, SEEK_SET) == 0);
    must(unlink(outside) == 0);
    snprintf(outside, sizeof outside, "%s/in", dir);
    int root = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(root >= 0);
    int rc = tw_tar_unpack(in, "input", root, NULL, &err);
    must(rc == 0 || (rc < 0 && err.code == rc && err.message[0]));
    close(in);
    close(root);
    free(data);
    written = 0;
    must(nftw(outside, look, 16, FTW_PHYS) == 0 && written <= size);
    /* nothing beside it */
    must(tw_remove_tree(outside, NULL, NULL) == 0 && rmdir(dir) == 0);
    return 0;
}
