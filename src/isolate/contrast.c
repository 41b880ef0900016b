/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pinned world W0, in which every pin is on: one change there is a controlled experiment
 * against a cached reference run. This file makes W0, asks it questions (tw_contrast: do runs
 * diverge when these factors are freed?), and finds a set of factors that brings the divergence
 * back (tw_find).
 *
 * Every question becomes a row of the hypothesis table (s->report->test), and no question is asked
 * twice. Answers are used for other sets, too: what diverges with fewer factors freed diverges with
 * more, and what agreed with more freed counts as clean.
 *
 * First one factor alone is looked for, by weight: see `single`. When none alone seems to be the
 * cause, a minimal set is looked for, by bisection: see `minimal`. What is found is only proposed;
 * confirm.c takes it to fresh natural runs.
 */
#include "search_inside.h"
#include <assert.h>
#include <math.h>
#include <string.h>

/* How much a factor is suspected when runs first diverge in this layer. Row: the factor's layer;
 * column: the layer that was seen, by its first letter. 9 stands where the factor acts itself, 0
 * where it would take a miracle (a batch that differs was not made by cuDNN). Only the order in
 * which candidates are tried depends on these numbers, never a verdict; so they are judgement, not
 * measurement. A candidate that says in `shows` where it shows is suspected at least by 5 there,
 * and hardly elsewhere. No suspicion is 0, since a factor of weight 0 would never be tried. */
double tw_suspicion(const struct twin_candidate *c, int seen_layer)
{
    static const char table[TWIN_SEARCH_LAYERS][TWIN_SEARCH_LAYERS + 1] = {
        /* columns: the layers by their first letters, in the order of the rows */
        /* data */ "913100010015",
        /* rng */ "595410110007",
        /* init */ "109544600002",
        /* forward */ "101950100002",
        /* backward */ "000391100001",
        /* collective */ "001129100011",
        /* optimizer */ "000000910001",
        /* checkpoint */ "333211391003",
        /* environment */ "434322229125",
        /* hardware */ "101332212911",
        /* schedule */ "431455311193",
        /* artifact */ "101000030009",
    };
    /* Is the seen layer one of the words of `shows`? A word has a blank, or an end, on both
     * sides. */
    const char *seen = twin_search_layer_name(seen_layer), *word = c->shows;
    int own = twin_search_layer(c->layer), digit = table[own][seen_layer] - '0';
    assert(own >= 0);
    for (size_t length = strlen(seen); word && (word = strstr(word, seen)) != NULL; word += length)
        if ((word == c->shows || word[-1] == ' ') && (word[length] == '\0' || word[length] == ' '))
            return digit > 5 ? digit : 5;
    return digit && !c->shows ? digit : .02;
}

/* The n with (1 - rate)^n = miss, and at least one. */
uint64_t tw_clean_needed(const struct tw_arm *arm, double miss)
{
    assert(miss > 0 && miss < 1);
    double rate = tw_rate(arm);
    uint64_t n = (uint64_t)ceil(log(miss) / log1p(-rate));
    return n ? n : 1;
}

/* Does the job end well with these pins and all else natural? One attempt decides, or the best of
 * three where natural runs fail by themselves now and then. */
static int ends_well(struct tw_search *s, const struct twin_search_set *pins, bool *well,
                     struct twin_error *err)
{
    *well = false;
    for (unsigned attempt = 0; attempt < (s->natural_failed ? 3 : 1) && !*well; attempt++) {
        size_t done;
        tw_world_natural(s, pins, s->setting);
        int rc = tw_runs(s, TWIN_FOR_PIN_FAILS, 1, 0, 0, &done, err);
        if (rc)
            return rc;
        *well = s->result[0].status == TWIN_ENDED_WELL;
    }
    return 0;
}

/* Bisection over prefixes of the list: with the first `well` pins the job ends well, with the first
 * `fails` it does not. The pin between them is dropped. TW_WORLD_FAILS: there is no pin left to
 * drop. */
int tw_drop_failing_pin(struct tw_search *s, const struct twin_search_set *failing,
                        struct twin_error *err)
{
    size_t pin[TWIN_SEARCH_FACTORS], n = 0, well = 0;
    for (size_t i = 0; i < s->plan->candidates; i++)
        if (s->candidate[i].can_pin && !s->candidate[i].last_resort &&
            !twin_search_has(&s->report->dropped, i) && twin_search_has(failing, i))
            pin[n++] = i;
    size_t fails = n;
    while (fails - well > 1) {
        size_t middle = (well + fails) / 2;
        struct twin_search_set pins = {{0}};
        for (size_t i = 0; i < middle; i++)
            tw_set_add(&pins, pin[i]);
        bool ok;
        int rc = ends_well(s, &pins, &ok, err);
        if (rc)
            return rc;
        if (ok)
            well = middle;
        else
            fails = middle;
    }
    if (fails == 0)
        return TW_WORLD_FAILS;
    tw_set_add(&s->report->dropped, pin[fails - 1]);
    return 0;
}

/* NULL: this set has no reference run yet. */
static const struct tw_reference *known_reference(const struct tw_search *s,
                                                  const struct twin_search_set *freed)
{
    for (size_t i = 0; i < s->reference_count; i++)
        if (tw_set_equal(&s->reference[i].freed, freed))
            return &s->reference[i];
    return NULL;
}

/* Adds a reference run. The first one that is added is W0's. */
static int remember_reference(struct tw_search *s, const struct twin_search_set *freed,
                              uint64_t handle, struct twin_error *err)
{
    struct tw_reference *grown = tw_reallocarray(s->reference, s->reference_count + 1,
                                                 sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "for %zu references", s->reference_count + 1);
    s->reference = grown;
    s->reference[s->reference_count++] = (struct tw_reference){*freed, handle};
    return 0;
}

/* Each time the job fails in W0, one pin is dropped, and W0 is tried anew. Of two arms W0 is A,
 * from which nothing can be dropped. */
int tw_pinned_world(struct tw_search *s, struct twin_error *err)
{
    struct twin_search_set none = {{0}}, all = none;
    for (size_t i = 0; i < s->plan->candidates; i++)
        tw_set_add(&all, i);
    while (s->reference_count == 0) {
        for (unsigned attempt = 0; attempt < (s->natural_failed ? 3 : 2); attempt++) {
            size_t done;
            tw_world_pinned(s, &none, s->setting);
            int rc = tw_runs(s, TWIN_FOR_REFERENCE, 1, 0, 0, &done, err);
            if (rc)
                return rc;
            if (s->result[0].status == TWIN_ENDED_WELL)
                return remember_reference(s, &none, s->result[0].handle, err);
        }
        int rc = s->plan->arms ? TW_WORLD_FAILS : tw_drop_failing_pin(s, &all, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The row of the hypothesis table for this set, made when new. NULL with err set: no memory. Rows
 * may move with the next call. */
static struct twin_search_test *row_of(struct tw_search *s, const struct twin_search_set *freed,
                                       struct twin_error *err)
{
    struct twin_search_report *r = s->report;
    for (size_t i = 0; i < r->test_count; i++)
        if (tw_set_equal(&r->test[i].freed, freed))
            return &r->test[i];
    struct twin_search_test *grown = tw_reallocarray(r->test, r->test_count + 1, sizeof *grown);
    if (!grown) {
        tw_no_memory(err, "for %zu contrasts", r->test_count + 1);
        return NULL;
    }
    r->test = grown;
    r->test[r->test_count] = (struct twin_search_test){.freed = *freed, .step = -1, .layer = -1};
    return &r->test[r->test_count++];
}

/* What the table says already: true when runs are known to diverge with these freed. Else *clean is
 * how many clean comparisons speak for this set. Freeing more never hides a divergence, so rows of
 * smaller sets count when they diverged, and rows of larger ones when they agreed. */
static bool already_parts(const struct tw_search *s, const struct twin_search_set *freed,
                          uint64_t *clean)
{
    *clean = 0;
    for (size_t i = 0; i < s->report->test_count; i++) {
        const struct twin_search_test *t = &s->report->test[i];
        if (t->parted && tw_set_within(&t->freed, freed))
            return true;
        if (!t->parted && tw_set_within(freed, &t->freed))
            *clean += t->compared;
    }
    return false;
}

/* Finds or makes the run that contrasts with these factors freed are compared with. Factors that
 * can be set only take other values than W0's pins gave, so for them W0's own run serves. Factors
 * that are freed, not set, may give other bits than their pins and still be steady, so their
 * reference has them freed as well; that run agreeing with W0 is a clean comparison in itself.
 * TW_WORLD_FAILS: the job does not end well with these freed, in three attempts. */
static int reference_for(struct tw_search *s, const struct twin_search_set *freed, uint64_t *handle,
                         struct twin_error *err)
{
    struct twin_search_set unset = *freed;
    for (size_t i = 0; i < s->plan->candidates; i++)
        if (s->candidate[i].settable)
            tw_set_remove(&unset, i);
    const struct tw_reference *known = known_reference(s, &unset);
    /* freed together with others, they agreed with W0 */
    for (size_t i = 0; i < s->report->test_count && !known; i++)
        if (s->report->test[i].steady && tw_set_within(&unset, &s->report->test[i].freed))
            known = &s->reference[0];
    for (unsigned attempt = 0; !known; attempt++) {
        size_t done;
        tw_world_pinned(s, &unset, s->setting);
        int rc = tw_runs(s, TWIN_FOR_REFERENCE, 1, s->reference[0].handle, 0, &done, err);
        if (rc)
            return rc;
        if (s->result[0].status != TWIN_ENDED_WELL && attempt < 2)
            continue;
        if (s->result[0].status != TWIN_ENDED_WELL)
            return TW_WORLD_FAILS;
        bool steady = !s->result[0].parted;
        rc = remember_reference(s, &unset, s->result[0].handle, err);
        struct twin_search_test *row = rc || !steady ? NULL : row_of(s, &unset, err);
        if (rc || (steady && !row))
            return rc ? rc : TWIN_ENOMEM;
        if (steady) {
            row->compared++;
            row->steady = true;
        }
        known = known_reference(s, &unset);
    }
    *handle = known->handle;
    return 0;
}

/* What the table says already counts, so only the runs that are missing are made. */
int tw_contrast(struct tw_search *s, const struct twin_search_set *freed, uint64_t wanted,
                bool *parted, struct twin_error *err)
{
    uint64_t clean, handle = 0;
    *parted = already_parts(s, freed, &clean);
    for (size_t w = 0; w < TWIN_SEARCH_FACTORS / 64; w++)
        s->report->tested.word[w] |= freed->word[w];
    if (*parted || clean >= wanted)
        return 0;
    int rc = reference_for(s, freed, &handle, err);
    struct twin_search_test *row = row_of(s, freed, err);
    /* *row stays valid from here on: no row is added below. */
    if (!row || (rc && rc != TW_WORLD_FAILS))
        return row ? rc : TWIN_ENOMEM;
    if (rc == TW_WORLD_FAILS) /* W0 ends well and this does not: freeing these matters */
        row->parted = true;
    /* anew: making the reference may have added a clean comparison */
    already_parts(s, freed, &clean);
    while (!row->parted && clean < wanted) {
        size_t rows = tw_runs_at_once(s, wanted - clean), done;
        for (size_t i = 0; i < rows; i++)
            tw_world_pinned(s, freed, s->setting + i * s->plan->candidates);
        rc = tw_runs(s, TWIN_FOR_CONTRAST, wanted - clean, handle, 0, &done, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < done; i++) {
            const struct twin_search_result *x = &s->result[i];
            row->compared++;
            /* Step and layer are those of the first divergence. A run that did not end well has
             * none. */
            if (x->parted && !row->parted && x->status == TWIN_ENDED_WELL) {
                row->step = x->step;
                row->layer = x->layer;
            }
            row->parted |= x->parted;
        }
        clean += done;
    }
    *parted = row->parted;
    return 0;
}

/* Left out are factors without a pin, those of last resort, those that natural runs had in common,
 * dropped pins, and what is pinned already. The weight is the suspicion averaged over the layers in
 * which natural runs first diverged; 1 for all when no layer is known. */
size_t tw_suspects(const struct tw_search *s, const struct twin_search_set *pinned, size_t *list,
                   double *weight)
{
    size_t n = 0;
    for (size_t i = 0; i < s->plan->candidates; i++) {
        const struct twin_candidate *c = &s->candidate[i];
        if (!c->can_pin || c->last_resort || twin_search_has(&s->report->dropped, i) ||
            twin_search_has(&s->report->left_out, i) || twin_search_has(pinned, i))
            continue;
        double w = 0, seen = 0;
        for (int layer = 0; layer < TWIN_SEARCH_LAYERS; layer++) {
            w += (double)s->report->seen[layer] * tw_suspicion(c, layer);
            seen += (double)s->report->seen[layer];
        }
        weight[n] = seen > 0 ? w / seen : 1;
        list[n++] = i;
    }
    return n;
}

/* Sorts by insertion, which keeps equals in their order. Contrasts of settable factors need no
 * reference of their own, so their weight counts twice here. */
void tw_most_suspected_first(const struct tw_search *s, size_t *list, double *weight, size_t n)
{
    for (size_t k = 1; k < n; k++) {
        size_t i = list[k], at = k;
        double w = weight[k], urgency = s->candidate[i].settable ? 2 * w : w;
        for (; at > 0 && (s->candidate[list[at - 1]].settable ? 2 : 1) * weight[at - 1] < urgency;
             at--) {
            list[at] = list[at - 1];
            weight[at] = weight[at - 1];
        }
        list[at] = i;
        weight[at] = w;
    }
}

static double sum(const double *weight, size_t n)
{
    double all = 0;
    for (size_t i = 0; i < n; i++)
        all += weight[i];
    return all;
}

/* Where to cut [low, high) so that both sides weigh as nearly the same as can be; low < cut <
 * high. */
static size_t cut_by_weight(const double *weight, size_t low, size_t high)
{
    assert(high - low >= 2); /* else there is no place between the two */
    double all = sum(weight + low, high - low), left = 0, closest = INFINITY;
    size_t best = low + 1;
    for (size_t i = low; i + 1 < high; i++) {
        left += weight[i];
        if (fabs(left - all / 2) < closest) {
            closest = fabs(left - all / 2);
            best = i + 1;
        }
    }
    return best;
}

/* Keeps those of the list that are in the set, in their order; returns how many. */
static size_t keep_members(size_t *list, double *weight, size_t n,
                           const struct twin_search_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (twin_search_has(set, list[i])) {
            list[kept] = list[i];
            weight[kept++] = weight[i];
        }
    return kept;
}

/* Applies what earlier contrasts say of these candidates, each taken as the only cause: a
 * divergence leaves only those that were freed in it, a clean comparison makes those that were
 * freed less likely by 1 - rate. Returns how many are left in the list. */
static size_t learn_from_tests(const struct tw_search *s, size_t *list, double *weight, size_t n,
                               double rate)
{
    assert(rate > 0 && rate < 1);
    struct twin_search_set all = {{0}};
    for (size_t i = 0; i < n; i++)
        tw_set_add(&all, list[i]);
    for (size_t t = 0; t < s->report->test_count; t++) {
        const struct twin_search_test *row = &s->report->test[t];
        if (row->parted && tw_set_within(&row->freed, &all) && tw_set_count(&row->freed) > 0) {
            n = keep_members(list, weight, n, &row->freed);
            all = row->freed;
        }
        for (size_t i = 0; i < n && !row->parted; i++)
            if (twin_search_has(&row->freed, list[i]))
                weight[i] *= pow(1 - rate, (double)row->compared);
    }
    return n;
}

/* Share of all weight at which one factor is taken to fresh runs although no contrast with it alone
 * has diverged yet. */
#define LIKELY .85

/* Is one candidate likely enough to be the cause to be tried on fresh runs? Not one whose pin was
 * seen not to help, and not of two arms, where contrasts have to name every difference that acts.
 * The list is sorted, but settable factors may stand before a heavier one: then the answer is
 * no. */
static bool likely(const struct tw_search *s, const struct tw_arm *arm, const size_t *list,
                   const double *weight, size_t n, double several)
{
    struct twin_search_set pins = arm->pinned;
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = weight[i] > weight[best] ? i : best;
    if (n == 0 || s->plan->arms || best != 0 || weight[best] < LIKELY * (sum(weight, n) + several))
        return false;
    tw_set_add(&pins, list[best]);
    return !tw_known_to_part(s, &pins);
}

/* Looks for one factor alone, by noisy bisection. The channel is a Z-channel: a divergence proves
 * that the cause is among those freed, a clean comparison makes it less likely by 1 - rate. Gives
 * up, with *found empty, once it is likelier that no factor alone is the cause. That begins with a
 * weight of .002 of all others together, and grows in comparison with each clean answer. */
static int single(struct tw_search *s, const struct tw_arm *arm, struct twin_search_set *found,
                  struct twin_error *err)
{
    size_t list[TWIN_SEARCH_FACTORS];
    double weight[TWIN_SEARCH_FACTORS];
    double rate = tw_least_rate(arm);
    size_t n = tw_suspects(s, &arm->pinned, list, weight);
    double several = 0.002 * sum(weight, n);
    n = learn_from_tests(s, list, weight, n, rate);
    unsigned tests = 0;
    *found = (struct twin_search_set){{0}};
    while (n > 0 && sum(weight, n) > several) {
        tw_most_suspected_first(s, list, weight, n);
        if (tests > 0 && likely(s, arm, list, weight, n, several)) {
            tw_set_add(found, list[0]);
            return 0;
        }
        tests++;
        /* Free about half of the weight, the most suspected first. */
        size_t part = n > 1 ? cut_by_weight(weight, 0, n) : 1;
        double inside = sum(weight, part), outside = sum(weight + part, n - part) + several;
        struct twin_search_set freed = {{0}};
        for (size_t i = 0; i < part; i++)
            tw_set_add(&freed, list[i]);
        /* How many clean comparisons to ask for: until the part has lost half of its odds. Changing
         * the set costs a reference when it has factors that are only freed, so several for one set
         * are cheaper. */
        uint64_t known, more = 1;
        while (inside * pow(1 - rate, (double)more) > .5 * (inside < outside ? inside : outside))
            more++;
        bool parted = already_parts(s, &freed, &known);
        int rc = parted ? 0 : tw_contrast(s, &freed, known + more, &parted, err);
        if (rc)
            return rc;
        /* The cause is one of those freed; the weight of "none alone" starts anew beside them. */
        if (parted) {
            n = part;
            several = 0.002 * inside;
            if (n == 1) {
                *found = freed;
                return 0;
            }
        }
        for (size_t i = 0; i < part && !parted; i++)
            weight[i] *= pow(1 - rate, (double)more);
    }
    return 0;
}

/* Grows a set that diverges. The list is ordered by suspicion. The last element of the shortest
 * list that diverges together with the set so far belongs to the set, and what lies behind it does
 * not; then the same again with the set fixed, until the set is enough by itself. *found stays
 * empty when even the whole list does not diverge. `clean`: comparisons after which a contrast
 * counts as clean. */
static int minimal(struct tw_search *s, const size_t *list, const double *weight, size_t n,
                   uint64_t clean, struct twin_search_set *found, struct twin_error *err)
{
    assert(n > 0 && clean > 0);
    struct twin_search_set set = {{0}};
    *found = set;
    for (size_t high = n; high > 0;) {
        size_t low = 0;
        while (high - low > 1) {
            size_t middle = cut_by_weight(weight, low, high);
            struct twin_search_set prefix = set;
            for (size_t i = 0; i < middle; i++)
                tw_set_add(&prefix, list[i]);
            bool parts;
            int rc = tw_contrast(s, &prefix, clean, &parts, err);
            if (rc)
                return rc;
            if (parts)
                high = middle;
            else
                low = middle;
        }
        tw_set_add(&set, list[--high]);
        bool enough;
        int rc = tw_contrast(s, &set, clean, &enough, err);
        if (rc)
            return rc;
        if (enough) {
            *found = set;
            return 0;
        }
    }
    return 0;
}

/* Takes out of the set what it diverges without: a contrast that was clean by chance may have put
 * it there. */
static int without_bystanders(struct tw_search *s, struct twin_search_set *set, uint64_t clean,
                              struct twin_error *err)
{
    for (size_t i = 0; i < s->plan->candidates && tw_set_count(set) > 1; i++) {
        if (!twin_search_has(set, i))
            continue;
        struct twin_search_set less = *set;
        tw_set_remove(&less, i);
        bool parts;
        int rc = tw_contrast(s, &less, clean, &parts, err);
        if (rc)
            return rc;
        if (parts)
            *set = less;
    }
    return 0;
}

/* First one factor alone, then sets of factors, at two rates of error. */
int tw_find(struct tw_search *s, const struct tw_arm *arm, struct twin_search_set *found,
            struct twin_error *err)
{
    /* Chance of taking a contrast for clean although it diverges: the cheap one first, since a
     * wrong turn ends in a set that does not diverge. */
    static const double miss[] = {.02, .003};
    size_t list[TWIN_SEARCH_FACTORS];
    double weight[TWIN_SEARCH_FACTORS];
    /* a copy, since arms may move when one is made */
    const struct tw_arm seen = *arm;
    int alone = single(s, &seen, found, err);
    if (alone || tw_set_count(found) > 0)
        return alone;
    /* No factor alone brings it back. Before sets are searched, which takes many runs: is it there
     * at all? Two natural runs, since the first run of a new usual class agrees with nothing. */
    for (int i = 0; i < 2 && !alone && !s->plan->arms; i++)
        alone = tw_arm_compare(s, &s->arm[0], 1, err);
    if (!alone && !s->plan->arms)
        alone = tw_still_parts(s, err);
    if (alone)
        return alone;
    size_t n = tw_suspects(s, &seen.pinned, list, weight);
    tw_most_suspected_first(s, list, weight, n);
    for (size_t level = 0; level < sizeof miss / sizeof *miss && n > 0; level++) {
        uint64_t clean = tw_clean_needed(&seen, miss[level]);
        int rc = minimal(s, list, weight, n, clean, found, err);
        if (rc)
            return rc;
        if (tw_set_count(found) > 0)
            return without_bystanders(s, found, clean, err);
    }
    return 0;
}
