/* SPDX-License-Identifier: Apache-2.0 */
/* Step 2 of the lab: the same command, and everything held still that can be. Are same-seed runs
 * equal now? A job that fails under all pins is tried under each pin alone; those that break it are
 * left out, and the step is made again without them. It passes when every pin took effect and no
 * two runs are further apart than the bars allow. */
#include "lab.h"

#include "json_text.h"
#include "phrase.h"
#include "run_state.h"

#include <math.h>
#include <string.h>

/* What became of the pins, as the runs themselves said. */
struct pins {
    struct twin_world_effect *effect;
    size_t count;
};

/* What became of one pin, in the words of the page and of the JSON. */
static const char *effect_word(const struct twin_world_effect *e)
{
    if (e->effect == TWIN_EFFECT_NOT_USED && e->text && tw_starts(e->text, "overridden:"))
        return "set by the job itself";
    static const char *const words[] = {[TWIN_EFFECT_UNKNOWN] = "not known",
                                        [TWIN_EFFECT_IN_FORCE] = "in force",
                                        [TWIN_EFFECT_NOT_USED] = "not used",
                                        [TWIN_EFFECT_FAILED] = "failed"};
    return words[e->effect];
}

/* The pins of which `word` is true, with commas between. NULL: none. */
static char *names_of(const struct tw_lab_world *w, const struct pins *p, const char *word)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(effect_word(&p->effect[i]), word) == 0)
            tw_buf_printf(&b, "%s%s", b.len ? ", " : "", w->world.setting[i].factor->id);
    return b.len ? tw_buf_steal(&b) : NULL;
}

/* Of how many pins `word` is true. */
static size_t count_of(const struct pins *p, const char *word)
{
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++)
        n += strcmp(effect_word(&p->effect[i]), word) == 0;
    return n;
}

/* The pins that are in force, or those that are not. */
static json_t *settings_json(const struct tw_lab_world *w, const struct pins *p, bool in_force)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->count; i++) {
        const struct twin_factor *f = w->world.setting[i].factor;
        const char *word = effect_word(&p->effect[i]);
        if ((strcmp(word, "in force") == 0) == in_force)
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", f->id, "layer", f->layer, "pin",
                                f->pin ? f->pin : f->title, "effect", word, "said",
                                tw_json_text(p->effect[i].text ? p->effect[i].text : "")));
    }
    return list;
}

/* ---- a job that fails under the pins */

/* Each pin alone: those under which the job fails are named in *list ("-threads,-aslr"), as they
 * are left out. */
static int find_breaking(struct tw_lab *lab, const struct tw_lab_world *all, struct tw_buf *list,
                         struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < all->world.count && rc == 0 && !lab->interrupted; i++) {
        struct tw_lab_world one;
        struct tw_lab_run r;
        char title[64];
        const char *id = all->world.setting[i].factor->id;
        rc = tw_lab_world(lab, id, &one, err);
        if (rc != 0)
            break;
        snprintf(title, sizeof title, "only %-19s", id);
        rc = tw_lab_run(lab, &one, TWIN_LEVEL_TENSORS, title, &r, err);
        if (rc == 0 && (r.run->outcome != TWIN_RUN_EXITED || r.run->exit_code != 0))
            tw_buf_printf(list, ",-%s", id);
        tw_lab_run_free(&r);
        tw_lab_world_free(&one);
    }
    return rc;
}

/* Is the last run one that did not end well? */
static bool last_failed(const struct tw_lab_set *set)
{
    const struct twin_run *r = set->count ? set->run[set->count - 1].run : NULL;
    return r && (r->outcome != TWIN_RUN_EXITED || r->exit_code != 0);
}

/* ---- the step */

/* The widest gaps between any two of the runs. */
struct pinned {
    double loss, l2;
    bool equal, exact;
    size_t classes;
    bool given;
    int64_t broken_step; /* at which a loss was no number; -1 */
};

/* The widest gaps between any two runs; each pair goes to the list. */
static int measure_pairs(const struct tw_lab_set *set, struct pinned *m, json_t *list,
                         struct twin_error *err)
{
    *m = (struct pinned){.equal = true,
                         .exact = true,
                         .given = true,
                         .classes = tw_lab_classes(set),
                         .broken_step = -1};
    for (size_t i = 0; i < set->count; i++) {
        const int64_t step = set->run[i].ends.nonfinite_step;
        m->broken_step = step >= 0 && (m->broken_step < 0 || step < m->broken_step)
                             ? step
                             : m->broken_step;
        for (size_t k = i + 1; k < set->count; k++) {
            struct twin_gap g;
            int rc = tw_lab_gap(&set->run[i], &set->run[k], &g, err);
            if (rc != 0)
                return rc;
            m->loss = isnan(g.loss) || isnan(m->loss) ? NAN : fmax(m->loss, g.loss);
            m->l2 = isnan(g.l2) || isnan(m->l2) ? NAN : fmax(m->l2, g.l2);
            m->equal &= g.equal;
            m->exact &= g.exact;
            for (int w = 0; w < TWIN_GIVEN_COUNT; w++)
                m->given &= !twin_ends_given_differ(&set->run[i].ends, &set->run[k].ends,
                                                    (enum twin_given)w);
            json_array_append_new(list, tw_lab_gap_json(i + 1, k + 1, &g));
        }
    }
    m->equal &= m->classes == 1;
    return 0;
}

/* What the step comes to. failed: pins without effect. */
static void decide_pins(struct tw_lab_step *s, const struct tw_lab_set *set, const struct pinned *m,
                        size_t failed)
{
    const size_t n = set->count;
    if (failed)
        tw_lab_decide(s, TW_LAB_FAIL, "%zu pin%s did not take effect", failed, tw_plural_s(failed));
    else if (!m->given)
        tw_lab_decide(s, TW_LAB_FAIL,
                      "the runs are still given other weights, batches or random numbers");
    else if (m->broken_step >= 0)
        tw_lab_decide(s, TW_LAB_OPEN, "the loss is not a number from step %lld on: %s",
                      (long long)m->broken_step,
                      m->equal
                          ? "the weights are equal bit for bit, and that is all that can be said"
                          : "there is no gap to measure");
    else if (isnan(m->loss) && !isnan(m->l2))
        tw_lab_decide(s, TW_LAB_OPEN, "%s, and there is no loss to compare",
                      m->equal ? "the weights are equal bit for bit" : "the weights are known");
    else if (isnan(m->loss) || isnan(m->l2))
        tw_lab_decide(s, TW_LAB_OPEN,
                      "no weights were seen: let the job write them at its end, and name the file "
                      "with --weights");
    else if (n < 2)
        tw_lab_decide(s, TW_LAB_OPEN, "one run shows nothing: at least 2 are needed (--runs)");
    else if (!(m->loss < TW_LAB_SAME_LOSS && m->l2 < TW_LAB_SAME_L2))
        tw_lab_decide(s, TW_LAB_FAIL,
                      "same-seed runs still diverge: twinrun isolate finds out why");
    else if (m->equal)
        tw_lab_decide(
            s, TW_LAB_PASS,
            "equal bit for bit; %zu runs cannot exclude a divergence in up to %.0f%% of runs", n,
            100 * twin_stats_zero_bound(n - 1, TW_LAB_CONFIDENCE));
    else
        tw_lab_decide(s, TW_LAB_PASS,
                      "below the bars, not bit for bit: %zu different results in %zu runs",
                      m->classes, n);
}

/* The lines of the page. */
static void say_pins(struct tw_lab_step *s, const struct tw_lab_world *w, const struct pins *p,
                     const struct tw_lab_set *set, const struct pinned *m)
{
    static const struct {
        const char *word, *label;
    } groups[] = {
        {"in force", "in force"},
        {"failed", "FAILED"},
        {"set by the job itself", "by the job"},
        {"not known", "not known"},
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        char *names = names_of(w, p, groups[i].word);
        if (names)
            tw_lab_line(s, groups[i].label, "%s", names);
        tw_free(names);
    }
    if (count_of(p, "not used"))
        tw_lab_line(s, "not used", "%zu more pins have nothing to act on in this job",
                    count_of(p, "not used"));
    if (!isnan(m->loss))
        tw_lab_line(s, "loss", "largest gap of two of %zu runs %.2g; required: below %g",
                    set->count, m->loss, TW_LAB_SAME_LOSS);
    if (!isnan(m->l2))
        tw_lab_line(s, "weights", "largest L2 distance %.2g%s; required: below %g", m->l2,
                    m->exact ? "" : " (estimated from sketches)", TW_LAB_SAME_L2);
    if (s->result == TW_LAB_PASS)
        tw_lab_line(s, "means", "%s",
                    m->equal
                        ? "held still like this, the same seed gives the same model here"
                        : "held still like this, the same seed gives nearly the same model here");
}

/* Compares all runs of the set pair by pair, and judges the pins. */
static int compare_runs(struct tw_lab_step *s, const struct tw_lab_world *w,
                        const struct tw_lab_set *set, struct twin_error *err)
{
    struct pins p = {NULL, w->world.count};
    struct pinned m;
    json_t *pairs = json_array();
    int rc = twin_world_effects(&w->world, set->run[0].run, &p.effect, err);
    rc = rc ? rc : measure_pairs(set, &m, pairs, err);
    if (rc == 0) {
        decide_pins(s, set, &m, count_of(&p, "failed"));
        say_pins(s, w, &p, set, &m);
        json_object_set_new(s->json, "determinism_settings", settings_json(w, &p, true));
        json_object_set_new(s->json, "not_in_force", settings_json(w, &p, false));
        json_object_set_new(s->json, "left_out", tw_json_text(w->left_out ? w->left_out : ""));
        json_object_set_new(s->json, "loss_gap", tw_json_number(m.loss));
        json_object_set_new(s->json, "weights_l2", tw_json_number(m.l2));
        json_object_set_new(s->json, "exact", json_boolean(m.exact));
        json_object_set_new(s->json, "bit_equal", json_boolean(m.equal));
        json_object_set_new(
            s->json, "p_diverge_upper",
            tw_json_number(m.equal && set->count > 1
                               ? twin_stats_zero_bound(set->count - 1, TW_LAB_CONFIDENCE)
                               : NAN));
    }
    json_object_set(s->json, "pairs", pairs);
    json_decref(pairs);
    twin_world_effects_free(p.effect, p.count);
    return rc;
}

int tw_lab_pins(struct tw_lab *lab, struct tw_lab_step *s, struct twin_error *err)
{
    const size_t wanted = lab->args.runs < 5 ? (size_t)lab->args.runs : 5;
    struct tw_lab_world w;
    struct tw_lab_set set = {0};
    struct tw_buf list = {0};
    tw_buf_puts(&list, lab->args.pin ? lab->args.pin : "");
    tw_buf_printf(&list, "%sall", list.len ? "," : "");
    s->json = json_object();
    int rc = list.failed ? tw_no_memory(err, "for a list of pins")
                         : tw_lab_world(lab, list.data, &w, err);
    if (rc != 0) {
        tw_buf_free(&list);
        return rc;
    }
    rc = tw_lab_set_make(lab, &w, wanted, "pinned", &set, err);
    /* The very first run failed: some pin breaks the job. */
    if (rc == 0 && !lab->interrupted && last_failed(&set) && set.count == 1) {
        const size_t before = list.len;
        rc = find_breaking(lab, &w, &list, err);
        if (rc == 0 && list.len > before && !lab->interrupted) {
            const char *names = list.data + before + 2; /* behind the first ",-" */
            tw_lab_line(s, "left out", "%s: the job fails under %s alone", names,
                        strchr(names, ',') ? "each of them" : "it");
            json_object_set_new(s->json, "job_fails_under", tw_json_text(names));
            tw_lab_set_free(&set);
            tw_lab_world_free(&w);
            rc = tw_lab_world(lab, list.data, &w, err);
            rc = rc ? rc : tw_lab_set_make(lab, &w, wanted, "pinned", &set, err);
        }
    }
    if (rc == 0 && !lab->interrupted && last_failed(&set)) {
        char *words = tw_run_last_words(set.run[set.count - 1].run);
        tw_lab_decide(s, TW_LAB_FAIL, "the job fails under the pins%s%s", words ? ": " : "",
                      words ? words : "");
        tw_free(words);
    } else if (rc == 0 && !lab->interrupted) {
        rc = compare_runs(s, &w, &set, err);
    }
    json_object_set_new(s->json, "runs", tw_lab_runs_json(&set));
    s->command = tw_printf("--pin %s", list.data);
    lab->pins = tw_strdup(list.data);
    tw_lab_set_free(&set);
    tw_lab_world_free(&w);
    tw_buf_free(&list);
    return rc;
}
