/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry-loss: what may become of a registry, done to a copy of it: is each found by what verify
 * does, and does the registry come back from a mirror? The memory that a home keeps of a registry
 * (its last entry's number and digest) is the one of before the drill.
 */
#include "inside.h"

#include "base.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct loss_drill {
    struct dr_drill *d;
    struct dr_staging s;
    struct tw_registry now;
    char *content; /* path of a content in the copy that the log names */
    char *list;    /* of an encrypted one: path of a list that says what lies where; else NULL */
    char *aside;   /* where a file waits */
    bool silent;
};

/* One thing that may happen, and its undoing. The path is of the entry or the content. */
struct loss {
    const char *what;
    int (*harm)(struct loss_drill *l, const char *path);
    int (*undo)(struct loss_drill *l, const char *path);
    enum { MIDDLE, LAST, CONTENT, LIST } of;
    bool by_insider; /* judged by who trusts the one who did it */
};

/* ---- harms */

static int move(struct loss_drill *l, const char *from, const char *to)
{
    return rename(from, to) == 0 ? 0 : twin_error_system(l->d->err, "cannot move %s", from);
}

static int take_away(struct loss_drill *l, const char *path)
{
    return move(l, path, l->aside);
}

static int put_back(struct loss_drill *l, const char *path)
{
    return move(l, l->aside, path);
}

/* A changed copy in the place of the file. Pieces of a store are read-only for nobody, but a new
 * file is made all the same: a content may have several names. */
static int change(struct loss_drill *l, const char *path, bool cut)
{
    enum { BYTES = 1 << 30 };
    char *text = NULL;
    size_t n = 0;
    int rc = tw_read_file(path, BYTES, &text, &n, l->d->err);
    rc = rc ? rc : take_away(l, path);
    if (rc == 0 && n > 0)
        text[n / 2] ^= 1;
    n = cut ? n / 2 : n;
    rc = rc ? rc : tw_write_file_atomic(path, text, n, l->d->err);
    tw_free(text);
    return rc;
}

static int flip(struct loss_drill *l, const char *path)
{
    return change(l, path, false);
}

static int cut_in_half(struct loss_drill *l, const char *path)
{
    return change(l, path, true);
}

/* With the entry behind it; the same again undoes it. */
static int exchange(struct loss_drill *l, const char *path)
{
    char *other = tw_printf("%s/log/%s", l->s.registry, l->s.entry[l->s.entries / 2 + 1]);
    int rc = other ? take_away(l, path) : tw_no_memory(l->d->err, "for a drill");
    rc = rc ? rc : move(l, other, path);
    rc = rc ? rc : move(l, l->aside, other);
    tw_free(other);
    return rc;
}

/* Another entry in place of the last one: a fork, whose chain is whole. */
static int fork_log(struct loss_drill *l, const struct twin_trust *trust)
{
    struct tw_registry r;
    int rc = tw_registry_open(l->s.registry, trust, &r, l->d->err);
    if (rc != 0)
        return rc;
    rc = dr_vouch(&l->s, &r, l->d->err);
    tw_registry_close(&r);
    return rc;
}

static int fork_by_stranger(struct loss_drill *l, const char *path)
{
    int rc = take_away(l, path);
    return rc ? rc : fork_log(l, l->d->asked->trusted);
}

static int fork_by_insider(struct loss_drill *l, const char *path)
{
    int rc = take_away(l, path);
    return rc ? rc : fork_log(l, l->s.own);
}

static const struct loss losses[] = {
    {"an entry taken away", take_away, put_back, MIDDLE, false},
    {"two entries exchanged", exchange, exchange, MIDDLE, false},
    {"a bit of an entry turned over", flip, put_back, MIDDLE, false},
    {"the last entry cut off", take_away, put_back, LAST, false},
    {"forked by a stranger", fork_by_stranger, put_back, LAST, false},
    {"forked by somebody who is trusted", fork_by_insider, put_back, LAST, true},
    {"a content lost", take_away, put_back, CONTENT, false},
    {"a content cut in half", cut_in_half, put_back, CONTENT, false},
    {"a bit of a content turned over", flip, put_back, CONTENT, false},
    {"a list of encrypted contents lost", take_away, put_back, LIST, false},
    {"a bit of a list of encrypted contents turned over", flip, put_back, LIST, false},
};

/* ---- what verify does */

/* Looks at the copy as verify --contents does in a home that saw the registry before. *fault:
 * malloc'ed, what was found first; NULL: nothing. */
static int verify(struct loss_drill *l, const struct twin_trust *trust, char **fault)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_registry r;
    struct tw_contents_read read = {0};
    *fault = NULL;
    int rc = tw_registry_open(l->s.registry, trust, &r, &why);
    if (rc == 0) {
        rc = tw_registry_remember(&r, l->now.count, tw_registry_head(&l->now), "this home", &why);
        rc = rc ? rc : tw_registry_unseal(&r, l->s.identities, &why);
        rc = rc ? rc : tw_registry_check_contents(&r, &read, &why);
        if (rc == 0 && r.faults > 0 && !(*fault = tw_strdup(r.fault[0].what)))
            rc = tw_no_memory(&why, "for a drill");
        tw_registry_close(&r);
    }
    if (rc == 0)
        return 0;
    if (rc != TWIN_ENOMEM && rc != TWIN_EINTR && (*fault = tw_strdup(why.message)))
        return 0; /* what cannot be read is found, too */
    return twin_error_set(l->d->err, rc == TWIN_EINTR ? rc : TWIN_ENOMEM, "%s", why.message);
}

/* What it happens to; malloc'ed. */
static char *path_of(const struct loss_drill *l, const struct loss *loss)
{
    const size_t at = loss->of == MIDDLE ? l->s.entries / 2 : l->s.entries - 1;
    if (loss->of == CONTENT)
        return tw_strdup(l->content);
    if (loss->of == LIST)
        return tw_strdup(l->list);
    return tw_printf("%s/log/%s", l->s.registry, l->s.entry[at]);
}

static int try_loss(struct loss_drill *l, const struct loss *loss)
{
    char *path = path_of(l, loss);
    char *fault = NULL;
    struct dr_drill *d = l->d;
    int rc = path ? loss->harm(l, path) : tw_no_memory(d->err, "for a drill");
    const uint64_t began_ns = tw_monotonic_ns();
    const struct twin_trust *trust = loss->by_insider ? l->s.own : d->asked->trusted;
    rc = rc ? rc : verify(l, trust, &fault);
    const double took = dr_seconds(began_ns, tw_monotonic_ns());
    if (rc == 0 && fault)
        dr_note(d, "%s: found: %s", loss->what, fault);
    else if (rc == 0)
        dr_note(d, "%s: not found", loss->what);
    if (rc == 0 && !fault)
        l->silent = true;
    if (rc == 0 && !(d->out->detect_s > took))
        d->out->detect_s = took;
    rc = rc ? rc : loss->undo(l, path);
    tw_free(fault);
    tw_free(path);
    return rc;
}

/* ---- the whole */

/* malloc'ed */
static char *content_path(const struct loss_drill *l, const char *sha256)
{
    return tw_printf("%s/contents/%s", l->s.registry, sha256);
}

/* The smallest file with bytes of the newest version that has contents: one that the log names. */
static int choose_content(struct loss_drill *l)
{
    struct tw_registry *r = &l->now;
    for (size_t m = 0; m < r->models; m++)
        for (size_t v = r->model[m].count; v-- > 0;) {
            struct tw_artifact a;
            const char *digest = NULL;
            uint64_t least = UINT64_MAX;
            if (r->model[m].version[v].collected)
                continue;
            int rc = tw_artifact_read(r->store, r->model[m].version[v].artifact, &a, l->d->err);
            if (rc != 0)
                return rc;
            for (size_t i = 0; i < a.count; i++)
                if (a.file[i].bytes > 0 && a.file[i].bytes < least) {
                    least = a.file[i].bytes;
                    digest = a.file[i].sha256;
                }
            /* of an encrypted one what lies there is the ciphertext */
            const char *sealed = digest ? tw_store_sealed_as(r->store, digest) : NULL;
            if (digest && !(l->content = content_path(l, sealed ? sealed : digest)))
                rc = tw_no_memory(l->d->err, "for a drill");
            tw_artifact_free(&a);
            if (rc != 0 || l->content)
                return rc;
        }
    return twin_error_set(l->d->err, TWIN_EINVAL,
                          "expected a registry with a version whose contents are there");
}

/* All is gone; what the mirror has takes its place. */
static int restore(struct loss_drill *l)
{
    struct dr_drill *d = l->d;
    struct twin_error why = TWIN_ERROR_INIT;
    char *fault = NULL;
    int rc = tw_remove_tree(l->s.registry, NULL, d->err);
    d->out->outcome = TW_DRILL_FAILED;
    if (rc != 0)
        return rc;
    if (!d->asked->mirror) {
        dr_note(d, "everything lost: there is nothing to restore it from (no --mirror)");
        return 0;
    }
    dr_say(d, "the registry from its mirror");
    const uint64_t began_ns = tw_monotonic_ns();
    rc = dr_copy_registry(d->asked->mirror, l->s.registry, NULL, &why);
    if (rc == TWIN_ENOMEM || rc == TWIN_EINTR)
        return twin_error_set(d->err, rc, "%s", why.message);
    if (rc != 0) {
        dr_note(d, "everything lost: the mirror cannot be copied: %s", why.message);
        return 0;
    }
    rc = verify(l, d->asked->trusted, &fault);
    if (rc == 0 && fault) {
        dr_note(d, "everything lost: what the mirror has is not what was there: %s", fault);
    } else if (rc == 0) {
        dr_note(d, "everything lost: from the mirror the same %zu entries and all contents",
                l->now.count);
        d->out->reproduce_s = dr_seconds(began_ns, tw_monotonic_ns());
        d->out->outcome = TW_DRILL_RESTORED;
    }
    tw_free(fault);
    return rc;
}

static int lose(struct loss_drill *l)
{
    struct dr_drill *d = l->d;
    char *fault = NULL;
    int rc = verify(l, d->asked->trusted, &fault);
    if (rc == 0 && fault)
        rc = twin_error_set(d->err, TWIN_EINVAL, "expected a registry without fault, found: %s",
                            fault);
    tw_free(fault);
    for (size_t i = 0; i < sizeof losses / sizeof losses[0] && rc == 0; i++) {
        if (losses[i].of == LIST && !l->list)
            continue; /* nothing is encrypted */
        dr_say(d, losses[i].what);
        rc = try_loss(l, &losses[i]);
    }
    rc = rc ? rc : restore(l);
    if (l->silent) {
        d->out->detect_s = NAN;
        d->out->outcome = TW_DRILL_FAILED;
    }
    return rc;
}

int dr_registry_loss(struct dr_drill *d)
{
    enum { LEAST = 4 };
    struct loss_drill l = {.d = d};
    int rc = dr_staging_begin(d, &l.s, &l.now);
    if (rc == 0 && l.now.count < LEAST)
        rc = twin_error_set(d->err, TWIN_EINVAL,
                            "expected a registry of %d entries at least, found %zu", LEAST,
                            l.now.count);
    if (rc == 0 && l.s.entries != l.now.count)
        rc = twin_error_set(d->err, TWIN_EBUSY,
                            "%s: somebody added an entry while it was copied; try again",
                            d->asked->registry);
    rc = rc ? rc : choose_content(&l);
    if (rc == 0 && !(l.aside = dr_below(&l.s, "aside")))
        rc = tw_no_memory(d->err, "for a drill");
    if (rc == 0 && l.now.sealed_count && !(l.list = content_path(&l, l.now.sealed[0].sha256)))
        rc = tw_no_memory(d->err, "for a drill");
    if (rc == 0 && tw_registry_seal(&l.now) && !tw_store_can_open(l.now.store))
        dr_note(d, "without --identity: encrypted files are digested, and not opened");
    rc = rc ? rc : lose(&l);
    tw_free(l.aside);
    tw_free(l.content);
    tw_free(l.list);
    tw_registry_close(&l.now);
    dr_staging_end(&l.s);
    return rc;
}
