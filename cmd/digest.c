/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun digest: what a file of tensors or a configuration says, as one number, and where two of
 * them say something else.
 *
 * Tensors are src/snapshot's (content.h), configurations src/provenance's (config.h). Of both there
 * are two numbers: one of the bytes, and one of what they say, which stays the same when only the
 * form changes.
 */
#include "say.h"
#include "options.h"
#include "tensors_words.h"

#include "base.h"
#include "phrase.h"

#include "src/provenance/config.h"
#include "src/snapshot/content.h"

#include <stdio.h>
#include <string.h>

/* Places that differ which the text lists; JSON lists all. */
enum { SHOWN = 20 };

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct digest_args {
    bool config, argv, canonical, only_tensors, file, json;
    const char *format;
};

#define FIELD(f) offsetof(struct digest_args, f)

static const struct tw_option options[] = {
    {"config", 'c', TW_OPT_FLAG, NULL, NULL, "What",
     "the files are configurations: .json, .yaml, .yml, .toml; else they hold tensors",
     FIELD(config)},
    {"argv", 0, TW_OPT_FLAG, NULL, NULL, "What", "the configuration is the command line behind --",
     FIELD(argv)},
    {"format", 'f', TW_OPT_STRING, "FORMAT", NULL, "What",
     "json, yaml or toml, whatever the files are called", FIELD(format)},
    {"tensors", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "of a file of tensors only these, never the file's bytes", FIELD(only_tensors)},
    {"file", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "the SHA-256 of the file's bytes as well, also beyond 64 MiB, where it takes longer than the "
     "tensors",
     FIELD(file)},
    {"canonical", 0, TW_OPT_FLAG, NULL, NULL, "Output",
     "print the canonical form of a configuration, and nothing else", FIELD(canonical)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {"FILE [FILE] [options]", "--config FILE [FILE] [options]",
                                       "--argv [options] -- COMMAND [ARGUMENTS]", NULL};
static const struct tw_pair exits[] = {
    {"0", "one file; or two that say the same"},
    {"1", "two files that differ: the tensors or places are listed"},
    {"2", "trouble: bad use, a file that cannot be read, a value without a canonical form, a "
          "tensor of an unknown type"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun digest model.pt", "two digests: of the file's bytes, and of the tensors in it"},
    {"twinrun digest a.pt b.safetensors",
     "the same tensors? If not, which differ, and by how much"},
    {"twinrun digest --config train.yaml", "two digests: of the bytes, and of what they say"},
    {"twinrun digest --config old.toml new.json", "do they say the same? If not, where not"},
    {"twinrun digest --argv -- python train.py --lr 0.1 --amp", "of a command line"},
    {"twinrun digest --config train.yaml --canonical | sha256sum",
     "check it with a tool of your own"},
    {NULL, NULL},
};

/* One configuration with the name that it goes by. */
struct item {
    const char *name;
    struct twin_config c;
};

static json_t *item_json(const struct item *x)
{
    return json_pack("{s:o, s:s, s:I, s:s, s:s}", "name", tw_json_text(x->name), "format",
                     twin_config_format_name(x->c.format), "bytes", (json_int_t)x->c.bytes, "raw",
                     x->c.raw, "canonical", x->c.canonical);
}

/* One place that differs, into a JSON list. A callback of twin_config_compare, as the next two. */
static int add_difference(void *list, const char *pointer, const char *a, const char *b)
{
    return json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "at", pointer, "a",
                                                 tw_json_text(a), "b", tw_json_text(b)));
}

/* All that is known, and, of two, where they differ. The exit code. */
static int print_json(const struct item *x, size_t count)
{
    json_t *items = json_array();
    json_t *differences = json_array();
    json_t *o = json_pack("{s:s}", "schema", "twinrun.digest/1");
    for (size_t i = 0; i < count; i++)
        json_array_append_new(items, item_json(&x[i]));
    json_object_set_new(o, "items", items);
    /* Negative: no memory. The number of places otherwise. */
    long n = count == 2 ? twin_config_compare(&x[0].c, &x[1].c, add_difference, differences) : 0;
    if (count == 2) {
        json_object_set_new(o, "outcome", json_string(n == 0 ? "same" : "differ"));
        json_object_set(o, "differences", differences);
    }
    json_decref(differences);
    int rc = tw_json_print(n < 0 ? (json_decref(o), NULL) : o);
    if (rc != 0)
        return rc;
    return n ? TW_EXIT_DIFFER : TW_EXIT_SAME;
}

/* The first 200 bytes say which value it is. */
static void print_value(const char *name, const char *value)
{
    if (!value) {
        tw_put("      %s  (not there)\n", name);
        return;
    }
    char *safe = tw_printable(value, strnlen(value, 200));
    tw_put("      %s  %s%s\n", name, safe ? safe : "?", strlen(value) > 200 ? "..." : "");
    tw_free(safe);
}

/* Non-zero ends the walk: enough was shown. */
static int print_difference(void *seen, const char *pointer, const char *a, const char *b)
{
    char *safe = tw_printable(pointer, strlen(pointer));
    tw_put("  %s\n", safe && *safe ? safe : "(the whole)");
    print_value("a", a);
    print_value("b", b);
    tw_free(safe);
    return ++*(int *)seen >= SHOWN;
}

static int count_difference(void *seen, const char *pointer, const char *a, const char *b)
{
    (void)pointer, (void)a, (void)b;
    ++*(int *)seen;
    return 0;
}

/* Differences are counted first, since the heading has their number. The exit code. */
static int print_text(const struct item *x, size_t count)
{
    /* Two configurations may say the same in other bytes, which is SAME. */
    int shown = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        char *safe = tw_printable(x[i].name, strlen(x[i].name));
        tw_put("%s  %s, %zu bytes\n  raw        sha256:%s\n  canonical  sha256:%s\n",
               safe ? safe : "?", twin_config_format_name(x[i].c.format), x[i].c.bytes, x[i].c.raw,
               x[i].c.canonical);
        tw_free(safe);
    }
    if (count < 2)
        return TW_EXIT_SAME;
    if (twin_config_compare(&x[0].c, &x[1].c, count_difference, &all) < 0)
        return tw_trouble(NULL, "out of memory");
    if (all == 0) {
        tw_put("SAME    %s\n", strcmp(x[0].c.raw, x[1].c.raw) == 0
                                   ? "byte for byte"
                                   : "they say the same in other bytes");
        return TW_EXIT_SAME;
    }
    tw_put("DIFFER  in %d place%s\n", all, tw_plural_s(all));
    twin_config_compare(&x[0].c, &x[1].c, print_difference, &shown);
    if (all > shown)
        tw_put("  and %d more (--json lists all)\n", all - shown);
    return TW_EXIT_DIFFER;
}

/* *out by name, or as the file's name says where there is none. 0, or an exit code. */
static int format_named(const char *name, enum twin_config_format *out)
{
    *out = TWIN_CONFIG_BY_NAME;
    if (!name)
        return 0;
    for (enum twin_config_format f = TWIN_CONFIG_JSON; f < TWIN_CONFIG_ARGV; f++)
        if (strcmp(name, twin_config_format_name(f)) == 0) {
            *out = f;
            return 0;
        }
    return tw_bad_use("digest", "--format: expected json, yaml or toml, found \"%s\"", name);
}

/* Nothing is escaped: these bytes have the digest that is printed otherwise. */
static int write_canonical(const struct twin_config *c)
{
    /* exact bytes: what sha256sum is to be given */
    size_t written = fwrite(c->text, 1, c->text_bytes, stdout);
    if (written != c->text_bytes || fflush(stdout) != 0)
        return tw_trouble(NULL, "writing the canonical form failed");
    return 0;
}

/* ---- files of tensors */

/* Prints what is in the files, or what differs. The exit code. */
static int report_tensors(char *const *files, const struct twin_content *c, size_t count, bool json)
{
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *j = NULL;
    int rc = json ? tw_tensors_json(files, c, count, &j, &err)
                  : tw_tensors_text(stdout, files, c, count, &err);
    if (rc < 0)
        return tw_trouble(&err, "the tensors cannot be compared");
    int bad = json ? tw_json_print(j) : 0;
    if (bad != 0)
        return bad;
    return rc ? TW_EXIT_DIFFER : TW_EXIT_SAME;
}

static int read_content(const struct digest_args *a, const char *path, struct twin_content *out,
                        struct twin_error *err)
{
    if (a->only_tensors)
        return twin_content_read_tensors(path, out, err);
    return a->file ? twin_content_read(path, out, err) : twin_content_read_quickly(path, out, err);
}

/* One file of tensors, or two: which tensors differ, by how much. The exit code. */
static int digest_tensors(const struct digest_args *a, char *const *files, size_t count)
{
    struct twin_content c[2] = {{0}};
    struct twin_error err = TWIN_ERROR_INIT;
    size_t read = 0;
    /* Both files before anything is said: of one that cannot be read there is no answer. */
    while (read < count && read_content(a, files[read], &c[read], &err) == 0)
        read++;
    int rc;
    if (read < count)
        rc = tw_trouble(&err, "no digest");
    else
        rc = report_tensors(files, c, count, a->json);
    while (read > 0)
        twin_content_free(&c[--read]);
    return rc;
}

static int run(int argc, char **argv)
{
    struct digest_args a = {0};
    struct tw_operands given;
    struct twin_error err = TWIN_ERROR_INIT;
    struct item item[2] = {{0}};
    enum twin_config_format format;
    size_t count = 0;
    int rc = tw_options_parse(&tw_command_digest, argc, argv, &a, &given);
    if (rc >= 0)
        return rc;
    if (a.config && a.argv)
        return tw_bad_use("digest", "expected --config FILE or --argv -- COMMAND, found both");
    if (a.argv != given.is_job || (!a.argv && (given.count < 1 || given.count > 2)))
        return tw_bad_use("digest",
                          a.argv ? "--argv takes a command behind --"
                                 : "expected one file, or two to compare, found %zu",
                          given.count);
    if (!a.config && !a.argv && (a.canonical || a.format))
        return tw_bad_use("digest",
                          "--canonical and --format are for configurations: add --config");
    if (a.only_tensors && a.file)
        return tw_bad_use("digest", "expected --tensors or --file, found both");
    if (!a.config && !a.argv)
        return digest_tensors(&a, given.items, given.count);
    if (a.only_tensors || a.file)
        return tw_bad_use("digest",
                          "%s is for files of tensors: it does not go with --config and --argv",
                          a.file ? "--file" : "--tensors");
    if (a.canonical && (a.json || (a.config && given.count > 1)))
        return tw_bad_use("digest", "--canonical prints one configuration, and nothing else");
    if ((rc = format_named(a.format, &format)) != 0)
        return rc;
    for (size_t want = a.argv ? 1 : given.count; count < want && rc == 0; count += rc == 0) {
        struct item *x = &item[count];
        x->name = a.argv ? "command line" : given.items[count];
        rc = a.argv ? twin_config_argv(given.items, &x->c, &err)
                    : twin_config_read(x->name, format, &x->c, &err);
    }
    if (rc != 0)
        rc = tw_trouble(&err, "no digest");
    else if (a.canonical)
        rc = write_canonical(&item[0].c);
    else
        rc = a.json ? print_json(item, count) : print_text(item, count);
    for (size_t i = 0; i < count; i++)
        twin_config_free(&item[i].c);
    return rc;
}

const struct tw_command tw_command_digest = {
    "digest",
    "print one number for what a checkpoint or a configuration says, or where two differ",
    synopsis,
    "Files of tensors (PyTorch checkpoints of both formats, folders of "
    "torch.distributed.checkpoint, safetensors, .npy, .npz, HDF5, Keras's archives, TensorFlow's "
    "checkpoints by their .index; or any folder with such files in it): "
    "one digest of the tensors by name, type, shape and values, which is the same whatever the "
    "file's format, order, times and names of members; and the SHA-256 of the file, up to 64 MiB "
    "or "
    "with --file. Of two files each tensor "
    "that differs is listed: how many elements, by how many units in the last place, relative L2 "
    "distance. Nothing in a file is executed. What is no tensor, such as a step count, has a "
    "digest of its own, and is listed where it differs; the exit code is that of the tensors.\n\n"
    "--config and --argv: two SHA-256 digests of a configuration: of its bytes, and of its values "
    "in their canonical form (RFC 8785). The second stays the same when keys change places and "
    "when spaces, quotes, comments, the form of numbers or the file's format change; any changed "
    "value changes it.\n\n"
    "YAML is read by the core schema of YAML 1.2 (yes and on are text), with << as a merge. A "
    "command line is a list of words with the options behind each; options of different names may "
    "change places. Duplicate keys, NaN, infinities and unknown tags are refused, since programs "
    "do not agree on them.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
