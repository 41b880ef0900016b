/* SPDX-License-Identifier: Apache-2.0 */
/* A rollout in words: what is in force, what was seen of both arms, and what was decided. */
#include "rollout_words.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

#include <math.h>
#include <string.h>

static double percent(uint32_t share)
{
    return (double)share / (TW_ROLLOUT_WHOLE / 100);
}

static bool decides(const char *verb)
{
    return strcmp(verb, "step") == 0 || strcmp(verb, "status") == 0;
}

/* ---- words */

static void print_arm(FILE *out, const struct tw_rollout_result *r, enum tw_rollout_arm a)
{
    const uint64_t diverged = r->seen.arm[a].diverged, n = diverged + r->seen.arm[a].same;
    const struct twin_interval *i = &r->judged.diverged[a].interval;
    char time[24];
    tw_put_to(out, "%-8s  %llu run%s, %llu failed", a == TW_ROLLOUT_CANARY ? "with" : "without",
              (unsigned long long)r->seen.arm[a].runs, tw_plural_s(r->seen.arm[a].runs),
              (unsigned long long)r->seen.arm[a].failed);
    if (r->seen.arm[a].outside)
        tw_put_to(out, ", %llu ended from outside", (unsigned long long)r->seen.arm[a].outside);
    tw_put_to(out, "; %llu of %llu repeats diverged", (unsigned long long)diverged,
              (unsigned long long)n);
    if (n)
        tw_put_to(out, " (%.3g%% to %.3g%%)", 100 * i->low, 100 * i->high);
    if (r->seen.arm[a].unknown)
        tw_put_to(out, ", %llu not known", (unsigned long long)r->seen.arm[a].unknown);
    if (!isnan(r->seen.arm[a].wall_s))
        tw_put_to(out, "; %s", tw_human_seconds(r->seen.arm[a].wall_s, time));
    if (!isnan(r->seen.arm[a].loss))
        tw_put_to(out, "; last loss %.6g", r->seen.arm[a].loss);
    if (!isnan(r->seen.arm[a].sd))
        tw_put_to(out, " +- %.3g", r->seen.arm[a].sd);
    tw_put_to(out, "\n");
}

static void print_figure(FILE *out, const char *name, const struct tw_rollout_figure *f,
                         double scale, const char *unit)
{
    if (!f->n)
        return;
    tw_put_to(out, "%-8s  %.4g%s (%.4g%s to %.4g%s, %llu pair%s)\n", name, scale * f->value, unit,
              scale * f->interval.low, unit, scale * f->interval.high, unit,
              (unsigned long long)f->n, tw_plural_s(f->n));
}

/* Whether the pins took effect: in how many they did not, and of how many it is not known. */
static void print_force(FILE *out, const struct tw_rollout_seen *s)
{
    const uint64_t runs = s->arm[TW_ROLLOUT_CANARY].runs;
    if (s->out_of_force)
        tw_put_to(out, "no effect in %llu of %llu run%s with the fix a pin did not take effect\n",
                  (unsigned long long)s->out_of_force, (unsigned long long)s->force_known,
                  tw_plural_s(s->force_known));
    if (s->force_known < runs)
        tw_put_to(out,
                  "effect    not known of %llu of %llu run%s with the fix whether the pins took "
                  "effect\n",
                  (unsigned long long)(runs - s->force_known), (unsigned long long)runs,
                  tw_plural_s(runs));
}

static void print_seen(FILE *out, const struct tw_rollout_result *r)
{
    const struct tw_rollout_seen *s = &r->seen;
    print_arm(out, r, TW_ROLLOUT_CANARY);
    print_arm(out, r, TW_ROLLOUT_CONTROL);
    print_figure(out, "time", &r->judged.time, 1, "");
    print_figure(out, "loss", &r->judged.loss, 100, "%");
    print_figure(out, "spread", &r->judged.spread, 1, "");
    if (r->judged.failed.n)
        tw_put_to(out,
                  "failed    in %llu pairs only the run with the fix did not end well, in %llu "
                  "only that without\n",
                  (unsigned long long)s->failed_canary, (unsigned long long)s->failed_control);
    if (s->going_on)
        tw_put_to(out, "going on  %llu run%s of which no end is known here\n",
                  (unsigned long long)s->going_on, tw_plural_s(s->going_on));
    if (s->after)
        tw_put_to(out, "fallback  %llu run%s\n", (unsigned long long)s->after,
                  tw_plural_s(s->after));
    if (s->nameless)
        tw_put_to(out,
                  "apart     %llu run%s whose code is not known: only twinrun shadow compares "
                  "them\n",
                  (unsigned long long)s->nameless, tw_plural_s(s->nameless));
    if (s->overridden)
        tw_put_to(out, "left out  %llu run%s whose command line sets what the fix sets\n",
                  (unsigned long long)s->overridden, tw_plural_s(s->overridden));
    print_force(out, s);
    if (s->off)
        tw_put_to(out, "off       %llu run%s could not use the flag file, the last one: %s\n",
                  (unsigned long long)s->off, tw_plural_s(s->off), s->off_why);
    if (s->missing)
        tw_put_to(out, "missing   %llu run%s of which the ledger knows nothing else\n",
                  (unsigned long long)s->missing, tw_plural_s(s->missing));
    if (r->incomplete)
        tw_put_to(out,
                  "not made  %zu comparison%s: a run folder could not be read, or the ledger "
                  "not be written\n",
                  r->incomplete, tw_plural_s(r->incomplete));
}

void tw_rollout_print(FILE *out, const char *verb, const char *flag,
                      const struct tw_rollout_result *r)
{
    const struct tw_rollout_flag *f = &r->flag;
    if (r->busy) {
        tw_put_to(out, "another twinrun rollout is at work on %s: nothing was done\n", flag);
        return;
    }
    tw_put_to(out, "rollout %s  %s: %.4g%% of the runs get %s%s%s%s\n", f->id,
              tw_rollout_state_name(f->state), percent(f->share), f->pins, r->fix_of ? " (" : "",
              r->fix_of ? r->fix_of : "", r->fix_of ? ")" : "");
    if (f->state == TW_ROLLOUT_FALLBACK)
        tw_put_to(out, "all runs get %s\n", f->fallback);
    if (decides(verb))
        print_seen(out, r);
    if (strcmp(verb, "status") == 0 && f->state == TW_ROLLOUT_ON)
        tw_put_to(out, "the next step would be: %s: %s\n",
                  tw_rollout_decision_name(r->judged.decision), r->judged.why);
    if (strcmp(verb, "step") == 0 && !r->changed && f->state == TW_ROLLOUT_ON)
        tw_put_to(out, "nothing new: %s\n", r->judged.why);
    if (r->changed || strcmp(verb, "status") == 0)
        tw_put_to(out, "decision %llu: %s: %s\n", (unsigned long long)f->sequence,
                  tw_rollout_decision_name(f->decision), f->said);
    if (r->unwritten)
        tw_put_to(out, "the ledger does not have it yet, the next step writes it: %s\n",
                  r->unwritten_why ? r->unwritten_why : "out of memory");
    if (strcmp(verb, "start") == 0)
        tw_put_to(out,
                  "next: TWINRUN_ROLLOUT=%s in the environment of the jobs that twinrun "
                  "record or run starts, and twinrun rollout step in cron\n",
                  flag);
}

void tw_rollout_print_list(FILE *out, const struct tw_rollout_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        const struct tw_rollout_entry *e = &log->entry[i];
        char when[32];
        if (i + 1 < log->count && strcmp(e[1].id, e->id) == 0)
            continue;
        tw_utc_stamp(e->time_ns, when);
        tw_put_to(out, "%s  %s  %3llu  %-9s  %s\n", e->id, when, (unsigned long long)e->sequence,
                  e->decision, e->said);
    }
    if (log->count == 0)
        tw_put_to(out, "no rollout\n");
}

/* ---- of all rollouts, from the ledger */

const char *tw_rollout_told_state(const struct tw_rollout_told *t)
{
    const char *fell_back = tw_rollout_decision_name(TW_ROLLOUT_FELL_BACK);
    if (tw_rollout_is_running(t))
        return "running";
    return strcmp(t->decision, fell_back) == 0 ? "fell back" : "stopped";
}

static void print_rate(FILE *out, const char *arm, const struct tw_rollout_rate *r)
{
    const uint64_t n = r->same + r->diverged;
    tw_put_to(out, "  %s %llu of %llu", arm, (unsigned long long)r->diverged,
              (unsigned long long)n);
    if (n)
        tw_put_to(out, " [%.4g%%, %.4g%%]", 100 * r->exact.low, 100 * r->exact.high);
    if (r->unknown)
        tw_put_to(out, " (%llu not known)", (unsigned long long)r->unknown);
}

void tw_rollout_told_print(FILE *out, const struct tw_rollout_list *list)
{
    if (list->count)
        tw_put_to(out, "\nrollouts of a fix, by the ledger: repeats that diverged\n");
    for (size_t i = 0; i < list->count; i++) {
        const struct tw_rollout_told *t = &list->item[i];
        char when[32];
        tw_utc_stamp(t->decided_ns, when);
        tw_put_to(out, "%s  %-9s  %s %s: %s\n", t->id, tw_rollout_told_state(t), when, t->decision,
                  t->said);
        for (size_t j = 0; j < t->projects; j++) {
            const struct tw_rollout_project *p = &t->project[j];
            if (j == 0)
                tw_put_to(out, "    %-28s", "all");
            else
                tw_put_to(out, "    project %-20.60s", p->name);
            print_rate(out, "without", &p->arm[TW_ROLLOUT_CONTROL]);
            print_rate(out, "with", &p->arm[TW_ROLLOUT_CANARY]);
            tw_put_to(out, "\n");
        }
    }
}

/* ---- JSON */

static json_t *interval_json(struct twin_interval i)
{
    return json_pack("{s:o, s:o}", "low", tw_json_number(i.low), "high", tw_json_number(i.high));
}

static json_t *figure_json(const struct tw_rollout_figure *f)
{
    return json_pack("{s:o, s:o, s:o}", "value", tw_json_number(f->value), "interval",
                     interval_json(f->interval), "pairs", tw_json_count(f->n));
}

static json_t *arm_json(const struct tw_rollout_result *r, enum tw_rollout_arm a)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "runs",
        tw_json_count(r->seen.arm[a].runs), "failed", tw_json_count(r->seen.arm[a].failed),
        "ended_from_outside", tw_json_count(r->seen.arm[a].outside), "same",
        tw_json_count(r->seen.arm[a].same), "diverged", tw_json_count(r->seen.arm[a].diverged),
        "not_known", tw_json_count(r->seen.arm[a].unknown), "rate",
        tw_json_number(r->judged.diverged[a].value), "interval",
        interval_json(r->judged.diverged[a].interval), "exact_95",
        interval_json(r->judged.exact[a]), "wall_s", tw_json_number(r->seen.arm[a].wall_s), "loss",
        tw_json_number(r->seen.arm[a].loss), "sd", tw_json_number(r->seen.arm[a].sd), "sd_95",
        interval_json(r->judged.sd[a]));
}

static json_t *entry_json(const struct tw_rollout_entry *e)
{
    return json_pack("{s:s, s:o, s:I, s:o, s:o}", "rollout", e->id, "sequence",
                     tw_json_count(e->sequence), "time_ns", (json_int_t)e->time_ns, "decision",
                     tw_json_text(e->decision), "said", tw_json_text(e->said));
}

static json_t *log_json(const struct tw_rollout_log *log)
{
    json_t *list = json_array();
    for (size_t i = 0; log && i < log->count; i++)
        json_array_append_new(list, entry_json(&log->entry[i]));
    return list;
}

static json_t *rule_json(const struct tw_rollout_rule *r)
{
    json_t *ladder = json_array();
    for (size_t i = 0; i < r->steps; i++)
        json_array_append_new(ladder, json_real((double)r->ladder[i] / TW_ROLLOUT_WHOLE));
    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:o}", "alpha", r->alpha, "max_slowdown",
                     r->max_slowdown, "max_divergence", r->max_divergence, "max_loss", r->max_loss,
                     "least", tw_json_count(r->least), "ladder", ladder);
}

/* Of a verb that looked at the ledger. */
static json_t *seen_json(const struct tw_rollout_result *r)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, "
        "s:s}",
        "canary", arm_json(r, TW_ROLLOUT_CANARY), "control", arm_json(r, TW_ROLLOUT_CONTROL),
        "time", figure_json(&r->judged.time), "loss", figure_json(&r->judged.loss), "spread",
        figure_json(&r->judged.spread), "failed_canary", tw_json_count(r->seen.failed_canary),
        "failed_control", tw_json_count(r->seen.failed_control), "fallback_runs",
        tw_json_count(r->seen.after), "overridden", tw_json_count(r->seen.overridden), "off",
        tw_json_count(r->seen.off), "off_why", tw_json_text(r->seen.off_why), "inputs_not_known",
        tw_json_count(r->seen.nameless), "missing", tw_json_count(r->seen.missing), "going_on",
        tw_json_count(r->seen.going_on), "no_effect", tw_json_count(r->seen.out_of_force),
        "effect_known", tw_json_count(r->seen.force_known), "judged",
        tw_rollout_decision_name(r->judged.decision), "why", r->judged.why);
}

json_t *tw_rollout_json(const char *verb, const char *flag, const struct tw_rollout_result *r,
                        const struct tw_rollout_log *log)
{
    const struct tw_rollout_flag *f = &r->flag;
    if (r->busy)
        return json_pack("{s:s, s:s, s:o, s:b}", "schema", "twinrun.rollout/1", "verb", verb,
                         "flag", tw_json_text(flag), "busy", 1);
    return json_pack("{s:s, s:s, s:o, s:b, s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:s, "
                     "s:o, s:b, s:b, s:o, s:o, s:o, s:o}",
                     "schema", "twinrun.rollout/1", "verb", verb, "flag", tw_json_text(flag),
                     "busy", 0, "rollout", f->id, "state", tw_rollout_state_name(f->state), "share",
                     (double)f->share / TW_ROLLOUT_WHOLE, "pins", tw_json_text(f->pins), "fix_of",
                     tw_json_text(r->fix_of), "fallback", tw_json_text(f->fallback), "project",
                     tw_json_text(f->project), "rule", rule_json(&f->rule), "sequence",
                     tw_json_count(f->sequence), "decided_ns", (json_int_t)f->decided_ns,
                     "decision", tw_rollout_decision_name(f->decision), "said",
                     tw_json_text(f->said), "changed", r->changed, "in_ledger", !r->unwritten,
                     "compared", tw_json_count(r->compared), "not_compared",
                     tw_json_count(r->incomplete), "seen",
                     decides(verb) ? seen_json(r) : json_null(), "decisions", log_json(log));
}

json_t *tw_rollout_list_json(const struct tw_rollout_log *log)
{
    return json_pack("{s:s, s:s, s:o}", "schema", "twinrun.rollout/1", "verb", "list", "decisions",
                     log_json(log));
}

static json_t *rate_json(const struct tw_rollout_rate *r)
{
    const uint64_t n = r->same + r->diverged;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "runs", tw_json_count(r->runs), "same",
                     tw_json_count(r->same), "diverged", tw_json_count(r->diverged), "not_known",
                     tw_json_count(r->unknown), "rate",
                     n ? json_real((double)r->diverged / (double)n) : json_null(), "exact_95",
                     interval_json(r->exact));
}

static json_t *told_json(const struct tw_rollout_told *t)
{
    json_t *projects = json_array();
    for (size_t i = 0; i < t->projects; i++) {
        const struct tw_rollout_project *p = &t->project[i];
        json_array_append_new(projects, json_pack("{s:o, s:o, s:o}", "project",
                                                  i ? tw_json_text(p->name) : json_null(),
                                                  "control", rate_json(&p->arm[TW_ROLLOUT_CONTROL]),
                                                  "canary", rate_json(&p->arm[TW_ROLLOUT_CANARY])));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:o, s:o}", "rollout", t->id, "state",
                     tw_rollout_told_state(t), "decision", t->decision, "sequence",
                     tw_json_count(t->sequence), "began_ns", (json_int_t)t->began_ns, "decided_ns",
                     (json_int_t)t->decided_ns, "said", tw_json_text(t->said), "projects",
                     projects);
}

json_t *tw_rollout_told_json(const struct tw_rollout_list *list)
{
    json_t *out = json_array();
    for (size_t i = 0; i < list->count; i++)
        if (json_array_append_new(out, told_json(&list->item[i])) != 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}
