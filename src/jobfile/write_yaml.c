/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as YAML, by libyaml's emitter; as JSON where the build has no libyaml. What is not ASCII is
 * escaped either way: the text may go to a terminal as it is. */
#include "inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef TWIN_HAVE_YAML
#include <yaml.h>

/* Where libyaml's emitter puts its bytes. */
static int take_bytes(void *user, unsigned char *bytes, size_t n)
{
    return tw_buf_append(user, bytes, n) == 0;
}

/* Would a reader of YAML 1.1 or 1.2 take the plain text for text? Only what begins with a letter
 * and is none of the words for other types. */
static bool is_safe_plain(const char *s)
{
    static const char *const words[] = {"y",   "n",    "yes",   "no",   "on",
                                        "off", "true", "false", "null", NULL};
    for (size_t i = 0; words[i]; i++)
        if (strcasecmp(s, words[i]) == 0)
            return false;
    const bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');
    return letter &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                     "-_./@:") == strlen(s) &&
           !tw_ends(s, ":");
}

static bool emit(yaml_emitter_t *e, yaml_event_t *event)
{
    return yaml_emitter_emit(e, event) == 1;
}

static bool emit_scalar(yaml_emitter_t *e, const char *text, bool is_text)
{
    yaml_event_t v;
    const bool plain = !is_text || is_safe_plain(text);
    return yaml_scalar_event_initialize(
               &v, NULL, NULL, (const unsigned char *)text, (int)strlen(text), plain, 1,
               plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE) &&
           emit(e, &v);
}

static bool emit_value(yaml_emitter_t *e, const json_t *v);

static bool emit_object(yaml_emitter_t *e, const json_t *v)
{
    yaml_event_t begin, end;
    const char *key;
    json_t *item;
    bool fine = yaml_mapping_start_event_initialize(&begin, NULL, NULL, 1,
                                                    YAML_BLOCK_MAPPING_STYLE) &&
                emit(e, &begin);
    json_object_foreach ((json_t *)(uintptr_t)v, key, item)
        fine = fine && emit_scalar(e, key, true) && emit_value(e, item);
    return fine && yaml_mapping_end_event_initialize(&end) && emit(e, &end);
}

static bool emit_array(yaml_emitter_t *e, const json_t *v)
{
    yaml_event_t begin, end;
    bool fine = yaml_sequence_start_event_initialize(&begin, NULL, NULL, 1,
                                                     YAML_BLOCK_SEQUENCE_STYLE) &&
                emit(e, &begin);
    for (size_t i = 0; i < json_array_size(v); i++)
        fine = fine && emit_value(e, json_array_get(v, i));
    return fine && yaml_sequence_end_event_initialize(&end) && emit(e, &end);
}

static bool emit_value(yaml_emitter_t *e, const json_t *v)
{
    char number[32];
    if (json_is_object(v))
        return emit_object(e, v);
    if (json_is_array(v))
        return emit_array(e, v);
    if (json_is_string(v))
        return emit_scalar(e, json_string_value(v), true);
    if (json_is_boolean(v))
        return emit_scalar(e, json_is_true(v) ? "true" : "false", false);
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
    return json_is_integer(v) && emit_scalar(e, number, false);
}

static bool emit_document(yaml_emitter_t *e, const json_t *v, bool first)
{
    yaml_event_t begin, end;
    return yaml_document_start_event_initialize(&begin, NULL, NULL, NULL, first) &&
           emit(e, &begin) && emit_value(e, v) && yaml_document_end_event_initialize(&end, 1) &&
           emit(e, &end);
}

int jf_yaml_write(const json_t *const *document, size_t count, char **out, struct twin_error *err)
{
    yaml_emitter_t e;
    yaml_event_t begin, end;
    struct tw_buf b = {0};
    if (!yaml_emitter_initialize(&e))
        return tw_no_memory(err, "for a manifest");
    yaml_emitter_set_output(&e, take_bytes, &b);
    yaml_emitter_set_width(&e, -1);
    bool fine = yaml_stream_start_event_initialize(&begin, YAML_UTF8_ENCODING) && emit(&e, &begin);
    for (size_t i = 0; i < count; i++)
        fine = fine && document[i] && emit_document(&e, document[i], i == 0);
    fine = fine && yaml_stream_end_event_initialize(&end) && emit(&e, &end);
    yaml_emitter_delete(&e);
    *out = fine ? tw_buf_steal(&b) : NULL;
    tw_buf_free(&b);
    return *out ? 0 : tw_no_memory(err, "for a manifest");
}
#else
int jf_yaml_write(const json_t *const *document, size_t count, char **out, struct twin_error *err)
{
    struct tw_buf b = {0};
    for (size_t i = 0; i < count; i++) {
        char *text = document[i] ? json_dumps(document[i], JSON_INDENT(2) | JSON_ENSURE_ASCII)
                                 : NULL;
        tw_buf_printf(&b, "%s%s\n", i > 0 ? "---\n" : "", text ? text : "");
        if (!text)
            b.failed = TWIN_ENOMEM;
        free(text);
    }
    *out = tw_buf_steal(&b);
    return *out ? 0 : tw_no_memory(err, "for a manifest");
}
#endif
