/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a verdict's id to the folders of its runs. Only those of the home that is served are looked
 * at: a ledger of many homes is written by others, and a path that they chose is not opened. A
 * run's name is one name, of a folder that is no link.
 */
#include "pair.h"

#include "answer.h"

#include "base.h"
#include "incident_facts.h"

#include "src/ledger/noted.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { RUNS = SERVE_OTHER_MOST + 1, CHECKS = 20000 };

/* One run of a verdict. dir NULL: its folder is not there. */
struct found {
    char id[33];
    enum twin_ledger_agreed agreed;
    char *name, *dir, *command;
    struct stat st; /* of its run.json */
    bool known;
    int place; /* among those that are compared; -1: none */
};

struct finding {
    const char *home, *own; /* the folder; what the ledger calls it */
    json_t *verdict;
    struct found run[RUNS];
    size_t count, at;
    bool failed;
};

static int take_verdict(void *user, const struct twin_ledger_comparison *c)
{
    struct finding *f = user;
    f->verdict = serve_verdict_json(c);
    f->failed |= !f->verdict;
    for (size_t i = 0; i < c->run_count && f->count < RUNS; i++) {
        struct found *r = &f->run[f->count++];
        snprintf(r->id, sizeof r->id, "%s", c->run_id[i]);
        r->agreed = c->agreed ? c->agreed[i] : TWIN_AGREED_NOT_SAID;
        r->place = -1;
    }
    return 0;
}

static bool is_name(const char *s)
{
    return *s && *s != '.' && !strchr(s, '/') && strlen(s) < 256;
}

/* The folder of a run of this home, if it lies there. */
static int take_run(void *user, const struct twin_ledger_run *r,
                    const struct twin_ledger_facts *facts)
{
    struct finding *f = user;
    struct found *to = &f->run[f->at];
    struct stat st;
    (void)facts;
    to->known = true;
    if (!to->name && !(to->name = tw_strdup(r->name)))
        return TWIN_ENOMEM;
    if (!to->command && !(to->command = tw_strdup(r->command)))
        return TWIN_ENOMEM;
    if (r->gone || to->dir || strcmp(r->home ? r->home : "", f->own) != 0 || !is_name(r->name))
        return 0;
    char *dir = tw_printf("%s/runs/%s", f->home, r->name);
    char *file = dir ? tw_path_join(dir, "run.json") : NULL;
    if (file && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && lstat(file, &to->st) == 0 &&
        S_ISREG(to->st.st_mode)) {
        to->dir = dir;
        dir = NULL;
    }
    const bool failed = !file;
    tw_free(file);
    tw_free(dir);
    return failed ? TWIN_ENOMEM : 0;
}

/* The run that is held against the first: that which was asked for, or the first that differs. */
static size_t other_of(const struct finding *f, const struct serve_query *q)
{
    if (q->other)
        return (size_t)q->other;
    for (size_t i = 1; i < f->count; i++)
        if (f->run[i].agreed == TWIN_AGREED_NOT)
            return i;
    return 1;
}

/* ---- what a child is told */

static bool add_run(struct serve_pair *p, struct found *r, int place)
{
    r->place = place;
    p->argv[3 + 2 * place] = tw_strdup(r->id);
    p->argv[4 + 2 * place] = tw_strdup(r->dir);
    return p->argv[3 + 2 * place] && p->argv[4 + 2 * place];
}

static void put_key(struct tw_buf *b, const struct found *r)
{
    tw_buf_printf(b, "%s %llu %lld %lld.%ld,", r->id, (unsigned long long)r->st.st_ino,
                  (long long)r->st.st_size, (long long)r->st.st_mtim.tv_sec, r->st.st_mtim.tv_nsec);
}

/* The first run, then those that are there, the other one in any case. */
static bool fill(struct serve_pair *p, struct finding *f)
{
    struct tw_buf key = {0};
    int places = 0, other = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < f->count && places < SERVE_CHILD_RUNS; i++) {
        struct found *r = &f->run[i];
        const bool last = places == SERVE_CHILD_RUNS - 1 && !other && i != p->other;
        if (!r->dir || last)
            continue;
        other = i == p->other ? places : other;
        ok = add_run(p, r, places++);
        put_key(&key, r);
    }
    tw_buf_printf(&key, "%d", other);
    p->key = tw_buf_steal(&key);
    p->argv[0] = tw_strdup("twinrun");
    p->argv[1] = tw_strdup("--pictures");
    p->argv[2] = tw_printf("%d", other);
    return ok && p->key && p->argv[0] && p->argv[1] && p->argv[2];
}

/* ---- for a postmortem: two runs, and what the ledger says of them */

static bool fill_for_postmortem(struct serve_pair *p, struct finding *f)
{
    struct found *side[2] = {&f->run[0], &f->run[p->other]};
    struct tw_buf key = {0};
    bool ok = true;
    tw_buf_puts(&key, "postmortem,");
    for (int i = 0; ok && i < 2; i++) {
        ok = add_run(p, side[i], i);
        put_key(&key, side[i]);
    }
    const struct tw_hash128 facts = tw_hash_bytes(p->facts.data, p->facts.len, 0);
    tw_buf_printf(&key, "%llx%llx", (unsigned long long)facts.a, (unsigned long long)facts.b);
    p->key = tw_buf_steal(&key);
    p->argv[0] = tw_strdup("twinrun");
    p->argv[1] = tw_strdup("--postmortem");
    p->argv[2] = tw_strdup(f->home);
    return ok && p->key && p->argv[0] && p->argv[1] && p->argv[2];
}

/* Puts the checks on record into p->facts. An HTTP status as serve_pair_find. */
static int ask_checks(struct twin_ledger *l, const struct finding *f, struct serve_pair *p,
                      const char **why, struct twin_error *err)
{
    struct tw_incident_facts facts = {.most = CHECKS};
    const char *const id[2] = {f->run[0].id, f->run[p->other].id};
    const char *command = f->run[0].command ? f->run[0].command : "";
    const int rc = tw_incident_ask(l, command, id, &facts, err);
    if (rc == 0)
        serve_put_json(tw_incident_checks_json(facts.check, facts.count), &p->facts);
    tw_incident_facts_free(&facts);
    *why = "no memory";
    if (rc == TWIN_ELIMIT)
        *why = "the ledger has more than 20,000 checks of this command; twinrun report "
               "--postmortem has no limit";
    if (rc == TWIN_ELIMIT)
        return 503;
    if (rc != 0)
        return 0;
    return p->facts.failed ? 500 : 200;
}

static json_t *runs_json(const struct finding *f)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < f->count; i++) {
        const struct found *r = &f->run[i];
        json_t *item = json_pack("{s:s,s:o,s:s,s:b,s:o}", "id", r->id, "name",
                                 serve_text(r->name ? r->name : ""), "agreed",
                                 twin_agreed_name(r->agreed), "folder", r->dir != NULL, "place",
                                 r->place < 0 ? json_null() : json_integer(r->place));
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* ---- all of it */

static int look(struct twin_ledger *l, struct finding *f, const struct serve_query *q,
                struct serve_pair *p, const char **why, struct twin_error *err)
{
    int rc = twin_ledger_comparison(l, q->name, take_verdict, f, err);
    for (f->at = 0; rc == 0 && f->at < f->count; f->at++)
        rc = twin_ledger_run_with_facts(l, f->run[f->at].id, take_run, f, err);
    if (rc != 0)
        return 0;
    if (!f->verdict) {
        *why = "no verdict has this id";
        return f->failed ? 500 : 404;
    }
    p->other = other_of(f, q);
    if (f->count < 2 || p->other >= f->count) {
        *why = f->count < 2 ? "this verdict is of one run: there are no two to compare"
                            : "this verdict has no run at the place that `other` names";
        return 409;
    }
    if (!f->run[0].dir || !f->run[p->other].dir) {
        *why = f->run[0].known && f->run[p->other].known
                   ? "the folder of a run is gone, or in another home than this server's: what the "
                     "ledger says is all that is left"
                   : "the ledger does not know a run of this verdict";
        return 410;
    }
    const bool postmortem = q->route == SERVE_POSTMORTEM;
    const int asked = postmortem ? ask_checks(l, f, p, why, err) : 200;
    if (asked != 200)
        return asked;
    const bool whole = postmortem ? fill_for_postmortem(p, f) : fill(p, f);
    p->runs = whole ? runs_json(f) : NULL;
    p->verdict = json_incref(f->verdict);
    return p->runs ? 200 : 500;
}

int serve_pair_find(struct twin_ledger *l, const struct tw_serve_options *o,
                    const struct serve_query *q, struct serve_pair **out, const char **why,
                    struct twin_error *err)
{
    char *own = tw_ledger_home(o->home, o->ledger);
    struct finding *f = tw_calloc(1, sizeof *f);
    struct serve_pair *p = tw_calloc(1, sizeof *p);
    int status = 500;
    *out = NULL;
    *why = "no memory";
    if (own && f && p) {
        f->home = o->home;
        f->own = own;
        status = look(l, f, q, p, why, err);
    }
    for (size_t i = 0; f && i < f->count; i++) {
        tw_free(f->run[i].name);
        tw_free(f->run[i].dir);
        tw_free(f->run[i].command);
    }
    if (f)
        json_decref(f->verdict);
    tw_free(f);
    tw_free(own);
    if (status == 200)
        *out = p;
    else
        serve_pair_free(p);
    return status;
}

void serve_pair_free(struct serve_pair *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < sizeof p->argv / sizeof p->argv[0]; i++)
        tw_free(p->argv[i]);
    json_decref(p->verdict);
    json_decref(p->runs);
    tw_free(p->key);
    tw_buf_free(&p->facts);
    tw_free(p);
}
