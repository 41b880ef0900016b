/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run may be made: the words of --place, and whether a node fits them. */
#include "engine.h"

#include "base.h"

#include <string.h>

int tw_place_parse(const char *text, struct tw_place *out, struct twin_error *err)
{
    static const struct {
        const char *word;
        enum tw_place_kind kind;
    } all[] = {{"any", TW_PLACE_ANY},
               {"same-type", TW_PLACE_SAME_TYPE},
               {"pin:", TW_PLACE_PIN},
               {"avoid:", TW_PLACE_AVOID},
               {"type:", TW_PLACE_TYPE}};
    *out = (struct tw_place){.kind = TW_PLACE_ANY};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t n = strlen(all[i].word);
        bool named = tw_ends(all[i].word, ":");
        if (named ? !tw_starts(text, all[i].word) || !text[n] : strcmp(text, all[i].word) != 0)
            continue;
        out->kind = all[i].kind;
        if (out->kind == TW_PLACE_PIN && strchr(text, ','))
            return twin_error_set(err, TWIN_EINVAL, "--place: expected one host, found \"%s\"",
                                  text + n);
        if (named && !(out->hosts = tw_strdup(text + n)))
            return tw_no_memory(err, "for a place");
        return 0;
    }
    return twin_error_set(err, TWIN_EINVAL,
                          "--place: expected any, same-type, pin:HOST, avoid:HOST,HOST or "
                          "type:WORDS, found \"%s\"",
                          text);
}

int tw_place_copy(const struct tw_place *from, struct tw_place *to, struct twin_error *err)
{
    *to = (struct tw_place){.kind = from->kind};
    if (from->hosts && !(to->hosts = tw_strdup(from->hosts)))
        return tw_no_memory(err, "for a place");
    return 0;
}

bool tw_place_equal(const struct tw_place *a, const struct tw_place *b)
{
    const char *x = a->hosts ? a->hosts : "", *y = b->hosts ? b->hosts : "";
    return a->kind == b->kind && strcmp(x, y) == 0;
}

/* Is the name one of those in the list? */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ",");
        if (n == length && memcmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

bool tw_place_holds(const struct tw_place *p, const char *node)
{
    if (p->kind == TW_PLACE_PIN)
        return strcmp(p->hosts, node) == 0;
    if (p->kind == TW_PLACE_AVOID)
        return !listed(p->hosts, node);
    return true;
}

void tw_place_free(struct tw_place *p)
{
    tw_free(p->hosts);
    *p = (struct tw_place){.kind = TW_PLACE_ANY};
}
