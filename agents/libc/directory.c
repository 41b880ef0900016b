/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of directories, which a file system chooses by its history. An armed DIR is read to its
 * end at the first readdir; its entries are served by name (pin), backwards, or shuffled by a hash
 * of seed and name (vary): the same names always come in the same order, whoever reads them.
 * os.listdir, os.scandir, glob, std::filesystem and the shell's * all come through here; scandir(3)
 * sorts inside libc and gets a comparison from us when the program gives none. Functions of libc
 * that read directories below its surface do not: nftw, fts, glob(3) with GLOB_NOSORT, raw
 * getdents64.
 */
/* Both names of each function are defined here, so neither may be renamed to the other or inlined
 * by a header. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "agents/common/state.h"
#include "hooks.h"
#include "src/base/base.h"

/* One prototype serves both names: with 64-bit offsets the structures are one. */
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64),
               "readdir and readdir64 are the same function on this machine");

typedef int filter_fn(const struct dirent *);
typedef int order_fn(const struct dirent **, const struct dirent **);

EXPORT struct dirent *readdir(DIR *d);
EXPORT struct dirent64 *readdir64(DIR *d);
EXPORT int readdir_r(DIR *restrict d, struct dirent *restrict entry,
                     struct dirent **restrict result);
EXPORT int readdir64_r(DIR *restrict d, struct dirent64 *restrict entry,
                       struct dirent64 **restrict result);
EXPORT int closedir(DIR *d);
EXPORT void rewinddir(DIR *d);
EXPORT void seekdir(DIR *d, long at);
EXPORT long telldir(DIR *d);
EXPORT int scandir(const char *restrict path, struct dirent ***restrict list, filter_fn *filter,
                   order_fn *order);
EXPORT int scandir64(const char *restrict path, struct dirent64 ***restrict list,
                     int (*filter)(const struct dirent64 *),
                     int (*order)(const struct dirent64 **, const struct dirent64 **));

TW_REAL(struct dirent *, readdir, (DIR *))
TW_REAL(int, readdir_r, (DIR *, struct dirent *, struct dirent **))
TW_REAL(int, closedir, (DIR *))
TW_REAL(void, rewinddir, (DIR *))
TW_REAL(void, seekdir, (DIR *, long))
TW_REAL(long, telldir, (DIR *))
TW_REAL(int, scandir, (const char *, struct dirent ***, filter_fn *, order_fn *))

/* An open directory with its entries, in the order in which they are served. Two threads may not
 * use one DIR at a time (POSIX), so only the list of them has a lock. */
struct listing {
    struct listing *next;
    DIR *dir;
    struct dirent **entries;
    size_t n, at;
    int end_errno; /* what ended the reading, if an error did */
};

#define BUCKETS 64
/* Listings by their DIR; `lock` guards the chains, `listings` counts them all. */
static struct listing *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t listings;

/* The chain that a DIR's listing is in. */
static struct listing **bucket(const DIR *d)
{
    return &buckets[tw_mix64((uintptr_t)d) % BUCKETS];
}

/* The listing of a DIR, or NULL. remove: it is taken off the table and is the caller's. Without any
 * listing this costs one load, which is the case in jobs whose directories are left alone. */
static struct listing *find_listing(DIR *d, bool remove)
{
    if (atomic_load_explicit(&listings, memory_order_relaxed) == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    struct listing **at = bucket(d), *l;
    while (*at && (*at)->dir != d)
        at = &(*at)->next;
    l = *at;
    if (l && remove) {
        *at = l->next;
        atomic_fetch_sub_explicit(&listings, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return l;
}

/* Frees a listing that is in no table; NULL is none. */
static void forget_listing(struct listing *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        tw_free(l->entries[i]);
    tw_free(l->entries);
    tw_free(l);
}

/* ---- orders */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int by_name_backwards(const struct dirent **a, const struct dirent **b)
{
    return by_name(b, a);
}

static int by_hash(const struct dirent **a, const struct dirent **b)
{
    uint64_t seed = tw_factors[TW_DIRECTORY].value;
    uint64_t x = tw_hash_bytes((*a)->d_name, strlen((*a)->d_name), seed).a;
    uint64_t y = tw_hash_bytes((*b)->d_name, strlen((*b)->d_name), seed).a;
    if (x != y)
        return x < y ? -1 : 1;
    return by_name(a, b);
}

/* pin: by name, in the other of two pinned worlds backwards. vary: backwards where the factor says
 * so, else by a hash of seed and name. */
static order_fn *chosen_order(void)
{
    if (!tw_factor_varies(TW_DIRECTORY))
        return tw_factors_other() ? by_name_backwards : by_name;
    return tw_factors[TW_DIRECTORY].reversed ? by_name_backwards : by_hash;
}

/* ---- reading ahead */

/* A copy of an entry; NULL when there is no memory. */
static struct dirent *keep_entry(const struct dirent *e)
{
    /* whole: programs copy the structure by its size */
    struct dirent *copy = tw_malloc(sizeof *copy);
    if (copy) {
        size_t n = e->d_reclen < sizeof *copy ? e->d_reclen : sizeof *copy;
        memcpy(copy, e, n);
        memset((char *)copy + n, 0, sizeof *copy - n);
    }
    return copy;
}

/* Reads the DIR to its end. False: no memory; an error of the directory is kept and met by the
 * program where its entries end. */
static bool read_all(struct listing *l)
{
    size_t room = 0;
    for (;;) {
        errno = 0;
        struct dirent *e = real_readdir()(l->dir), *copy;
        if (!e) {
            l->end_errno = errno;
            return true;
        }
        if (l->n == room) {
            struct dirent **more = tw_reallocarray(l->entries, room ? 2 * room : 64, sizeof *more);
            if (!more)
                return false;
            l->entries = more;
            room = room ? 2 * room : 64;
        }
        if (!(copy = keep_entry(e)))
            return false;
        l->entries[l->n++] = copy;
    }
}

/* The listing of a DIR, made now when it has none. NULL: the original serves it (no memory, or it
 * was begun before us). */
static struct listing *listing_of(DIR *d)
{
    struct listing *l = find_listing(d, false);
    if (l)
        return l;
    int saved_errno = errno;
    if (!(l = tw_calloc(1, sizeof *l)))
        return NULL;
    l->dir = d;
    if (!read_all(l)) {
        forget_listing(l);
        real_rewinddir()(d);
        errno = saved_errno;
        return NULL;
    }
    /* Sorted once, when the directory is read. */
    if (l->n)
        qsort(l->entries, l->n, sizeof *l->entries,
              (int (*)(const void *, const void *))chosen_order());
    pthread_mutex_lock(&lock);
    l->next = *bucket(d);
    *bucket(d) = l;
    atomic_fetch_add_explicit(&listings, 1, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return l;
}

/* ---- the functions */

static bool is_ordered(const char *what)
{
    return tw_factor_armed(TW_DIRECTORY) && tw_factor_take(TW_DIRECTORY, what);
}

/* Counts a directory once, at its first entry, and not each entry of it. */
static struct listing *serve(DIR *d, const char *what)
{
    if (!tw_factor_armed(TW_DIRECTORY) || !d)
        return NULL;
    struct listing *l = find_listing(d, false);
    if (l)
        return l;
    return is_ordered(what) ? listing_of(d) : NULL;
}

/* Is the order only watched, to tell whether it differed between the runs? */
static bool counted(void)
{
    return atomic_load_explicit(&tw_factors[TW_DIRECTORY].mode, memory_order_relaxed) ==
               TW_FACTOR_COUNT &&
           !tw_agent_inside;
}

/* Tells the watcher of the entry that comes next; NULL: the end. */
static struct dirent *watched(DIR *d, struct dirent *e)
{
    tw_watch_entry(d, e ? e->d_name : NULL);
    return e;
}

struct dirent *readdir(DIR *d)
{
    struct listing *l = serve(d, "readdir");
    if (!l && !counted())
        return real_readdir()(d);
    if (!l)
        return watched(d, real_readdir()(d));
    if (l->at < l->n)
        return l->entries[l->at++];
    /* The program meets the error where the directory would have ended. */
    if (l->end_errno)
        errno = l->end_errno;
    return NULL;
}

struct dirent64 *readdir64(DIR *d)
{
    return (struct dirent64 *)readdir(d);
}

/* readdir_r under both of its names. */
static int read_next(DIR *d, struct dirent *entry, struct dirent **result)
{
    struct listing *l = serve(d, "readdir_r");
    if (!l) {
        int rc = real_readdir_r()(d, entry, result);
        if (counted())
            watched(d, rc == 0 ? *result : NULL);
        return rc;
    }
    *result = NULL;
    if (l->at == l->n)
        return l->end_errno;
    memcpy(entry, l->entries[l->at], l->entries[l->at]->d_reclen);
    l->at++;
    *result = entry;
    return 0;
}

int readdir_r(DIR *restrict d, struct dirent *restrict entry, struct dirent **restrict result)
{
    return read_next(d, entry, result);
}

int readdir64_r(DIR *restrict d, struct dirent64 *restrict entry, struct dirent64 **restrict result)
{
    return read_next(d, (struct dirent *)entry, (struct dirent **)result);
}

int closedir(DIR *d)
{
    forget_listing(find_listing(d, true));
    return real_closedir()(d);
}

void rewinddir(DIR *d)
{
    forget_listing(find_listing(d, true)); /* read anew: what was added meanwhile is there */
    real_rewinddir()(d);
}

long telldir(DIR *d)
{
    struct listing *l = serve(d, "telldir");
    return l ? (long)l->at : real_telldir()(d);
}

void seekdir(DIR *d, long at)
{
    struct listing *l = serve(d, "seekdir");
    if (!l)
        real_seekdir()(d, at);
    else if (at >= 0 && (size_t)at <= l->n)
        l->at = (size_t)at;
}

/* With a comparison of the program's own its order is no matter of the file system. */
int scandir(const char *restrict path, struct dirent ***restrict list, filter_fn *filter,
            order_fn *order)
{
    if (!order && is_ordered("scandir"))
        order = chosen_order();
    else if (!order && counted())
        tw_watch_unseen();
    return real_scandir()(path, list, filter, order);
}

int scandir64(const char *restrict path, struct dirent64 ***restrict list,
              int (*filter)(const struct dirent64 *),
              int (*order)(const struct dirent64 **, const struct dirent64 **))
{
    return scandir(path, (struct dirent ***)list, (filter_fn *)filter, (order_fn *)order);
}

/* Around a fork: the child must not find the lock taken by a thread that it does not have. */
static void hold_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void release_lock(void)
{
    pthread_mutex_unlock(&lock);
}

void tw_directory_resolve(void)
{
    real_readdir();
    real_readdir_r();
    real_closedir();
    real_rewinddir();
    real_seekdir();
    real_telldir();
    real_scandir();
    if (tw_factor_armed(TW_DIRECTORY))
        pthread_atfork(hold_lock, release_lock, release_lock);
}
