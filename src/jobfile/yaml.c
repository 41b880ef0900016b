/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML of several documents as trees that know their lines, by libyaml; and JSON written as YAML.
 *
 * src/formats reads configurations, whose meaning counts and whose lines do not; a finding has to
 * name its line. Scalars stay text here: what a rule asks of them is whether they are stated.
 *
 * Files are foreign. Depth, keys of a map, anchors, and the values that aliases stand for are
 * bounded. An alias points to a value that has ended, so no tree holds itself.
 */
#include "inside.h"

#include <string.h>

enum { DEPTH = 100, VALUES = 200000, KEYS = 2000, ANCHORS = 1000, DOCUMENTS = 1000 };

/* ---- the tree */

const struct jf_node *jf_get(const struct jf_node *map, const char *key)
{
    if (!map || map->kind != JF_MAP)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(jf_text(map->key[i]), key) == 0)
            return map->item[i];
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(jf_text(map->key[i]), "<<") != 0)
            continue;
        const struct jf_node *from = map->item[i], *found = jf_get(from, key);
        for (size_t j = 0; !found && j < jf_count(from); j++)
            found = jf_get(from->item[j], key);
        if (found)
            return found;
    }
    return NULL;
}

const struct jf_node *jf_at(const struct jf_node *map, const char *const *keys)
{
    for (; map && *keys; keys++)
        map = jf_get(map, *keys);
    return map;
}

const char *jf_text(const struct jf_node *n)
{
    return n && n->kind == JF_SCALAR ? n->text : "";
}

size_t jf_count(const struct jf_node *list)
{
    return list && list->kind == JF_LIST ? list->count : 0;
}

bool jf_given(const struct jf_node *n)
{
    if (!n)
        return false;
    if (n->kind != JF_SCALAR || !n->is_plain)
        return true;
    return strcmp(n->text, "") != 0 && strcmp(n->text, "~") != 0 && strcmp(n->text, "null") != 0;
}

void jf_yaml_free(struct jf_yaml *y)
{
    while (y->all) {
        struct jf_node *n = y->all;
        y->all = n->next;
        tw_free(n->text);
        tw_free(n->key);
        tw_free(n->item);
        tw_free(n);
    }
    tw_free(y->document);
    *y = (struct jf_yaml){0};
}

#ifdef TWIN_HAVE_YAML
#include <yaml.h>

struct anchor {
    char *name;
    struct jf_node *node;
};

/* One text that is being read. */
struct reader {
    yaml_parser_t parser;
    const char *name;
    struct jf_yaml *out;
    size_t values; /* of this document */
    struct anchor anchor[ANCHORS];
    size_t anchors;
    struct twin_error *err;
};

static struct jf_node *value_of(struct reader *r, const yaml_event_t *e, int depth);

static struct jf_node *refuse(struct reader *r, int code, const yaml_event_t *e, const char *what)
{
    twin_error_set(r->err, code, "%s: line %zu: %s", r->name, e->start_mark.line + 1, what);
    return NULL;
}

/* The next event, which the caller deletes; false with err set. */
static bool next_event(struct reader *r, yaml_event_t *e)
{
    if (yaml_parser_parse(&r->parser, e))
        return true;
    const char *problem = r->parser.problem ? r->parser.problem : "not YAML";
    char *shown = tw_printable(problem, strlen(problem));
    twin_error_set(r->err, r->parser.error == YAML_MEMORY_ERROR ? TWIN_ENOMEM : TWIN_EFORMAT,
                   "%s: line %zu: expected YAML, found: %s", r->name,
                   r->parser.problem_mark.line + 1, shown ? shown : "not YAML");
    tw_free(shown);
    return false;
}

static struct jf_node *new_node(struct reader *r, const yaml_event_t *e, enum jf_kind kind)
{
    struct jf_node *n = tw_calloc(1, sizeof *n);
    if (!n) {
        tw_no_memory(r->err, "for the values of %s", r->name);
        return NULL;
    }
    *n = (struct jf_node){.kind = kind, .line = e->start_mark.line + 1, .values = 1};
    n->next = r->out->all;
    r->out->all = n;
    return n;
}

/* Appends to a list, or with a key to a map. */
static bool append(struct reader *r, struct jf_node *n, struct jf_node *key, struct jf_node *item)
{
    if (n->count == n->room) {
        const size_t room = n->room ? 2 * n->room : 4;
        struct jf_node **items = tw_reallocarray(n->item, room, sizeof(struct jf_node *));
        n->item = items ? items : n->item;
        struct jf_node **keys = key && items
                                    ? tw_reallocarray(n->key, room, sizeof(struct jf_node *))
                                    : NULL;
        n->key = keys ? keys : n->key;
        if (!items || (key && !keys)) {
            tw_no_memory(r->err, "for the values of %s", r->name);
            return false;
        }
        n->room = room;
    }
    if (key)
        n->key[n->count] = key;
    n->item[n->count++] = item;
    n->values += item->values + (key ? key->values : 0);
    return true;
}

/* The rest of a map: pairs up to its end. Readers differ in which of two equal keys counts. */
static bool read_pairs(struct reader *r, struct jf_node *map, int depth)
{
    for (;;) {
        yaml_event_t e;
        if (!next_event(r, &e))
            return false;
        if (e.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&e);
            return true;
        }
        struct jf_node *key = value_of(r, &e, depth + 1), *item = NULL;
        if (key && key->kind != JF_SCALAR)
            key = refuse(r, TWIN_EFORMAT, &e, "expected text as the key of a map");
        for (size_t i = 0; key && i < map->count; i++)
            if (strcmp(map->key[i]->text, key->text) == 0)
                key = refuse(r, TWIN_EFORMAT, &e,
                             "the same key twice in a map: readers differ in which one counts; "
                             "take one away");
        if (key && map->count >= KEYS)
            key = refuse(r, TWIN_ELIMIT, &e, "a map with more than 2,000 keys");
        yaml_event_delete(&e);
        if (!key || !next_event(r, &e))
            return false;
        item = value_of(r, &e, depth + 1);
        yaml_event_delete(&e);
        if (!item || !append(r, map, key, item))
            return false;
    }
}

static bool read_items(struct reader *r, struct jf_node *list, int depth)
{
    for (;;) {
        yaml_event_t e;
        if (!next_event(r, &e))
            return false;
        if (e.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&e);
            return true;
        }
        struct jf_node *item = value_of(r, &e, depth + 1);
        yaml_event_delete(&e);
        if (!item || !append(r, list, NULL, item))
            return false;
    }
}

static bool name_anchor(struct reader *r, const yaml_event_t *e, const yaml_char_t *name,
                        struct jf_node *node)
{
    if (r->anchors == ANCHORS)
        return refuse(r, TWIN_ELIMIT, e, "more than 1,000 anchors in a document") != NULL;
    char *copy = tw_strdup((const char *)name);
    if (!copy)
        return tw_no_memory(r->err, "for the values of %s", r->name) == 0;
    r->anchor[r->anchors++] = (struct anchor){copy, node};
    return true;
}

static struct jf_node *follow(struct reader *r, const yaml_event_t *e)
{
    for (size_t i = r->anchors; i-- > 0;) { /* the latest of a name */
        if (strcmp(r->anchor[i].name, (const char *)e->data.alias.anchor) != 0)
            continue;
        r->values += r->anchor[i].node->values;
        if (r->values > VALUES)
            return refuse(r, TWIN_ELIMIT, e,
                          "aliases that stand for more than 200,000 values: write them out");
        return r->anchor[i].node;
    }
    return refuse(r, TWIN_EFORMAT, e,
                  "an alias of what was not named before, or of what it lies in");
}

static struct jf_node *scalar(struct reader *r, const yaml_event_t *e)
{
    struct jf_node *n = new_node(r, e, JF_SCALAR);
    const char *text = (const char *)e->data.scalar.value;
    if (n && strlen(text) != e->data.scalar.length)
        return refuse(r, TWIN_EFORMAT, e, "text with a NUL character");
    if (!n)
        return NULL;
    n->text = tw_strdup(text);
    n->is_plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (n->text)
        return n;
    tw_no_memory(r->err, "for the values of %s", r->name);
    return NULL;
}

/* The value that begins with this event; NULL with err set. The event stays the caller's. */
static struct jf_node *value_of(struct reader *r, const yaml_event_t *e, int depth)
{
    const yaml_char_t *anchor = NULL;
    struct jf_node *n = NULL;
    bool fine = false;
    if (depth > DEPTH)
        return refuse(r, TWIN_ELIMIT, e, "values that are nested more than 100 deep");
    if (++r->values > VALUES)
        return refuse(r, TWIN_ELIMIT, e, "a document of more than 200,000 values");
    if (e->type == YAML_ALIAS_EVENT)
        return follow(r, e);
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        n = scalar(r, e);
        fine = n != NULL;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        n = new_node(r, e, JF_MAP);
        fine = n && read_pairs(r, n, depth);
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        n = new_node(r, e, JF_LIST);
        fine = n && read_items(r, n, depth);
    } else {
        return refuse(r, TWIN_EFORMAT, e, "expected a value");
    }
    if (fine && anchor)
        fine = name_anchor(r, e, anchor, n);
    return fine ? n : NULL;
}

static bool keep_document(struct reader *r, const yaml_event_t *e, struct jf_node *n)
{
    struct jf_yaml *y = r->out;
    if (y->documents == DOCUMENTS)
        return refuse(r, TWIN_ELIMIT, e, "more than 1,000 documents in a file") != NULL;
    if (y->documents == y->room) {
        const size_t room = y->room ? 2 * y->room : 4;
        struct jf_node **grown = tw_reallocarray(y->document, room, sizeof(struct jf_node *));
        if (!grown)
            return tw_no_memory(r->err, "for the documents of %s", r->name) == 0;
        y->document = grown;
        y->room = room;
    }
    y->document[y->documents++] = n;
    return true;
}

static void forget_anchors(struct reader *r)
{
    while (r->anchors > 0)
        tw_free(r->anchor[--r->anchors].name);
}

/* One event at the top: a document is read whole. False at the end of the text, or with err set. */
static bool read_one(struct reader *r)
{
    yaml_event_t e;
    if (!next_event(r, &e))
        return false;
    bool more = e.type != YAML_STREAM_END_EVENT;
    if (e.type == YAML_DOCUMENT_START_EVENT) {
        yaml_event_delete(&e);
        forget_anchors(r);
        r->values = 0;
        if (!next_event(r, &e))
            return false;
        struct jf_node *n = value_of(r, &e, 0);
        more = n && keep_document(r, &e, n);
    }
    yaml_event_delete(&e);
    return more;
}

int jf_yaml_read(const char *name, const char *text, size_t bytes, struct jf_yaml *out,
                 struct twin_error *err)
{
    struct twin_error mine = TWIN_ERROR_INIT;
    struct reader *r = tw_calloc(1, sizeof *r);
    *out = (struct jf_yaml){0};
    if (!r)
        return tw_no_memory(err, "for %s", name);
    r->name = name;
    r->out = out;
    r->err = &mine;
    if (!yaml_parser_initialize(&r->parser)) {
        tw_free(r);
        return tw_no_memory(err, "for %s", name);
    }
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, bytes);
    while (read_one(r))
        ;
    forget_anchors(r);
    yaml_parser_delete(&r->parser);
    tw_free(r);
    return mine.code ? twin_error_set(err, mine.code, "%s", mine.message) : 0;
}
#else
int jf_yaml_read(const char *name, const char *text, size_t bytes, struct jf_yaml *out,
                 struct twin_error *err)
{
    (void)text;
    (void)bytes;
    *out = (struct jf_yaml){0};
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "%s: this twinrun was built without libyaml, and manifests are YAML; "
                          "install libyaml-dev and build it again",
                          name);
}
#endif
