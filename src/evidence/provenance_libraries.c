/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that the job's processes have mapped, and their digests. PyTorch alone is gigabytes, so a digest is kept in the home's file
 * `library-digests` under (device, inode, size, mtime): a line each, only ever appended to.
 */
#include "provenance.h"

#include "base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 20000, CACHE_MAX = 32 << 20, LINE = 192 };

struct key { uint64_t device, inode, bytes; int64_t mtime_ns; };

struct file {
    char *path;            /* as mapped */
    char *real;            /* NULL: it is that */
    struct key key;
    char sha256[65];
    const char *why;       /* no digest; NULL: there is one, or not yet tried */
    bool fresh;            /* hashed here: to be kept */
};

struct known { struct key key; char sha256[65]; };

struct tw_libraries {
    char *cache;
    struct file *file;
    size_t count;
    struct known *known;   /* sorted */
    size_t known_count;
};

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    const uint64_t p[] = {x->device, x->inode, x->bytes, (uint64_t)x->mtime_ns}, q[] = {y->device, y->inode, y->bytes, (uint64_t)y->mtime_ns};
    for (int i = 0; i < 4; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

static void read_cache(struct tw_libraries *l)
{
    char *text = l->cache ? tw_pv_read(l->cache, CACHE_MAX) : NULL, *save = NULL;
    size_t room = 0;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        struct known k;
        unsigned long long n[3];
        long long mtime;
        if (sscanf(line, "%llx %llx %llu %lld %64[0-9a-f]", &n[0], &n[1], &n[2], &mtime, k.sha256) != 5 || strlen(k.sha256) != 64)
            continue;
        if (l->known_count == room) {
            struct known *grown = tw_reallocarray(l->known, room ? 2 * room : 256, sizeof *grown);
            if (!grown)
                break;
            l->known = grown;
            room = room ? 2 * room : 256;
        }
        k.key = (struct key){n[0], n[1], n[2], mtime};
        l->known[l->known_count++] = k;
    }
    if (l->known_count > 1)
        qsort(l->known, l->known_count, sizeof *l->known, by_key);
    tw_free(text);
}

struct tw_libraries *tw_libraries_open(const struct tw_collector *c)
{
    struct tw_libraries *l = tw_calloc(1, sizeof *l);
    if (l) {
        l->cache = tw_path_join(c->home, "library-digests");
        read_cache(l);
    }
    return l;
}

static void look_up(struct tw_libraries *l, struct file *f)
{
    char real[4096];
    struct stat st;
    if (!realpath(f->path, real) || stat(real, &st) != 0 || !S_ISREG(st.st_mode)) {
        f->why = tw_ends(f->path, " (deleted)") ? "the file was replaced while it was in use" : "the file is not there any more, or on another machine";
        return;
    }
    f->real = strcmp(real, f->path) ? tw_strdup(real) : NULL;
    f->key = (struct key){st.st_dev, st.st_ino, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    const struct known *k = l->known_count ? bsearch(&f->key, l->known, l->known_count, sizeof *l->known, by_key) : NULL;
    if (k)
        memcpy(f->sha256, k->sha256, sizeof f->sha256);
}

long tw_libraries_add(struct tw_libraries *l, const char *path)
{
    for (size_t i = l->count; i-- > 0;) /* ranks come with the same list in the same order */
        if (strcmp(l->file[i].path, path) == 0)
            return (long)i;
    struct file *grown = l->count < FILES_MAX ? tw_reallocarray(l->file, l->count + 1, sizeof *grown) : NULL;
    char *copy = grown ? tw_strdup(path) : NULL;
    if (grown)
        l->file = grown;
    if (!copy)
        return -1;
    l->file[l->count] = (struct file){.path = copy};
    look_up(l, &l->file[l->count]);
    return (long)l->count++;
}

bool tw_libraries_hash(struct tw_libraries *l, uint64_t deadline_ns)
{
    bool all = true;
    for (size_t i = 0; i < l->count; i++) {
        struct file *f = &l->file[i];
        struct stat st;
        uint64_t bytes;
        const char *path = f->real ? f->real : f->path, *why;
        if (f->sha256[0] || f->why)
            continue;
        if (deadline_ns && tw_monotonic_ns() > deadline_ns) {
            all = false;
        } else if (tw_pv_sha256(path, 0, deadline_ns, f->sha256, &bytes, &why) == 0) {
            f->fresh = stat(path, &st) == 0 && st.st_ino == f->key.inode && bytes == f->key.bytes; /* not while somebody replaces it */
        } else if (deadline_ns && tw_monotonic_ns() > deadline_ns) {
            all = false;
        } else {
            f->why = why;
        }
    }
    return all;
}

json_t *tw_libraries_json(const struct tw_libraries *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->count; i++) {
        const struct file *f = &l->file[i];
        json_t *o = json_pack("{s:o}", "path", tw_pv_bytes(f->path));
        if (f->real)
            tw_pv_put(o, "real_path", tw_pv_bytes(f->real));
        if (f->sha256[0]) {
            tw_pv_put(o, "sha256", json_string(f->sha256));
            tw_pv_put(o, "bytes", json_integer((json_int_t)f->key.bytes));
        } else {
            tw_pv_put(o, "why", json_string(f->why ? f->why : "no time was left to hash it; the next run has it"));
        }
        tw_pv_add(list, o);
    }
    return list;
}

void tw_libraries_close(struct tw_libraries *l)
{
    struct tw_buf b = {0};
    if (!l)
        return;
    for (size_t i = 0; i < l->count; i++) {
        const struct file *f = &l->file[i];
        if (f->fresh)
            tw_buf_printf(&b, "%llx %llx %llu %lld %s\n", (unsigned long long)f->key.device, (unsigned long long)f->key.inode, (unsigned long long)f->key.bytes,
                          (long long)f->key.mtime_ns, f->sha256);
        tw_free(f->path);
        tw_free(f->real);
    }
    struct stat st;
    int fd = b.len && !b.failed && l->cache ? open(l->cache, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd >= 0) {
        if (fstat(fd, &st) == 0 && st.st_size > CACHE_MAX / 2 && ftruncate(fd, 0) != 0)
            b.len = 0;
        tw_write_all(fd, b.data, b.len);
        close(fd);
    }
    tw_buf_free(&b);
    tw_free(l->known);
    tw_free(l->file);
    tw_free(l->cache);
    tw_free(l);
}
