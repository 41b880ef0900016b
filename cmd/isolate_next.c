/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to type next after a search: the same situation again (again.c), with what was found. A
 * cause that was found leads to a check under its pin, and then to twinrun run with it; where it is
 * only the main one, to more runs, and then to that check. A search that could not decide, to the
 * options with which it can. A command that would not change anything is not suggested: "".
 */
#include "isolate.h"

#include "again.h"
#include "say.h"

#include "base.h"

#include <string.h>

enum { DEFAULT_RUNS = 200 }; /* of --max-runs */

/* The options of this search that another command has, too; "" when there is no memory. */
static void add_options(struct tw_buf *b, const struct tw_isolate_options *given,
                        const struct tw_command *to)
{
    struct tw_isolate_options args = *given;
    if (args.search.jobs < 2)
        args.search.jobs = 0;
    else if (to != &tw_command_isolate)
        args.search.fresh_dir = false; /* it came with --jobs */
    char *text = tw_options_again(&tw_command_isolate, &args, to);
    tw_buf_puts(b, text ? text : "");
    tw_free(text);
}

/* The options that hold the factors that were found. The order of messages is that of a run; where
 * it is the only one, run pins the rest, too. */
static void add_causes(struct tw_buf *b, const struct tw_isolate *c,
                       const struct twin_search_report *r)
{
    const char *order = NULL, *before = " --pin ";
    for (size_t i = 0; i < r->cause_count; i++) {
        const char *id = c->factor[r->cause[i].candidate]->id;
        if (strcmp(id, "match-order") == 0 && c->order.known) {
            order = c->order.matches.recorded->id;
            continue;
        }
        tw_buf_printf(b, "%s%s", before, id);
        before = ",";
    }
    if (order)
        tw_buf_printf(b, " --replay-order %.8s", order);
}

/* "twinrun VERB EXTRA OPTIONS JOB", with the variables that were set in front of this command. */
static char *put_command(const struct tw_isolate_options *given, const struct tw_again *again,
                         const struct tw_command *to, const char *extra, const char *job)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "%stwinrun %s%s", again->env, to->name, extra ? extra : "");
    add_options(&b, given, to);
    tw_buf_printf(&b, " %s", job);
    return tw_buf_steal(&b);
}

/* ---- one command */

/* The node is a cause: the same runs, without it, or on the one on which they agreed. */
static char *without_node(const struct tw_isolate_command *x, const struct twin_search_report *r,
                          const struct tw_again *again)
{
    struct tw_isolate_options given = x->args;
    const struct tw_isolate *c = &x->search;
    const char *held = tw_isolate_node_held(c);
    if (r->cause_count > 1 || (!c->nodes.odd && !held))
        return NULL;
    char *odd = c->nodes.odd ? tw_strdup(c->nodes.odd) : NULL, *end = odd;
    for (const char *p = odd; p && *p; p++) /* "n1, n2" as --place has it */
        if (*p != ' ')
            *end++ = *p;
    if (odd)
        *end = '\0';
    char *place = odd ? tw_printf("avoid:%s", odd) : tw_printf("pin:%s", held);
    given.search.engine.place = place;
    char *text = place ? put_command(&given, again, &tw_command_check, NULL, again->job) : NULL;
    tw_free(place);
    tw_free(odd);
    return text;
}

/* Can `check --pinned` hold all that was found? A recorded order, or a node, is no pin of a check.
 */
static bool is_provable(const struct tw_isolate *c, const struct twin_search_report *r)
{
    if (r->outcome != TWIN_SEARCH_ISOLATED || c->args.a)
        return false;
    for (size_t i = 0; i < r->cause_count; i++) {
        const char *id = c->factor[r->cause[i].candidate]->id;
        if (strcmp(id, "match-order") == 0 || strcmp(id, "node") == 0)
            return false;
    }
    return true;
}

/* The job under the pins that this search named. */
static char *proof(const struct tw_isolate_command *x, const struct tw_again *again)
{
    return put_command(&x->args, again, &tw_command_check, " --pinned", again->job);
}

/* The pin, for good. */
static char *pinned_run(const struct tw_isolate_command *x, const struct twin_search_report *r,
                        const struct tw_again *again)
{
    struct tw_buf extra = {0};
    add_causes(&extra, &x->search, r);
    char *text = put_command(&x->args, again, &tw_command_run, extra.data, again->job);
    tw_buf_free(&extra);
    return text;
}

/* The proof, or the pin where there is no proof; or, where runs may still diverge under it, the
 * search again until that is decided. */
static char *after_isolated(const struct tw_isolate_command *x, const struct twin_search_report *r,
                            const struct tw_again *again)
{
    const struct tw_isolate_options *given = &x->args;
    const struct tw_isolate *c = &x->search;
    struct tw_buf extra = {0};
    if (c->nodes.used && (c->nodes.odd || !r->more))
        for (size_t i = 0; i < r->cause_count; i++)
            if (strcmp(c->factor[r->cause[i].candidate]->id, "node") == 0)
                return without_node(x, r, again);
    if (!r->more)
        return is_provable(c, r) ? proof(x, again) : pinned_run(x, r, again);
    /* Twice as many as the search itself says are missing: some of them will be spent on others. */
    uint32_t enough = r->runs + 2 * r->more;
    uint32_t most = enough > c->plan.max_runs ? enough : c->plan.max_runs;
    tw_buf_printf(&extra, " --resume%s", c->args.thorough ? "" : " --thorough");
    if (most != DEFAULT_RUNS)
        tw_buf_printf(&extra, " --max-runs %u", most);
    char *text = put_command(given, again, &tw_command_isolate, extra.data, again->job);
    tw_buf_free(&extra);
    return text;
}

/* The same job on two cores, one of which is suspected. */
static char *on_two_cores(const struct tw_isolate_command *x, const struct tw_again *again)
{
    const struct tw_isolate_options *given = &x->args;
    const struct tw_isolate *c = &x->search;
    struct tw_buf arms = {0};
    char *job = tw_shell_quote(c->argv, 0);
    for (int i = 0; i < 2; i++) {
        char *held = tw_printf("taskset -c %d %s", c->suspect_core[i], job ? job : "");
        char *quoted = held ? tw_shell_quote(&held, 1) : NULL;
        tw_buf_printf(&arms, "%s--%c %s", i ? " " : "", 'a' + i, quoted ? quoted : "");
        tw_free(quoted);
        tw_free(held);
    }
    char *text = arms.data ? put_command(given, again, &tw_command_check, "", arms.data) : NULL;
    tw_free(job);
    tw_buf_free(&arms);
    return text;
}

/* How the run ended that failed first, and what it printed. */
static char *show_failed(const struct tw_isolate_command *x, const struct tw_again *again)
{
    uint32_t number;
    const struct twin_run *run = tw_isolate_failed(&x->search, &number);
    return run && run->id ? tw_printf("%stwinrun show %.8s%s", again->look, run->id, again->show)
                          : tw_strdup("");
}

/* By outcome. What is left over is looked at with a plain check of many runs. */
static char *of_one_command(const struct tw_isolate_command *x, const struct twin_search_report *r,
                            const struct tw_again *again)
{
    const struct tw_isolate_options *given = &x->args;
    const struct tw_isolate *c = &x->search;
    char extra[64] = " --resume";
    switch (r->outcome) {
    case TWIN_SEARCH_ISOLATED: return after_isolated(x, r, again);
    case TWIN_SEARCH_NO_DIVERGENCE: return tw_strdup("");
    case TWIN_SEARCH_JOB_FAILS: return show_failed(x, again);
    case TWIN_SEARCH_INTERRUPTED:
        return put_command(given, again, &tw_command_isolate, extra, again->job);
    case TWIN_SEARCH_UNSEEN:
        if (!r->unjudged)
            return tw_strdup(""); /* the report says what check says */
        return put_command(given, again, &tw_command_isolate, " --text", again->job);
    case TWIN_SEARCH_NOT_ENOUGH:
        if (!r->need)
            break;
        snprintf(extra, sizeof extra, " --resume --max-runs %u", r->need);
        return put_command(given, again, &tw_command_isolate, extra, again->job);
    case TWIN_SEARCH_HARDWARE:
        if (c->suspect_core[0] != c->suspect_core[1])
            return on_two_cores(x, again);
        break;
    default: break;
    }
    return put_command(given, again, &tw_command_check, " --all --runs 10", again->job);
}

/* ---- two commands */

/* With --through: the same pins hold both commands to one result. */
static char *after_through(const struct tw_isolate_command *x, const struct twin_search_report *r,
                           const struct tw_again *again)
{
    const struct tw_isolate_options *given = &x->args;
    const struct tw_isolate *c = &x->search;
    char *held[2] = {NULL, NULL}, *arms, *text;
    if (r->outcome != TWIN_SEARCH_ISOLATED)
        return tw_strdup("");
    for (int arm = 0; arm < 2; arm++) {
        struct tw_buf run = {0};
        char *quoted = tw_shell_quote(c->shell[arm], 0);
        tw_buf_puts(&run, "twinrun run");
        add_causes(&run, c, r);
        if (c->args.factor_file) {
            char *words[] = {(char *)c->args.factor_file, NULL}, *file = tw_shell_quote(words, 0);
            tw_buf_printf(&run, " --factor-file %s", file ? file : "");
            tw_free(file);
        }
        tw_buf_printf(&run, " -- %s", quoted ? quoted : "");
        held[arm] = tw_buf_steal(&run);
        tw_free(quoted);
    }
    arms = held[0] && held[1] ? tw_isolate_arms_words(held[0], held[1]) : NULL;
    text = arms ? put_command(given, again, &tw_command_check, "", arms) : NULL;
    tw_free(arms);
    tw_free(held[0]);
    tw_free(held[1]);
    return text;
}

/* A by itself does not do what it should. */
static char *of_a_alone(const struct tw_isolate_command *x, const struct twin_search_report *r,
                        const struct tw_again *again)
{
    const struct tw_isolate_options *given = &x->args;
    const struct tw_isolate *c = &x->search;
    const struct tw_command *to = r->outcome == TWIN_SEARCH_UNSTEADY ? &tw_command_isolate
                                                                     : &tw_command_record;
    struct tw_isolate_options args = *given;
    char *words[] = {(char *)"sh", (char *)"-c", (char *)c->args.a, NULL};
    args.search.pin = NULL; /* there it would name the candidates */
    args.search.jobs = 0;
    char *options = tw_options_again(&tw_command_isolate, &args, to), *a = tw_shell_quote(words, 0);
    char *text = options && a ? tw_printf("%stwinrun %s%s -- %s", again->env, to->name, options, a)
                              : NULL;
    tw_free(options);
    tw_free(a);
    return text;
}

/* The same for a search between two commands. */
static char *of_two_commands(const struct tw_isolate_command *x, const struct twin_search_report *r,
                             const struct tw_again *again)
{
    const struct tw_isolate_options *given = &x->args;
    const struct tw_isolate *c = &x->search;
    char extra[64] = " --resume", *mix, *arms, *text;
    switch (r->outcome) {
    case TWIN_SEARCH_NO_DIVERGENCE: return tw_strdup("");
    case TWIN_SEARCH_UNSEEN:
        if (!r->unjudged)
            return tw_strdup(""); /* the report says what check says */
        return put_command(given, again, &tw_command_isolate, " --text", again->job);
    case TWIN_SEARCH_ISOLATED: /* A, and A with the causes: check names the operation */
        mix = tw_isolate_arms_mixed(c, r, true);
        arms = mix ? tw_isolate_arms_words(c->args.a, mix) : NULL;
        text = arms ? put_command(given, again, &tw_command_check, "", arms) : NULL;
        tw_free(mix);
        tw_free(arms);
        return text;
    case TWIN_SEARCH_UNSTEADY:
    case TWIN_SEARCH_JOB_FAILS: return of_a_alone(x, r, again);
    case TWIN_SEARCH_NOT_ENOUGH:
        snprintf(extra, sizeof extra, " --resume --max-runs %u", r->need);
        break;
    case TWIN_SEARCH_INTERRUPTED: break;
    default: return put_command(given, again, &tw_command_check, "", again->job);
    }
    return put_command(given, again, &tw_command_isolate, extra, again->job);
}

/* Nothing where the pin has no proof: then it is the next command already, or the cause has none.
 */
char *tw_isolate_then(const struct tw_isolate_command *x, const struct twin_search_report *r)
{
    const struct tw_isolate *c = &x->search;
    struct tw_again again;
    if (c->arms || !is_provable(c, r))
        return tw_strdup("");
    if (tw_again_make(&tw_command_isolate, &x->args, c->argv, NULL, &again) != 0)
        return NULL;
    char *text = r->more ? proof(x, &again) : pinned_run(x, r, &again);
    tw_again_free(&again);
    return text;
}

/* With --through a found cause holds both commands; else the number of commands decides. */
char *tw_isolate_next(const struct tw_isolate_command *x, const struct twin_search_report *r)
{
    const struct tw_isolate *c = &x->search;
    const char *const arms[2] = {c->args.a, c->args.b};
    struct tw_again again;
    char *text;
    if (tw_again_make(&tw_command_isolate, &x->args, c->argv, c->args.a ? arms : NULL, &again) != 0)
        return NULL;
    if (c->args.through && r->outcome == TWIN_SEARCH_ISOLATED)
        text = after_through(x, r, &again);
    else if (c->arms || c->args.through)
        text = of_two_commands(x, r, &again);
    else
        text = of_one_command(x, r, &again);
    tw_again_free(&again);
    return text;
}
