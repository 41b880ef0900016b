/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CONFIG_VALUES_H
#define TW_CONFIG_VALUES_H
/*
 * Values of configuration files as jansson's: one tree for one meaning, whether the file is JSON
 * (config_json.c), YAML (config_yaml.c) or TOML (config_toml.c). What is made of them, digests and
 * comparisons, is src/provenance/config.c.
 */
#include <stddef.h>
#include <twin/error.h>

struct json_t;

/* Keys of our own making: what JSON cannot say. A configuration that has such a key itself is
 * refused. */
#define TW_TAG "$twinrun:"

/* Values of each format; NULL with err set. `name` stands in messages. A new reference. */
struct json_t *tw_config_from_json(const char *data, size_t n, const char *name,
                                   struct twin_error *err);
struct json_t *tw_config_from_yaml(const char *data, size_t n, const char *name,
                                   struct twin_error *err);
struct json_t *tw_config_from_toml(const char *data, size_t n, const char *name,
                                   struct twin_error *err);

/* JSON with tags of ours in it, which are taken as such. */
struct json_t *tw_config_from_python(const char *data, size_t n, const char *name,
                                     struct twin_error *err);

/* An integer as the canonical form keeps it: a number, or {"$twinrun:integer": "9007199254740993"}.
 * NULL: out of memory. */
struct json_t *tw_config_integer(long long value);
#endif
