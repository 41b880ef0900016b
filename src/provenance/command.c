/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command: its programs, the script it begins with, and the configuration files that it names.
 */
#include "provenance_inside.h"

#include "base.h"

#include "src/provenance/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a program that are hashed, of a configuration that is parsed; how many configurations,
 * and how many programs in a chain (env nice python ...) are looked at. */
enum { PROGRAM_MAX = 512 << 20, CONFIG_MAX = 4 << 20, CONFIGS_MAX = 20, HOPS_MAX = 4 };

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* What exec would start, by the PATH that the job has. malloc'ed; NULL: not found. */
static char *find_program(const struct tw_collector *c, const char *name)
{
    const char *path = tw_pv_variable(c->env, "PATH");
    if (strchr(name, '/'))
        return is_file(name) ? tw_strdup(name) : NULL;
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        char *full = tw_printf("%.*s/%s", (int)n, n ? p : ".", name);
        if (full && is_file(full) && access(full, X_OK) == 0)
            return full;
        tw_free(full);
        p += n + (p[n] == ':');
    }
    return NULL;
}

/* A file with its digest, or with the reason why it has none; its real path where a link leads to
 * it. */
static json_t *file_item(const char *path, uint64_t cap)
{
    char hex[65], real[4096];
    uint64_t bytes = 0;
    const char *why;
    json_t *o = json_pack("{s:o}", "path", tw_json_bytes(path));
    if (realpath(path, real) && strcmp(real, path) != 0)
        tw_pv_put(o, "real_path", tw_json_bytes(real));
    if (tw_pv_sha256(path, cap, 0, hex, &bytes, &why) == 0)
        tw_pv_put(o, "sha256", json_string(hex));
    else
        tw_pv_put(o, "why", json_string(why));
    tw_pv_put(o, "bytes", json_integer((json_int_t)bytes));
    return o;
}

/* The interpreter in a script's first line, also behind env and its options. malloc'ed, NULL when
 * it is none. */
static char *interpreter_of(const struct tw_collector *c, const char *path)
{
    char head[256] = "";
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
    char *save = NULL, *found = NULL;
    if (f)
        fclose(f);
    head[n] = '\0';
    head[strcspn(head, "\n")] = '\0';
    if (!tw_starts(head, "#!"))
        return NULL;
    char *word = strtok_r(head + 2, " \t", &save);
    if (word && tw_ends(word, "/env"))
        do
            word = strtok_r(NULL, " \t", &save);
        while (word && (*word == '-' || strchr(word, '=')));
    if (word)
        found = find_program(c, word);
    return found;
}

/* Words that start another program: what they start follows. */
static bool starts_another(const char *path)
{
    static const char *const names[] = {"env",     "nice",    "time",   "timeout",
                                        "taskset", "numactl", "stdbuf", "setarch",
                                        "ionice",  "chrt",    "nohup",  "catchsegv"};
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(base, names[i]) == 0)
            return true;
    return false;
}

/* The first argument behind `at` that could be what a starter starts. */
static size_t next_program(char *const *argv, size_t argc, size_t at)
{
    while (++at < argc)
        if (argv[at][0] != '-' && !strchr(argv[at], '=') && !isdigit((unsigned char)argv[at][0]))
            break;
    return at;
}

static bool is_python(const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    return tw_starts(base, "python") || tw_starts(base, "pypy");
}

/* The script or module that an interpreter begins with: its first argument that is no option. Other
 * programs have one only where a word names a script that is there. */
static json_t *entry_point(char *const *argv, size_t argc, size_t at, const char *program)
{
    if (is_python(program))
        for (size_t i = at + 1; i < argc; i++) {
            if (strcmp(argv[i], "-m") == 0 && i + 1 < argc)
                return json_pack("{s:s, s:o}", "kind", "module", "name",
                                 tw_json_bytes(argv[i + 1]));
            if (strcmp(argv[i], "-c") == 0)
                return json_pack("{s:s}", "kind", "text");
            if (strcmp(argv[i], "-W") == 0 || strcmp(argv[i], "-X") == 0)
                i++;
            else if (argv[i][0] != '-')
                break;
        }
    for (size_t i = at + 1; i < argc; i++)
        if (argv[i][0] != '-' && is_file(argv[i]) &&
            (is_python(program) || tw_ends(argv[i], ".py") || tw_ends(argv[i], ".sh"))) {
            json_t *o = file_item(argv[i], PROGRAM_MAX);
            tw_pv_put(o, "kind", json_string("file"));
            return o;
        }
    return json_null();
}

/* Follows programs that start another one, as a change in any of them may change the job. */
json_t *tw_pv_programs(struct tw_collector *c)
{
    json_t *o = json_object(), *list = json_array(), *entry = NULL;
    char *const *argv = c->run->argv;
    size_t argc = c->run->argc;
    for (size_t at = 0, hop = 0; at < argc && hop < HOPS_MAX; hop++) {
        char *path = find_program(c, argv[at]);
        bool again = starts_another(path ? path : argv[at]);
        if (path)
            tw_pv_add(list, file_item(path, PROGRAM_MAX));
        else
            tw_pv_add(list,
                      json_pack("{s:o, s:s}", "path", tw_pv_text(c, argv[at]), "why", "not found"));
        char *by = path ? interpreter_of(c, path) : NULL;
        if (by)
            tw_pv_add(list, file_item(by, PROGRAM_MAX));
        tw_free(by);
        if (!again) {
            entry = entry_point(argv, argc, at, path ? path : argv[at]);
            at = argc;
        } else {
            at = next_program(argv, argc, at);
        }
        tw_free(path);
    }
    tw_pv_put(o, "files", list);
    tw_pv_put(o, "entry", entry ? entry : json_null());
    return o;
}

/* ---- configuration */

/* By its name, as that decides which reader takes it. */
static bool names_config(const char *path)
{
    return tw_ends(path, ".json") || tw_ends(path, ".yaml") || tw_ends(path, ".yml") ||
           tw_ends(path, ".toml");
}

/* Puts both digests of a configuration into o. */
static json_t *digests(struct tw_collector *c, const struct twin_config *x, json_t *o)
{
    (void)c;
    tw_pv_put(o, "format", json_string(twin_config_format_name(x->format)));
    tw_pv_put(o, "raw", json_string(x->raw));
    tw_pv_put(o, "canonical", json_string(x->canonical));
    tw_pv_put(o, "bytes", json_integer((json_int_t)x->bytes));
    return o;
}

/* A file that an argument names, alone or behind a sign: --config=a.yaml, model=@b.json. NULL: it
 * names none. A file that cannot be read as a configuration still has the digest of its bytes, and
 * a reason. */
static json_t *config_file(struct tw_collector *c, const char *argument)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_config x = {0};
    struct stat st;
    const char *sign = strchr(argument, '=');
    const char *path = sign ? sign + 1 : NULL;
    if (names_config(argument) && is_file(argument))
        path = argument;
    path += path && *path == '@';
    if (!path || !names_config(path) || !is_file(path))
        return NULL;
    json_t *o = json_pack("{s:o}", "path", tw_json_bytes(path));
    if (stat(path, &st) == 0 && st.st_size <= CONFIG_MAX &&
        twin_config_read(path, TWIN_CONFIG_BY_NAME, &x, &err) == 0) {
        digests(c, &x, o);
        twin_config_free(&x);
    } else {
        char hex[65];
        uint64_t bytes = 0;
        const char *why = NULL;
        if (tw_pv_sha256(path, 0, 0, hex, &bytes, &why) == 0)
            tw_pv_put(o, "raw", json_string(hex));
        if (!why)
            why = err.code ? err.message : "no canonical form is made of files over 4 MiB";
        tw_pv_put(o, "why", tw_pv_text(c, why));
        tw_pv_put(o, "bytes", json_integer((json_int_t)bytes));
    }
    return o;
}

/* The command's words without their secrets, a digest of what they set, and the files they name. */
json_t *tw_pv_config(struct tw_collector *c)
{
    struct twin_config x = {0};
    char **argv = twin_redact_argv(c->redactor, c->run->argv, c->run->argc);
    json_t *o = json_object(), *files = json_array(), *words = json_array();
    for (size_t i = 0; argv && i < c->run->argc; i++)
        tw_pv_add(words, tw_json_bytes(argv[i]));
    tw_pv_put(o, "argv", words);
    /* Of what is kept, so that anyone can recompute it; a secret's digest says whether that has
     * changed. */
    if (argv && twin_config_argv(argv, &x, NULL) == 0) {
        tw_pv_put(o, "argv_digest", digests(c, &x, json_object()));
        twin_config_free(&x);
    }
    for (size_t i = 0; i < c->run->argc && json_array_size(files) < CONFIGS_MAX; i++)
        tw_pv_add(files, config_file(c, c->run->argv[i]));
    tw_pv_put(o, "files", files);
    twin_redact_free(argv);
    return o;
}
