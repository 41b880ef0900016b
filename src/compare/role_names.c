/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that hold ranks, where ranks are compared by role (roles.c): the peer of a message is read
 * in the first run's numbers, and a group, which each run counts for itself, is named by its ranks.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Each rank counts its groups for itself, so one name may mean two groups. */
const char *tw_group_members(const struct tw_proc *p, const char *scope)
{
    const char *key, *value, *found = "";
    const size_t length = strlen(scope);
    for (size_t i = 0; twin_trace_note(p->trace, i, &key, &value); i++) {
        if (strcmp(key, "group") != 0 || strncmp(value, scope, length) != 0 || value[length] != ' ')
            continue;
        if (*found && strcmp(found, value + length + 1) != 0)
            return NULL;
        found = value + length + 1;
    }
    return found;
}

static int32_t as_first(const struct tw_proc *p, long rank)
{
    return rank >= 0 && (size_t)rank < p->as_ranks ? p->as[rank] : (int32_t)rank;
}

/* "recv from rank 2, tag 0" with the number that rank 2's role has in the first run. Malloc'ed. */
static char *message_by_role(const struct tw_proc *p, const char *name)
{
    const char *peer = strstr(name, " to rank ");
    const char *from = strstr(name, " from rank ");
    if (peer)
        peer += strlen(" to rank ");
    else if (from)
        peer = from + strlen(" from rank ");
    const size_t digits = peer ? strspn(peer, "0123456789") : 0;
    if (digits == 0 || digits > 9)
        return tw_strdup(name);
    return tw_printf("%.*s%d%s", (int)(peer - name), name, as_first(p, strtol(peer, NULL, 10)),
                     peer + digits);
}

static int by_number(const void *x, const void *y)
{
    const int32_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

/* The ranks of a group in the numbers of the first run, in order; its name where they are not
 * known. Malloc'ed. */
static char *group_by_role(const struct tw_proc *p, const char *scope)
{
    const char *members = scope[0] ? tw_group_members(p, scope) : NULL;
    if (!members || !members[0])
        return tw_strdup(scope);
    size_t n = 0;
    int32_t *rank = tw_calloc(strlen(members) / 2 + 2, sizeof *rank);
    struct tw_buf text = {0};
    for (const char *at = members; rank && *at;) {
        rank[n++] = as_first(p, strtol(at, NULL, 10));
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (rank)
        qsort(rank, n, sizeof *rank, by_number);
    for (size_t i = 0; rank && i < n; i++)
        tw_buf_printf(&text, "%s%d", i ? "," : "ranks ", rank[i]);
    tw_free(rank);
    return tw_buf_steal(&text);
}

bool tw_names_by_role(const struct tw_proc *p, const char *name, const char *scope, char **name_out,
                      char **scope_out)
{
    *name_out = message_by_role(p, name);
    *scope_out = group_by_role(p, scope);
    return *name_out && *scope_out;
}
