/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TWIN_CONFIG_H
#define TWIN_CONFIG_H
/*
 * Digests of a configuration: of its bytes, and of what it says. The second is the SHA-256 of the
 * JSON Canonicalization Scheme (RFC 8785) of its values, so it stays when keys change places, and
 * with spaces, quotes, comments, number forms or the file's format. docs/digest.md gives the rules,
 * what is tagged and what is refused.
 */
#include <stddef.h>
#include <twin/error.h>

/* In which form a configuration is written. BY_NAME asks its ending. */
enum twin_config_format {
    TWIN_CONFIG_BY_NAME,
    TWIN_CONFIG_JSON,
    TWIN_CONFIG_YAML,
    TWIN_CONFIG_TOML,
    TWIN_CONFIG_ARGV
};
/* "json", "yaml", "toml", "argv"; NULL for another. */
const char *twin_config_format_name(enum twin_config_format f);

/* A configuration that was read: its two digests, and its values for comparing. Owns all;
 * twin_config_free. */
struct twin_config {
    enum twin_config_format format;
    size_t bytes;                /* of the raw form */
    char raw[65], canonical[65]; /* SHA-256, lower-case hex */
    char *text;                  /* canonical form, UTF-8, text_bytes long, then a NUL */
    size_t text_bytes;
    struct twin_config_value *values; /* for twin_config_compare */
};

/*
 * Reads a file of at most 64 MiB. TWIN_CONFIG_BY_NAME goes by .json, .yaml, .yml, .toml. Errors,
 * with path and where the library knows it the line: TWIN_EIO, TWIN_EFORMAT (syntax; duplicate
 * keys; NaN and infinities; lone surrogates; tags unknown to YAML's core schema), TWIN_ELIMIT
 * (size, depth, aliases), TWIN_EUNSUPPORTED (built without libyaml; no Python for TOML),
 * TWIN_ENOMEM. *out needs twin_config_free only after success.
 */
int twin_config_read(const char *path, enum twin_config_format format, struct twin_config *out,
                     struct twin_error *err);
/* A command line, NULL-terminated. Its raw form is the arguments, each with its NUL byte. */
int twin_config_argv(char *const *argv, struct twin_config *out, struct twin_error *err);
void twin_config_free(struct twin_config *c);

/*
 * Calls visit for each place where the values differ, in the order of the canonical form: a JSON
 * pointer (RFC 6901) and both values' canonical text, NULL for one that is not there. A visit that
 * returns other than 0 ends it. Returns the number of visits, or TWIN_ENOMEM (negative).
 */
long twin_config_compare(const struct twin_config *a, const struct twin_config *b,
                         int (*visit)(void *user, const char *pointer, const char *a,
                                      const char *b),
                         void *user);
#endif
