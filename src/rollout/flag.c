/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flag file: its text, read and written. docs/format/rollout.md is its spec.
 *
 * A reader takes exactly what the writer makes: it puts what it understood into text again, and
 * holds that against what it read. So there is one form of each file, and nothing slips through
 * between two lines that a person would read otherwise. A file that was cut lacks its last line.
 */
#include "rollout_inside.h"

#include "base.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char FIRST[] = "twinrun-rollout ";
enum { VERSION = 1, TEXT_MAX = 4096 };

static const char *const states[] = {
    [TW_ROLLOUT_ON] = "on", [TW_ROLLOUT_OFF] = "off", [TW_ROLLOUT_FALLBACK] = "fallback"};
static const char *const decisions[] = {[TW_ROLLOUT_STARTED] = "started",
                                        [TW_ROLLOUT_WIDENED] = "widened",
                                        [TW_ROLLOUT_HELD] = "held",
                                        [TW_ROLLOUT_FELL_BACK] = "fell-back",
                                        [TW_ROLLOUT_STOPPED] = "stopped"};
_Static_assert(sizeof states / sizeof *states == TW_ROLLOUT_STATES, "a name for each state");
_Static_assert(sizeof decisions / sizeof *decisions == TW_ROLLOUT_DECISIONS, "and each decision");

const char *tw_rollout_state_name(enum tw_rollout_state s)
{
    assert((unsigned)s < TW_ROLLOUT_STATES);
    return states[s];
}

const char *tw_rollout_decision_name(enum tw_rollout_decision d)
{
    assert((unsigned)d < TW_ROLLOUT_DECISIONS);
    return decisions[d];
}

/* ---- writing */

/* A text that stays one line and shows what it is: printable ASCII, not empty. */
static bool is_plain(const char *s)
{
    size_t n = 0;
    for (; s && s[n]; n++)
        if (s[n] < ' ' || s[n] > '~' || n >= TEXT_MAX)
            return false;
    return n > 0;
}

static bool is_ladder(const struct tw_rollout_rule *r)
{
    if (r->steps == 0 || r->steps > TW_ROLLOUT_LADDER)
        return false;
    for (size_t i = 0; i < r->steps; i++)
        if (r->ladder[i] > TW_ROLLOUT_WHOLE || (i > 0 && r->ladder[i] <= r->ladder[i - 1]))
            return false;
    return true;
}

/* What is wrong with the values, for a message; NULL: nothing. */
static const char *fault_of(const struct tw_rollout_flag *f)
{
    const struct tw_rollout_rule *r = &f->rule;
    if (!tw_is_hex(f->id, 16) || !tw_is_hex(f->seen, 32))
        return "id or seen: expected small hex digits";
    if ((unsigned)f->state >= TW_ROLLOUT_STATES || (unsigned)f->decision >= TW_ROLLOUT_DECISIONS)
        return "state or decision: expected one of their words";
    if (f->share > TW_ROLLOUT_WHOLE)
        return "share: expected 0 to 1000000";
    if (!is_plain(f->pins) || !is_plain(f->project) || !is_plain(f->said) ||
        (f->fallback && (!is_plain(f->fallback) || strcmp(f->fallback, "off") == 0)))
        return "pins, fallback, project or said: expected a line of printable ASCII";
    if (!is_ladder(r))
        return "ladder: expected 1 to 16 ascending numbers up to 1000000";
    if (!(r->alpha > 0 && r->alpha < .5))
        return "alpha: expected a number between 0 and 0.5";
    if (!(r->max_slowdown >= 1 && r->max_slowdown <= 1000))
        return "max-slowdown: expected 1 to 1000";
    if (!(r->max_divergence > 0 && r->max_divergence < 1))
        return "max-divergence: expected a number between 0 and 1";
    if (!(r->max_loss >= 0 && r->max_loss <= 1000))
        return "max-loss: expected 0 to 1000";
    if (r->least < 1 || r->least > 1000000)
        return "least: expected 1 to 1000000";
    if (f->began_ns < 0 || f->decided_ns < 0 || f->sequence < 1)
        return "began, decided or sequence: expected a positive number";
    return NULL;
}

static void put_number(struct tw_buf *b, const char *key, double x)
{
    char text[40];
    tw_buf_printf(b, "%s %s\n", key, tw_shortest(x, text));
}

char *tw_rollout_flag_text(const struct tw_rollout_flag *f, struct twin_error *err)
{
    const char *fault = fault_of(f);
    struct tw_buf b = {.cap = TW_ROLLOUT_FLAG_BYTES};
    if (fault) {
        twin_error_set(err, TWIN_EINVAL, "a flag file cannot hold this: %s", fault);
        return NULL;
    }
    tw_buf_printf(&b, "%s%d\nid %s\nstate %s\nshare %u\npins %s\nfallback %s\nproject %s\nladder ",
                  FIRST, VERSION, f->id, states[f->state], f->share, f->pins,
                  f->fallback ? f->fallback : "off", f->project);
    for (size_t i = 0; i < f->rule.steps; i++)
        tw_buf_printf(&b, "%s%u", i ? "," : "", f->rule.ladder[i]);
    tw_buf_puts(&b, "\n");
    put_number(&b, "alpha", f->rule.alpha);
    put_number(&b, "max-slowdown", f->rule.max_slowdown);
    put_number(&b, "max-divergence", f->rule.max_divergence);
    put_number(&b, "max-loss", f->rule.max_loss);
    tw_buf_printf(&b,
                  "least %llu\nbegan %lld\nsequence %llu\ndecided %lld\ndecision %s\n"
                  "widened-at %llu\nseen %s\nsaid %s\n",
                  (unsigned long long)f->rule.least, (long long)f->began_ns,
                  (unsigned long long)f->sequence, (long long)f->decided_ns, decisions[f->decision],
                  (unsigned long long)f->widened_at, f->seen, f->said);
    if (!b.failed)
        tw_buf_printf(&b, "end %08x\n", tw_crc32c(0, b.data, b.len));
    const bool too_long = b.failed == TWIN_ELIMIT;
    char *text = tw_buf_steal(&b);
    if (!text && too_long)
        twin_error_set(err, TWIN_EINVAL, "a flag file cannot hold this: more than %d bytes",
                       TW_ROLLOUT_FLAG_BYTES);
    else if (!text)
        tw_no_memory(err, "for a flag file");
    return text;
}

int tw_rollout_flag_write(const char *path, const struct tw_rollout_flag *f, struct twin_error *err)
{
    char *text = tw_rollout_flag_text(f, err);
    if (!text)
        return err ? err->code : TWIN_EINVAL;
    /* not for everybody to write, whatever the caller's mask lets through: readers refuse that */
    const mode_t mask = umask(0);
    umask(mask | S_IWOTH);
    const int rc = tw_write_file_atomic(path, text, strlen(text), err);
    umask(mask);
    tw_free(text);
    return rc;
}

/* ---- reading */

/* A text on its way; each line is cut off in place. */
struct reading {
    char *at;
    bool bad;
};

/* The value of the next line, which has to begin with this word; "" and bad: it does not. */
static const char *line_of(struct reading *r, const char *key)
{
    const size_t n = strlen(key);
    char *end = r->bad ? NULL : strchr(r->at, '\n');
    if (!end || strncmp(r->at, key, n) != 0 || r->at[n] != ' ') {
        r->bad = true;
        return "";
    }
    *end = '\0';
    const char *value = r->at + n + 1;
    r->at = end + 1;
    return value;
}

static uint64_t count_of(struct reading *r, const char *key, uint64_t max)
{
    uint64_t n = 0;
    const char *value = line_of(r, key);
    if (tw_parse_u64(value, max, &n) != 0)
        r->bad = true;
    return n;
}

static double number_of(struct reading *r, const char *key)
{
    const char *value = line_of(r, key);
    char *end = NULL;
    const double x = strtod(value, &end);
    if (!*value || *end || !isfinite(x))
        r->bad = true;
    return x;
}

static char *text_of(struct reading *r, const char *key)
{
    return tw_strdup(line_of(r, key));
}

/* The place of the line's word in a list; 0 and bad: it is none of them. */
static unsigned word_of(struct reading *r, const char *key, const char *const *words,
                        unsigned count)
{
    const char *value = line_of(r, key);
    for (unsigned i = 0; i < count; i++)
        if (strcmp(words[i], value) == 0)
            return i;
    r->bad = true;
    return 0;
}

static void digits_of(struct reading *r, const char *key, char *out, size_t digits)
{
    const char *value = line_of(r, key);
    if (tw_is_hex(value, digits))
        memcpy(out, value, digits + 1);
    else
        r->bad = true;
}

static void ladder_of(struct reading *r, struct tw_rollout_rule *rule)
{
    const char *at = line_of(r, "ladder");
    while (!r->bad && rule->steps < TW_ROLLOUT_LADDER) {
        char item[16];
        uint64_t share = 0;
        const size_t n = strcspn(at, ",");
        snprintf(item, sizeof item, "%.*s", (int)(n < sizeof item ? n : sizeof item - 1), at);
        if (tw_parse_u64(item, TW_ROLLOUT_WHOLE, &share) != 0)
            r->bad = true;
        rule->ladder[rule->steps++] = (uint32_t)share;
        if (!at[n])
            return;
        at += n + 1;
    }
    r->bad = true; /* more than there is room for */
}

static void read_lines(struct reading *r, struct tw_rollout_flag *f)
{
    digits_of(r, "id", f->id, 16);
    f->state = (enum tw_rollout_state)word_of(r, "state", states, TW_ROLLOUT_STATES);
    f->share = (uint32_t)count_of(r, "share", TW_ROLLOUT_WHOLE);
    f->pins = text_of(r, "pins");
    f->fallback = text_of(r, "fallback");
    f->project = text_of(r, "project");
    ladder_of(r, &f->rule);
    f->rule.alpha = number_of(r, "alpha");
    f->rule.max_slowdown = number_of(r, "max-slowdown");
    f->rule.max_divergence = number_of(r, "max-divergence");
    f->rule.max_loss = number_of(r, "max-loss");
    f->rule.least = count_of(r, "least", 1000000);
    f->began_ns = (int64_t)count_of(r, "began", INT64_MAX);
    f->sequence = count_of(r, "sequence", UINT64_MAX);
    f->decided_ns = (int64_t)count_of(r, "decided", INT64_MAX);
    f->decision = (enum tw_rollout_decision)word_of(r, "decision", decisions, TW_ROLLOUT_DECISIONS);
    f->widened_at = count_of(r, "widened-at", UINT64_MAX);
    digits_of(r, "seen", f->seen, 32);
    f->said = text_of(r, "said");
}

int tw_rollout_flag_parse(const char *text, size_t n, const char *path, struct tw_rollout_flag *out,
                          struct twin_error *err)
{
    const size_t first = strlen(FIRST);
    uint64_t version = 0;
    *out = (struct tw_rollout_flag){.id = ""};
    if (n < first + 2 || strncmp(text, FIRST, first) != 0 || memchr(text, '\0', n))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: expected a flag file of twinrun rollout: no job takes a fix from "
            "this one; twinrun rollout start makes one at another path",
            path);
    char *copy = tw_strndup(text, n), *again = NULL;
    if (!copy)
        return tw_no_memory(err, "reading %s", path);
    struct reading r = {.at = copy};
    /* the first line's word is "twinrun-rollout" */
    const char *number = line_of(&r, "twinrun-rollout");
    int rc = 0;
    if (r.bad || tw_parse_u64(number, UINT32_MAX, &version) != 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected a version in its first line", path);
    else if (version != VERSION)
        rc = twin_error_set(err, TWIN_EVERSION,
                            "%s is a flag file of version %llu; this twinrun knows %d", path,
                            (unsigned long long)version, VERSION);
    if (rc == 0) {
        read_lines(&r, out);
        const bool memory = out->pins && out->fallback && out->project && out->said;
        if (out->fallback && strcmp(out->fallback, "off") == 0) {
            tw_free(out->fallback);
            out->fallback = NULL;
        }
        if (!memory)
            rc = tw_no_memory(err, "reading %s", path);
        else if (!r.bad)
            again = tw_rollout_flag_text(out, NULL);
    }
    if (rc == 0 && (!again || strlen(again) != n || memcmp(again, text, n) != 0))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s is cut, or was changed by another hand than twinrun rollout's",
                            path);
    tw_free(again);
    tw_free(copy);
    return rc;
}

/* Does not follow a link and does not wait: whoever may write the folder could put anything there,
 * and a job is about to start. */
int tw_rollout_flag_read(const char *path, struct tw_rollout_flag *out, struct twin_error *err)
{
    char text[TW_ROLLOUT_FLAG_BYTES + 1];
    struct stat st;
    *out = (struct tw_rollout_flag){.id = ""};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ELOOP)
        return twin_error_set(err, TWIN_EFORMAT, "%s is a link: expected the file itself", path);
    if (fd < 0 && errno == ENOENT)
        return twin_error_set(err, TWIN_ENOENT,
                              "there is no flag file %s: twinrun rollout start makes one", path);
    if (fd < 0)
        return twin_error_system(err, "%s", path);
    int rc = fstat(fd, &st) == 0 ? 0 : twin_error_system(err, "%s", path);
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s is no regular file", path);
    else if (rc == 0 && (st.st_mode & S_IWOTH))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s can be written by anybody: chmod o-w, and look at what it says",
                            path);
    const ssize_t n = rc == 0 ? tw_pread_all(fd, text, sizeof text, 0) : 0;
    if (n < 0)
        rc = twin_error_system(err, "%s", path);
    else if (n > TW_ROLLOUT_FLAG_BYTES)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected at most %d bytes", path,
                            TW_ROLLOUT_FLAG_BYTES);
    close(fd);
    return rc ? rc : tw_rollout_flag_parse(text, (size_t)n, path, out, err);
}

void tw_rollout_flag_free(struct tw_rollout_flag *f)
{
    tw_free(f->pins);
    tw_free(f->fallback);
    tw_free(f->project);
    tw_free(f->said);
    f->pins = f->fallback = f->project = f->said = NULL;
}
