/* SPDX-License-Identifier: Apache-2.0 */
/* What came of an attempt: a whole run in its place, or a loss, after which it is made again. */
#include "remote_inside.h"

#include <stdio.h>
#include <string.h>

/* A run that is lost so often is lost for a reason that another attempt does not change. */
enum { ATTEMPTS_MAX = 4 };

/* The last line that the engine or the node left in the ticket's log; "" where there is none. */
static void last_words(const struct tw_remote_run *x, char out[200])
{
    char *path = tw_path_join(x->ticket.folder, "log"), *data = NULL;
    size_t n = 0;
    out[0] = '\0';
    if (path && tw_read_file(path, 1 << 20, &data, &n, NULL) == 0 && n) {
        while (n && data[n - 1] == '\n')
            data[--n] = '\0';
        const char *line = strrchr(data, '\n') ? strrchr(data, '\n') + 1 : data;
        snprintf(out, 200, "%.180s", line);
    }
    tw_free(data);
    tw_free(path);
}

void tw_remote_end_with(struct tw_remote_run *x, int rc)
{
    tw_remote_let_go(x);
    x->rc = rc;
    x->phase = TW_REMOTE_ENDED;
}

void tw_remote_lose(struct tw_remote_run *x, size_t *counter, const char *reason)
{
    struct tw_remote *r = x->of;
    char words[200];
    struct tw_node *node = tw_engine_node(r->engine, x->ticket.node);
    const char *where = x->ticket.node[0] ? x->ticket.node : "a node that is not known";
    ++*counter;
    last_words(x, words);
    if (node)
        node->failed++;
    if (r->why_count < sizeof r->why / sizeof r->why[0]) {
        char *text = tw_printf("on %s: %s", where, reason);
        if (text)
            r->why[r->why_count++] = text;
    }
    tw_remote_let_go(x);
    if (x->asked_end) { /* it was to end anyway, and has shown why */
        x->phase = TW_REMOTE_ENDED;
        x->rc = x->dir ? twin_run_load(x->dir, &x->trial.run, &x->err)
                       : twin_error_set(&x->err, TWIN_EINTR, "interrupted");
        return;
    }
    if (x->attempt < ATTEMPTS_MAX) {
        tw_front_line(r->front, "a run was lost on %s (%s); it is made again (attempt %u of %d)",
                      where, reason, x->attempt + 1, ATTEMPTS_MAX);
        tw_free(x->dir);
        x->dir = NULL;
        x->trial.diverged = false;
        x->trial.start_s = 0;
        tw_trial_forget_ranks(&x->trial);
        x->phase = TW_REMOTE_WAITS;
        return;
    }
    x->phase = TW_REMOTE_ENDED;
    x->rc = twin_error_set(&x->err, TWIN_EIO,
                           "a run was lost %d times by %s, the last time on %s: %s%s%s%s",
                           ATTEMPTS_MAX, tw_engine_name(r->engine), where, reason,
                           *words ? "; its log ends with \"" : "", words, *words ? "\"" : "");
}

/* On a node that is not the one that was asked for, or not the one that the engine says. */
static bool is_elsewhere(const struct tw_remote_run *x, const char *node)
{
    const bool other = x->ticket.asked[0] && strcmp(x->ticket.asked, node) != 0;
    return other || !tw_place_holds(&x->ticket.place, node);
}

/* Is the run where it was to be? The first run of all says what the type is. */
static bool is_in_place(struct tw_remote_run *x, const char *node)
{
    struct tw_remote *r = x->of;
    struct tw_node *known = tw_engine_node(r->engine, node);
    if (is_elsewhere(x, node))
        return false;
    if (x->place.kind != TW_PLACE_SAME_TYPE || !x->trial.run)
        return true;
    /* the processor is what the engine's own words for a type stand for, and it is seen */
    const char *seen = x->trial.run->processor ? x->trial.run->processor : "";
    if (known && !known->processor)
        known->processor = tw_strdup(seen);
    if (!r->processor) {
        r->processor = tw_strdup(seen);
        r->type = known ? tw_strdup(known->type) : NULL;
    }
    return !r->processor || strcmp(r->processor, seen) == 0;
}

void tw_remote_take_result(struct tw_remote_run *x, const struct tw_result *result)
{
    struct tw_remote *r = x->of;
    char digest[33] = "";
    snprintf(x->ticket.node, sizeof x->ticket.node, "%s", result->node);
    if (result->rc != 0) {
        tw_remote_end_with(
            x, twin_error_set(&x->err, result->rc, "on %s: %s", result->node, result->message));
        return;
    }
    if (result->interrupted && !x->asked_end) {
        tw_remote_lose(x, &r->lost, "ended by a signal from outside (preempted, or cancelled)");
        return;
    }
    int rc = twin_run_load(result->dir, &x->trial.run, NULL);
    rc = rc ? rc : tw_run_digest(x->trial.run, digest, NULL);
    if (rc != 0 || strcmp(digest, result->digest) != 0) {
        /* not all of it is to be seen here yet */
        twin_run_free(x->trial.run);
        x->trial.run = NULL;
        if (!x->seen_ns)
            x->seen_ns = tw_monotonic_ns();
        if (tw_seconds_since(x->seen_ns) > tw_engine_grace_s(r->engine)) {
            x->seen_ns = 0;
            tw_remote_lose(x, &r->lost, "its run folder is not what its result says");
        }
        return;
    }
    if (!is_in_place(x, result->node)) {
        twin_run_free(x->trial.run);
        x->trial.run = NULL;
        tw_remote_lose(x, &r->misplaced,
                       is_elsewhere(x, result->node)
                           ? "the engine put it on a node that was not asked for"
                           : "its processor is another one than the first run's");
        return;
    }
    r->refused += tw_claim_again(x->ticket.folder) > 0;
    if (x->trial.run->outcome == TWIN_RUN_NOT_STARTED)
        x->trial.end = TW_TRIAL_NOT_STARTED;
    else if (x->trial.end == TW_TRIAL_RAN && !x->asked_end)
        tw_trial_look_at_ranks_once_more(&x->trial);
    tw_remote_end_with(x, 0);
}

void tw_remote_look_gone(struct tw_remote_run *x)
{
    struct tw_remote *r = x->of;
    char reason[300];
    if (x->ticket.state != TW_JOB_GONE) {
        x->gone_ns = 0;
        return;
    }
    if (!x->gone_ns)
        x->gone_ns = tw_monotonic_ns();
    if (tw_seconds_since(x->gone_ns) < tw_engine_grace_s(r->engine))
        return;
    bool twice = tw_claim_again(x->ticket.folder) > 0;
    snprintf(reason, sizeof reason, "%s%s%s",
             twice ? "the engine started it again by itself" : "gone without a result",
             x->ticket.why[0] ? "; " : "", x->ticket.why);
    tw_remote_lose(x, twice ? &r->twice : &r->lost, reason);
}
