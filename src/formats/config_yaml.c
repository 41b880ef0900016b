/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in YAML, read by libyaml's events into the one tree that all formats become
 * (config_values.h). Plain scalars follow the core schema of YAML 1.2.2 (10.3.2): yes, on and 012
 * are a string, a string and twelve. "<<" merges, as in YAML 1.1, since configurations use it.
 *
 * What has no one meaning is refused: tags of a program, a key twice, several documents, NaN. An
 * alias is the value that it names; the number of values is bounded by the length of the text.
 * Without libyaml the last function of this file says so. */
#include "config_values.h"

#include "base.h"
#include "jcs.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef TWIN_HAVE_YAML
#include <yaml.h>

/*
 * A short text can stand for billions of values once its aliases are followed, and a mapping as the
 * key of a mapping as the key of a mapping doubles its backslashes each time: both are bounded by
 * the length of the text.
 */
enum { VALUES_FREE = 500000, VALUES_EACH = 2, KEYS_FREE = 1 << 20, KEYS_EACH = 16 };

/* A named value (&name). values: how many values it stands for, counted again at each alias. */
struct anchor {
    char *name;
    json_t *value;
    long values;
};

/* One text that is being read. values, key_bytes: against the bounds above. Errors go to err; a
 * function that gives NULL or false has set it. */
struct reader {
    yaml_parser_t parser;
    const char *name;
    long values, values_most;
    size_t key_bytes, key_bytes_most; /* of keys that are no text */
    struct anchor *anchor;
    size_t anchors;
    struct twin_error *err;
};

static json_t *value_of(struct reader *r, yaml_event_t *e, int depth);

static json_t *refuse_event(struct reader *r, int code, const yaml_event_t *e, const char *what)
{
    twin_error_set(r->err, code, "%s: line %zu: %s", r->name, e->start_mark.line + 1, what);
    return NULL;
}

/* The next event, which the caller deletes; false with err set. */
static bool next_event(struct reader *r, yaml_event_t *e)
{
    if (yaml_parser_parse(&r->parser, e))
        return true;
    char *problem = r->parser.problem ? tw_printable(r->parser.problem, strlen(r->parser.problem))
                                      : NULL;
    twin_error_set(r->err, r->parser.error == YAML_MEMORY_ERROR ? TWIN_ENOMEM : TWIN_EFORMAT,
                   "%s: line %zu: %s", r->name, r->parser.problem_mark.line + 1,
                   problem ? problem : "not YAML");
    tw_free(problem);
    return false;
}

/* ---- scalars */

static bool one_of(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(s, *words) == 0)
            return true;
    return false;
}

/* [-+]? digits, 0o octal, 0x hexadecimal */
static bool looks_integer(const char *s, int *base)
{
    static const struct {
        const char *prefix, *digits;
        int base;
    } forms[] = {
        {"0o", "01234567", 8}, {"0x", "0123456789abcdefABCDEF", 16}, {"", "0123456789", 10}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *p = s + (forms[i].base == 10 && (*s == '-' || *s == '+'));
        if (!tw_starts(p, forms[i].prefix))
            continue;
        p += strlen(forms[i].prefix);
        *base = forms[i].base;
        return *p && p[strspn(p, forms[i].digits)] == '\0';
    }
    return false;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool looks_real(const char *s)
{
    static const char *const digits = "0123456789";
    s += *s == '-' || *s == '+';
    size_t before = strspn(s, digits), after = 0;
    s += before;
    if (*s == '.') {
        after = strspn(s + 1, digits);
        s += 1 + after;
    }
    if (before + after == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s += 1 + (s[1] == '-' || s[1] == '+');
        size_t n = strspn(s, digits);
        if (n == 0)
            return false;
        s += n;
    }
    return *s == '\0';
}

/* s: looks like an integer of that base. Its prefix 0o or 0x is two bytes long. */
static json_t *integer_of(struct reader *r, const yaml_event_t *e, const char *s, int base)
{
    errno = 0;
    long long v = strtoll(base == 10 ? s : s + 2, NULL, base);
    return errno ? refuse_event(r, TWIN_EFORMAT, e, "an integer that needs more than 64 bits")
                 : tw_config_integer(v);
}

static json_t *real(struct reader *r, const yaml_event_t *e, const char *s)
{
    double v = strtod(s, NULL);
    return isfinite(v) ? json_real(v) : refuse_event(r, TWIN_EFORMAT, e, "a number that overflows");
}

/* A plain scalar without a tag, and what an explicit tag of the core schema asks for. */
static json_t *plain_scalar(struct reader *r, const yaml_event_t *e, const char *s)
{
    static const char *const null[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", NULL};
    static const char *const no[] = {"false", "False", "FALSE", NULL};
    static const char *const odd[] = {".inf",  ".Inf",  ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
                                      "-.Inf", "-.INF", ".nan", ".NaN",  ".NAN",  NULL};
    int base;
    if (one_of(s, null))
        return json_null();
    if (one_of(s, yes) || one_of(s, no))
        return json_boolean(one_of(s, yes));
    if (one_of(s, odd))
        return refuse_event(r, TWIN_EFORMAT, e, "NaN and infinities have no canonical form");
    if (looks_integer(s, &base))
        return integer_of(r, e, s, base);
    if (looks_real(s))
        return real(r, e, s);
    return json_string(s);
}

/* A scalar with a tag: what the plain form gives must be of the type that the tag says. An integer
 * may be tagged as a float. */
static json_t *tagged(struct reader *r, const yaml_event_t *e, const char *s, const char *tag)
{
    static const struct {
        const char *tag;
        int type;
    } rows[] = {{YAML_NULL_TAG, JSON_NULL},
                {YAML_BOOL_TAG, JSON_TRUE},
                {YAML_INT_TAG, JSON_INTEGER},
                {YAML_FLOAT_TAG, JSON_REAL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(tag, rows[i].tag) != 0)
            continue;
        json_t *v = plain_scalar(r, e, s);
        /* The value as untagged text would be read, then held against the tag. */
        bool integral = json_is_integer(v) || json_is_object(v); /* an object: a large one */
        if (!v)
            return v;
        int type = (int)json_typeof(v);
        if (json_is_boolean(v))
            type = JSON_TRUE;
        else if (integral)
            type = JSON_INTEGER;
        if (type == rows[i].type || (integral && rows[i].type == JSON_REAL))
            return v;
        json_decref(v);
        return refuse_event(r, TWIN_EFORMAT, e, "a scalar that is not what its tag says");
    }
    return refuse_event(
        r, TWIN_EFORMAT, e,
        "a tag that YAML's core schema does not know: its value is up to the program "
        "that reads it");
}

/* Quoted scalars are text, whatever they look like. */
static json_t *scalar(struct reader *r, const yaml_event_t *e)
{
    const char *s = (const char *)e->data.scalar.value, *tag = (const char *)e->data.scalar.tag;
    const size_t n = e->data.scalar.length;
    if (e->data.scalar.plain_implicit && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        (!tag || !*tag))
        return plain_scalar(r, e, s);
    if (tag && *tag && strcmp(tag, "!") != 0 && strcmp(tag, YAML_STR_TAG) != 0)
        return tagged(r, e, s, tag);
    json_t *v = json_stringn(s, n);
    return v ? v : refuse_event(r, TWIN_EFORMAT, e, "text that is not UTF-8");
}

/* ---- collections */

/* The key as JSON has it, malloc'ed: text; other values, which JSON cannot have as keys, by their
 * canonical form behind a tag. NULL with err set. */
static char *key_of(struct reader *r, const yaml_event_t *e, const json_t *v)
{
    struct tw_buf b = {.cap = r->key_bytes_most - r->key_bytes + 1};
    struct twin_error why = TWIN_ERROR_INIT;
    char *key = NULL;
    if (json_is_string(v) && strlen(json_string_value(v)) != json_string_length(v))
        refuse_event(r, TWIN_EFORMAT, e, "a key with a NUL character");
    else if (json_is_string(v) && tw_starts(json_string_value(v), TW_TAG))
        refuse_event(r, TWIN_EFORMAT, e,
                     "keys that begin with " TW_TAG " are reserved for what JSON has no form for");
    else if (json_is_string(v))
        key = tw_strdup(json_string_value(v));
    else if (tw_buf_puts(&b, TW_TAG "key:") == 0 && tw_jcs_write(v, &b, &why) == 0) {
        r->key_bytes += b.len;
        key = tw_buf_steal(&b);
    } else if (b.failed == TWIN_ELIMIT)
        refuse_event(r, TWIN_ELIMIT, e, "keys that are no text and become too long");
    else if (!b.failed)
        twin_error_set(r->err, why.code, "%s", why.message);
    if (!key)
        tw_no_memory(r->err, "for the values of %s", r->name);
    tw_buf_free(&b);
    return key;
}

/* What "<<" brings: keys that are not there yet; of several mappings the earlier ones win. */
static bool merge_mapping(struct reader *r, const yaml_event_t *e, json_t *into, json_t *from)
{
    json_t *item;
    size_t i;
    bool fine = json_is_object(from) || json_is_array(from);
    if (json_is_object(from))
        fine = json_object_update_missing(into, from) == 0;
    json_array_foreach (from, i, item)
        fine = fine && json_is_object(item) && json_object_update_missing(into, item) == 0;
    if (!fine)
        refuse_event(r, TWIN_EFORMAT, e,
                     "\"<<\" merges a mapping or a list of mappings, found something else");
    return fine;
}

/* One key and its value. merges: the values of "<<", for when all of the mapping's own keys are
 * known, since those win. */
static bool pair(struct reader *r, yaml_event_t *key_event, json_t *out, json_t *merges, int depth)
{
    yaml_event_t e;
    bool merging = key_event->type == YAML_SCALAR_EVENT &&
                   key_event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                   strcmp((const char *)key_event->data.scalar.value, "<<") == 0;
    json_t *k = value_of(r, key_event, depth + 1), *v = NULL;
    char *key = k && !merging ? key_of(r, key_event, k) : NULL;
    bool fine = k && (merging || key) && next_event(r, &e);
    if (fine) {
        v = value_of(r, &e, depth + 1);
        yaml_event_delete(&e);
        fine = v != NULL;
    }
    /* "<<" is kept aside; a key twice is an error, since readers differ in which one counts. */
    if (fine && merging)
        fine = json_array_append(merges, v) == 0;
    else if (fine && json_object_get(out, key))
        fine = refuse_event(r, TWIN_EFORMAT, key_event, "the same key twice in a mapping") != NULL;
    else if (fine)
        fine = json_object_set(out, key, v) == 0;
    json_decref(k);
    json_decref(v);
    tw_free(key);
    return fine;
}

/* All own keys first, then what "<<" brought, since own keys win. */
static json_t *read_mapping(struct reader *r, const yaml_event_t *begin, int depth)
{
    json_t *out = json_object(), *merges = json_array(), *item;
    bool fine = out && merges, end = false;
    size_t i;
    while (fine && !end) {
        yaml_event_t e;
        fine = next_event(r, &e);
        if (!fine)
            break;
        end = e.type == YAML_MAPPING_END_EVENT;
        fine = end || pair(r, &e, out, merges, depth);
        yaml_event_delete(&e);
    }
    json_array_foreach (merges, i, item)
        fine = fine && merge_mapping(r, begin, out, item);
    json_decref(merges);
    if (fine)
        return out;
    json_decref(out);
    tw_no_memory(r->err, "for the values of %s", r->name);
    return NULL;
}

/* A list; NULL with err set. A NULL item makes appending fail. */
static json_t *sequence(struct reader *r, int depth)
{
    json_t *out = json_array();
    bool fine = out != NULL, end = false;
    while (fine && !end) {
        yaml_event_t e;
        fine = next_event(r, &e);
        if (!fine)
            break;
        end = e.type == YAML_SEQUENCE_END_EVENT;
        fine = end || json_array_append_new(out, value_of(r, &e, depth + 1)) == 0;
        yaml_event_delete(&e);
    }
    if (fine)
        return out;
    json_decref(out);
    tw_no_memory(r->err, "for the values of %s", r->name);
    return NULL;
}

/* ---- anchors */

/* The value of an alias: a new reference to the same value, which nobody changes afterwards. */
static json_t *follow(struct reader *r, const yaml_event_t *e)
{
    for (size_t i = r->anchors; i-- > 0;) /* the latest of a name */
        if (strcmp(r->anchor[i].name, (const char *)e->data.alias.anchor) == 0) {
            r->values += r->anchor[i].values;
            return json_incref(r->anchor[i].value);
        }
    return refuse_event(r, TWIN_EFORMAT, e,
                        "an alias for what was not named before, or of what it lies in");
}

static bool name_anchor(struct reader *r, const yaml_char_t *anchor, json_t *value, long values)
{
    struct anchor *grown = tw_reallocarray(r->anchor, r->anchors + 1, sizeof *grown);
    char *copy = grown ? tw_strdup((const char *)anchor) : NULL;
    if (grown)
        r->anchor = grown;
    if (copy)
        grown[r->anchors++] = (struct anchor){copy, json_incref(value), values};
    return copy != NULL;
}

/* The value that begins with this event, a new reference; NULL with err set. Reads on until the
 * value ends. The event stays the caller's. */
static json_t *value_of(struct reader *r, yaml_event_t *e, int depth)
{
    /* Every value is counted, and an alias counts all that it stands for. */
    const long before = r->values++;
    const bool is_mapping = e->type == YAML_MAPPING_START_EVENT;
    const bool is_sequence = e->type == YAML_SEQUENCE_START_EVENT;
    const yaml_char_t *anchor = NULL;
    const char *tag = NULL;
    if (is_mapping) {
        anchor = e->data.mapping_start.anchor;
        tag = (const char *)e->data.mapping_start.tag;
    } else if (is_sequence) {
        anchor = e->data.sequence_start.anchor;
        tag = (const char *)e->data.sequence_start.tag;
    } else if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
    }
    json_t *out;
    if (depth > TW_JCS_DEPTH)
        return refuse_event(r, TWIN_ELIMIT, e, "values nested too deep");
    if (tag && strcmp(tag, "!") != 0 && strcmp(tag, is_mapping ? YAML_MAP_TAG : YAML_SEQ_TAG) != 0)
        return refuse_event(
            r, TWIN_EFORMAT, e,
            "a tag that YAML's core schema does not know: its value is up to the program "
            "that reads it");
    if (is_mapping)
        out = read_mapping(r, e, depth);
    else if (is_sequence)
        out = sequence(r, depth);
    else if (e->type == YAML_ALIAS_EVENT)
        out = follow(r, e);
    else
        out = scalar(r, e);
    if (out && r->values > r->values_most) {
        json_decref(out);
        return refuse_event(
            r, TWIN_ELIMIT, e,
            "more values than a text of its length may stand for once all aliases are followed");
    }
    if (out && anchor && !name_anchor(r, anchor, out, r->values - before)) {
        json_decref(out);
        out = NULL;
    }
    if (!out)
        tw_no_memory(r->err, "for the values of %s", r->name);
    return out;
}

/* ---- the stream */

/* Goes to the first event of the one document; false with err unset: there is none. */
static bool find_value(struct reader *r, yaml_event_t *e)
{
    for (;;) {
        if (!next_event(r, e))
            return false;
        if (e->type != YAML_STREAM_START_EVENT && e->type != YAML_DOCUMENT_START_EVENT)
            break;
        yaml_event_delete(e);
    }
    if (e->type != YAML_STREAM_END_EVENT)
        return true;
    yaml_event_delete(e);
    return false;
}

/* After the value: the end of its document and of the stream, nothing else. */
static bool nothing_follows(struct reader *r)
{
    yaml_event_t e;
    bool end = false, fine = true;
    while (fine && !end && (fine = next_event(r, &e))) {
        end = e.type == YAML_STREAM_END_EVENT;
        fine = end || e.type == YAML_DOCUMENT_END_EVENT;
        if (!fine)
            refuse_event(r, TWIN_EFORMAT, &e, "more than one YAML document: split the file");
        yaml_event_delete(&e);
    }
    return fine;
}

json_t *tw_config_from_yaml(const char *data, size_t n, const char *path, struct twin_error *err)
{
    struct reader r = {.name = path, .err = err};
    /* Bounds that grow with the text. */
    r.values_most = VALUES_FREE + VALUES_EACH * (long)n;
    r.key_bytes_most = KEYS_FREE + KEYS_EACH * n;
    yaml_event_t e;
    json_t *out = NULL;
    if (!yaml_parser_initialize(&r.parser)) {
        tw_no_memory(r.err, "for the values of %s", r.name);
        return NULL;
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)data, n);
    if (find_value(&r, &e)) {
        out = value_of(&r, &e, 0);
        yaml_event_delete(&e);
        if (out && !nothing_follows(&r)) {
            json_decref(out);
            out = NULL;
        }
    } else if (!err->code) {
        out = json_null();
    }
    for (size_t i = 0; i < r.anchors; i++) {
        tw_free(r.anchor[i].name);
        json_decref(r.anchor[i].value);
    }
    tw_free(r.anchor);
    yaml_parser_delete(&r.parser);
    return out;
}
#else
json_t *tw_config_from_yaml(const char *data, size_t n, const char *name, struct twin_error *err)
{
    (void)data, (void)n;
    twin_error_set(err, TWIN_EUNSUPPORTED,
                   "%s: this twinrun was built without libyaml (Debian: libyaml-dev); convert the "
                   "file to JSON",
                   name);
    return NULL;
}
#endif
