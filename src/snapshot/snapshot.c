/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot is taken: the listing of a folder gets its digests, and one number stands for all of
 * them. */
#include "layout_inside.h"

#include "base.h"

#include <assert.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "sizes are digested in little-endian order");

/* ---- the digest over all */

/* The digest that is being made over all entries. After a failure nothing counts. */
struct sum {
    EVP_MD_CTX *ctx;
    bool failed;
};

static void put_bytes(struct sum *s, const void *data, size_t n)
{
    s->failed |= s->failed || EVP_DigestUpdate(s->ctx, data, n) != 1;
}

/* With its length before it, so that no two lists of entries look alike. */
static void put_text(struct sum *s, const char *text)
{
    const uint64_t n = strlen(text);
    put_bytes(s, &n, sizeof n);
    put_bytes(s, text, n);
}

/* The letter that stands for an entry's kind in the sum of all. */
static const char *kind_letter(enum twin_snapshot_kind kind)
{
    if (kind == TWIN_SNAPSHOT_FILE)
        return "f";
    return kind == TWIN_SNAPSHOT_LINK ? "l" : "d";
}

/* The format of what is digested: docs/format/snapshot.md. Modes are not part of it. */
int tw_snapshot_seal(struct twin_snapshot *s, struct twin_error *err)
{
    struct sum sum = {.ctx = EVP_MD_CTX_new()};
    unsigned char digest[32];
    sum.failed = !sum.ctx || EVP_DigestInit_ex(sum.ctx, EVP_sha256(), NULL) != 1;
    put_bytes(&sum, "twinrun.snapshot/1", sizeof "twinrun.snapshot/1");
    s->files = s->links = s->folders = s->bytes = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct twin_snapshot_entry *e = &s->entry[i];
        put_bytes(&sum, kind_letter(e->kind), 1);
        put_text(&sum, e->path);
        if (e->kind == TWIN_SNAPSHOT_FILE) {
            put_bytes(&sum, &e->bytes, sizeof e->bytes);
            put_bytes(&sum, e->sha256, sizeof e->sha256);
        } else if (e->kind == TWIN_SNAPSHOT_LINK) {
            put_text(&sum, e->target);
        }
        s->files += e->kind == TWIN_SNAPSHOT_FILE;
        s->links += e->kind == TWIN_SNAPSHOT_LINK;
        s->folders += e->kind == TWIN_SNAPSHOT_FOLDER;
        s->bytes += e->bytes;
    }
    const bool failed = sum.failed || EVP_DigestFinal_ex(sum.ctx, digest, NULL) != 1;
    EVP_MD_CTX_free(sum.ctx);
    if (failed)
        return twin_error_set(err, TWIN_ENOMEM, "SHA-256 failed");
    tw_hex(digest, sizeof digest, s->root);
    return 0;
}

/* ---- a folder as it is now */

/* The patterns that a snapshot keeps, each once: the defaults first, unless they are among those of
 * an earlier one already. 0 or TWIN_ENOMEM. */
static int copy_patterns(char *const *exclude, bool with_defaults, struct twin_snapshot *out)
{
    size_t n = 0, defaults = 0;
    while (exclude && exclude[n])
        n++;
    while (with_defaults && twin_snapshot_default_exclude[defaults])
        defaults++;
    out->exclude = tw_calloc(n + defaults + 1, sizeof *out->exclude);
    for (size_t i = 0; out->exclude && i < n + defaults; i++) {
        const char *p = i < defaults ? twin_snapshot_default_exclude[i] : exclude[i - defaults];
        bool twice = false;
        for (size_t j = 0; j < out->exclude_count; j++)
            twice |= strcmp(out->exclude[j], p) == 0;
        if (!twice && !(out->exclude[out->exclude_count++] = tw_strdup(p)))
            return TWIN_ENOMEM;
    }
    return out->exclude ? 0 : TWIN_ENOMEM;
}

/* A size that differs from what is expected tells all that there is to tell: such a file is not
 * read. */
static void skip_by_size(const struct twin_snapshot *like, const struct tw_listing *l,
                         struct tw_hash_item *item)
{
    for (size_t i = 0, j = 0; i < l->count && like; i++) {
        while (j < like->count && strcmp(like->entry[j].path, l->entry[i].path) < 0)
            j++;
        const bool there = j < like->count && strcmp(like->entry[j].path, l->entry[i].path) == 0;
        item[i].skip |= !there || like->entry[j].kind != TWIN_SNAPSHOT_FILE ||
                        like->entry[j].bytes != l->entry[i].bytes;
    }
}

/* Fills in sizes and digests of a listing. A file's size is that of the state which was digested:
 * it may have grown since the folder was listed. What could not be read is told as trouble. */
static int digest_files(const char *dir, const struct twin_snapshot_options *o,
                        const struct twin_snapshot *like, struct tw_listing *l,
                        struct twin_snapshot *out, struct twin_error *err)
{
    struct tw_hash_work w = {.count = l->count,
                             .paranoid = o->paranoid,
                             .threads = o->threads,
                             .progress = o->progress,
                             .user = o->user};
    char *real = realpath(dir, NULL);
    int rc = 0;
    w.item = tw_calloc(l->count + 1, sizeof *w.item);
    w.root = real ? open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (!w.item)
        rc = tw_no_memory(err, "for %zu files", l->count);
    else if (w.root < 0)
        rc = twin_error_system(err, "the folder %s cannot be read", dir);
    for (size_t i = 0; i < l->count && rc == 0; i++)
        w.item[i] = (struct tw_hash_item){.path = l->entry[i].path,
                                          .kind = TW_HASH_SHA256,
                                          .link = l->entry[i].target != NULL,
                                          .skip = l->entry[i].kind != TWIN_SNAPSHOT_FILE,
                                          .state = l->state[i]};
    if (rc == 0) {
        skip_by_size(like, l, w.item);
        w.cache = tw_hash_cache_open(real);
        rc = tw_hash_files(&w, err);
        tw_hash_cache_close(w.cache);
    }
    for (size_t i = 0; i < l->count && w.item; i++) {
        if (rc == 0 && w.item[i].why)
            tw_listing_trouble(l, o, w.item[i].path, w.item[i].why);
        l->entry[i].bytes = w.item[i].skip ? l->entry[i].bytes : w.item[i].state.bytes;
        memcpy(l->entry[i].sha256, w.item[i].digest, sizeof l->entry[i].sha256);
        tw_free(w.item[i].why);
    }
    out->read_files = w.read_files;
    out->read_bytes = w.read_bytes;
    if (w.root >= 0)
        close(w.root);
    tw_free(w.item);
    free(real);
    return rc;
}

/* The way of a snapshot: list, digest, seal. like: the snapshot that this one will be compared
 * with; then sizes that differ need no reading, and ids of other tools are not looked for. */
static int take_snapshot(const char *dir, const struct twin_snapshot_options *o,
                         const struct twin_snapshot *like, struct twin_snapshot *out,
                         struct twin_error *err)
{
    struct tw_listing l = {0};
    *out = (struct twin_snapshot){.follow = o->follow};
    int rc = copy_patterns(o->exclude, !like, out) == 0 ? 0 : tw_no_memory(err, "for the patterns");
    rc = rc ? rc : tw_listing_take(dir, o, out->exclude, &l, err);
    rc = rc ? rc : digest_files(dir, o, like, &l, out, err);
    const char *first = l.first_trouble ? l.first_trouble : "?";
    if (rc == 0 && l.troubles == 1)
        rc = twin_error_set(err, TWIN_EIO, "%s", first);
    else if (rc == 0 && l.troubles)
        rc = twin_error_set(err, TWIN_EIO, "%zu things have no digest, the first: %s", l.troubles,
                            first);
    if (rc == 0) {
        out->entry = l.entry;
        out->count = l.count;
        l.entry = NULL;
        l.count = 0;
        rc = tw_snapshot_seal(out, err);
    }
    if (rc == 0 && !like)
        rc = tw_layout_add_ids(out, dir, err);
    tw_listing_free(&l);
    if (rc)
        twin_snapshot_free(out);
    return rc;
}

int twin_snapshot_take(const char *dir, const struct twin_snapshot_options *o,
                       struct twin_snapshot *out, struct twin_error *err)
{
    return take_snapshot(dir, o, NULL, out, err);
}

int twin_snapshot_take_again(const struct twin_snapshot *was, const char *dir,
                             const struct twin_snapshot_options *o, struct twin_snapshot *out,
                             struct twin_error *err)
{
    struct twin_snapshot_options as_then = *o;
    as_then.exclude = was->exclude;
    as_then.follow = was->follow;
    return take_snapshot(dir, &as_then, was, out, err);
}

int tw_snapshot_add_id(struct twin_snapshot *s, const char *scheme, const char *value,
                       const char *path)
{
    struct twin_snapshot_id *id = tw_reallocarray(s->id, s->id_count + 1, sizeof *id);
    if (!id)
        return TWIN_ENOMEM;
    s->id = id;
    id[s->id_count++] = (struct twin_snapshot_id){tw_strdup(scheme), tw_strdup(value),
                                                  tw_strdup(path)};
    return id[s->id_count - 1].scheme && id[s->id_count - 1].value && id[s->id_count - 1].path
               ? 0
               : TWIN_ENOMEM;
}

void twin_snapshot_free(struct twin_snapshot *s)
{
    for (size_t i = 0; i < s->count; i++) {
        tw_free(s->entry[i].path);
        tw_free(s->entry[i].target);
    }
    for (size_t i = 0; i < s->exclude_count; i++)
        tw_free(s->exclude[i]);
    for (size_t i = 0; i < s->id_count; i++) {
        tw_free(s->id[i].scheme);
        tw_free(s->id[i].value);
        tw_free(s->id[i].path);
    }
    tw_free(s->entry);
    tw_free(s->exclude);
    tw_free(s->id);
    *s = (struct twin_snapshot){0};
}

/* ---- two of them */

static bool same_target(const struct twin_snapshot_entry *a, const struct twin_snapshot_entry *b)
{
    return (!a->target && !b->target) ||
           (a->target && b->target && strcmp(a->target, b->target) == 0);
}

/* Do both hold the same, whatever their permissions? */
static bool same_data(const struct twin_snapshot_entry *a, const struct twin_snapshot_entry *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == TWIN_SNAPSHOT_FOLDER ||
           (a->kind == TWIN_SNAPSHOT_LINK && same_target(a, b)) ||
           (a->kind == TWIN_SNAPSHOT_FILE && a->bytes == b->bytes &&
            memcmp(a->sha256, b->sha256, sizeof a->sha256) == 0);
}

/* Does the snapshot hold something below this folder? A folder that is empty in the one and holds
 * something in the other is no difference by itself: what it holds is. */
static bool has_below(const struct twin_snapshot *s, const char *folder)
{
    const size_t n = strlen(folder);
    size_t low = 0, high = s->count;
    while (low < high) { /* the first entry not before "folder/" */
        const size_t mid = low + (high - low) / 2;
        const int order = strncmp(s->entry[mid].path, folder, n);
        if (order < 0 || (order == 0 && (unsigned char)s->entry[mid].path[n] < '/'))
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->count && strncmp(s->entry[low].path, folder, n) == 0 &&
           s->entry[low].path[n] == '/';
}

/* Which path comes first; NULL, a list's end, comes last. */
static int order_of(const struct twin_snapshot_entry *a, const struct twin_snapshot_entry *b)
{
    assert(a || b);
    if (!a)
        return 1;
    return b ? strcmp(a->path, b->path) : -1;
}

/* Both lists are sorted and walked in step. */
size_t twin_snapshot_compare(const struct twin_snapshot *was, const struct twin_snapshot *is,
                             int (*visit)(void *user, const struct twin_snapshot_difference *d),
                             void *user)
{
    size_t differences = 0;
    for (size_t i = 0, j = 0; i < was->count || j < is->count;) {
        const struct twin_snapshot_entry *a = i < was->count ? &was->entry[i] : NULL;
        const struct twin_snapshot_entry *b = j < is->count ? &is->entry[j] : NULL;
        const int order = order_of(a, b);
        struct twin_snapshot_difference d = {TWIN_SNAPSHOT_CHANGED, order <= 0 ? a : NULL,
                                             order >= 0 ? b : NULL};
        i += order <= 0;
        j += order >= 0;
        const struct twin_snapshot_entry *alone = order < 0 ? a : NULL;
        if (order > 0)
            alone = b;
        if (alone && alone->kind == TWIN_SNAPSHOT_FOLDER &&
            has_below(order < 0 ? is : was, alone->path))
            continue;
        if (alone)
            d.change = order < 0 ? TWIN_SNAPSHOT_MISSING : TWIN_SNAPSHOT_ADDED;
        else if (same_data(a, b) && same_target(a, b) &&
                 (a->mode == b->mode || a->kind != TWIN_SNAPSHOT_FILE))
            continue;
        else if (same_data(a, b))
            d.change = TWIN_SNAPSHOT_MODE;
        differences += d.change != TWIN_SNAPSHOT_MODE;
        if (visit(user, &d) != 0)
            break;
    }
    return differences;
}
