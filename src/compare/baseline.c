/* SPDX-License-Identifier: Apache-2.0 */
/* What a baseline says of itself, the facts of the world that a caller adds to it, and how it is
 * freed. Everything that a baseline points to belongs to it, also while it is only half made or
 * half read: twin_baseline_free() is what every failure ends in. */
#include "baseline_inside.h"

/* Names of the world: some forty are usual. A file that claims more is none of ours. */
#define WORLD_MAX 1000u

int twin_baseline_add_world(struct twin_baseline *b, const char *name, const char *value,
                            struct twin_error *err)
{
    if (b->world_count >= WORLD_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "a baseline holds up to %u names of its world",
                              WORLD_MAX);
    struct tw_bl_pair *grown = tw_reallocarray(b->world, b->world_count + 1, sizeof *grown);
    if (grown)
        b->world = grown;
    char *n = tw_strdup(name), *v = tw_strdup(value);
    if (!grown || !n || !v) {
        tw_free(n);
        tw_free(v);
        return tw_no_memory(err, "describing the world");
    }
    b->world[b->world_count++] = (struct tw_bl_pair){n, v};
    return 0;
}

size_t twin_baseline_world(const struct twin_baseline *b, size_t index, const char **name,
                           const char **value)
{
    if (index < b->world_count) {
        *name = b->world[index].name;
        *value = b->world[index].value;
    }
    return b->world_count;
}

struct twin_baseline_info twin_baseline_info(const struct twin_baseline *b)
{
    struct twin_baseline_info i = {
        .twinrun = b->twinrun,
        .made = b->made,
        .command = b->command,
        .command_count = b->command_count,
        .runs = b->runs,
        .level = b->level,
        .max_steps = b->max_steps,
        .ignore = b->ignore,
        .ignore_count = b->ignore_count,
        .processes = b->procs,
    };
    for (size_t k = 0; k < b->procs; k++) {
        i.steps = b->proc[k].steps > i.steps ? b->proc[k].steps : i.steps;
        i.records += b->proc[k].records;
        i.left_out += b->proc[k].left_out_count;
    }
    return i;
}

void tw_bl_proc_free(struct tw_bl_proc *p)
{
    for (size_t i = 0; i < p->details; i++)
        tw_free(p->detail[i].rec);
    for (size_t i = 0; i < p->numbers; i++)
        tw_free(p->number[i].sketch);
    tw_free(p->role);
    tw_free(p->left_out);
    tw_free(p->span);
    tw_free(p->detail);
    tw_free(p->number);
}

/* Frees a list of n texts and the texts. */
static void free_texts(char **s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tw_free(s[i]);
    tw_free(s);
}

void twin_baseline_free(struct twin_baseline *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->procs; i++)
        tw_bl_proc_free(&b->proc[i]);
    for (size_t i = 0; i < b->names; i++) {
        tw_free(b->name[i].name);
        tw_free(b->name[i].scope);
        tw_free(b->name[i].role);
    }
    for (size_t i = 0; i < b->world_count; i++) {
        tw_free(b->world[i].name);
        tw_free(b->world[i].value);
    }
    free_texts(b->command, b->command_count);
    free_texts(b->ignore, b->ignore_count);
    tw_free(b->world);
    tw_free(b->name);
    tw_free(b->proc);
    tw_free(b->slot);
    tw_free(b->twinrun);
    tw_free(b->made);
    tw_free(b);
}
