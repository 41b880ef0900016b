/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a ledger catch up with a home: the names that it knows are listed and sorted, the folder is
 * listed, and what one side lacks is written. A run that the ledger knows is not opened again, so
 * that a home of thousands of runs costs one listing.
 */
#include "noted.h"

#include "base.h"
#include "noted_inside.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file of a comparison or an event is called by its id, 32 hex digits. */
enum { ID_LENGTH = 32, FILE_NAME_LENGTH = ID_LENGTH + 5 };

/* One run or comparison that the ledger has: the name of its folder, or its id. */
struct known {
    char *name, *id;
    bool gone; /* the ledger says that its folder was removed */
    bool seen; /* its folder is there */
    bool bare; /* the ledger has no facts of it: an older twinrun wrote it */
};
struct catching {
    struct twin_ledger *l;
    const char *home; /* folder */
    char *owner;      /* as the ledger calls it */
    struct known *known;
    size_t count, room;
    tw_live_fn *live;
    void *user;
};

/* ---- what the ledger knows */

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct known *)x)->name, ((const struct known *)y)->name);
}

static int add_known(struct catching *c, const char *name, const char *id, bool gone, bool bare)
{
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 256;
        struct known *grown = tw_reallocarray(c->known, room, sizeof *grown);
        if (!grown)
            return TWIN_ENOMEM;
        c->known = grown;
        c->room = room;
    }
    struct known k = {.name = tw_strdup(name), .id = tw_strdup(id), .gone = gone, .bare = bare};
    c->known[c->count++] = k;
    return k.name && k.id ? 0 : TWIN_ENOMEM;
}

static int add_known_run(void *user, const struct twin_ledger_run *r,
                         const struct twin_ledger_facts *f)
{
    return add_known(user, r->name, r->id, r->gone, f == NULL);
}

static int add_known_comparison(void *user, const struct twin_ledger_comparison *r)
{
    return add_known(user, r->id, "", false, false);
}

static void forget_known(struct catching *c)
{
    for (size_t i = 0; i < c->count; i++) {
        tw_free(c->known[i].name);
        tw_free(c->known[i].id);
    }
    tw_free(c->known);
    c->known = NULL;
    c->count = c->room = 0;
}

static struct known *find_known(struct catching *c, const char *name)
{
    return c->count ? bsearch(&(struct known){.name = (char *)(uintptr_t)name}, c->known, c->count,
                              sizeof *c->known, by_name)
                    : NULL;
}

/* ---- runs */

/* A folder below runs/: written unless the ledger knows it as one that is there, facts included.
 * One that came back is written anew. */
static int catch_up_folder(struct catching *c, const char *runs, const char *name,
                           struct twin_error *err)
{
    struct known *k = find_known(c, name);
    if (k)
        k->seen = true;
    if (k && !k->gone && !k->bare)
        return 0;
    struct twin_error why = TWIN_ERROR_INIT;
    struct twin_run *r = NULL;
    char *dir = tw_path_join(runs, name), *json = dir ? tw_path_join(dir, "run.json") : NULL;
    int rc = 0;
    if (!json)
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory");
    else if (access(json, F_OK) != 0)
        rc = 0; /* no run folder */
    else if (twin_run_load(dir, &r, &why) != 0 || r->in_progress || r->elsewhere) {
        if (c->live)
            c->live(c->user, dir, r, &why);
    } else {
        rc = tw_ledger_put_folder(c->l, c->owner, r, NULL, err);
    }
    twin_run_free(r);
    tw_free(dir);
    tw_free(json);
    return rc;
}

static int mark_gone(void *user, const struct twin_ledger_run *r)
{
    struct twin_ledger_run row = *r;
    row.gone = true;
    return twin_ledger_put_run(user, &row, NULL, 0, NULL);
}

static int catch_up_runs(struct catching *c, struct twin_error *err)
{
    char *path = tw_path_join(c->home, "runs");
    DIR *d = path ? opendir(path) : NULL;
    int rc = path ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (!d && path && errno != ENOENT)
        rc = twin_error_system(err, "cannot list %s", path);
    if (rc == 0)
        rc = twin_ledger_history(c->l, c->owner, INT64_MIN, add_known_run, c, err);
    if (c->count)
        qsort(c->known, c->count, sizeof *c->known, by_name);
    for (struct dirent *e; rc == 0 && d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            rc = catch_up_folder(c, path, e->d_name, err);
    for (size_t i = 0; rc == 0 && i < c->count; i++)
        if (!c->known[i].seen && !c->known[i].gone)
            rc = twin_ledger_run(c->l, c->known[i].id, false, mark_gone, c->l, err);
    if (d)
        closedir(d);
    tw_free(path);
    return rc;
}

/* ---- comparisons and events: written once, never taken back */

static int add_known_event(void *user, const struct twin_ledger_event *e)
{
    return add_known(user, e->id, "", false, false);
}

/* Puts the files of a folder of the home whose ids are not known. */
static int catch_up_files(struct catching *c, const char *folder,
                          int (*put)(struct twin_ledger *l, const char *dir, const char *name,
                                     struct twin_error *err),
                          struct twin_error *err)
{
    char *path = tw_path_join(c->home, folder);
    DIR *d = path ? opendir(path) : NULL;
    int rc = path ? 0 : twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (c->count)
        qsort(c->known, c->count, sizeof *c->known, by_name);
    for (struct dirent *e; rc == 0 && d && (e = readdir(d));) {
        char id[ID_LENGTH + 1] = "";
        if (strlen(e->d_name) != FILE_NAME_LENGTH || !tw_ends(e->d_name, ".json"))
            continue;
        memcpy(id, e->d_name, ID_LENGTH);
        if (!find_known(c, id))
            rc = put(c->l, path, e->d_name, err);
    }
    if (d)
        closedir(d);
    tw_free(path);
    forget_known(c);
    return rc;
}

static int catch_up_once_written(struct catching *c, struct twin_error *err)
{
    int rc = twin_ledger_comparisons(c->l, NULL, NULL, add_known_comparison, c, err);
    rc = rc ? rc : catch_up_files(c, "comparisons", tw_comparison_put_file, err);
    rc = rc ? rc : twin_ledger_events(c->l, INT64_MIN, add_known_event, c, err);
    return rc ? rc : catch_up_files(c, "events", tw_event_put_file, err);
}

/* One transaction: half of a home would look like a home from which runs were removed. */
static int catch_up(struct catching *c, struct twin_error *err)
{
    int rc = twin_ledger_begin(c->l, err);
    if (rc != 0)
        return rc;
    rc = catch_up_runs(c, err);
    forget_known(c);
    if (rc == 0)
        rc = catch_up_once_written(c, err);
    forget_known(c);
    int ended = twin_ledger_end(c->l, rc == 0, err);
    return rc ? rc : ended;
}

int tw_ledger_catch_up(const char *home, const char *url, tw_live_fn *live, void *user,
                       struct twin_ledger **out, struct twin_error *err)
{
    struct catching c = {.home = home, .live = live, .user = user};
    *out = NULL;
    if (twin_ledger_off(url) || access(home, F_OK) != 0)
        return 0;
    int rc = twin_ledger_open(home, url, &c.l, err);
    if (rc == 0 && !(c.owner = tw_ledger_home(home, url)))
        rc = twin_error_set(err, TWIN_ENOMEM, "out of memory");
    if (rc == 0)
        rc = catch_up(&c, err);
    tw_free(c.owner);
    if (rc == 0)
        *out = c.l;
    else
        twin_ledger_close(c.l);
    return rc;
}
