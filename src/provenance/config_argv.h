/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CONFIG_ARGV_H
#define TW_CONFIG_ARGV_H
/* The values that a command line sets, as those of a configuration file (config_argv.c). */
#include <twin/error.h>

struct json_t;

/* argv ends with NULL. A new reference; NULL with err set. */
struct json_t *tw_config_from_argv(char *const *argv, struct twin_error *err);
#endif
