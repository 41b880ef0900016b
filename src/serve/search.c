/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for a cause as a timeline of their tests (search.h). */
#include "search.h"

#include "answer.h"

#include "base.h"
#include "json_load.h"
#include "json_text.h"

#include "src/isolate/search.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOG_BYTES = 16 << 20,
    TEXT_BYTES = 32768,
    TESTS = 1000,
    HYPOTHESES = 1000,
    LOOKED = 50,
    NAMES = 4096
};

/* ---- files of a journal */

/* A file of a journal, if it is one; no more than cap bytes. malloc'ed, with a NUL behind; NULL:
 * none. A pipe or a link that lies there is not waited for and not followed. */
static char *read_part(const char *home, const char *name, const char *file, size_t cap,
                       struct stat *st, size_t *bytes)
{
    char *path = tw_printf("%s/searches/%s/%s", home, name, file), *data = NULL;
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
                        : -1;
    tw_free(path);
    if (fd < 0)
        return NULL;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode)) {
        const size_t n = (uint64_t)st->st_size < cap ? (size_t)st->st_size : cap;
        data = tw_malloc(n + 1);
        const ssize_t got = data ? tw_pread_all(fd, data, n, 0) : -1;
        if (got < 0) {
            tw_free(data);
            data = NULL;
        } else {
            *bytes = (size_t)got;
            data[got] = '\0';
        }
    }
    close(fd);
    return data;
}

static int64_t time_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool look_at(const char *home, const char *name, const char *file, struct stat *st)
{
    char *path = tw_printf("%s/searches/%s/%s", home, name, file);
    const bool there = path && lstat(path, st) == 0 && S_ISREG(st->st_mode);
    tw_free(path);
    return there;
}

/* It ended when its verdict is not older than its last test. It runs when the process that made it
 * does, or a test is a minute old at most (one that was gone on with belongs to another process).
 */
static const char *state_of(const char *home, const char *name)
{
    struct stat log, verdict;
    const char *dash = strrchr(name, '-');
    const bool tested = look_at(home, name, "log.jsonl", &log);
    const bool ended = look_at(home, name, "verdict.json", &verdict);
    uint64_t pid = 0;
    if (ended && (!tested || time_ns(&verdict) >= time_ns(&log)))
        return "ended";
    const bool lives = dash && tw_parse_u64(dash + 1, INT32_MAX, &pid) == 0 && pid > 0 &&
                       (kill((pid_t)pid, 0) == 0 || errno == EPERM);
    const bool fresh = tested && tw_realtime_ns() - time_ns(&log) < (int64_t)60 * 1000000000;
    return lives || fresh ? "running" : "open";
}

/* ---- tests */

/* A journal as far as it could be read. */
struct timeline {
    const json_t *factors; /* texts; borrowed */
    json_t *tests;
    json_t *hypotheses;
    json_t *found; /* the same by what they are, since a journal may have many */
    size_t all, parted, unread;
    json_t *last; /* borrowed from tests, or its own */
};

/* The factors whose bit is on (or off); null: the line does not say. */
static json_t *set_json(const json_t *words, const json_t *factors, bool on)
{
    if (!json_is_array(words))
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(factors) && i < TWIN_SEARCH_FACTORS; i++) {
        const char *hex = json_string_value(json_array_get(words, i / 64));
        const bool bit = hex && (strtoull(hex, NULL, 16) >> (i % 64) & 1);
        const char *id = json_string_value(json_array_get(factors, i));
        if (bit == on && id)
            json_array_append_new(list, serve_text(id));
    }
    return list;
}

static json_int_t integer(const json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key));
}

/* NULL: the line is none of a test. */
static json_t *test_json(const json_t *line, const json_t *factors)
{
    static const char *const ended[] = {[TWIN_ENDED_WELL] = "well",
                                        [TWIN_ENDED_BADLY] = "badly",
                                        [TWIN_ENDED_STUCK] = "stuck",
                                        [TWIN_NOT_ENDED] = "not ended"};
    const json_int_t purpose = integer(line, "purpose"), status = integer(line, "status");
    const json_int_t layer = integer(line, "layer"), number = integer(line, "number");
    const char *run = json_string_value(json_object_get(line, "run"));
    const bool parted = json_is_true(json_object_get(line, "parted"));
    if (!json_is_object(line) || number < 1 || number > UINT32_MAX || purpose < 0 ||
        purpose > TWIN_FOR_FREE || status < 0 || status > TWIN_NOT_ENDED || !run ||
        !tw_is_hex(run, 16) || integer(line, "step") < 0 || integer(line, "steps") < 0)
        return NULL;
    json_t *word = layer >= 0 && layer < TWIN_SEARCH_LAYERS
                       ? json_string(twin_search_layer_name((int)layer))
                       : json_null();
    return json_pack("{s:I,s:s,s:b,s:s,s:o,s:o,s:I,s:o,s:s,s:o}", "number", number, "purpose",
                     twin_search_purpose_name((enum twin_search_purpose)purpose), "parted",
                     (int)parted, "ended", ended[status], "layer", word, "step",
                     parted ? json_integer(integer(line, "step")) : json_null(), "steps",
                     integer(line, "steps"), "seconds",
                     tw_json_number(json_number_value(json_object_get(line, "seconds"))), "run",
                     run, "pinned", set_json(json_object_get(line, "pinned"), factors, true));
}

static void count_up(json_t *h, const char *key, bool yes)
{
    if (yes)
        json_object_set_new(h, key, json_integer(integer(h, key) + 1));
}

/* Tests of one purpose in one world are of one hypothesis. */
static void add_to_hypothesis(struct timeline *t, const json_t *line, json_t *test)
{
    json_t *pinned = json_object_get(test, "pinned"), *purpose = json_object_get(test, "purpose");
    struct tw_buf key = {0};
    tw_buf_printf(&key, "%s ", json_string_value(purpose));
    if (json_is_array(pinned))
        serve_put_json(json_incref(pinned), &key);
    if (key.failed)
        return;
    json_t *h = json_object_get(t->found, key.data);
    if (!h && json_array_size(t->hypotheses) < HYPOTHESES) {
        h = json_pack("{s:O,s:O,s:o,s:i,s:i,s:i,s:O,s:O}", "purpose", purpose, "pinned", pinned,
                      "free", set_json(json_object_get(line, "pinned"), t->factors, false), "tests",
                      0, "parted", 0, "failed", 0, "first", json_object_get(test, "number"), "last",
                      json_object_get(test, "number"));
        json_object_set(t->found, key.data, h);
        if (h && json_array_append_new(t->hypotheses, h) != 0)
            h = NULL;
    }
    tw_buf_free(&key);
    if (!h)
        return;
    const char *ended = json_string_value(json_object_get(test, "ended"));
    count_up(h, "tests", true);
    count_up(h, "parted", json_is_true(json_object_get(test, "parted")));
    count_up(h, "failed", ended && strcmp(ended, "well") != 0);
    json_object_set(h, "last", json_object_get(test, "number"));
}

/* whole: the tests are wanted; else their number and the last one. A last line without an end is
 * being written, or was cut off. */
static void read_tests(struct timeline *t, const char *data, size_t bytes, bool whole)
{
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(data + at, '\n', bytes - at);
        if (!end)
            break;
        const size_t n = (size_t)(end - data) - at;
        json_t *line = tw_json_load(data + at, n, 0, NULL);
        json_t *test = line ? test_json(line, t->factors) : NULL;
        at += n + 1;
        t->all += test != NULL;
        t->unread += !test;
        t->parted += test && json_is_true(json_object_get(test, "parted"));
        if (test && whole)
            add_to_hypothesis(t, line, test);
        if (test && whole && json_array_size(t->tests) < TESTS)
            json_array_append(t->tests, test);
        if (test) {
            json_decref(t->last);
            t->last = test;
        }
        json_decref(line);
    }
}

/* ---- one search */

static json_t *what_of(const char *home, const char *name)
{
    struct stat st;
    size_t bytes = 0;
    char *text = read_part(home, name, "search.json", 4 * TEXT_BYTES, &st, &bytes);
    json_t *j = text ? tw_json_load(text, bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    tw_free(text);
    if (json_is_object(j) && json_is_array(json_object_get(j, "factors")))
        return j;
    json_decref(j);
    return NULL;
}

static json_t *command_json(const json_t *what)
{
    const json_t *argv = json_object_get(what, "argv");
    struct tw_buf b = {0};
    for (size_t i = 0; i < json_array_size(argv) && i < 1000; i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        char *quoted = tw_shell_word(word ? word : "");
        tw_buf_puts(&b, i ? " " : "");
        tw_buf_puts(&b, quoted ? quoted : "");
        tw_free(quoted);
    }
    tw_buf_puts(&b, "");
    json_t *j = b.failed ? NULL : serve_text(b.data);
    tw_buf_free(&b);
    return j;
}

static json_t *arms_json(const json_t *what)
{
    const char *a = json_string_value(json_object_get(what, "a"));
    const char *b = json_string_value(json_object_get(what, "b"));
    return a && b ? json_pack("[o,o]", serve_text(a), serve_text(b)) : json_null();
}

static json_t *factors_json(const json_t *factors)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(factors) && i < TWIN_SEARCH_FACTORS; i++) {
        const char *id = json_string_value(json_array_get(factors, i));
        json_array_append_new(list, serve_text(id ? id : ""));
    }
    return list;
}

/* JSON of a search; null where it has no journal. */
static json_t *search_json(const char *home, const char *name)
{
    struct stat log = {0}, made = {0};
    size_t bytes = 0, plan_bytes = 0;
    json_t *what = what_of(home, name);
    if (!what)
        return json_null();
    char *plan = read_part(home, name, "plan.txt", TEXT_BYTES, &made, &plan_bytes);
    char *data = read_part(home, name, "log.jsonl", LOG_BYTES, &log, &bytes);
    char *shown = plan ? tw_printable_lines(plan, false) : NULL;
    struct timeline t = {.factors = json_object_get(what, "factors"),
                         .tests = json_array(),
                         .hypotheses = json_array(),
                         .found = json_object()};
    read_tests(&t, data ? data : "", bytes, true);
    json_t *j = json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o,s:o}", "id", name, "state",
                          state_of(home, name), "command", command_json(what), "arms",
                          arms_json(what), "factors", factors_json(t.factors), "plan",
                          json_string(shown ? shown : ""), "started_ns", (json_int_t)time_ns(&made),
                          "changed_ns",
                          json_integer((json_int_t)(data ? time_ns(&log) : time_ns(&made))),
                          "tests_all", tw_json_count(t.all), "unread", tw_json_count(t.unread),
                          "tests", t.tests, "hypotheses", t.hypotheses);
    json_decref(t.found);
    json_decref(t.last);
    json_decref(what);
    tw_free(shown);
    tw_free(data);
    tw_free(plan);
    return j;
}

/* ---- which search */

static int newest_first(const void *x, const void *y)
{
    return -strcmp(*(char *const *)x, *(char *const *)y);
}

/* Names of the newest journals that began at `until` or before ("~": all); how many. Each is owned
 * by the caller. */
static size_t newest(const char *home, const char *until, char **name, size_t most)
{
    char *path = tw_path_join(home, "searches"), **all = tw_calloc(NAMES, sizeof *all);
    DIR *d = path && all ? opendir(path) : NULL;
    size_t n = 0, kept = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!serve_search_is_name(e->d_name) || strcmp(e->d_name, until) > 0)
            continue;
        if (n == NAMES) { /* the older half goes */
            qsort(all, n, sizeof *all, newest_first);
            while (n > NAMES / 2)
                tw_free(all[--n]);
        }
        if ((all[n] = tw_strdup(e->d_name)))
            n++;
    }
    if (d)
        closedir(d);
    if (n)
        qsort(all, n, sizeof *all, newest_first);
    for (size_t i = 0; i < n; i++) {
        if (kept < most)
            name[kept++] = all[i];
        else
            tw_free(all[i]);
    }
    tw_free(all);
    tw_free(path);
    return kept;
}

/* A verdict of isolate, and by what its journal is found. */
struct wanted {
    json_t *verdict;
    char run[48], until[32];
    bool other, failed;
};

static int take_verdict(void *user, const struct twin_ledger_comparison *c)
{
    struct wanted *w = user;
    w->other = strcmp(c->verb, "isolate") != 0;
    w->verdict = serve_verdict_json(c);
    w->failed = !w->verdict;
    if (c->run_count && tw_is_hex(c->run_id[0], 32))
        snprintf(w->run, sizeof w->run, "\"run\":\"%.16s\"", c->run_id[0]);
    tw_utc_stamp(c->time_ns, w->until);
    snprintf(w->until + strlen(w->until), 2, "~"); /* behind every process of that second */
    return 0;
}

/* The newest journal, not begun after the verdict, in whose log its first run stands. A search that
 * was gone on with has one journal and several verdicts. */
static json_t *find_search(const char *home, const struct wanted *w)
{
    char *name[LOOKED] = {NULL};
    json_t *j = NULL;
    const size_t n = *w->run ? newest(home, w->until, name, LOOKED) : 0;
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        size_t bytes = 0;
        char *data = j ? NULL : read_part(home, name[i], "log.jsonl", LOG_BYTES, &st, &bytes);
        if (data && memmem(data, bytes, w->run, strlen(w->run)))
            j = search_json(home, name[i]);
        tw_free(data);
    }
    for (size_t i = 0; i < n; i++)
        tw_free(name[i]);
    return j ? j : json_null();
}

int serve_search_answer(struct twin_ledger *l, const char *home, const struct serve_query *q,
                        struct tw_buf *b, const char **why, struct twin_error *err)
{
    struct wanted w = {.verdict = NULL};
    json_t *search = NULL;
    if (serve_search_is_name(q->name)) {
        search = search_json(home, q->name);
        *why = "no search of this home has this name";
        if (json_is_null(search))
            return 404;
        w.verdict = json_null();
    } else {
        if (twin_ledger_comparison(l, q->name, take_verdict, &w, err) != 0)
            return 0;
        *why = "no search has this id";
        if (!w.verdict || w.other) {
            json_decref(w.verdict);
            return w.failed ? 500 : 404;
        }
        search = find_search(home, &w);
    }
    serve_put_json(json_pack("{s:s,s:o,s:o}", "schema", "twinrun.timeline/1", "verdict", w.verdict,
                             "search", search),
                   b);
    return b->failed ? 500 : 200;
}

/* ---- what happens */

static char *event_of(const char *home, const char *name)
{
    struct stat st;
    size_t bytes = 0;
    struct tw_buf b = {0};
    json_t *what = what_of(home, name);
    char *data = what ? read_part(home, name, "log.jsonl", LOG_BYTES, &st, &bytes) : NULL;
    struct timeline t = {.factors = json_object_get(what, "factors")};
    read_tests(&t, data ? data : "", bytes, false);
    if (what) {
        tw_buf_puts(&b, "event: search\ndata: ");
        serve_put_json(json_pack("{s:s,s:s,s:{s:s,s:s,s:o,s:o,s:o}}", "schema", "twinrun.event/1",
                                 "kind", "search", "search", "id", name, "state",
                                 state_of(home, name), "tests", tw_json_count(t.all), "parted",
                                 tw_json_count(t.parted), "last",
                                 t.last ? json_incref(t.last) : json_null()),
                       &b);
        tw_buf_puts(&b, "\n");
    }
    json_decref(t.last);
    json_decref(what);
    tw_free(data);
    return what ? tw_buf_steal(&b) : NULL;
}

void serve_searches_look(struct serve_searches *s, const char *home,
                         void (*each)(void *user, char *event), void *user)
{
    struct serve_searches now = {.primed = true};
    char *name[SERVE_SEARCHES_SEEN] = {NULL};
    const size_t n = newest(home, "~", name, SERVE_SEARCHES_SEEN);
    for (size_t i = 0; i < n; i++) {
        struct serve_search_seen *seen = &now.seen[i];
        struct stat st;
        bool known = false;
        snprintf(seen->name, sizeof seen->name, "%s", name[i]);
        seen->size = look_at(home, name[i], "log.jsonl", &st) ? (int64_t)st.st_size : 0;
        seen->ended = look_at(home, name[i], "verdict.json", &st) ? time_ns(&st) : 0;
        for (size_t k = 0; k < SERVE_SEARCHES_SEEN; k++)
            known |= memcmp(&s->seen[k], seen, sizeof *seen) == 0;
        char *event = s->primed && !known ? event_of(home, name[i]) : NULL;
        if (event)
            each(user, event);
        tw_free(name[i]);
    }
    *s = now;
}
