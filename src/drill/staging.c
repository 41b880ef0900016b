/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a registry in a folder of its own, in which a drill may do anything. Whoever holds the
 * lock of such a folder lives; what others left behind is removed by the next drill.
 */
#include "inside.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 100000 };

/* ---- copying */

struct copy {
    struct tw_store *from, *to;
    struct dr_staging *names; /* may be NULL */
    size_t room;
    struct twin_error *err;
};

static int keep_name(struct copy *c, const char *name)
{
    struct dr_staging *s = c->names;
    if (!s)
        return 0;
    if (s->entries == c->room) {
        c->room = c->room ? 2 * c->room : 64;
        char(*more)[64] = tw_reallocarray(s->entry, c->room, sizeof *more);
        if (!more)
            return tw_no_memory(c->err, "for a drill");
        s->entry = more;
    }
    snprintf(s->entry[s->entries++], sizeof s->entry[0], "%s", name);
    return 0;
}

static int copy_entry(void *user, const struct tw_store_piece *p)
{
    struct copy *c = user;
    char *name = tw_printf("log/%s", p->name), *text = NULL;
    size_t n = 0;
    int rc = name ? 0 : tw_no_memory(c->err, "for a drill");
    if (rc == 0 && c->names && c->names->entries == ENTRIES_MAX)
        rc = twin_error_set(c->err, TWIN_ELIMIT, "expected a registry of at most %d entries",
                            ENTRIES_MAX);
    rc = rc ? rc : tw_store_get(c->from, name, TW_REGISTRY_ENTRY_BYTES, &text, &n, c->err);
    rc = rc ? rc : tw_store_put(c->to, name, text, n, c->err);
    rc = rc ? rc : keep_name(c, p->name);
    tw_free(text);
    tw_free(name);
    return rc;
}

static int copy_content(void *user, const struct tw_store_piece *p)
{
    struct copy *c = user;
    int fd = -1;
    int rc = tw_store_open_content(c->from, p->name, &fd, c->err);
    rc = rc ? rc : tw_store_put_content(c->to, fd, p->name, p->bytes, p->name, c->err);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int dr_copy_registry(const char *from, const char *to, struct dr_staging *names,
                     struct twin_error *err)
{
    struct copy c = {.names = names, .err = err};
    int rc = tw_store_open(from, false, &c.from, err);
    rc = rc ? rc : tw_store_open(to, true, &c.to, err);
    rc = rc ? rc : tw_store_list(c.from, "log", copy_entry, &c, err);
    rc = rc ? rc : tw_store_list(c.from, "contents", copy_content, &c, err);
    if (rc == 0 && names && names->entries)
        qsort(names->entry, names->entries, sizeof *names->entry, by_name);
    tw_store_close(c.from);
    tw_store_close(c.to);
    return rc;
}

/* ---- the folder */

/* Its lock: held as long as this process lives. -1: somebody else holds it, or there is none. */
static int lock_of(const char *folder, int flags)
{
    char *path = tw_path_join(folder, "lock");
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600) : -1;
    tw_free(path);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Removes what killed drills left. What cannot be removed stays for the next one. */
static void sweep(const char *drills)
{
    DIR *all = opendir(drills);
    for (struct dirent *e; all && (e = readdir(all));) {
        char *folder = *e->d_name == '.' ? NULL : tw_path_join(drills, e->d_name);
        const int lock = folder ? lock_of(folder, 0) : -1;
        if (lock >= 0) {
            tw_remove_tree(folder, NULL, NULL);
            close(lock);
        }
        tw_free(folder);
    }
    if (all)
        closedir(all);
}

char *dr_below(const struct dr_staging *s, const char *name)
{
    return tw_path_join(s->folder, name);
}

/* The folder with its lock, and the names in it. */
static int make_folder(struct dr_drill *d, struct dr_staging *s)
{
    char *drills = tw_path_join(d->asked->home, "drills");
    int rc = drills ? 0 : tw_no_memory(d->err, "for a drill");
    rc = rc ? rc : twin_home_make(d->asked->home, d->err);
    rc = rc ? rc : tw_mkdirs(drills, d->err);
    if (rc == 0) {
        sweep(drills);
        s->folder = tw_printf("%s/XXXXXX", drills);
    }
    if (rc == 0 && s->folder && !mkdtemp(s->folder)) {
        rc = twin_error_system(d->err, "cannot make a folder in %s", drills);
        tw_free(s->folder);
        s->folder = NULL;
    }
    tw_free(drills);
    if (rc != 0)
        return rc;
    if (!s->folder || !(s->registry = dr_below(s, "registry")) || !(s->key = dr_below(s, "key")) ||
        !(s->pub = dr_below(s, "key.pub")))
        return tw_no_memory(d->err, "for a drill");
    if ((s->lock = lock_of(s->folder, O_CREAT)) < 0)
        return twin_error_system(d->err, "cannot lock %s", s->folder);
    return 0;
}

int dr_vouch(const struct dr_staging *s, struct tw_registry *r, struct twin_error *err)
{
    const char *const keys[] = {s->key};
    struct tw_entry e = {.kind = TW_ENTRY_VOUCH, .why = "a drill"};
    memcpy(e.artifact, r->id, sizeof e.artifact);
    return tw_registry_append(r, &e, keys, 1, err);
}

int dr_staging_open(struct dr_staging *s, struct tw_registry *r, struct twin_error *err)
{
    int rc = tw_registry_open(s->registry, s->own, r, err);
    if (rc == 0 && r->faults > 0) {
        rc = dr_vouch(s, r, err);
        tw_registry_close(r);
        rc = rc ? rc : tw_registry_open(s->registry, s->own, r, err);
    }
    if (rc == 0 && (rc = tw_registry_unseal(r, s->identities, err)) != 0)
        tw_registry_close(r);
    if (rc != 0)
        *r = (struct tw_registry){0};
    return rc;
}

int dr_staging_begin(struct dr_drill *d, struct dr_staging *s, struct tw_registry *now)
{
    const struct tw_drill_asked *asked = d->asked;
    static const struct tw_strings none = {0};
    *s = (struct dr_staging){.lock = -1,
                             .identities = asked->identities ? asked->identities : &none};
    dr_say(d, "a copy of the registry");
    int rc = tw_registry_open(asked->registry, asked->trusted, now, d->err);
    if (rc != 0) {
        *now = (struct tw_registry){0};
        return rc;
    }
    if (now->faults > 0 || !now->judged)
        return twin_error_set(d->err, TWIN_EINVAL,
                              "expected a registry without fault by keys that are trusted, found: "
                              "%s",
                              now->faults ? now->fault[0].what : "nobody was named to be trusted");
    rc = tw_registry_unseal(now, s->identities, d->err);
    rc = rc ? rc : make_folder(d, s);
    rc = rc ? rc : twin_key_new(s->key, TWIN_KEY_ED25519, d->err);
    rc = rc ? rc : twin_trust_keys(&s->pub, 1, &s->own, d->err);
    return rc ? rc : dr_copy_registry(asked->registry, s->registry, s, d->err);
}

void dr_staging_end(struct dr_staging *s)
{
    if (s->folder)
        tw_remove_tree(s->folder, NULL, NULL);
    if (s->lock >= 0)
        close(s->lock);
    twin_trust_free(s->own);
    tw_free(s->entry);
    tw_free(s->pub);
    tw_free(s->key);
    tw_free(s->registry);
    tw_free(s->folder);
    *s = (struct dr_staging){.lock = -1};
}
