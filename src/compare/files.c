/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files the job wrote. A file whose bytes are not the same in both runs is a difference, unless it
 * is shown to be none: text by its lines (lines.c), a checkpoint by its recorded tensors, a file of
 * tensors by the list of them that was made when its run ended. Of a format that nobody here reads
 * nothing is known: such a file is named.
 */
#include "internal.h"
#include "printed.h"

#include "phrase.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_CAP ((size_t)8 << 20) /* more than the launcher keeps of one file */

/* A path without its folders. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- checkpoints whose tensors were recorded */

/*
 * A checkpoint that an agent saw being saved: its file's name, a hash of all tensors in it, and one
 * of all plain values. whole: each time that it was saved the agent told of these, and looked into
 * everything.
 */
struct saved {
    char *name;
    uint64_t hash, values;
    size_t times, told;
    bool whole;
};
/* The checkpoints of a run; `p` is the process whose trace is being read. */
struct saved_list {
    struct tw_cmp *c;
    struct tw_proc *p;
    struct saved *s;
    size_t n, room;
};

/* Adds a recorded tensor to the hash of its file, in the order in which they were recorded. */
static int take_saved(void *user, const struct twin_trace_record *r)
{
    struct saved_list *l = user;
    const struct twin_series *s = twin_trace_series(l->p->trace, r->series);
    if (s->phase != TWIN_PHASE_CHECKPOINT || r->flags & TWIN_REC_UNOBSERVED)
        return 0;
    const char *name = base_name(twin_trace_string(l->p->trace, s->name));
    size_t i = 0;
    while (i < l->n && strcmp(l->s[i].name, name) != 0)
        i++;
    if (i == l->n) {
        if (i >= 10000 || !tw_cmp_room(l->c, &l->s, l->n, &l->room, sizeof *l->s))
            return 1;
        l->s[i] = (struct saved){.name = tw_cmp_copy(l->c, name), .hash = 1, .whole = true};
        if (!l->s[i].name)
            return 1;
        l->n++;
    }
    l->s[i].hash = tw_mix64(tw_mix64(l->s[i].hash ^ r->digest.a) + r->digest.b);
    l->s[i].times += s->kind == TWIN_KIND_FILE;
    return 0;
}

/* Reads the notes "checkpoint.digest", such as "6d056ab348cf97f0 0 last.pt": the digest of the
 * plain values, how many objects were not looked into, the file's name. */
static void take_values(struct saved_list *l)
{
    const char *key, *value;
    for (size_t i = 0; twin_trace_note(l->p->trace, i, &key, &value); i++) {
        char *end, *name;
        if (strcmp(key, "checkpoint.digest") != 0)
            continue;
        const uint64_t digest = strtoull(value, &end, 16);
        const unsigned long hidden = strtoul(end, &name, 10);
        if (end == value || name == end || *name != ' ')
            continue;
        for (size_t k = 0; k < l->n; k++) {
            struct saved *s = &l->s[k];
            if (strcmp(s->name, name + 1) != 0)
                continue;
            s->values = tw_mix64(s->values ^ digest);
            s->told++;
            s->whole &= hidden == 0;
        }
    }
}

/* Is it shown that all of what was saved is equal, tensors and plain values? */
static bool equal_saved(const struct saved *s, const struct saved *t)
{
    bool whole = s->whole && t->whole && s->told == s->times && t->told == t->times;
    return whole && s->hash == t->hash && s->values == t->values;
}

/* For twin_trace_walk_some: what take_saved() looks at. Most traces have no such series. */
static bool is_saved(void *user, uint32_t id, const struct twin_series *s)
{
    (void)user, (void)id;
    return s->phase == TWIN_PHASE_CHECKPOINT;
}

/* Reads the checkpoints of all processes of a run. */
static void load_saved(struct tw_cmp *c, const struct tw_side *side, struct saved_list *l)
{
    *l = (struct saved_list){.c = c};
    for (size_t i = 0; i < side->count; i++) {
        l->p = &side->proc[i];
        if (twin_trace_walk_some(l->p->trace, is_saved, take_saved, NULL, l, NULL) == TWIN_ENOMEM)
            c->oom = true;
        take_values(l);
        twin_trace_rest(l->p->trace);
    }
}

static void free_saved(struct saved_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        tw_free(l->s[i].name);
    tw_free(l->s);
}

/* The checkpoint that was saved as this file, by its name without folders; NULL: none was. */
static const struct saved *find_saved(const struct saved_list *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->s[i].name, base_name(path)) == 0)
            return &l->s[i];
    return NULL;
}

/* ---- kinds of files */

/* What tools leave behind for themselves: no job's result is kept there (docs/ci.md says so). */
static bool never_matters(const char *path)
{
    static const char *const globs[] = {"*.pyc",
                                        "*__pycache__/*",
                                        "*.git/*",
                                        "*.cache/*",
                                        "*/pmix_dstor_*/*",   /* memory that PMIx's ranks share */
                                        "/tmp/ray/session_*", /* logs and sockets of a cluster */
                                        NULL};
    for (int i = 0; globs[i]; i++)
        if (tw_glob(globs[i], path))
            return true;
    return false;
}

/* Formats in which equal contents are equal bytes: arrays without a container, pictures. */
static bool is_plain_content(const char *path)
{
    static const char *const ends[] = {
        ".npy", ".safetensors", ".bin",  ".raw", ".f32", ".f64", ".dat",  ".png", ".jpg",  ".jpeg",
        ".bmp", ".gif",         ".webp", ".ppm", ".pgm", ".tif", ".tiff", ".wav", ".onnx", NULL};
    for (int i = 0; ends[i]; i++)
        if (tw_ends(path, ends[i]))
            return true;
    return false;
}

/* Lines of a log come as threads and ranks write them; of every other text the order is part of
 * what it says. */
static bool is_log(const char *path)
{
    static const char *const globs[] = {"*.log",      "*.log.*", "*.out", "*.err",
                                        "*tfevents*", "*nohup*", NULL};
    for (int i = 0; globs[i]; i++)
        if (tw_glob(globs[i], path))
            return true;
    return false;
}

/* ---- contents that were kept when the run ended */

/* A copy of a file, as it was when the run ended. */
struct kept {
    char *data;
    size_t bytes;
};

/* Reads the copy of a file; false: none was kept, or it cannot be read. */
static bool load_kept(struct tw_cmp *c, const struct twin_run *run, const struct twin_run_file *f,
                      struct kept *k)
{
    *k = (struct kept){0};
    if (!f->kept)
        return false;
    char *path = tw_path_join(run->dir, f->kept);
    int rc = path ? tw_read_file(path, KEPT_CAP, &k->data, &k->bytes, NULL) : TWIN_ENOMEM;
    tw_free(path);
    c->oom |= rc == TWIN_ENOMEM;
    return rc == 0;
}

/* How many bytes of a file stood there before the run: of a file that grows from run to run (a log,
 * a table of results) only what this run added is compared. 0: all of it is new. earlier: the same
 * file at the end of the other run, where that run came first. */
static size_t written_before(const struct kept *whole, const struct kept *earlier,
                             const struct twin_run_file *f)
{
    /* Of a file outside of the working folder it is not known how long it was before. */
    bool outside = f->path[0] == '/' && earlier && earlier->bytes > 0 &&
                   earlier->bytes < whole->bytes;
    if (outside && memcmp(earlier->data, whole->data, earlier->bytes) == 0)
        return earlier->bytes;
    if (!f->existed_before || f->bytes_before > whole->bytes)
        return 0;
    if (!earlier)
        return f->bytes_before;
    /* Other runs may have added to it in between. */
    bool kept = earlier->bytes <= f->bytes_before &&
                memcmp(earlier->data, whole->data, earlier->bytes) == 0;
    return kept ? f->bytes_before : 0;
}

static bool is_table(const char *path)
{
    return tw_ends(path, ".csv") || tw_ends(path, ".tsv");
}

/* What stands between the cells of a table: a comma in its name's first meaning, and often
 * something else. Of what the line of headings holds the most frequent; ',' when it holds none. */
static char separator_of(const struct kept *k)
{
    static const char known[] = {',', ';', '\t', '|'};
    size_t count[sizeof known] = {0}, best = 0;
    bool in_quotes = false;
    for (size_t i = 0; i < k->bytes && (in_quotes || k->data[i] != '\n'); i++) {
        in_quotes ^= k->data[i] == '"';
        for (size_t s = 0; s < sizeof known && !in_quotes; s++)
            count[s] += k->data[i] == known[s];
    }
    for (size_t s = 1; s < sizeof known; s++)
        if (count[s] > count[best])
            best = s;
    return known[best];
}

/* The cell that begins at p, its quotes left out; *end is behind it. */
static size_t cell_length(const char *p, const char *stop, char separator, const char **end)
{
    bool in_quotes = false;
    const char *q = p;
    while (q < stop && (in_quotes || *q != separator)) {
        in_quotes ^= *q == '"';
        q++;
    }
    *end = q;
    return (size_t)(q - p);
}

/* A table with a line of headings as "loss: 0.5 | time: 1.2": then each number stands behind its
 * name, as in a printed line. A table without one stays as it is. False: no memory. */
static bool name_columns(struct kept *k, char separator)
{
    enum { COLUMNS_MAX = 1000 };
    const char *stop = k->data + k->bytes, *head_end = memchr(k->data, '\n', k->bytes), *end;
    struct tw_buf out = {0};
    if (!head_end)
        return true;
    const char *line_end = head_end;
    head_end -= head_end > k->data && head_end[-1] == '\r';
    for (const char *p = k->data; p < head_end; p = end + 1) { /* a heading is no number */
        size_t n = cell_length(p, head_end, separator, &end);
        if (n > 0 && tw_number_length(p) == n)
            return true;
    }
    tw_buf_append(&out, k->data, (size_t)(line_end + 1 - k->data));
    for (const char *row = line_end + 1; row < stop && !out.failed;) {
        const char *row_end = memchr(row, '\n', (size_t)(stop - row)), *head = k->data, *head_stop;
        row_end = row_end ? row_end : stop;
        const char *cells_end = row_end; /* Python's csv writer ends its lines with "\r\n" */
        cells_end -= cells_end > row && cells_end[-1] == '\r';
        size_t column = 0;
        for (const char *p = row; p < cells_end && column < COLUMNS_MAX; p = end + 1, column++) {
            size_t n = cell_length(p, cells_end, separator, &end);
            size_t name = head < head_end ? cell_length(head, head_end, separator, &head_stop) : 0;
            if (column > 0)
                tw_buf_puts(&out, " | ");
            if (name > 0) {
                tw_buf_append(&out, head, name);
                tw_buf_puts(&out, ": ");
                head = head_stop + 1;
            }
            tw_buf_append(&out, p, n);
        }
        tw_buf_puts(&out, "\n");
        row = row_end + 1;
    }
    size_t bytes = out.len;
    char *data = tw_buf_steal(&out);
    if (!data)
        return false;
    tw_free(k->data);
    *k = (struct kept){data, bytes};
    return true;
}

/* ---- what a difference means */

/* The files of both runs, with what is needed to judge them. */
struct files {
    struct saved_list a, b;
    const struct tw_side *side_a, *side_b;
    bool ended; /* both runs, well */
};

/* A file whose bytes differ, and whose contents do not. */
static void say_benign(struct tw_cmp *c, struct tw_last_resort *out, const struct twin_run_file *x,
                       const struct twin_run_file *y, const char *what)
{
    tw_findings_take(c, &out->benign,
                     tw_lines_finding(c, x->path, y->path, TWIN_KIND_FILE,
                                      tw_cmp_text(c, "%s: file bytes differ, %s", x->path, what)));
}

/* Does the name say that it holds JSON? */
static bool is_json(const char *path)
{
    static const char *const ends[] = {".json", ".jsonl", ".ndjson", ".geojson", ".ipynb"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (tw_ends(path, ends[i]))
            return true;
    return false;
}

/* Are both JSON with equal objects? Their keys are sorted in `a` and `b` for what comes next. */
static bool equal_objects(struct tw_cmp *c, struct kept *a, struct kept *b)
{
    struct kept *kept[2] = {a, b};
    char *compact[2] = {NULL, NULL}, *sorted[2] = {NULL, NULL};
    size_t compact_bytes[2] = {0}, sorted_bytes[2] = {0};
    bool read = true;
    for (size_t i = 0; i < 2 && read; i++) {
        const struct kept *k = kept[i];
        c->oom |= tw_json_sorted(k->data, k->bytes, true, &compact[i], &compact_bytes[i]) != 0;
        c->oom |= tw_json_sorted(k->data, k->bytes, false, &sorted[i], &sorted_bytes[i]) != 0;
        read = compact[i] && sorted[i];
    }
    for (size_t i = 0; i < 2; i++) {
        if (read) {
            tw_free(kept[i]->data);
            *kept[i] = (struct kept){sorted[i], sorted_bytes[i]};
        } else {
            tw_free(sorted[i]);
        }
    }
    bool equal = read && compact_bytes[0] == compact_bytes[1] &&
                 memcmp(compact[0], compact[1], compact_bytes[0]) == 0;
    tw_free(compact[0]);
    tw_free(compact[1]);
    return equal;
}

/* A file that differs where a secret was masked in its copy, so that nobody can tell how. */
static void say_hidden(struct tw_cmp *c, const char *path, struct tw_last_resort *out)
{
    tw_texts_add(
        c, &out->unknown,
        tw_cmp_text(c, "%s: differs in what was not kept of it (--ignore 'file:%s' leaves it out)",
                    path, path));
}

/* Secrets are masked in the copies: whether they are equal is not known. */
static bool hides_secret(const struct kept *k)
{
    return memmem(k->data, k->bytes, TW_SECRET_MASK, strlen(TW_SECRET_MASK)) != NULL;
}

/* Text of both was kept: true, and what its lines say is in `out`. */
static bool judge_text(struct tw_cmp *c, const struct files *in, const struct twin_run_file *x,
                       const struct twin_run_file *y, struct tw_last_resort *out)
{
    struct kept a, b;
    bool both = load_kept(c, in->side_a->run, x, &a);
    both &= load_kept(c, in->side_b->run, y, &b);
    both &= x->listing == y->listing;
    if (both && !x->listing && a.bytes == b.bytes &&
        (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0)) {
        say_hidden(c, x->path, out);
    } else if (both && is_json(x->path) && equal_objects(c, &a, &b)) {
        if (hides_secret(&a))
            say_hidden(c, x->path, out);
        else
            say_benign(c, out, x, y,
                       "equal objects, their keys in another order or on other lines");
    } else if (both) {
        size_t from_b = written_before(&b, &a, y);
        size_t from_a = from_b > 0 && x->existed_before ? written_before(&a, NULL, x) : 0;
        if (from_b == 0 && is_table(x->path)) /* of one that grows, the rows have no headings */
            c->oom |= !name_columns(&a, separator_of(&a)) || !name_columns(&b, separator_of(&b));
        struct tw_lines l = {.name = x->path,
                             .name_b = y->path,
                             .kind = TWIN_KIND_FILE,
                             .a = {a.data + from_a, a.bytes - from_a, in->side_a->facts},
                             .b = {b.data + from_b, b.bytes - from_b, in->side_b->facts},
                             .whole = in->ended,
                             .ordered = !is_log(x->path),
                             .shift = out->shift,
                             .grows = from_a > 0 || from_b > 0};
        size_t found = out->findings.n + out->unknown.n;
        bool hidden = hides_secret(&a) || hides_secret(&b);
        tw_lines_compare(c, &l, out);
        if (hidden && found == out->findings.n + out->unknown.n)
            say_hidden(c, x->path, out);
        if (x->listing && found == out->findings.n + out->unknown.n)
            say_benign(c, out, x, y, "contents equal");
    }
    tw_free(a.data);
    tw_free(b.data);
    return both;
}

/* A file that differs, with its size in both runs. */
static void say_differs(struct tw_cmp *c, struct tw_last_resort *out, const struct twin_run_file *x,
                        const struct twin_run_file *y, const char *what)
{
    tw_findings_take(
        c, &out->findings,
        tw_lines_finding(c, x->path, y->path, TWIN_KIND_FILE,
                         tw_cmp_text(c, "%s: %s differ (%llu and %llu bytes)", x->path, what,
                                     (unsigned long long)x->bytes, (unsigned long long)y->bytes)));
}

/* Does torch.distributed keep it for itself? Its ranks meet over it: addresses stand there, other
 * ones in each run. */
static bool is_store(const struct tw_side *side, const char *path)
{
    char *whole = path[0] == '/' || !side->run->cwd ? tw_strdup(path)
                                                    : tw_path_join(side->run->cwd, path);
    bool found = false;
    for (size_t i = 0; whole && !found && i < side->count; i++) {
        const char *key, *value;
        for (size_t k = 0; !found && twin_trace_note(side->proc[i].trace, k, &key, &value); k++)
            found = strcmp(key, "store.file") == 0 && strcmp(value, whole) == 0;
    }
    tw_free(whole);
    return found;
}

/* Is a file worth comparing? Not one that tools keep for themselves, nor one that --ignore
 * names. */
static bool is_compared(struct tw_cmp *c, const struct tw_side *side, const char *path)
{
    if (never_matters(path) || tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_FILE, path))
        return false;
    if (!is_store(side, path))
        return true;
    tw_cmp_note(c, "%s: not compared: the processes of torch.distributed met over it", path);
    return false;
}

/* Where a symbolic link leads; NULL for a file. */
static const char *target_of(const struct twin_run_file *f)
{
    return f->why && tw_starts(f->why, TW_FILES_LINK) ? f->why + strlen(TW_FILES_LINK) : NULL;
}

/* Two links, or one and a file. Names that differ in facts of their runs are one place. */
static void judge_link(struct tw_cmp *c, const struct twin_run_file *x,
                       const struct twin_run_file *y, const struct files *in,
                       struct tw_last_resort *out)
{
    const char *to_a = target_of(x), *to_b = target_of(y);
    char *plain_a = to_a ? tw_noise_name(to_a, in->side_a->facts) : NULL;
    char *plain_b = to_b ? tw_noise_name(to_b, in->side_b->facts) : NULL;
    c->oom |= (to_a && !plain_a) || (to_b && !plain_b);
    if (!plain_a || !plain_b || strcmp(plain_a, plain_b) != 0)
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c,
                                 "%.400s is %s%.400s in %s and %s%.400s in %s (--ignore "
                                 "'file:%.400s' leaves it out)",
                                 x->path, to_a ? TW_FILES_LINK : "a file", to_a ? to_a : "",
                                 c->label_a, to_b ? TW_FILES_LINK : "a file", to_b ? to_b : "",
                                 c->label_b, x->path));
    tw_free(plain_a);
    tw_free(plain_b);
}

/* Says what it means that two files of one name have other bytes, by the best evidence that there
 * is: recorded tensors, the text of both, the format. Where there is none, the file is named as not
 * known. */
static void judge_file(struct tw_cmp *c, const struct twin_run_file *x,
                       const struct twin_run_file *y, const struct files *in,
                       struct tw_last_resort *out)
{
    bool hashed = x->sha256[0] && y->sha256[0];
    if ((hashed && strcmp(x->sha256, y->sha256) == 0) || !is_compared(c, in->side_a, x->path))
        return;
    if (target_of(x) || target_of(y)) {
        judge_link(c, x, y, in, out);
        return;
    }
    const struct saved *s = find_saved(&in->a, x->path), *t = find_saved(&in->b, y->path);
    if (s && t && s->hash != t->hash)
        return; /* its record differs: that is the finding */
    /* the list of what is in the file itself says more than the records of a file of its name */
    if (s && t && hashed && x->listing && judge_text(c, in, x, y, out))
        return;
    if (s && t && equal_saved(s, t)) {
        if (hashed)
            say_benign(c, out, x, y, "tensors and other values equal");
        return;
    }
    if (s && t && (hashed || x->bytes == y->bytes)) {
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c,
                                 "%s: file bytes differ; its tensors are equal, and whether its "
                                 "other values are is not known (--ignore 'file:%s' leaves it out)",
                                 x->path, x->path));
        return;
    }
    if (!hashed) {
        const char *why = x->why ? x->why : y->why;
        if (x->bytes != y->bytes)
            say_differs(c, out, x, y, "sizes");
        else
            tw_texts_add(c, &out->unknown,
                         tw_cmp_text(c, "%s: not compared%s%s (--ignore 'file:%s' leaves it out)",
                                     x->path, why ? ": " : "", why ? why : "", x->path));
        return;
    }
    if (judge_text(c, in, x, y, out))
        return;
    if (is_plain_content(x->path))
        say_differs(c, out, x, y, "contents");
    else
        tw_texts_add(c, &out->unknown,
                     tw_cmp_text(c,
                                 "%s: file bytes differ, and its format is not read here (--ignore "
                                 "'file:%s' leaves it out)",
                                 x->path, x->path));
}

/* ---- which files correspond */

/* By path, else by the path without the facts of its run. */
static const struct twin_run_file *counterpart_of(const struct twin_run *run, const char *path,
                                                  const char *plain, char *const *plain_names,
                                                  bool *taken)
{
    size_t found = TW_NONE;
    for (size_t i = 0; i < run->file_count && found == TW_NONE; i++)
        if (!taken[i] && strcmp(run->files[i].path, path) == 0)
            found = i;
    for (size_t i = 0; i < run->file_count && found == TW_NONE; i++)
        if (!taken[i] && plain && plain_names[i] && strcmp(plain_names[i], plain) == 0)
            found = i;
    if (found == TW_NONE)
        return NULL;
    taken[found] = true;
    return &run->files[found];
}

/* The names of a run's files without its facts ("run_4711.log" and "run_4812.log" are one file). */
static char **plain_names(struct tw_cmp *c, const struct tw_side *side)
{
    char **names = tw_calloc(side->run->file_count + 1, sizeof *names);
    c->oom |= !names;
    for (size_t i = 0; names && i < side->run->file_count; i++) {
        names[i] = tw_noise_name(side->run->files[i].path, side->facts);
        c->oom |= !names[i];
    }
    return names;
}

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; names && i < n; i++)
        tw_free(names[i]);
    tw_free(names);
}

/* Files that one run alone wrote. */
struct singles {
    size_t count[2]; /* in a, in b */
    const char *example;
    /* outside of the working folder, by the run that ended before the other began */
    size_t earlier;
    const char *earlier_example;
};

/* Did this side end before the other began? Then the other one found what it left behind. */
static bool came_first(const struct twin_run *run, const struct twin_run *other)
{
    int64_t end = run->start_realtime_ns + (int64_t)(run->wall_s * 1e9);
    return run->start_realtime_ns > 0 && end <= other->start_realtime_ns;
}

/* Counts a file that one run alone wrote. */
static void take_single(struct singles *s, size_t side, const struct twin_run *run,
                        const struct twin_run *other, const char *path)
{
    if (path[0] == '/' && came_first(run, other)) {
        s->earlier_example = s->earlier_example ? s->earlier_example : path;
        s->earlier++;
        return;
    }
    s->example = s->example ? s->example : path;
    s->count[side]++;
}

/*
 * What is kept from run to run (a compiled kernel, a list of fonts) is written by the first run
 * alone, which finds nothing. So a file that the later run did not write is no finding by itself.
 */
static void say_earlier(struct tw_cmp *c, const struct singles *s, const char *label)
{
    tw_cmp_note(c,
                "%zu file%s outside of the working folder written by %s and not written again: not "
                "compared, such as %s",
                s->earlier, tw_plural_s(s->earlier), label, s->earlier_example);
}

/* Files that one run alone wrote. Of runs that failed or of different arms that is no news. */
static void say_single(struct tw_cmp *c, const struct files *in, const struct singles *s,
                       struct tw_last_resort *out)
{
    const struct twin_run *x = in->side_a->run, *y = in->side_b->run;
    if (c->o->arms || !in->ended)
        return;
    if (s->earlier)
        say_earlier(c, s, came_first(x, y) ? c->label_a : c->label_b);
    if (!s->example || x->files_truncated || y->files_truncated)
        return;
    tw_texts_add(c, &out->unknown,
                 tw_cmp_text(c,
                             "%zu files only in %s, %zu only in %s, such as %s (--ignore "
                             "'file:GLOB' leaves files out)",
                             s->count[0], c->label_a, s->count[1], c->label_b, s->example));
}

size_t tw_files_known(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b)
{
    const struct twin_run *x = a->run, *y = b->run;
    size_t known = 0;
    if (tw_side_stopped(a) || tw_side_stopped(b) || (c->o->arms && c->o->steps_given))
        return 0; /* they are not compared at all */
    for (size_t i = 0; i < x->file_count; i++) {
        const struct twin_run_file *f = &x->files[i];
        if (!f->sha256[0] || never_matters(f->path) ||
            tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_FILE, f->path))
            continue;
        for (size_t k = 0; k < y->file_count; k++)
            known += y->files[k].sha256[0] && strcmp(f->path, y->files[k].path) == 0;
    }
    return known;
}

int tw_files_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b,
                     struct tw_last_resort *out)
{
    struct files in = {.side_a = a,
                       .side_b = b,
                       .ended = tw_side_complete(a) && tw_side_complete(b) && !tw_side_failed(a) &&
                                !tw_side_failed(b)};
    const struct twin_run *x = a->run, *y = b->run;
    /* what was in them at that moment is a matter of chance */
    if (tw_side_stopped(a) || tw_side_stopped(b)) {
        if (x->file_count + y->file_count > 0)
            tw_cmp_note(
                c, "files that the job wrote were not compared: a run was stopped before its end");
        return 0;
    }
    if (out->other_ends) {
        if (x->file_count + y->file_count > 0)
            tw_cmp_note(c, "files that the arms wrote were not compared: they end at other steps");
        return 0;
    }
    bool *taken = tw_calloc(y->file_count + 1, sizeof *taken);
    char **names_a = plain_names(c, a), **names_b = plain_names(c, b);
    struct singles singles = {.example = NULL};
    load_saved(c, a, &in.a);
    load_saved(c, b, &in.b);
    for (size_t i = 0; taken && names_a && names_b && i < x->file_count; i++) {
        const struct twin_run_file *other = counterpart_of(y, x->files[i].path, names_a[i], names_b,
                                                           taken);
        if (other)
            judge_file(c, &x->files[i], other, &in, out);
        else if (is_compared(c, a, x->files[i].path))
            take_single(&singles, 0, x, y, x->files[i].path);
    }
    for (size_t i = 0; taken && i < y->file_count; i++)
        if (!taken[i] && is_compared(c, b, y->files[i].path))
            take_single(&singles, 1, y, x, y->files[i].path);
    say_single(c, &in, &singles, out);
    c->oom |= !taken;
    tw_free(taken);
    free_names(names_a, x->file_count);
    free_names(names_b, y->file_count);
    free_saved(&in.a);
    free_saved(&in.b);
    return c->oom ? TWIN_ENOMEM : 0;
}
