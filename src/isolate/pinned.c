/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a search's verdict.json to a world, and from the runs of that world to a word on the pins.
 *
 * A pin that did nothing proves nothing: runs that agree under it may agree by chance, or since
 * something else changed meanwhile. So each pin has to have taken effect in each run, as the runs
 * themselves say (effects.c), before "same" is said of them.
 */
#include "pinned.h"

#include "internal.h"
#include "json_load.h"
#include "json_text.h"

#include "src/trial/journal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { VERDICT_BYTES = 256 << 20 };
#define SCHEMA "twinrun.isolate/1"

/* ---- the search */

/* What its search.json has of this command: no other command, nor two of them, whatever the
 * options. */
static json_t *search_of(const char *home, char *const *argv)
{
    char *cwd = tw_path_absolute(".", NULL);
    json_t *j = cwd ? json_pack("{s:s, s:o, s:o, s:n}", "schema", "twinrun.search/1", "argv",
                                tw_journal_argv(home, argv), "cwd", tw_json_text(cwd), "a")
                    : NULL;
    tw_free(cwd);
    return j;
}

static int64_t changed_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* Is verdict.json there, and the last word? A search that is gone on with adds to its log first. */
static bool has_ended(const char *verdict, const char *log)
{
    struct stat v, l;
    if (!verdict || stat(verdict, &v) != 0)
        return false;
    return !log || stat(log, &l) != 0 || changed_ns(&v) >= changed_ns(&l);
}

/* The factors of the claims "cause", with commas; NULL: there is none, or no memory. */
static char *causes_of(const json_t *verdict)
{
    struct tw_buf b = {0};
    size_t i;
    const json_t *claim;
    json_array_foreach (json_object_get(verdict, "claims"), i, claim) {
        const char *kind = json_string_value(json_object_get(claim, "claim"));
        const char *factor = json_string_value(json_object_get(claim, "factor"));
        if (kind && factor && strcmp(kind, "cause") == 0)
            tw_buf_printf(&b, "%s%s", b.len ? "," : "", factor);
    }
    return b.len ? tw_buf_steal(&b) : NULL;
}

/* Takes causes and a run out of the verdict. */
static int read_verdict(struct tw_pinned *p, const char *path, struct twin_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc = tw_read_file(path, VERDICT_BYTES, &text, &bytes, err);
    json_t *j = rc == 0 ? tw_json_load(text, bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *schema = json_string_value(json_object_get(j, "schema"));
    const char *outcome = json_string_value(json_object_get(j, "outcome"));
    const char *run = json_string_value(json_array_get(json_object_get(j, "runs_dir"), 0));
    if (rc == 0 && schema && strcmp(schema, SCHEMA) != 0) {
        char *found = tw_printable(schema, strlen(schema));
        rc = twin_error_set(err, TWIN_EVERSION,
                            "%s: expected the schema " SCHEMA ", found %.60s: another version of "
                            "twinrun wrote it. Run twinrun isolate again, with this one",
                            path, found ? found : "another");
        tw_free(found);
    }
    if (rc == 0 && schema && outcome && strcmp(outcome, "isolated") == 0) {
        p->list = causes_of(j);
        p->run = run ? tw_strdup(run) : NULL;
    }
    if (rc == 0 && schema && outcome && strcmp(outcome, "no-divergence") == 0)
        rc = twin_error_set(err, TWIN_ENOENT,
                            "the last isolate of this command found no divergence, and so no pin: "
                            "%s. There is nothing to prove; twinrun check without --pinned looks "
                            "at the job as it is",
                            p->folder);
    else if (rc == 0 && (!p->list || !p->run))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected an isolated cause and the runs behind it, as isolate "
                            "writes them; found neither. Run twinrun isolate again",
                            path);
    tw_free(text);
    json_decref(j);
    return rc;
}

int tw_pins_find(const char *home, char *const *argv, struct tw_pinned *out, struct twin_error *err)
{
    *out = (struct tw_pinned){.plan = {.cpu = -1}};
    json_t *like = search_of(home, argv);
    out->folder = tw_journal_newest(home, "searches", "search.json", like);
    char *verdict = out->folder ? tw_path_join(out->folder, "verdict.json") : NULL;
    char *log = out->folder ? tw_path_join(out->folder, "log.jsonl") : NULL;
    int rc = 0;
    if (!like)
        rc = tw_no_memory(err, "looking for a search");
    else if (!out->folder)
        rc = twin_error_set(err, TWIN_ENOENT,
                            "expected a search of this very command, made in this folder, in "
                            "%s/searches; found none. Run twinrun isolate with the same command "
                            "first: it finds the pins",
                            home);
    else if (!has_ended(verdict, log))
        rc = twin_error_set(err, TWIN_ENOENT,
                            "the last isolate of this command named no cause, or has not ended: "
                            "%s. twinrun isolate --resume with its options goes on, or says how it "
                            "ended",
                            out->folder);
    else
        rc = read_verdict(out, verdict, err);
    tw_free(log);
    tw_free(verdict);
    json_decref(like);
    return rc;
}

/* ---- the world */

/* Does the world hold still exactly the factors of the list? isolate writes plain ids, and the list
 * is said in the verdict: "threads=vary" or "all,-threads" must not stand there as pins. */
static bool is_of_plain_ids(const struct twin_world *w, const char *list)
{
    size_t count = 0;
    for (const char *at = list; *at; count++) {
        const size_t n = strcspn(at, ",");
        bool named = false;
        for (size_t i = 0; i < w->count && !named; i++) {
            const char *id = w->setting[i].factor->id;
            named = strlen(id) == n && memcmp(id, at, n) == 0 && w->setting[i].mode == TWIN_PIN;
        }
        if (!named)
            return false;
        at += n + (at[n] == ',');
    }
    return count == w->count;
}

int tw_pins_world(struct tw_pinned *p, char *const *argv, const char *factor_file,
                  struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    int rc = twin_factors_load(factor_file, &p->factors, err);
    if (rc != 0)
        return rc;
    rc = twin_world_parse(&p->factors, p->list, &p->world, NULL, &why);
    if (rc != 0)
        return twin_error_set(err, rc,
                              "isolate named %s, which a check cannot hold still: %s. The report "
                              "of the search says what else to do: %s/report.html",
                              p->list, why.message, p->folder);
    if (!is_of_plain_ids(&p->world, p->list))
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s/verdict.json: expected causes by the names that twinrun factors "
                              "lists, each once; found %s. Run twinrun isolate again",
                              p->folder, p->list);
    rc = twin_world_plan(&p->world, argv, &p->plan, err);
    /* as in the search: each factor is held by its own pin */
    return rc ? rc : twin_world_plan_apart(&p->plan, &p->world, err);
}

void tw_pins_close(struct tw_pinned *p)
{
    twin_world_plan_free(&p->plan);
    twin_world_free(&p->world);
    twin_factors_free(&p->factors);
    tw_free(p->folder);
    tw_free(p->run);
    tw_free(p->list);
    *p = (struct tw_pinned){.plan = {.cpu = -1}};
}

void tw_pins_dress(void *p, struct twin_launch_options *o)
{
    const struct tw_pinned *pinned = p;
    twin_world_plan_apply(&pinned->plan, o);
}

/* ---- the word on the pins */

/* Why a pin proves nothing: the first run in which it was not in force, and in how many more. */
struct doubt {
    enum twin_effect effect;
    size_t run, more; /* run: from 1; 0: there is no doubt */
    char *why;
};

static void tell(struct twin_verdict *v, const struct twin_factor *f, const struct doubt *d)
{
    static const char *const what[] = {
        [TWIN_EFFECT_UNKNOWN] = "it is not known whether the pin of %s took effect in run %zu%s: "
                                "%s",
        [TWIN_EFFECT_NOT_USED] = "the pin of %s had nothing to hold in run %zu%s: %s",
        [TWIN_EFFECT_FAILED] = "the pin of %s did not take effect in run %zu%s: %s",
    };
    char more[40] = "";
    if (d->more)
        snprintf(more, sizeof more, " and %zu more", d->more);
    twin_verdict_unseen(v, what[d->effect], f->id, d->run, more,
                        d->why && *d->why ? d->why : "why is not known");
}

int tw_pins_judge(const struct tw_pinned *p, struct twin_run *const *runs, size_t count,
                  struct twin_verdict *v, struct twin_error *err)
{
    struct doubt *doubt = tw_calloc(p->world.count + 1, sizeof *doubt);
    bool held = true;
    int rc = doubt ? 0 : tw_no_memory(err, "judging pins");
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct twin_world_effect *e = NULL;
        rc = twin_world_effects(&p->world, runs[i], &e, err);
        for (size_t k = 0; rc == 0 && k < p->world.count; k++) {
            struct doubt *d = &doubt[k];
            if (e[k].effect == TWIN_EFFECT_IN_FORCE)
                continue;
            held = false;
            if (d->run) {
                d->more++;
                continue;
            }
            d->effect = e[k].effect;
            d->run = i + 1;
            d->why = e[k].text ? tw_printable(e[k].text, strlen(e[k].text)) : NULL;
        }
        twin_world_effects_free(e, p->world.count);
    }
    for (size_t k = 0; doubt && k < p->world.count; k++) {
        if (rc == 0 && doubt[k].run)
            tell(v, p->world.setting[k].factor, &doubt[k]);
        tw_free(doubt[k].why);
    }
    tw_free(doubt);
    if (rc != 0)
        return rc;
    return twin_verdict_pinned(v, p->list, p->folder, held, err);
}
