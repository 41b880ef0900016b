/* SPDX-License-Identifier: Apache-2.0 */
/* Case files: read with everything that can be wrong in them, and written. A file that is wrong is
 * left out as a whole, so that half a case never speaks; the reason is kept for the person who
 * asked. */
#include "internal.h"

#include "base.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Limits of what is read: case files are written by people, and some come from elsewhere. */
enum { FILE_BYTES_MAX = 1 << 20, CASES_MAX = 4096, ID_MAX = 64 };

bool twin_case_id_ok(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return n > 0 && n <= ID_MAX && id[n] == '\0' && id[0] != '.';
}

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tw_free(list[i]);
    tw_free(list);
}

static void free_case(struct twin_case *c)
{
    tw_free(c->id);
    tw_free(c->title);
    tw_free(c->cause);
    tw_free(c->fix);
    for (int k = 0; k < TWIN_CASE_KEYS; k++)
        free_list(c->accepts[k].text, c->accepts[k].count);
    free_list(c->unless, c->unless_count);
    free_list(c->references, c->reference_count);
}

void twin_cases_free(struct twin_cases *c)
{
    for (size_t i = 0; i < c->count; i++)
        free_case(&c->one[i]);
    tw_free(c->one);
    free_list(c->problem, c->problem_count);
    *c = (struct twin_cases){0};
}

/* ---- reading */

/* A file that is being read. The case whose keys come is the last of out. */
struct reading {
    const char *path;
    struct twin_cases *out;
    size_t began; /* line of the case that is being read; 0: none */
};

/* Copies the texts of a value. 0 or TWIN_ENOMEM; what was copied is counted, so the caller frees
 * it. */
static int copy_list(const struct tw_toml_value *v, char ***list, size_t *count)
{
    *list = tw_calloc(v->count ? v->count : 1, sizeof **list);
    for (size_t i = 0; *list && i < v->count; i++) {
        char *text = tw_strdup(v->text[i]);
        if (!text)
            return TWIN_ENOMEM;
        (*list)[(*count)++] = text;
    }
    return *list ? 0 : TWIN_ENOMEM;
}

/* A key that takes one text, which is not empty. */
static int set_text(struct reading *r, const char *key, char **field, const struct tw_toml_value *v,
                    size_t line, struct twin_error *err)
{
    if (v->type != TW_TOML_STRING || !*v->text[0])
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s is a text", r->path, line, key);
    *field = tw_strdup(v->text[0]);
    return *field ? 0 : tw_no_memory(err, "reading %s", r->path);
}

/* A key that takes a text or a list of them. */
static int set_list(struct reading *r, const char *key, char ***list, size_t *count,
                    const struct tw_toml_value *v, size_t line, struct twin_error *err)
{
    if ((v->type != TW_TOML_STRING && v->type != TW_TOML_STRINGS) || v->count == 0)
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: %s is a text or a list of texts",
                              r->path, line, key);
    return copy_list(v, list, count) == 0 ? 0 : tw_no_memory(err, "reading %s", r->path);
}

/* One line of a case. The names are those of the keys that hold for no pattern, then the keys of a
 * signature; together they are what a misspelt key is compared with. */
static int on_key(void *user, const char *key, const struct tw_toml_value *v, size_t line,
                  struct twin_error *err)
{
    struct reading *r = user;
    struct twin_case *c = &r->out->one[r->out->count - 1];
    enum { OTHERS = 6 };
    const char *names[TWIN_CASE_KEYS + OTHERS + 1] = {"id",  "title",      "cause",
                                                      "fix", "references", "unless"};
    char **const texts[] = {&c->id, &c->title, &c->cause, &c->fix};
    for (int i = 0; i < 4; i++)
        if (strcmp(key, names[i]) == 0)
            return set_text(r, key, texts[i], v, line, err);
    if (strcmp(key, "references") == 0)
        return set_list(r, key, &c->references, &c->reference_count, v, line, err);
    if (strcmp(key, "unless") == 0)
        return set_list(r, key, &c->unless, &c->unless_count, v, line, err);
    for (int k = 0; k < TWIN_CASE_KEYS; k++) {
        names[OTHERS + k] = tw_case_keys[k].name;
        if (strcmp(key, tw_case_keys[k].name) == 0)
            return set_list(r, key, &c->accepts[k].text, &c->accepts[k].count, v, line, err);
    }
    const char *near = tw_nearest(key, names);
    if (near)
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: unknown key %s; did you mean %s?",
                              r->path, line, key, near);
    return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: unknown key %s", r->path, line, key);
}

/* The first key that a case must have and has not; NULL: it has them all. */
static const char *missing_key(const struct twin_case *c)
{
    if (!c->id)
        return "id";
    if (!c->title)
        return "title";
    if (!c->cause)
        return "cause";
    return c->fix ? NULL : "fix";
}

/* Is the case that was read last complete, and does it match anything in particular? */
static int finish_case(struct reading *r, struct twin_error *err)
{
    if (!r->began)
        return 0;
    const struct twin_case *c = &r->out->one[r->out->count - 1];
    const char *missing = missing_key(c);
    bool asked[TWIN_CASE_KEYS];
    if (missing)
        return twin_error_set(err, TWIN_EFORMAT, "%s: line %zu: the case has no %s", r->path,
                              r->began, missing);
    if (!twin_case_id_ok(c->id))
        return twin_error_set(
            err, TWIN_EFORMAT,
            "%s: line %zu: an id has letters, digits, - _ . (%d at most), found \"%s\"", r->path,
            r->began, ID_MAX, c->id);
    for (int k = 0; k < TWIN_CASE_KEYS; k++)
        asked[k] = c->accepts[k].count > 0;
    if (!tw_case_worth(asked))
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: line %zu: case %s matches nothing in particular: its keys must "
                              "be worth %d points, one of factors, op, stack or arms among them",
                              r->path, r->began, c->id, TWIN_CASE_POINTS);
    return 0;
}

/* Another [[case]]: the one before it is complete now. */
static int on_begin(void *user, size_t line, struct twin_error *err)
{
    struct reading *r = user;
    int rc = finish_case(r, err);
    if (rc != 0)
        return rc;
    if (r->out->count >= CASES_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s: line %zu: more than %d cases", r->path, line,
                              CASES_MAX);
    struct twin_case *grown = tw_reallocarray(r->out->one, r->out->count + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "reading %s", r->path);
    r->out->one = grown;
    r->out->one[r->out->count++] = (struct twin_case){0};
    r->began = line;
    return 0;
}

static bool known_id(const struct twin_cases *c, const char *id)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->one[i].id, id) == 0)
            return true;
    return false;
}

/* Moves the cases of a file into all of them. An id that is known already stays as it is: the
 * user's own folder comes before ours. 0 or TWIN_ENOMEM. */
static int take_cases(struct twin_cases *all, struct twin_cases *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct twin_case *grown = known_id(all, from->one[i].id)
                                      ? NULL
                                      : tw_reallocarray(all->one, all->count + 1, sizeof *grown);
        if (!grown && !known_id(all, from->one[i].id))
            return TWIN_ENOMEM;
        if (!grown)
            continue;
        all->one = grown;
        all->one[all->count++] = from->one[i];
        from->one[i] = (struct twin_case){0};
    }
    return 0;
}

/* Keeps why a file was left out. 0 or TWIN_ENOMEM. */
static int add_problem(struct twin_cases *c, const char *message)
{
    char *copy = tw_strdup(message);
    char **grown = tw_reallocarray(c->problem, c->problem_count + 1, sizeof *grown);
    if (grown)
        c->problem = grown;
    if (!grown || !copy) {
        tw_free(copy);
        return TWIN_ENOMEM;
    }
    c->problem[c->problem_count++] = copy;
    return 0;
}

/* Reads one file. What is wrong in it is a problem, only memory is an error. */
static int read_one(const char *path, struct twin_cases *all, struct twin_error *err)
{
    struct twin_error wrong = TWIN_ERROR_INIT;
    struct twin_cases file = {0};
    struct reading r = {.path = path, .out = &file};
    const struct tw_toml_handler h = {
        .table = "case", .begin = on_begin, .key = on_key, .user = &r};
    char *data = NULL;
    size_t bytes = 0;
    int rc = tw_read_file(path, FILE_BYTES_MAX, &data, &bytes, &wrong);
    if (rc == 0 && strlen(data) != bytes)
        rc = twin_error_set(&wrong, TWIN_EFORMAT, "%s: a zero byte in a text file", path);
    if (rc == 0)
        rc = tw_toml_read(data, path, &h, &wrong);
    if (rc == 0)
        rc = finish_case(&r, &wrong);
    if (rc == 0)
        rc = take_cases(all, &file);
    else if (rc != TWIN_ENOMEM)
        rc = add_problem(all, wrong.message);
    tw_free(data);
    twin_cases_free(&file);
    return rc == 0 ? 0 : tw_no_memory(err, "reading %s", path);
}

static int is_case_file(const struct dirent *e)
{
    return e->d_name[0] != '.' && tw_ends(e->d_name, ".toml");
}

/* scandir's memory is malloc's, not ours. */
int twin_cases_load(const char *const *folders, size_t count, struct twin_cases *out,
                    struct twin_error *err)
{
    int rc = 0;
    *out = (struct twin_cases){0};
    for (size_t f = 0; rc == 0 && f < count; f++) {
        struct dirent **names = NULL;
        int n = folders[f] ? scandir(folders[f], &names, is_case_file, alphasort) : 0;
        for (int i = 0; i < n; i++) {
            char *path = rc == 0 ? tw_path_join(folders[f], names[i]->d_name) : NULL;
            if (rc == 0)
                rc = path ? read_one(path, out, err) : tw_no_memory(err, "reading %s", folders[f]);
            tw_free(path);
            free(names[i]);
        }
        free(names);
    }
    if (rc != 0)
        twin_cases_free(out);
    return rc;
}

/* ---- writing */

/* A string of TOML; what cannot be printed is \xNN in it, as tw_printable has it. */
static void put_string(struct tw_buf *b, const char *s)
{
    char *safe = tw_printable(s, strlen(s));
    if (!safe)
        b->failed = TWIN_ENOMEM;
    tw_buf_puts(b, "\"");
    for (const char *p = safe; p && *p; p++) {
        tw_buf_append(b, "\\", *p == '"' || *p == '\\');
        tw_buf_append(b, p, 1);
    }
    tw_buf_puts(b, "\"");
    tw_free(safe);
}

/* A key with a text; a text that is empty is left out. */
static void put_text(struct tw_buf *b, const char *key, const char *value)
{
    if (!*value)
        return;
    tw_buf_printf(b, "%s = ", key);
    put_string(b, value);
    tw_buf_puts(b, "\n");
}

/* What would be a pattern's special characters stands for itself: any character will do there.
 * Takes shape. */
static void put_shape(struct tw_buf *b, char *shape)
{
    for (char *p = shape; p && *p; p++)
        if (strchr("*?[]", *p))
            *p = '?';
    if (shape)
        put_string(b, shape);
    else
        b->failed = TWIN_ENOMEM;
    tw_free(shape);
}

/* The innermost source lines as patterns. */
static void put_stack(struct tw_buf *b, const char *site)
{
    enum { FRAMES = 2 }; /* the innermost ones: main() is in every stack */
    for (int i = 0; i < FRAMES && *site; i++) {
        size_t n = strcspn(site, "\n");
        tw_buf_puts(b, i ? ", " : "stack = [");
        put_shape(b, tw_frame_shape(site, n));
        site += n + (site[n] == '\n');
        if (i == FRAMES - 1 || !*site)
            tw_buf_puts(b, "]\n");
    }
}

/* What is known of the signature becomes keys, if it is enough for a case that matches little
 * else. */
int twin_case_text(const struct twin_signature *s, const char *id, const char *title,
                   const char *cause, const char *fix, char **out, struct twin_error *err)
{
    struct tw_buf b = {0};
    const bool asked[TWIN_CASE_KEYS] = {[TWIN_CASE_FACTORS] = s->factor_count > 0,
                                        [TWIN_CASE_OP] = *s->op,
                                        [TWIN_CASE_STACK] = *s->site,
                                        [TWIN_CASE_ARMS] = *s->arms && strcmp(s->arms, "same") != 0,
                                        [TWIN_CASE_KIND] = *s->kind,
                                        [TWIN_CASE_PHASE] = *s->phase,
                                        [TWIN_CASE_LAYER] = *s->layer,
                                        [TWIN_CASE_NAME] = *s->name};
    *out = NULL;
    if (!twin_case_id_ok(id))
        return twin_error_set(
            err, TWIN_EINVAL,
            "a case's id has letters, digits, - _ . (%d at most, no dot first), found \"%s\"",
            ID_MAX, id);
    if (!tw_case_worth(asked))
        return twin_error_set(err, TWIN_EINVAL,
                              "too little is known of this divergence for a case that would match "
                              "it and nothing else");
    tw_buf_puts(&b, "[[case]]\n");
    put_text(&b, "id", id);
    put_text(&b, "title", title);
    for (size_t i = 0; i < s->factor_count; i++) {
        tw_buf_puts(&b, i ? ", " : "factors = [");
        put_string(&b, s->factors[i]);
        tw_buf_puts(&b, i + 1 == s->factor_count ? "]\n" : "");
    }
    put_text(&b, "layer", s->layer);
    put_text(&b, "phase", s->phase);
    put_text(&b, "kind", s->kind);
    if (*s->op) {
        tw_buf_puts(&b, "op = ");
        put_shape(&b, tw_strdup(s->op));
        tw_buf_puts(&b, "\n");
    }
    if (*s->name) {
        tw_buf_puts(&b, "name = ");
        put_shape(&b, tw_name_shape(s->name));
        tw_buf_puts(&b, "\n");
    }
    put_stack(&b, s->site);
    if (asked[TWIN_CASE_ARMS])
        put_text(&b, "arms", s->arms);
    put_text(&b, "cause", cause);
    put_text(&b, "fix", fix);
    *out = tw_buf_steal(&b);
    return *out ? 0 : tw_no_memory(err, "writing a case");
}
