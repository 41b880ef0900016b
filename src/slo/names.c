/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and what belongs to each. Texts of a history are kept once, so a name is found by where it
 * is, and a million runs are put in the order of their names without a comparison of texts.
 */
#include "slo_inside.h"

#include "base.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

/* A text at an address, and its place among the names. */
struct slo_name_slot {
    const char *text; /* NULL: free */
    size_t place;
};

static struct slo_name_slot *slot_of(const struct slo_names *n, const char *text)
{
    const uint64_t hash = (uint64_t)(uintptr_t)text * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(hash >> 32) & (n->slots - 1);
    while (n->slot[at].text && n->slot[at].text != text)
        at = (at + 1) & (n->slots - 1);
    return &n->slot[at];
}

/* At most half are taken. */
static bool grow(struct slo_names *n)
{
    struct slo_names wider = {.slots = n->slots ? 2 * n->slots : FIRST_SLOTS};
    if (!(wider.slot = tw_calloc(wider.slots, sizeof *wider.slot)))
        return false;
    for (size_t i = 0; i < n->slots; i++)
        if (n->slot[i].text)
            *slot_of(&wider, n->slot[i].text) = n->slot[i];
    tw_free(n->slot);
    n->slot = wider.slot;
    n->slots = wider.slots;
    return true;
}

bool slo_names_add(struct slo_names *n, const char *text)
{
    if (2 * n->texts >= n->slots && !grow(n))
        return false;
    struct slo_name_slot *slot = slot_of(n, text);
    n->texts += !slot->text;
    slot->text = text;
    return true;
}

static int by_text(const void *x, const void *y)
{
    return slo_text_order(*(const char *const *)x, *(const char *const *)y);
}

static size_t search(const struct slo_names *n, const char *text)
{
    const char *const *found = n->count
                                   ? bsearch(&text, n->name, n->count, sizeof *n->name, by_text)
                                   : NULL;
    return found ? (size_t)(found - (const char *const *)n->name) : n->count;
}

bool slo_names_settle(struct slo_names *n)
{
    size_t count = 0;
    assert(!n->name);
    if (!(n->name = tw_calloc(n->texts + 1, sizeof *n->name)))
        return false;
    for (size_t i = 0; i < n->slots; i++)
        if (n->slot[i].text)
            n->name[count++] = n->slot[i].text;
    if (count)
        qsort(n->name, count, sizeof *n->name, by_text);
    for (size_t i = 0; i < count; i++)
        if (!n->count || strcmp(n->name[n->count - 1], n->name[i]) != 0)
            n->name[n->count++] = n->name[i];
    for (size_t i = 0; i < n->slots; i++)
        if (n->slot[i].text)
            n->slot[i].place = search(n, n->slot[i].text);
    return true;
}

size_t slo_names_place(const struct slo_names *n, const char *text)
{
    const struct slo_name_slot *slot = n->slots ? slot_of(n, text) : NULL;
    return slot && slot->text ? slot->place : search(n, text);
}

void slo_names_free(struct slo_names *n)
{
    tw_free(n->slot);
    tw_free(n->name);
    *n = (struct slo_names){.count = 0};
}

/* ---- lists of what belongs to each of some keys */

int slo_lists_make(struct slo_lists *l, size_t keys, const size_t *key, size_t n)
{
    *l = (struct slo_lists){.first = tw_calloc(keys + 2, sizeof *l->first),
                            .item = tw_calloc(n + 1, sizeof *l->item)};
    if (!l->first || !l->item)
        return TWIN_ENOMEM;
    /* first[k + 1] becomes where key k begins, and at the end where it ends */
    for (size_t i = 0; i < n; i++)
        if (key[i] < keys)
            l->first[key[i] + 2]++;
    for (size_t k = 0; k < keys; k++)
        l->first[k + 2] += l->first[k + 1];
    for (size_t i = 0; i < n; i++)
        if (key[i] < keys)
            l->item[l->first[key[i] + 1]++] = i;
    return 0;
}

void slo_lists_free(struct slo_lists *l)
{
    tw_free(l->first);
    tw_free(l->item);
    *l = (struct slo_lists){.first = NULL};
}
