/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a verdict says of each of its runs: did it agree with the reference, and did the checkpoints
 * that both wrote? Service levels count these, so nothing is counted as agreeing that was not
 * compared.
 */
#include "noted_inside.h"

#include "base.h"

#include <string.h>

/* The class of a run, or NULL. */
static const struct twin_class *class_of(const struct twin_verdict *v, size_t run)
{
    for (size_t i = 0; i < v->class_count; i++)
        for (size_t k = 0; k < v->classes[i].members; k++)
            if (v->classes[i].runs[k] == run)
                return &v->classes[i];
    return NULL;
}

/* One run beside the reference, of a verdict that says differ. Two runs differ from each other, and
 * of more the classes say which. A run of the reference's class agrees if all of it was
 * compared. */
static enum twin_ledger_agreed judge_member(const struct twin_verdict *v, size_t run, size_t count)
{
    const struct twin_class *first = class_of(v, 0), *own = class_of(v, run);
    if (count == 2)
        return TWIN_AGREED_NOT;
    if (!first || !own)
        return TWIN_AGREED_UNKNOWN;
    if (first != own)
        return TWIN_AGREED_NOT;
    return own->unsure || v->unseen_count ? TWIN_AGREED_UNKNOWN : TWIN_AGREED;
}

void tw_agreed_of(const struct twin_verdict *v, size_t count, enum twin_ledger_agreed *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = TWIN_AGREED_UNKNOWN;
        if (i == 0)
            out[i] = TWIN_AGREED_NOT_SAID; /* the reference */
        else if (v->outcome == TWIN_SAME || v->outcome == TWIN_WITHIN_TOLERANCE)
            out[i] = TWIN_AGREED;
        else if (v->outcome == TWIN_DIFFER)
            out[i] = judge_member(v, i, count);
    }
}

/* ---- checkpoints */

static const struct twin_run_file *file_called(const struct twin_run *r, const char *path)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (strcmp(r->files[i].path, path) == 0)
            return &r->files[i];
    return NULL;
}

/* Is text about this file: "PATH: ..."? */
static bool is_about(const char *text, const char *path)
{
    const size_t n = strlen(path);
    return text && strncmp(text, path, n) == 0 && text[n] == ':';
}

/* Does the verdict call the file's difference benign: its bytes differ, its contents do not? */
static bool is_benign(const struct twin_verdict *v, const char *path, size_t run)
{
    for (size_t i = 0; i < v->benign_count; i++)
        if (v->benign[i].run_b == run && is_about(v->benign[i].text, path))
            return true;
    return false;
}

static bool is_unseen(const struct twin_verdict *v, const char *path)
{
    for (size_t i = 0; i < v->unseen_count; i++)
        if (is_about(v->unseen[i], path))
            return true;
    return false;
}

/* One checkpoint that both runs wrote. Its bytes may differ by names and times alone: then the
 * verdict calls it benign. */
static void judge_checkpoint(const struct twin_verdict *v, const struct twin_run_file *x,
                             const struct twin_run_file *y, size_t run,
                             struct twin_ledger_checkpoints *out)
{
    const bool hashed = x->sha256[0] && y->sha256[0];
    out->compared++;
    if (hashed && strcmp(x->sha256, y->sha256) == 0)
        out->same++;
    else if (is_benign(v, x->path, run))
        out->same++;
    else if (!hashed || is_unseen(v, x->path) || v->outcome != TWIN_DIFFER)
        out->unknown++;
}

struct twin_ledger_checkpoints tw_checkpoints_of(const struct twin_verdict *v,
                                                 const struct twin_run *const *runs, size_t count)
{
    struct twin_ledger_checkpoints out = {0};
    for (size_t i = 1; i < count; i++) {
        for (size_t k = 0; k < runs[0]->file_count; k++) {
            const struct twin_run_file *x = &runs[0]->files[k];
            const struct twin_run_file *y = file_called(runs[i], x->path);
            if (!tw_is_checkpoint(x->path))
                continue;
            if (y)
                judge_checkpoint(v, x, y, i, &out);
            else
                out.missing++;
        }
        for (size_t k = 0; k < runs[i]->file_count; k++) {
            const char *path = runs[i]->files[k].path;
            out.missing += tw_is_checkpoint(path) && !file_called(runs[0], path);
        }
    }
    return out;
}
