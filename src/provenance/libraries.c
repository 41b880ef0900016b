/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that the job's processes have mapped, and their digests. PyTorch alone is gigabytes: what
 * was hashed once is looked up in the memory that snapshots have too (hash_cache.c), kept for the
 * folder "/".
 */
#include "hashing.h"
#include "provenance_inside.h"

#include "base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MAX = 20000 };

/* A mapped file. tried: its item holds an answer, a digest or a reason. */
struct file {
    char *path; /* as mapped */
    char *real; /* without links; NULL: not there any more */
    struct tw_hash_item item;
    bool tried;
};

/* The files that any process of the run has mapped, each once. A file's number is its place in the
 * list. */
struct tw_libraries {
    struct file *file;
    size_t count;
    uint64_t deadline_ns;
};

struct tw_libraries *tw_libraries_open(void)
{
    return tw_calloc(1, sizeof(struct tw_libraries));
}

long tw_libraries_add(struct tw_libraries *l, const char *path)
{
    char real[4096];
    for (size_t i = l->count; i-- > 0;) /* ranks come with the same list in the same order */
        if (strcmp(l->file[i].path, path) == 0)
            return (long)i;
    struct file *grown = l->count < FILES_MAX
                             ? tw_reallocarray(l->file, l->count + 1, sizeof *grown)
                             : NULL;
    char *copy = grown ? tw_strdup(path) : NULL;
    if (grown)
        l->file = grown;
    if (!copy)
        return -1;
    l->file[l->count] = (struct file){.path = copy,
                                      .real = realpath(path, real) ? tw_strdup(real) : NULL};
    return (long)l->count++;
}

/* Ends the hashing when its time is up; what has a digest by then keeps it. */
static int is_late(void *user, uint64_t files, uint64_t all_files, uint64_t bytes,
                   uint64_t all_bytes)
{
    const struct tw_libraries *l = user;
    (void)files, (void)all_files, (void)bytes, (void)all_bytes;
    return tw_monotonic_ns() > l->deadline_ns;
}

/* One thread, since the job runs beside us. The folder is "/", so paths go without their first
 * slash. After an early end a digest that is not all zeros is one that was finished. */
void tw_libraries_hash(struct tw_libraries *l, double seconds)
{
    struct tw_hash_cache *cache = tw_hash_cache_open("/");
    struct tw_hash_item *item = tw_calloc(l->count ? l->count : 1, sizeof *item);
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tw_hash_work w = {.root = root,
                             .item = item,
                             .count = l->count,
                             .cache = cache,
                             .threads = 1,
                             .progress = is_late,
                             .user = l};
    l->deadline_ns = tw_monotonic_ns() + (uint64_t)(seconds * 1e9);
    for (size_t i = 0; item && i < l->count; i++) {
        struct stat st;
        const char *real = l->file[i].real;
        item[i] = (struct tw_hash_item){
            .path = real ? real + 1 : "", .kind = TW_HASH_SHA256, .skip = !real};
        if (real && stat(real, &st) == 0)
            item[i].state = tw_file_state(&st);
    }
    bool all = item && root >= 0 && tw_hash_files(&w, NULL) == 0;
    for (size_t i = 0; item && i < l->count; i++) {
        struct file *f = &l->file[i];
        static const unsigned char nothing[TW_HASH_MAX];
        f->item = item[i];
        f->tried = f->real && (all || f->item.known || f->item.why ||
                               memcmp(f->item.digest, nothing, sizeof nothing) != 0);
    }
    tw_hash_cache_close(cache);
    if (root >= 0)
        close(root);
    tw_free(item);
}

static json_t *why_not_hashed(const struct file *f)
{
    if (f->item.why)
        return tw_json_bytes(f->item.why);
    if (f->real)
        return json_string("no time was left to hash it; the next run does");
    if (tw_ends(f->path, " (deleted)"))
        return json_string("the file was replaced while it was in use");
    return json_string("the file is not there any more, or on another machine");
}

json_t *tw_libraries_json(const struct tw_libraries *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->count; i++) {
        const struct file *f = &l->file[i];
        json_t *o = json_pack("{s:o}", "path", tw_json_bytes(f->path));
        if (f->real && strcmp(f->real, f->path) != 0)
            tw_pv_put(o, "real_path", tw_json_bytes(f->real));
        if (f->tried && !f->item.why) {
            char hex[65];
            tw_hex(f->item.digest, 32, hex);
            tw_pv_put(o, "sha256", json_string(hex));
            tw_pv_put(o, "bytes", json_integer((json_int_t)f->item.state.bytes));
        } else {
            tw_pv_put(o, "why", why_not_hashed(f));
        }
        tw_pv_add(list, o);
    }
    return list;
}

void tw_libraries_close(struct tw_libraries *l)
{
    for (size_t i = 0; l && i < l->count; i++) {
        tw_free(l->file[i].path);
        tw_free(l->file[i].real);
        tw_free(l->file[i].item.why);
    }
    if (l)
        tw_free(l->file);
    tw_free(l);
}
