/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rollback: in a copy of the registry a bad version comes into production, it is noticed or not,
 * `twinrun registry rollback` is made, and by digests and by the check it is seen what is in
 * production then.
 */
#include "inside.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where a check finds the artifact, in the copy of the working folder. */
#define CHECKED_FOLDER "twinrun-drill"

struct rollback {
    struct dr_drill *d;
    struct dr_staging s;
    struct tw_registry now; /* the registry itself: nothing is written to it */
    struct tw_artifact good, bad;
    uint64_t version; /* the good one */
    const char *name; /* of the artifact's file or folder, wherever it lies */
    struct dr_run before;
    struct tw_registry copy; /* as those see it who trust the drill's key */
    struct tw_store *store;  /* of the copy */
};

/* ---- artifacts */

/* folder/NAME in the staging folder; the folder is made. malloc'ed. */
static int place(struct rollback *b, const char *folder, char **out)
{
    char *in = dr_below(&b->s, folder);
    int rc = in ? tw_mkdirs(in, b->d->err) : tw_no_memory(b->d->err, "for a drill");
    if (rc == 0 && !(*out = tw_path_join(in, b->name)))
        rc = tw_no_memory(b->d->err, "for a drill");
    tw_free(in);
    return rc;
}

/* What is in production now, and what the check is to look at. */
static int find_good(struct rollback *b)
{
    const struct tw_drill_asked *asked = b->d->asked;
    const struct tw_model *m = tw_registry_model(&b->now, asked->model);
    if (!m || !m->production)
        return twin_error_set(b->d->err, TWIN_EINVAL,
                              "expected a model of which a version is in production, found %s%s",
                              m ? "none of " : "no model ", asked->model);
    b->version = m->production;
    int rc = tw_artifact_read(b->now.store, m->version[m->production - 1].artifact, &b->good,
                              b->d->err);
    b->name = b->good.folder || !b->good.count ? "model" : b->good.file[0].path;
    return rc;
}

/* Zeros from the middle of its largest file on: a model that was trained to nothing, or a file that
 * was not written to its end. */
static int damage(struct rollback *b, const char *path)
{
    const struct tw_artifact_file *f = NULL;
    static const char zeros[1 << 16];
    for (size_t i = 0; i < b->good.count; i++)
        if (!f || b->good.file[i].bytes > f->bytes)
            f = &b->good.file[i];
    char *at = f && b->good.folder ? tw_path_join(path, f->path) : tw_strdup(path);
    if (!at)
        return tw_no_memory(b->d->err, "for a drill");
    int fd = open(at, O_WRONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
    if (fd < 0)
        rc = twin_error_system(b->d->err, "cannot write %s", at);
    for (uint64_t i = f ? f->bytes / 2 : 0; rc == 0 && f && i < f->bytes;) {
        const size_t rest = f->bytes - i < sizeof zeros ? (size_t)(f->bytes - i) : sizeof zeros;
        const ssize_t n = pwrite(fd, zeros, rest, (off_t)i);
        if (n <= 0)
            rc = twin_error_system(b->d->err, "cannot write %s", at);
        i += n > 0 ? (uint64_t)n : 0;
    }
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = twin_error_system(b->d->err, "cannot write %s", at);
    tw_free(at);
    return rc;
}

/* The bad version into the copy, as a candidate, and at once into production. */
static int append_bad(struct rollback *b)
{
    const char *const keys[] = {b->s.key};
    char *model = (char *)(uintptr_t)b->d->asked->model;
    struct tw_registry *r = &b->copy;
    const struct tw_model *m = tw_registry_model(r, model);
    if (!m || r->faults > 0)
        return twin_error_set(b->d->err, TWIN_EFORMAT, "the copy of the registry is damaged: %s",
                              r->faults ? r->fault[0].what : "its model is gone");
    const uint64_t version = m->count + 1;
    struct tw_entry add = {
        .kind = TW_ENTRY_ADD, .model = model, .version = version, .why = "a drill"};
    struct tw_entry go = {.kind = TW_ENTRY_MOVE,
                          .model = model,
                          .version = version,
                          .from = TW_STAGE_CANDIDATE,
                          .to = TW_STAGE_PRODUCTION,
                          .displaced = m->production,
                          .why = "a drill"};
    memcpy(add.artifact, b->bad.digest, sizeof add.artifact);
    memcpy(go.artifact, b->bad.digest, sizeof go.artifact);
    int rc = tw_sealed_into(r, &add, b->d->err);
    rc = rc ? rc : tw_registry_append(r, &add, keys, 1, b->d->err);
    rc = rc ? rc : tw_registry_append(r, &go, keys, 1, b->d->err);
    json_decref(add.details);
    return rc;
}

static int promote_bad(struct rollback *b)
{
    const struct tw_drill_asked *asked = b->d->asked;
    char *made = NULL;
    const char *path = asked->bad;
    int rc = 0;
    dr_say(b->d, "a bad version comes into production of the copy");
    if (!path) {
        rc = place(b, "bad", &made);
        rc = rc ? rc : tw_artifact_restore(&b->good, b->store, made, b->d->err);
        rc = rc ? rc : damage(b, made);
        path = made;
    }
    rc = rc ? rc : tw_artifact_take(path, &b->bad, b->d->err);
    if (rc == 0 && strcmp(b->bad.digest, b->good.digest) == 0)
        rc = twin_error_set(b->d->err, TWIN_EINVAL,
                            "expected a bad version that is another one than %s@%llu in "
                            "production: write --bad PATH",
                            asked->model, (unsigned long long)b->version);
    rc = rc ? rc : tw_artifact_store(&b->bad, path, b->store, b->d->err);
    rc = rc ? rc : append_bad(b);
    if (rc == 0)
        dr_note(b->d, "promoted: %s, artifact %.12s, in place of @%llu, artifact %.12s",
                asked->bad ? asked->bad : "the version in production with zeros in its second half",
                b->bad.digest, (unsigned long long)b->version, b->good.digest);
    tw_free(made);
    return rc;
}

/* ---- the check */

struct checked {
    struct rollback *b;
    const struct tw_artifact *a; /* from the store, or */
    const char *path;            /* a folder or file to read again */
};

/* Puts an artifact where the check looks for it. */
static int put_artifact(void *user, const char *work, struct twin_error *err)
{
    const struct checked *c = user;
    char *folder = tw_path_join(work, CHECKED_FOLDER);
    char *path = folder ? tw_path_join(folder, c->b->name) : NULL;
    int rc = path ? 0 : tw_no_memory(err, "for a drill");
    if (rc == 0 && mkdir(folder, 0700) != 0)
        rc = twin_error_system(err, "cannot make %s in the copy of the working folder",
                               CHECKED_FOLDER);
    rc = rc ? rc : tw_artifact_restore(c->a, c->b->store, path, err);
    tw_free(path);
    tw_free(folder);
    return rc;
}

/* One word of the check with the artifact's path for each {}. malloc'ed. */
static char *with_path(const char *word, const char *path)
{
    struct tw_buf out = {0};
    for (const char *at; (at = strstr(word, "{}")); word = at + 2) {
        tw_buf_append(&out, word, (size_t)(at - word));
        tw_buf_puts(&out, path);
    }
    tw_buf_puts(&out, word);
    return tw_buf_steal(&out);
}

/* The plaintext of an encrypted artifact does not stay in the folder of a run, which does. */
static int take_away(const struct twin_run *run, struct twin_error *err)
{
    char *path = tw_printf("%s/work/" CHECKED_FOLDER, run->dir);
    struct stat st;
    int rc = path ? 0 : tw_no_memory(err, "for a drill");
    if (rc == 0 && lstat(path, &st) == 0)
        rc = tw_remove_tree(path, NULL, err);
    tw_free(path);
    return rc;
}

/* Runs the check on an artifact; r->run is the caller's. */
static int run_check(struct rollback *b, const struct tw_artifact *a, struct dr_run *r)
{
    char *const *words = b->d->asked->argv;
    struct checked c = {.b = b, .a = a};
    size_t n = 0, made = 0;
    while (words[n])
        n++;
    char **argv = tw_calloc(n + 1, sizeof *argv);
    char *path = tw_path_join(CHECKED_FOLDER, b->name);
    int rc = argv && path ? 0 : tw_no_memory(b->d->err, "for a drill");
    for (; rc == 0 && made < n; made++)
        if (!(argv[made] = with_path(words[made], path)))
            rc = tw_no_memory(b->d->err, "for a drill");
    *r = (struct dr_run){.argv = argv,
                         .fill = put_artifact,
                         .fill_user = &c,
                         .secret = tw_store_is_sealed(b->store)};
    rc = rc ? rc : dr_make(b->d->asked, r, b->d->err);
    if (r->run && tw_store_is_sealed(b->store)) {
        const int left = take_away(r->run, rc ? NULL : b->d->err);
        rc = rc ? rc : left;
    }
    r->argv = NULL;
    r->fill = NULL;
    for (size_t i = 0; argv && i < made; i++)
        tw_free(argv[i]);
    tw_free(argv);
    tw_free(path);
    return rc;
}

/* Does the check say the same of both? */
static bool says_same(const struct twin_run *p, const struct twin_run *q)
{
    return p->outcome == q->outcome && p->exit_code == q->exit_code &&
           strcmp(p->stdout_sha256, q->stdout_sha256) == 0;
}

/* Twice: what a check says of the bad version counts only where it says one thing of the good one.
 * *repeats. */
static int check_good(struct rollback *b, bool *repeats)
{
    struct dr_run second = {.run = NULL};
    dr_say(b->d, "the check of the version in production, twice");
    int rc = run_check(b, &b->good, &b->before);
    if (rc == 0 && !dr_ended_well(b->before.run))
        rc = twin_error_set(b->d->err, TWIN_EINVAL,
                            "expected a check that ends well on the version in production, found "
                            "exit code %d: its output is in %s",
                            b->before.run->exit_code, b->before.run->dir);
    rc = rc ? rc : run_check(b, &b->good, &second);
    *repeats = rc == 0 && says_same(b->before.run, second.run);
    if (rc == 0 && !*repeats) {
        dr_note(b->d, "the check does not repeat itself");
        b->d->out->outcome = TW_DRILL_NOTHING_SHOWN;
    }
    twin_run_free(second.run);
    return rc;
}

/* What the check says of the bad version, twice: that one start says something else may be luck.
 * *noticed; *repeats. */
static int check_bad(struct rollback *b, bool *noticed, bool *repeats)
{
    struct dr_run first = {.run = NULL}, second = {.run = NULL};
    const uint64_t began_ns = tw_monotonic_ns();
    dr_say(b->d, "the check of the bad version, twice");
    int rc = run_check(b, &b->bad, &first);
    const uint64_t ended_ns = tw_monotonic_ns(); /* by then it is known, if it can be */
    rc = rc ? rc : run_check(b, &b->bad, &second);
    *repeats = rc == 0 && says_same(first.run, second.run);
    *noticed = *repeats && !says_same(b->before.run, first.run);
    if (rc == 0 && !*repeats) {
        dr_note(b->d, "the check does not repeat itself on the bad version");
        b->d->out->outcome = TW_DRILL_NOTHING_SHOWN;
    } else if (rc == 0) {
        dr_note(b->d,
                *noticed ? "the check says something else of it (exit code %d)"
                         : "the check says the same of it (exit code %d): nobody would notice",
                first.run->exit_code);
    }
    if (*noticed)
        b->d->out->detect_s = dr_seconds(began_ns, ended_ns);
    twin_run_free(first.run);
    twin_run_free(second.run);
    return rc;
}

/* What is given out of production of the copy, where no check was given. *noticed. */
static int digest_bad(struct rollback *b, bool *noticed)
{
    char *served = NULL;
    struct tw_artifact a = {0};
    const uint64_t began_ns = tw_monotonic_ns();
    int rc = place(b, "served", &served);
    rc = rc ? rc : tw_artifact_restore(&b->bad, b->store, served, b->d->err);
    rc = rc ? rc : tw_artifact_take(served, &a, b->d->err);
    *noticed = rc == 0 && strcmp(a.digest, b->good.digest) != 0;
    if (*noticed)
        b->d->out->detect_s = dr_seconds(began_ns, tw_monotonic_ns());
    if (rc == 0)
        dr_note(b->d, "no check was given: by its digest it is another one");
    tw_artifact_free(&a);
    tw_free(served);
    return rc;
}

/* ---- back */

/* What twinrun registry rollback said where it moved nothing, in its own words. */
static void note_refusal(struct rollback *b, const json_t *said, const struct twin_run *run)
{
    const char *reason = json_string_value(json_object_get(said, "said"));
    const char *why = json_string_value(json_object_get(said, "why"));
    const char *help = json_string_value(json_object_get(said, "try"));
    const json_t *list = json_object_get(said, "differences"), *one;
    size_t i;
    if (!reason) {
        dr_note(b->d, "rolled back: no, exit code %d: its output is in %s", run->exit_code,
                run->dir);
        return;
    }
    dr_note(b->d, "rolled back: no, exit code %d: @%llu %s", run->exit_code,
            (unsigned long long)b->version, reason);
    if (why)
        dr_note(b->d, "why: %s", why);
    json_array_foreach (list, i, one)
        dr_note(b->d, "the environment here: %s", json_string_value(one));
    dr_note(b->d, "proven: %lld of its %lld files are in the registry, each with its digest",
            (long long)json_integer_value(json_object_get(said, "proven")),
            (long long)json_integer_value(json_object_get(said, "files")));
    if (help)
        dr_note(b->d, "try: %s", help);
}

/* The command's words behind those that are always there. NULL: no memory. */
static const char **rollback_words(struct rollback *b, const char *const *words, size_t n)
{
    const char *const *rerun = b->d->asked->rerun;
    const struct tw_strings *opens = b->s.identities;
    size_t more = 0;
    while (rerun && rerun[more])
        more++;
    const char **argv = tw_calloc(n + more + 2 * opens->count + 1, sizeof *argv);
    if (!argv)
        return NULL;
    memcpy(argv, words, n * sizeof *argv);
    for (size_t i = 0; i < more; i++)
        argv[n++] = rerun[i];
    for (size_t i = 0; i < opens->count; i++) {
        argv[n++] = "--identity";
        argv[n++] = opens->items[i];
    }
    return argv;
}

/* twinrun registry rollback in the copy. It is started where we are: the paths of --rerun's options
 * mean there what they mean here. *code: its exit code. */
static int roll_back(struct rollback *b, const char *into, int *code)
{
    const struct tw_drill_asked *asked = b->d->asked;
    char *home = dr_below(&b->s, "home");
    const char *const words[] = {asked->twinrun, "registry", "rollback", asked->model, "--registry",
                                 b->s.registry,  "--home",   home,       "--key",      b->s.key,
                                 "--pub",        b->s.pub,   "--into",   into,         "--json"};
    const char **argv = rollback_words(b, words, sizeof words / sizeof *words);
    json_t *said = NULL;
    dr_say(b->d, "twinrun registry rollback");
    struct dr_run r = {.argv = (char *const *)(uintptr_t)argv,
                       .in_place = true,
                       .is_ours = true,
                       .secret = tw_store_is_sealed(b->store)};
    int rc = argv && home ? dr_make(asked, &r, b->d->err) : tw_no_memory(b->d->err, "for a drill");
    if (rc == 0 && (*code = r.run->exit_code) != 0) {
        rc = dr_printed(r.run, &said, b->d->err);
        if (rc == 0)
            note_refusal(b, said, r.run);
    }
    json_decref(said);
    twin_run_free(r.run);
    tw_free(argv);
    tw_free(home);
    return rc;
}

/* Is it the old version, by the log and by the digests of what was restored? */
static int prove_digests(struct rollback *b, const char *into, bool *back)
{
    struct tw_artifact a = {0};
    struct tw_registry r;
    int rc = tw_artifact_take(into, &a, b->d->err);
    rc = rc ? rc : dr_staging_open(&b->s, &r, b->d->err);
    if (rc == 0) {
        const struct tw_model *m = tw_registry_model(&r, b->d->asked->model);
        *back = r.faults == 0 && m && m->production == b->version &&
                strcmp(a.digest, b->good.digest) == 0;
        dr_note(b->d,
                *back ? "rolled back: @%llu is in production, artifact %.12s"
                      : "rolled back, but not to @%llu: artifact %.12s",
                (unsigned long long)b->version, a.digest);
        tw_registry_close(&r);
    }
    tw_artifact_free(&a);
    return rc;
}

/* Does the check say of it what it said before? If not: does it repeat itself? */
static int prove_check(struct rollback *b, bool *back, bool *repeats)
{
    struct dr_run r = {.run = NULL}, second = {.run = NULL};
    dr_say(b->d, "the check of what is in production now");
    int rc = run_check(b, &b->good, &r);
    *back = rc == 0 && says_same(b->before.run, r.run);
    if (rc == 0 && !*back) {
        dr_say(b->d, "does the check repeat itself?");
        rc = run_check(b, &b->good, &second);
        *repeats = rc == 0 && says_same(r.run, second.run);
    }
    if (rc == 0)
        dr_note(b->d, *back ? "the check says the same as before"
                            : "the check says something else than before, of equal bytes");
    if (rc == 0 && !*back && !*repeats)
        dr_note(b->d, "the check does not repeat itself");
    twin_run_free(r.run);
    twin_run_free(second.run);
    return rc;
}

static int come_back(struct rollback *b, bool noticed)
{
    struct tw_drill_result *out = b->d->out;
    const uint64_t known_ns = tw_monotonic_ns();
    bool back = false, repeats = true;
    char *into = NULL;
    int code = 0, rc = place(b, "back", &into);
    out->outcome = TW_DRILL_FAILED;
    rc = rc ? rc : roll_back(b, into, &code);
    if (rc == 0 && code == 0)
        rc = prove_digests(b, into, &back);
    if (rc == 0 && back && b->d->asked->rerun)
        dr_note(b->d, "the version's package was replayed, and the same came out");
    if (rc == 0 && back && b->d->asked->argv)
        rc = prove_check(b, &back, &repeats);
    if (rc == 0 && back)
        out->reproduce_s = dr_seconds(known_ns, tw_monotonic_ns());
    if (rc == 0 && back && noticed)
        out->outcome = TW_DRILL_RESTORED;
    if (rc == 0 && !repeats)
        out->outcome = TW_DRILL_NOTHING_SHOWN;
    tw_free(into);
    return rc;
}

int dr_rollback(struct dr_drill *d)
{
    struct rollback b = {.d = d};
    bool noticed = false, repeats = true;
    int rc = dr_staging_begin(d, &b.s, &b.now);
    if (rc == 0 && tw_registry_seal(&b.now) && !tw_store_can_open(b.now.store))
        rc = twin_error_set(d->err, TWIN_EINVAL,
                            "expected --identity FILE: the files of %s are encrypted, and a "
                            "rollback and a check read them",
                            d->asked->registry);
    rc = rc ? rc : find_good(&b);
    rc = rc ? rc : dr_staging_open(&b.s, &b.copy, d->err);
    b.store = b.copy.store;
    if (rc == 0 && d->asked->argv)
        rc = check_good(&b, &repeats);
    if (rc == 0 && repeats) {
        rc = promote_bad(&b);
        if (rc == 0)
            rc = d->asked->argv ? check_bad(&b, &noticed, &repeats) : digest_bad(&b, &noticed);
        if (rc == 0 && repeats)
            rc = come_back(&b, noticed);
    }
    twin_run_free(b.before.run);
    tw_artifact_free(&b.good);
    tw_artifact_free(&b.bad);
    tw_registry_close(&b.copy);
    tw_registry_close(&b.now);
    dr_staging_end(&b.s);
    return rc;
}
