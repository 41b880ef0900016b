/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the .metadata of a torch.distributed.checkpoint, beside a file that holds two real
 * archives: an error, or tensors that can be read, or refused. */
#include "src/formats/tensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"

enum { MOST = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void must(int yes)
{
    if (!yes)
        abort();
}

static void put(const char *name, const void *data, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && tw_write_all(fd, data, n) == 0);
    close(fd);
}

static void clean(void)
{
    tw_remove_tree(folder, NULL, NULL);
}

static void begin(void)
{
    char *data = NULL;
    size_t n = 0;
    strcpy(folder, "/tmp/twinrun-fuzz-XXXXXX");
    must(mkdtemp(folder) != NULL &&
         tw_read_file(GOLDEN "/__0_0.distcp", 1 << 20, &data, &n, NULL) == 0);
    put("__0_0.distcp", data, n);
    tw_free(data);
    atexit(clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_tensors *f;
    struct twin_error err = TWIN_ERROR_INIT;
    if (!folder[0])
        begin();
    put(".metadata", data, size);
    if (twin_tensors_open_all(folder, &f, &err) != 0) {
        must(err.message[0] != '\0');
        return 0;
    }
    unsigned char *out = malloc(MOST);
    must(out != NULL);
    for (size_t i = 0; i < twin_tensors_count(f) && i < 64; i++) {
        const struct twin_tensors_entry *e = twin_tensors_at(f, i);
        struct twin_error why = TWIN_ERROR_INIT;
        must(e->name && e->ndim <= TWIN_MAX_NDIM);
        if (!e->unreadable && e->bytes <= MOST)
            must(twin_tensors_read(f, i, 0, e->count, out, &why) == 0 || why.message[0] != '\0');
    }
    free(out);
    twin_tensors_close(f);
    return 0;
}
