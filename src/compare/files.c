/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files the job wrote. Only sizes and SHA-256 are known. A checkpoint whose tensors were recorded and are equal is benign
 * whatever its bytes; arrays without a container (.npy, .safetensors, .bin) have no reason to differ; about everything else
 * (archives with timestamps, logs, JSON with durations) the bytes alone prove nothing.
 */
#include "internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- checkpoints whose tensors were recorded */

struct saved { char name[256]; uint64_t hash; };
struct saved_list { struct tw_cmp *c; struct tw_proc *p; struct saved *s; size_t n, room; };

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
        l->s[l->n++] = (struct saved){.hash = 1};
        strncpy(l->s[i].name, name, sizeof l->s[i].name - 1);
    }
    l->s[i].hash = tw_mix64(tw_mix64(l->s[i].hash ^ r->digest.a) + r->digest.b);
    return 0;
}

static void load_saved(struct tw_cmp *c, const struct tw_side *side, struct saved_list *l)
{
    *l = (struct saved_list){.c = c};
    for (size_t i = 0; i < side->count; i++) {
        l->p = &side->proc[i];
        twin_trace_walk(l->p->trace, take_saved, NULL, l, NULL);
    }
}

static const struct saved *find_saved(const struct saved_list *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->s[i].name, base_name(path)) == 0)
            return &l->s[i];
    return NULL;
}

/* ---- which files correspond, and what a difference means */

/* A path with what changes from run to run (times, pids, counters, random hex) masked: "runs/Nov21_08-30/ev.123" */
static char *path_pattern(const char *path)
{
    struct tw_buf out = {0};
    for (const char *p = path; *p;) {
        size_t hex = 0, digit = 0;
        while (isxdigit((unsigned char)p[hex]))
            digit += isdigit((unsigned char)p[hex++]) != 0;
        if (digit && (hex == digit || hex >= 6)) {
            tw_buf_puts(&out, "#");
            p += hex;
        } else {
            size_t n = hex ? hex : 1;
            tw_buf_append(&out, p, n);
            p += n;
        }
    }
    tw_buf_puts(&out, "");
    return tw_buf_steal(&out);
}

static bool never_matters(const char *path)
{
    static const char *const globs[] = {"*.pyc", "*__pycache__/*", "*.lock", "*.pid", "*.tmp", "*.git/*", "*.cache/*", NULL};
    for (int i = 0; globs[i]; i++)
        if (tw_glob(globs[i], path))
            return true;
    return false;
}

static bool is_log(const char *path)
{
    static const char *const globs[] = {"*.log", "*.log.*", "*tfevents*", "*/wandb/*", "wandb/*", "*/logs/*", "logs/*", "*.out", "*.err",
                                        "*mlruns/*", "*lightning_logs/*", "*.prof", "*.trace.json", "nohup.*", NULL};
    for (int i = 0; globs[i]; i++)
        if (tw_glob(globs[i], path))
            return true;
    return false;
}

static bool is_plain_array(const char *path)
{
    static const char *const ends[] = {".npy", ".safetensors", ".bin", ".raw", ".f32", ".f64", ".dat", NULL};
    for (int i = 0; ends[i]; i++)
        if (tw_ends(path, ends[i]))
            return true;
    return false;
}

/* `other`: the same file of the second run, which may have another name. */
static struct twin_finding *file_finding(struct tw_cmp *c, const char *path, const char *other, char *text)
{
    struct twin_finding *f = tw_finding_new(c, TWIN_FINDING_FILE, TWIN_PHASE_OUTPUT, TWIN_KIND_FILE);
    if (!f) {
        tw_free(text);
        return NULL;
    }
    tw_finding_set(c, &f->name, tw_cmp_copy(c, path));
    tw_finding_set(c, &f->text, text);
    tw_evidence_line(&f->at_a, path, 0);
    tw_evidence_line(&f->at_b, other, 0);
    return f;
}

struct files { struct saved_list a, b; };

static void judge(struct tw_cmp *c, const struct twin_run_file *x, const struct twin_run_file *y, const struct files *saved,
                  struct tw_last_resort *out)
{
    if (!x->sha256[0] || !y->sha256[0] || strcmp(x->sha256, y->sha256) == 0 || never_matters(x->path) ||
        tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_FILE, x->path))
        return;
    const struct saved *s = find_saved(&saved->a, x->path), *t = find_saved(&saved->b, y->path);
    if (s && t && s->hash == t->hash)
        tw_findings_take(c, &out->benign, file_finding(c, x->path, y->path, tw_cmp_text(c, "%s: file bytes differ, tensors equal", x->path)));
    else if (s && t)
        return; /* its record differs: that is the finding */
    else if (is_log(x->path) || (x->existed_before && y->existed_before && !is_plain_array(x->path)))
        tw_findings_take(c, &out->benign, file_finding(c, x->path, y->path, tw_cmp_text(c, "%s: file bytes differ (%s)", x->path,
                                                                               is_log(x->path) ? "a log" : "it was there before the runs")));
    else if (is_plain_array(x->path) && !c->o->arms)
        tw_findings_take(c, &out->findings, file_finding(c, x->path, y->path, tw_cmp_text(c, "%s: contents differ (%llu and %llu bytes)", x->path,
                                                                                 (unsigned long long)x->bytes, (unsigned long long)y->bytes)));
    else
        tw_texts_add(c, &out->unknown, tw_cmp_text(c, "%s: file bytes differ, contents not compared", x->path));
}

/* By path, else by pattern. `budget` bounds the second, which compares everything with everything. */
static const struct twin_run_file *counterpart(const struct twin_run *run, const char *path, bool *taken, size_t *budget)
{
    size_t found = TW_NONE, similar = 0;
    for (size_t i = 0; i < run->file_count; i++)
        if (!taken[i] && strcmp(run->files[i].path, path) == 0)
            found = i;
    char *pattern = found == TW_NONE ? path_pattern(path) : NULL;
    for (size_t i = 0; pattern && i < run->file_count && *budget > 0; i++, --*budget) {
        char *other = taken[i] ? NULL : path_pattern(run->files[i].path);
        if (other && strcmp(other, pattern) == 0 && similar++ == 0)
            found = i;
        tw_free(other);
    }
    tw_free(pattern);
    if (found == TW_NONE)
        return NULL;
    taken[found] = true;
    return &run->files[found];
}

int tw_files_compare(struct tw_cmp *c, const struct tw_side *a, const struct tw_side *b, struct tw_last_resort *out)
{
    struct files saved;
    const struct twin_run *x = a->run, *y = b->run;
    bool *taken = tw_calloc(y->file_count, sizeof *taken);
    size_t only_a = 0, only_b = 0, budget = 500000;
    const char *example = NULL;
    load_saved(c, a, &saved.a);
    load_saved(c, b, &saved.b);
    for (size_t i = 0; taken && i < x->file_count; i++) {
        const struct twin_run_file *other = counterpart(y, x->files[i].path, taken, &budget);
        if (other) {
            judge(c, &x->files[i], other, &saved, out);
        } else if (!never_matters(x->files[i].path) && !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_FILE, x->files[i].path)) {
            example = example ? example : x->files[i].path;
            only_a++;
        }
    }
    for (size_t i = 0; taken && i < y->file_count; i++)
        if (!taken[i] && !never_matters(y->files[i].path) && !tw_cmp_ignored(c, TWIN_PHASE_OUTPUT, TWIN_KIND_FILE, y->files[i].path)) {
            example = example ? example : y->files[i].path;
            only_b++;
        }
    bool comparable = !c->o->arms && tw_side_complete(a) && tw_side_complete(b) && !tw_side_failed(a) && !tw_side_failed(b) &&
                      !x->files_truncated && !y->files_truncated;
    if (example && comparable)
        tw_texts_add(c, &out->unknown, tw_cmp_text(c, "%zu files only in %s, %zu only in %s, such as %s", only_a, c->label_a, only_b,
                                                   c->label_b, example));
    c->oom |= !taken;
    tw_free(taken);
    tw_free(saved.a.s);
    tw_free(saved.b.s);
    return c->oom ? TWIN_ENOMEM : 0;
}
