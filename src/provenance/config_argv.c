/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line as values: a list of words, each with the options that follow it up to the next
 * word. From
 *
 *     python train.py --lr 0.1 model.depth=3 --amp
 *
 * comes
 *
 *     [["python", {}], ["train.py", {"--amp": [null], "--lr": ["0.1"], "model.depth=": ["3"]}]]
 *
 * Among the options of one word the order of different names does not count; the same name keeps
 * its order. --no-NAME is NAME with false: of the two the last one decides for most programs.
 * Values stay text: what they mean is up to the program.
 */
#include "config_argv.h"

#include "base.h"
#include "config_values.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* -1, -.5e3: a value, not an option */
static bool negative_number(const char *s)
{
    char *end;
    return *s == '-' && (s[1] == '.' || (s[1] >= '0' && s[1] <= '9')) &&
           (strtod(s, &end), *end == '\0');
}

static bool is_option(const char *s)
{
    return s[0] == '-' && s[1] != '\0' && !negative_number(s);
}

/* Length of NAME in NAME=value as Hydra and its like write it (+a.b@c=d); 0: no such word. */
static size_t setting(const char *s)
{
    size_t n = strspn(s, "+~");
    if (!((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') || s[n] == '_'))
        return 0;
    n += strspn(s + n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@:-");
    return s[n] == '=' ? n : 0;
}

/* Text of bytes that need not be UTF-8. */
static json_t *text_value(const char *s)
{
    json_t *v = json_string(s);
    char *safe = v ? NULL : tw_printable(s, strlen(s));
    json_t *tagged = safe ? json_pack("{s:s}", TW_TAG "bytes", safe) : NULL;
    tw_free(safe);
    return v ? v : tagged;
}

/* Appends a value to the list of an option's name. Takes value over. 0 or -1: no memory. */
static int add_value(json_t *options, const char *name, size_t n, json_t *value)
{
    char *key = tw_printable(name, n);
    json_t *list = key ? json_object_get(options, key) : NULL;
    int rc = 0;
    if (key && !list) {
        list = json_array();
        rc = json_object_set_new(options, key, list);
    }
    tw_free(key);
    if (!key || rc != 0) {
        json_decref(value);
        return -1;
    }
    return json_array_append_new(list, value);
}

/* Which word an option's value is cannot be known without the program; the next word is taken where
 * it looks like neither an option nor a setting. Two command lines are read the same way, which is
 * all that comparing needs. */
json_t *tw_config_from_argv(char *const *argv, struct twin_error *err)
{
    json_t *words = json_array(), *options = NULL;
    int rc = words ? 0 : -1;
    bool ended = false;
    for (size_t i = 0; argv[i] && rc == 0; i++) {
        const char *s = argv[i], *equals = strchr(s, '=');
        const size_t named = ended || is_option(s) ? 0 : setting(s);
        if (!ended && options && strcmp(s, "--") == 0) {
            ended = true;
            rc = add_value(options, s, 2, json_null());
        } else if (options && named) {
            rc = add_value(options, s, named + 1, text_value(s + named + 1));
        } else if (options && !ended && is_option(s)) {
            bool no = tw_starts(s, "--no-") && s[5] && !equals;
            const size_t length = equals ? (size_t)(equals - s) : strlen(s);
            char *name = no ? tw_printf("--%s", s + 5) : tw_strndup(s, length);
            json_t *value = NULL;
            if (no)
                value = json_false();
            else if (equals)
                value = text_value(equals + 1);
            if (!value && argv[i + 1] && !is_option(argv[i + 1]) && !setting(argv[i + 1]))
                value = text_value(argv[++i]);
            if (!value)
                value = json_null();
            rc = name ? add_value(options, name, strlen(name), value) : -1;
            tw_free(name);
        } else {
            options = json_object();
            rc = json_array_append_new(words, json_pack("[o, o]", text_value(s), options));
        }
    }
    if (rc == 0)
        return words;
    json_decref(words);
    tw_no_memory(err, "for the values of a command line");
    return NULL;
}
