/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who in the job asks for what varies: one natural run more with the libc agent's audit and the
 * Python agent's tracer, after a search that named entropy, the clock, the order of directories or
 * the hashes of tensors; or after one that ended outside the pins, for what no pin reaches.
 *
 * cmd/isolate.c calls this when the verdict stands. Lines of Python come from the tracer
 * (consumer.WORD in the run folder's `factors`), frames of other programs from the audit
 * (audit.WORD); both become texts for the report, in c->consumer.
 */
#include "search_runs.h"

#include "capture.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Lines that are shown of one cause; behind them there is always room for SENTENCES sentences
 * (say_left_out). */
enum { SHOWN = 6, SENTENCES = 2 };

/* The path of a program of the run by its file name: as its processes were called. */
static char *program_path(const struct twin_run *r, const char *name, size_t n)
{
    for (size_t i = 0; i < r->process_count; i++) {
        const char *argv = r->processes[i].argv ? r->processes[i].argv : "";
        size_t length = strcspn(argv, " ");
        const char *slash = memrchr(argv, '/', length), *file = slash ? slash + 1 : argv;
        if (slash && length - (size_t)(file - argv) == n && memcmp(file, name, n) == 0)
            return tw_printf("%.*s", (int)length, argv);
    }
    return NULL;
}

/* "job+0x11d3" -> "job.c:14" where the program has debug information and binutils are here; else
 * NULL. */
static char *source_line(const struct twin_run *r, const char *frame, size_t module, size_t n)
{
    char *path = tw_in_path("addr2line") ? program_path(r, frame, module) : NULL;
    char *out = NULL;
    char *line = NULL;
    char *offset = tw_printf("%.*s", (int)(n - module - 1), frame + module + 1);
    int status = 0;
    if (path && offset) {
        unsigned long long at = strtoull(offset, NULL, 16);
        /* the call stands before its return address */
        char *back = tw_printf("0x%llx", at ? at - 1 : 0);
        char *const argv[] = {"addr2line", "-e", path, back, NULL};
        if (back && tw_capture(argv, 10, &out, &status, NULL) == 0 && WIFEXITED(status) &&
            WEXITSTATUS(status) == 0 && !tw_starts(out, "??"))
            line = tw_printf("%.*s", (int)strcspn(out, " \n"), out);
        tw_free(back);
    }
    free(out);
    tw_free(path);
    tw_free(offset);
    return line;
}

/* "3x getrandom in another thread < seed_all+0x1c (job) < job+0x11d3 < ...": the innermost frame of
 * a program of the run, not of a library. */
static char *from_stack(const struct twin_run *r, const char *text)
{
    unsigned long long calls = strtoull(text, NULL, 10);
    const char *end = strstr(text, " < ");
    const char *thread = end ? memmem(text, (size_t)(end - text), " in ", 4) : NULL;
    int thread_bytes = thread ? (int)(end - thread) : 0;
    /* From the innermost frame outwards. */
    for (const char *frame = strstr(text, " < "); frame; frame = strstr(frame, " < ")) {
        frame += 3;
        size_t n = strcspn(frame, "<"), module = strcspn(frame, "+ "), name = module;
        n -= n > 0 && frame[n] == '<';
        const char *open = memchr(frame, '(', n), *in = open ? open + 1 : frame;
        size_t in_bytes = open ? strcspn(in, ")") : module;
        char *path = tw_starts(in, "python") ? NULL : program_path(r, in, in_bytes);
        char *line = path && !open ? source_line(r, frame, module, n) : NULL;
        char *result = NULL;
        if (path && line)
            result = tw_printf("%s, %llu call%s%.*s", line, calls, tw_plural_s(calls), thread_bytes,
                               thread ? thread : "");
        else if (path)
            result = tw_printf("%.*s%s of %.*s, %llu call%s%.*s", open ? (int)name : (int)n, frame,
                               open ? "()" : "", (int)in_bytes, in, calls, tw_plural_s(calls),
                               thread_bytes, thread ? thread : "");
        tw_free(path);
        tw_free(line);
        if (result)
            return result;
    }
    return NULL;
}

static bool full(const struct tw_isolate_consumers *x)
{
    return x->count >= SHOWN || !x->text;
}

static void add_consumer(struct tw_isolate_consumers *x, char *text)
{
    bool known = false;
    for (size_t i = 0; text && i < x->count; i++)
        known |= strcmp(x->text[i], text) == 0;
    if (text && !known && !full(x)) {
        x->text[x->count++] = text;
        return;
    }
    x->left_out += text && !known;
    tw_free(text);
}

static const char *lines_ask(size_t count)
{
    return count == 1 ? "line that asks" : "lines that ask";
}

/* A sentence behind the lines, for which there is always room. */
static void add_sentence(struct tw_isolate_consumers *x, char *text)
{
    if (text && x->text)
        x->text[x->count++] = text;
    else
        tw_free(text);
}

/* "and 4 more lines": nothing is dropped without a word. */
static void say_left_out(struct tw_isolate_consumers *x, size_t agreed)
{
    if (x->left_out)
        add_sentence(x, tw_printf("and %zu more %s later", x->left_out, lines_ask(x->left_out)));
    if (agreed)
        add_sentence(x, tw_printf("and %zu more %s: runs in which %s got other values agreed",
                                  agreed, lines_ask(agreed), agreed == 1 ? "it" : "they"));
}

/* "train.py:12 | 3@1795349337000 in thread loader | seed = os.urandom(4)": calls, when it first
 * asked, in which threads beside the main one. */
static bool asking_parse(const char *text, struct tw_asking *out)
{
    const char *calls = strstr(text, " | "), *source = calls ? strstr(calls + 3, " | ") : NULL;
    if (source)
        *out = (struct tw_asking){.where = text,
                                  .source = source + 3,
                                  .where_bytes = (size_t)(calls - text),
                                  .calls = strtoull(calls + 3, NULL, 10),
                                  .answer = TWIN_LINE_NOT_TRIED};
    const char *at = source ? memchr(calls, '@', (size_t)(source - calls)) : NULL;
    char *end = NULL;
    if (at)
        out->first_ns = strtoull(at + 1, &end, 10);
    if (at && tw_starts(end, " in thread")) {
        out->threads = end;
        out->threads_bytes = (size_t)(source - end);
    }
    return source;
}

/* What was asked for after the runs had diverged did not make them diverge, however often; so the
 * lines stand in the order in which they first asked. */
static int earlier_first(const void *a, const void *b)
{
    const struct tw_asking *x = a, *y = b;
    if (x->first_ns != y->first_ns)
        return x->first_ns < y->first_ns ? -1 : 1;
    return strcmp(x->where, y->where);
}

/* Workers ask at the same lines. Returns how many there are, in the order in which they first
 * asked. */
static size_t python_lines(const struct twin_said_line *line, size_t count, const char *key,
                           struct tw_asking *all)
{
    struct tw_asking a;
    size_t n = 0, k;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(line[i].key, key) != 0 || !asking_parse(line[i].value, &a))
            continue;
        for (k = 0; k < n; k++)
            if (all[k].where_bytes == a.where_bytes &&
                memcmp(all[k].where, a.where, a.where_bytes) == 0 &&
                strcmp(all[k].source, a.source) == 0)
                break;
        if (k == n) {
            all[n++] = a;
            continue;
        }
        all[k].calls += a.calls;
        all[k].mixed |= a.threads_bytes != all[k].threads_bytes ||
                        (a.threads_bytes &&
                         memcmp(a.threads, all[k].threads, a.threads_bytes) != 0);
        if (a.first_ns < all[k].first_ns)
            all[k].first_ns = a.first_ns;
    }
    if (n > 1)
        qsort(all, n, sizeof *all, earlier_first);
    return n;
}

static const char *answer_words(enum twin_line_answer a)
{
    return a == TWIN_LINE_DIVERGES ? "   (a run diverged in which this line alone got other values)"
                                   : "";
}

/* The words for the threads that asked, " in thread loader"; "" for the main thread. malloc'ed. */
static char *in_threads(const struct tw_asking *a)
{
    if (a->mixed)
        return tw_strdup(" in several threads");
    return tw_printf("%.*s", (int)a->threads_bytes, a->threads ? a->threads : "");
}

/* Lines that were shown to matter stand alone, and those that made no difference are counted.
 * Returns their number. */
static size_t add_lines(const struct tw_asking *line, size_t count, struct tw_isolate_consumers *x)
{
    bool matters = count && line[0].answer == TWIN_LINE_DIVERGES;
    size_t agreed = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tw_asking *a = &line[i];
        if (matters && a->answer == TWIN_LINE_AGREES) {
            agreed++;
            continue;
        }
        char *threads = in_threads(a);
        add_consumer(x, tw_printf("%.*s, %llu call%s%s: %s%s", (int)a->where_bytes, a->where,
                                  a->calls, tw_plural_s(a->calls), threads ? threads : "",
                                  a->source, answer_words(a->answer)));
        tw_free(threads);
    }
    return agreed;
}

/* Else it is noted in Python alone: hashes, draws of torch's generator, seeds of NumPy's, what no
 * pin reaches. */
static bool is_counted(const struct twin_factor *f, const char *word)
{
    return twin_factor_is_counted(f) && strcmp(word, f->asked_as) == 0;
}

/* Reads who asked from the run's folder into x, and tries which lines matter where the libc agent
 * can give them other values. */
static void read_consumers(struct tw_isolate *c, const struct twin_search_report *report,
                           const struct twin_run *r, const char *word,
                           struct tw_isolate_consumers *x)
{
    struct twin_said_line *line = NULL;
    char key[2][40], *text = NULL;
    size_t count = 0;
    snprintf(key[0], sizeof key[0], "consumer.%s", word);
    snprintf(key[1], sizeof key[1], "audit.%s", word);
    if (twin_said_lines(r, &text, &line, &count, NULL) != 0)
        count = 0;
    struct tw_asking *all = tw_calloc(count + 1, sizeof *all);
    for (size_t i = 0; i < count; i++)
        if (strcmp(line[i].key, "consumer.torch-seeded") == 0)
            add_consumer(
                x, tw_strdup("torch was never seeded: nothing calls torch.manual_seed before these "
                             "lines draw"));
    size_t lines = all ? python_lines(line, count, key[0], all) : 0;
    if (is_counted(x->factor, word))
        tw_isolate_try_lines(c, report, word, all, lines);
    size_t agreed = add_lines(all, lines, x);
    for (size_t i = 0; i < count; i++)
        if (strcmp(line[i].key, key[1]) == 0)
            add_consumer(x, from_stack(r, line[i].value));
    say_left_out(x, agreed);
    tw_free(all);
    tw_free(line);
    tw_free(text);
}

/* Makes the run that asks for one factor, and keeps what it said as one more entry of c->consumer.
 * f NULL: for what no pin reaches. A run that cannot be made leaves the entry without texts. */
static void ask_for_factor(struct tw_isolate *c, const struct twin_search_report *report,
                           const struct twin_factor *f, const char *word)
{
    struct tw_isolate_consumers *grown = tw_reallocarray(c->consumer, c->consumer_count + 1,
                                                         sizeof *grown);
    struct tw_isolate_consumers *x;
    bool counted = is_counted(f, word);
    char *factors = tw_printf("TWINRUN_FACTORS=%s%s", counted ? word : "", counted ? "=audit" : "");
    char *who = tw_printf("TWINRUN_CONSUMERS=%s", word);
    struct tw_trial trial = {.front = c->front,
                             .title = "who asks for it ",
                             .expected_s = c->natural_s,
                             .deadline_ns = tw_patience_ends_ns(&tw_patience_traced, c->natural_s)};
    c->consumer = grown ? grown : c->consumer;
    if (grown && factors && who) {
        x = &grown[c->consumer_count++];
        *x = (struct tw_isolate_consumers){.factor = f,
                                           .text = tw_calloc(SHOWN + SENTENCES, sizeof *x->text)};
        char *env[] = {factors, who, NULL};
        struct twin_launch_options o = tw_isolate_launch_options(c, TWIN_LABEL_ASKING);
        o.level = TWIN_LEVEL_STEPS;
        o.env = env;
        if (tw_isolate_make(c, &trial, &o, NULL) == 0 && !tw_isolate_stops(c))
            read_consumers(c, report, trial.run, word, x);
        twin_run_free(trial.run);
    }
    tw_free(factors);
    tw_free(who);
}

static bool never_seeded(const struct tw_isolate *c)
{
    const struct tw_isolate_consumers *x = c->consumer_count ? &c->consumer[c->consumer_count - 1]
                                                             : NULL;
    return x && x->count && tw_starts(x->text[0], "torch was never seeded");
}

void tw_isolate_ask_who(struct tw_isolate *c, const struct twin_search_report *r)
{
    for (size_t i = 0; i < r->cause_count && !c->arms && !tw_isolate_stops(c); i++) {
        const struct twin_factor *f = c->factor[r->cause[i].candidate];
        const char *word = f->edits ? NULL : f->asked_as;
        if (word)
            ask_for_factor(c, r, f, word);
        /* Entropy that torch's own generator was started from: the lines that draw say more than
         * the import that asked. */
        if (word && strcmp(word, "torch-draws") != 0 && never_seeded(c))
            ask_for_factor(c, r, f, "torch-draws");
    }
    if (r->outcome == TWIN_SEARCH_OUTSIDE && !c->arms && !tw_isolate_stops(c))
        ask_for_factor(c, r, NULL, "unpinned");
}
