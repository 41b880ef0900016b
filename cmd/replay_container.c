/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun replay --container: the same replay, in the image that the run was made in. Outside:
 * the package is verified, code and data are laid out, the image is found and verified, its root is
 * made where the engine wants one, and twinrun itself is copied to where the container sees it.
 * Inside (replay_inside.c): the command runs. Outside again: the verdict, and what no image fixes.
 */
#include "replay.h"
#include "runs.h"
#include "say.h"
#include "terminal.h"

#include "base.h"
#include "phrase.h"
#include "json_load.h"

#include "src/image/image.h"
#include "src/package/pack.h"
#include "src/provenance/provenance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* One replay in a container. All pointers but a, dir, copy, into are owned. */
struct contained {
    const struct tw_replay_args *a;
    const char *dir, *copy, *into;
    enum tw_container engine;
    struct tw_package_image named; /* what the package says */
    /* what is run: its layout (root -1: the engine has it), and where that lies */
    struct tw_image image;
    char *layout, *root, *twinrun, *expected;
    char ran[TW_DIGEST_ROOM]; /* its id; "" where only the digest of a registry is known */
    bool by_word; /* which image that is rests on the digest that was asked for, and was not seen */
    char *words[TW_CARRIED_WORDS + 1];
    struct twin_unpacked files;
    struct tw_replay_end *end; /* not owned */
};

int tw_replay_container_check(const struct tw_replay_args *a)
{
    enum tw_container engine;
    if (!a->container) {
        if (a->image || a->network || a->print)
            return tw_bad_use("replay", "--image, --network, --print: expected --container with "
                                        "them");
        return -1;
    }
    if (strcmp(a->container, "auto") != 0 && !tw_container_of_word(a->container, &engine))
        return tw_bad_use("replay",
                          "--container: expected docker, podman, apptainer, bwrap, chroot or auto, "
                          "found \"%s\"",
                          a->container);
    if (strcmp(a->gpus, "auto") != 0 && strcmp(a->gpus, "all") != 0 && strcmp(a->gpus, "none") != 0)
        return tw_bad_use("replay", "--gpus: expected auto, all or none, found \"%s\"", a->gpus);
    return -1;
}

/* ---- the engine */

static int find_engine(struct contained *c, struct twin_error *err)
{
    char *why = NULL;
    if (strcmp(c->a->container, "auto") == 0)
        return tw_container_find(&c->engine, err);
    tw_container_of_word(c->a->container, &c->engine);
    /* what is only printed need not be here */
    int rc = 0;
    if (!c->a->print && !tw_container_answers(c->engine, &why))
        rc = twin_error_set(err, TWIN_EUNSUPPORTED, "%s; --container auto takes what is here",
                            tw_text_or(why, c->a->container));
    tw_free(why);
    return rc;
}

/* ---- the image */

/* Makes a private copy, verified while it is made, and goes on with that. */
static int take_copy(struct contained *c, struct twin_error *err)
{
    struct tw_image copy = {.root = -1};
    int rc = tw_mkdirs(c->layout, err);
    rc = rc ? rc : tw_image_copy(&c->image, c->layout, err);
    rc = rc ? rc : tw_image_open(c->layout, NULL, NULL, &copy, err);
    if (rc == 0) {
        tw_image_close(&c->image);
        c->image = copy;
    } else {
        tw_image_close(&copy);
    }
    return rc;
}

static int fetch_image(struct contained *c, const char *reference, const char *wanted,
                       struct twin_error *err)
{
    char *above = tw_path_join(c->into, "image");
    int rc = above ? tw_mkdirs(above, err) : tw_no_memory(err, "fetching an image");
    tw_replay_show_step(NULL, reference);
    rc = rc ? rc : tw_image_fetch(reference, c->layout, err);
    rc = rc ? rc : tw_image_open(c->layout, NULL, wanted, &c->image, err);
    rc = rc ? rc : tw_image_verify(&c->image, err);
    tw_free(above);
    return rc;
}

/* One that lies beside the package, or that a person named. */
static int open_beside(struct contained *c, const char *reference, const char *wanted,
                       struct twin_error *err)
{
    int rc = tw_image_open_reference(reference, wanted, &c->image, err);
    return rc ? rc : take_copy(c, err);
}

static int open_inside(struct contained *c, struct twin_error *err)
{
    tw_free(c->layout);
    c->layout = tw_printf("%s/data/" TW_PACKAGE_IMAGE, c->copy);
    if (!c->layout)
        return tw_no_memory(err, "reading an image");
    int rc = tw_image_open(c->layout, NULL, c->named.id, &c->image, err);
    return rc ? rc : tw_image_verify(&c->image, err);
}

static int not_here(const struct contained *c, struct twin_error *err)
{
    if (c->named.reference)
        return twin_error_set(err, TWIN_ENOENT,
                              "the image is not in the package: --fetch gets %s, or name a layout "
                              "of it with --image oci:DIR",
                              c->named.reference);
    if (c->named.is_named)
        return twin_error_set(err, TWIN_ENOENT,
                              "the image %s is not in the package, which knows no registry that "
                              "has it: name a layout of it with --image oci:DIR",
                              c->named.id);
    return twin_error_set(err, TWIN_ENOENT,
                          "the package names no image: say which with --image (and pack it next "
                          "time: twinrun pack --image)");
}

/* Does PACKAGE.image lie beside the package? malloc'ed. */
static char *beside(const char *dir)
{
    struct stat st;
    char *real = tw_path_absolute(dir, NULL);
    for (size_t n = real ? strlen(real) : 0; n > 1 && real[n - 1] == '/'; n--)
        real[n - 1] = '\0';
    char *path = real ? tw_printf("%s.image", real) : NULL;
    char *reference = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode)
                          ? tw_printf("oci:%s", path)
                          : NULL;
    tw_free(path);
    tw_free(real);
    return reference;
}

/* Opens it: what a person named, else what the package has, else what a registry has. */
static int find_image(struct contained *c, struct twin_error *err)
{
    const char *given = c->a->image;
    char *near = given ? NULL : beside(c->dir);
    int rc;
    c->layout = tw_path_join(c->into, "image/layout");
    if (!c->layout) {
        tw_free(near);
        return tw_no_memory(err, "reading an image");
    }
    if (given && tw_starts(given, "oci:"))
        rc = open_beside(c, given, NULL, err);
    else if (given)
        rc = fetch_image(c, given, NULL, err);
    else if (c->named.layout == TW_IMAGE_INSIDE)
        rc = open_inside(c, err);
    else if (near && c->named.is_named)
        rc = open_beside(c, near, c->named.id, err);
    else if (!c->named.reference)
        rc = not_here(c, err);
    else if (!tw_container_wants_root(c->engine))
        rc = 0; /* the engine has it, or fetches it */
    else
        rc = c->a->fetch ? fetch_image(c, c->named.reference, NULL, err) : not_here(c, err);
    const bool by_digest = !given && !near && c->named.layout != TW_IMAGE_INSIDE;
    tw_free(near);
    /* skopeo gave what has the digest that it was asked for; where it had to turn docker's form
     * into OCI's, its configuration is written anew, and has another digest */
    c->by_word = by_digest && !(c->image.folder && strcmp(c->image.config, c->named.id) == 0);
    if (rc == 0 && by_digest)
        snprintf(c->ran, sizeof c->ran, "%s", c->named.id);
    else if (rc == 0 && c->image.folder)
        snprintf(c->ran, sizeof c->ran, "%s", c->image.config);
    return rc;
}

static int make_root(struct contained *c, const char *const *read_only, struct twin_error *err)
{
    static const char *const always[] = {"/proc", "/sys", "/dev", "/tmp", NULL};
    struct tw_root_counts counts;
    struct stat st;
    tw_replay_show_step(NULL, "the image's root");
    int rc = tw_mkdirs(c->root, err);
    rc = rc ? rc : tw_image_root(&c->image, c->root, &counts, err);
    for (const char *const *p = always; *p && rc == 0; p++)
        rc = tw_root_mount_point(c->root, *p, err);
    rc = rc ? rc : tw_root_mount_point(c->root, c->into, err);
    for (const char *const *p = read_only; *p && rc == 0; p++)
        if (!tw_pk_below(*p, c->into))
            rc = tw_root_mount_point(c->root, *p, err);
    char *tmp = tw_path_join(c->root, "tmp");
    if (rc == 0 && tmp && lstat(tmp, &st) == 0 && S_ISDIR(st.st_mode))
        chmod(tmp, 01777);
    tw_free(tmp);
    return rc;
}

/* ---- the command lines */

static bool wants_gpus(const struct contained *c)
{
    if (strcmp(c->a->gpus, "auto") == 0)
        return tw_package_used_gpus(c->expected);
    return strcmp(c->a->gpus, "all") == 0;
}

/* What is mounted without the right to write: the package, twinrun, data of the user's. An array of
 * borrowed texts; NULL: no memory. */
static const char **read_only_of(const struct contained *c, const char *copy)
{
    const char **out = tw_calloc(c->files.data_count + 3, sizeof *out);
    size_t n = 0;
    if (!out)
        return NULL;
    out[n++] = copy;
    out[n++] = c->twinrun;
    for (size_t i = 0; i < c->files.data_count; i++)
        if (c->files.data[i].folder && !tw_pk_below(c->files.data[i].folder, c->into))
            out[n++] = c->files.data[i].folder;
    return out;
}

/* Of the container: nobody can know it before, and two replays at once have two. */
static int make_name(bool printed, char name[64], struct twin_error *err)
{
    unsigned char random[16] = {0};
    char hex[2 * sizeof random + 1];
    if (!printed && getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return twin_error_system(err, "no random name for the container");
    tw_hex(random, sizeof random, hex);
    snprintf(name, 64, "twinrun-replay-%s", printed ? "0" : hex);
    return 0;
}

static int make_lines(const struct contained *c, const char *const *read_only, const char *layout,
                      const char *id, struct tw_command_lines *out, struct twin_error *err)
{
    const char *argv[TW_CARRIED_WORDS + 3];
    char name[64];
    size_t n = 0;
    for (; n < TW_CARRIED_WORDS && c->words[n]; n++)
        argv[n] = c->words[n];
    argv[n++] = "--replay-inside";
    argv[n++] = c->into;
    argv[n] = NULL;
    int rc = make_name(c->a->print, name, err);
    if (rc)
        return rc;
    const struct tw_contained what = {.engine = c->engine,
                                      .name = name,
                                      .layout = layout,
                                      .root = c->root,
                                      .reference = c->named.reference,
                                      .config = id,
                                      .folder = c->into,
                                      .read_only = read_only,
                                      .network = c->a->network,
                                      .gpus = wants_gpus(c),
                                      .pull = c->a->fetch,
                                      .uid = geteuid(),
                                      .gid = getegid(),
                                      .argv = argv};
    return tw_container_lines(&what, out, err);
}

static void print_line(char *const *argv)
{
    char *text = argv ? tw_shell_quote(argv, 0) : NULL;
    if (text)
        tw_put("%s\n", text);
    tw_free(text);
}

/* ---- inside */

/* JSON holds UTF-8 alone: a path that is none would be lost on the way. */
static int order_takes(const char *path, const char *option, struct twin_error *err)
{
    json_t *text = json_string(path), *rest = text ? NULL : json_string("");
    int rc = 0;
    if (!text && rest)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s %s: expected a path in UTF-8, which a replay in a container can "
                            "be told: name another",
                            option, path);
    else if (!text)
        rc = tw_no_memory(err, "replaying in a container");
    json_decref(text);
    json_decref(rest);
    return rc;
}

/* What is to be done there. The image's variables are the engine's business where it knows them. */
static int write_order(const struct contained *c, struct twin_error *err)
{
    const struct tw_replay_args *a = c->a;
    char *path = tw_path_join(c->into, TW_REPLAY_ORDER), *home = tw_path_join(c->into, "home");
    json_t *data = json_array(), *pip = json_array();
    int rc = path && home ? order_takes(c->into, "--into", err)
                          : tw_no_memory(err, "replaying in a container");
    for (char **d = c->files.data_given; d && *d && rc == 0; d++) {
        rc = order_takes(*d, "--data", err);
        json_array_append_new(data, json_string(*d));
    }
    for (size_t i = 0; i < a->pip.count; i++)
        json_array_append_new(pip, json_string(a->pip.items[i]));
    json_t *o = json_pack(
        "{s:o, s:s, s:s, s:s?, s:o, s:o, s:b, s:b}", "environment",
        tw_container_wants_root(c->engine) ? json_incref(c->image.env) : json_null(), "image",
        *c->ran ? c->ran : c->named.id, "how", a->environment, "python", a->python, "data", data,
        "pip", pip, "drop", c->engine == TW_CONTAINER_CHROOT, "tied",
        c->engine == TW_CONTAINER_CHROOT);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (rc == 0)
        rc = text ? tw_write_file_atomic(path, text, strlen(text), err)
                  : tw_no_memory(err, "replaying in a container");
    if (rc == 0 && mkdir(home, 0700) != 0)
        rc = twin_error_system(err, "cannot make %s", home);
    free(text);
    json_decref(o);
    tw_free(path);
    tw_free(home);
    return rc;
}

/* Reads how it ended. TWIN_ENOENT: it did not come so far. */
static int read_end(const struct contained *c, json_t **out, struct twin_error *err)
{
    char *path = tw_path_join(c->into, TW_REPLAY_ENDED), *text = NULL;
    size_t n = 0;
    struct stat st;
    int rc = path ? 0 : tw_no_memory(err, "replaying in a container");
    /* the job could put a pipe there, for us to wait at */
    if (rc == 0 && (lstat(path, &st) != 0 || !S_ISREG(st.st_mode)))
        rc = twin_error_set(err, TWIN_ENOENT, "%s: expected a regular file", path);
    rc = rc ? rc : tw_read_file(path, 16 << 20, &text, &n, err);
    *out = rc == 0 ? tw_json_load(text, n, 0, NULL) : NULL;
    if (rc == 0 && !json_is_object(*out))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: expected a JSON object", path);
    tw_free(text);
    tw_free(path);
    return rc;
}

/* ---- the verdict */

/* Of a replay in a container, as docs/containers.md has it. */
static json_t *container_json(const struct contained *c, const struct twin_run *now)
{
    const bool known = c->named.is_named;
    /* without a layout the engine was told the digest, and runs nothing else */
    const char *ran = *c->ran ? c->ran : c->named.id;
    const bool same = known && strcmp(ran, c->named.id) == 0;
    return json_pack("{s:s, s:{s:o, s:s, s:o, s:o, s:o}, s:o}", "engine",
                     tw_container_word(c->engine), "image", "package",
                     known ? json_string(c->named.id) : json_null(), "ran", ran, "same",
                     known && !c->by_word ? json_boolean(same) : json_null(), "recorded",
                     *c->named.recorded ? json_string(c->named.recorded) : json_null(), "moved",
                     c->named.moved_unknown ? json_null() : json_boolean(c->named.moved), "outside",
                     tw_replay_outside(c->expected, now));
}

/*
 * Is it a folder that twinrun inside may have named? The job can write to that file, too, and must
 * not lead the judge to a run that it did not make: the one in the package, or any elsewhere.
 */
static bool is_run_folder(const struct contained *c, const char *dir)
{
    const char *below = tw_pk_below(dir, c->into);
    char *real = tw_pk_real("/", dir);
    const bool right = below && tw_path_ok(below) && tw_starts(below, "runs/") &&
                       !strchr(below + strlen("runs/"), '/') && real && strcmp(real, dir) == 0;
    tw_free(real);
    return right;
}

/* Judges the run that the container left. */
static int judge(const struct contained *c, const json_t *ended, int status)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_run *now = NULL;
    const char *dir = json_string_value(json_object_get(ended, "run"));
    /* what it has to say, it said itself; no job was started that could have written this */
    if (!dir) {
        const char *missing = json_string_value(json_object_get(ended, "missing"));
        json_t *differences = json_object_get(ended, "differences");
        snprintf(c->end->said, sizeof c->end->said, "%s",
                 tw_text_or(json_string_value(json_object_get(ended, "message")), ""));
        c->end->missing = missing && strcmp(missing, "environment") == 0 ? "environment"
                                                                         : "program";
        c->end->differences = json_array_size(differences) ? json_incref(differences) : NULL;
        return status ? status : TW_EXIT_TROUBLE;
    }
    const json_t *code = json_object_get(ended, "code");
    if (!json_is_integer(code) || json_integer_value(code) != status)
        return tw_trouble(NULL,
                          "replay: %s ended with %d, and the file " TW_REPLAY_ENDED
                          " in %s does not say so: the job changed it, or the container was ended "
                          "by somebody; nothing can be said",
                          tw_container_word(c->engine), status, c->into);
    if (!is_run_folder(c, dir))
        return tw_trouble(NULL,
                          "replay: the file " TW_REPLAY_ENDED
                          " in %s names no run that was made there: the job changed it; nothing "
                          "can be said",
                          c->into);
    if (twin_run_load(dir, &now, &err) != 0)
        return tw_trouble(&err, "replay: the run in the container cannot be read");
    int rc = -1;
    if (now->outcome == TWIN_RUN_NOT_STARTED) {
        c->end->missing = "program";
        rc = tw_bad_use("replay", "%s", now->message);
    } else if (now->outcome == TWIN_RUN_INTERRUPTED) {
        rc = TW_EXIT_INTERRUPTED;
    }
    if (rc < 0) {
        if (!c->a->quiet)
            tw_say("replayed in %s, in a container of %s", c->into, tw_container_word(c->engine));
        rc = tw_replay_print(c->a, &c->files, now, json_object_get(ended, "differences"),
                             container_json(c, now));
    }
    twin_run_free(now);
    return rc;
}

/* ---- all */

static void say_what_stays(const struct contained *c, char *const *end)
{
    char *line = tw_shell_quote(end, 0);
    tw_say("replay: %s did not take its container away, and was waited for no longer: it may still "
           "run; try %s",
           tw_container_word(c->engine), tw_text_or(line, "it by hand"));
    tw_free(line);
}

/* Starts the container and reads what it left. The exit code. */
static int start(struct contained *c, const struct tw_command_lines *lines, bool *started)
{
    struct twin_error err = TWIN_ERROR_INIT;
    json_t *ended = NULL;
    struct tw_contained_end end;
    tw_progress_clear();
    if (tw_contain(lines, c->a->json, &end, &err) != 0)
        return tw_trouble(&err, "replay: nothing was run");
    if (end.stays)
        say_what_stays(c, lines->end);
    if (end.interrupted) {
        *started = true;
        return TW_EXIT_INTERRUPTED;
    }
    if (read_end(c, &ended, &err) != 0) {
        c->end->missing = "engine";
        tw_say("replay: %s ended with %d before the replay began in the image: nothing was run",
               tw_container_word(c->engine), end.status);
        return TW_EXIT_TROUBLE;
    }
    *started = json_is_string(json_object_get(ended, "run"));
    int rc = judge(c, ended, end.status);
    json_decref(ended);
    return rc;
}

/* The image's root and copies are not needed any more: they are large, and made again at will. */
static void clear_away(const struct contained *c)
{
    struct stat st;
    char *image = tw_path_join(c->into, "image");
    const char *const gone[] = {image, c->twinrun};
    for (size_t i = 0; i < 2; i++)
        if (gone[i] && lstat(gone[i], &st) == 0)
            tw_remove_tree(gone[i], NULL, NULL);
    tw_free(image);
}

/* What the job left is the caller's, and so is what a file of it with such a bit may do. */
static void take_bits(const struct contained *c)
{
    struct twin_error err = TWIN_ERROR_INIT;
    uint64_t count = 0;
    char shown[32];
    int rc = tw_container_take_bits(c->into, &count, &err);
    if (count)
        tw_say("replay: the job left %s file%s in %s with bits for setuid or setgid: they were "
               "taken away",
               tw_human_count(count, shown), count == 1 ? "" : "s", c->into);
    if (rc)
        tw_say("replay: %s: there may be files with bits for setuid, which run with your rights: "
               "look with find %s -perm /6000",
               err.message, c->into);
}

static void free_contained(struct contained *c)
{
    tw_image_close(&c->image);
    tw_package_image_free(&c->named);
    twin_unpacked_free(&c->files);
    tw_carried_free(c->words);
    tw_free(c->layout);
    tw_free(c->root);
    tw_free(c->twinrun);
    tw_free(c->expected);
}

static int set_places(struct contained *c, struct twin_error *err)
{
    c->root = tw_path_join(c->into, "image/root");
    c->twinrun = tw_path_join(c->into, "twinrun");
    c->expected = tw_path_join(c->copy, "data/expected");
    return c->root && c->twinrun && c->expected ? 0 : tw_no_memory(err, "replaying in a container");
}

int tw_replay_contained(const struct tw_replay_args *a, const char *dir, const char *copy,
                        const struct twin_bag_verdict *verdict, const char *into, bool *started,
                        struct tw_replay_end *end)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct contained c = {
        .a = a, .dir = dir, .copy = copy, .into = into, .image = {.root = -1}, .end = end};
    struct tw_command_lines lines = {0};
    const struct twin_unpack_options files = {.part = TWIN_UNPACK_FILES,
                                              .into = into,
                                              .data = a->data.items,
                                              .fetch = a->fetch,
                                              .progress = tw_replay_show_step};
    const char **read_only = NULL;
    int rc = set_places(&c, &err);
    rc = rc ? rc : tw_package_image(copy, verdict, &c.named, &err);
    if (rc == 0 && (rc = find_engine(&c, &err)) != 0)
        end->missing = "engine";
    if (rc == 0 && (rc = find_image(&c, &err)) != 0)
        end->missing = "image";
    if (rc == 0 && (rc = twin_unpack(copy, verdict, &files, &c.files, &err)) != 0)
        end->missing = c.files.missing;
    rc = rc ? rc : tw_carry(c.twinrun, c.words, &err);
    if (rc == 0 && !(read_only = read_only_of(&c, copy)))
        rc = tw_no_memory(&err, "replaying in a container");
    /* the first two are copies of this process's */
    for (size_t i = 2; rc == 0 && read_only[i]; i++)
        rc = tw_container_reads(read_only[i], &err);
    if (rc == 0 && tw_container_wants_root(c.engine))
        rc = make_root(&c, read_only, &err);
    rc = rc ? rc : write_order(&c, &err);
    const char *layout = c.image.folder ? c.layout : NULL;
    /* what was fetched may have another id there than the registry's manifest says */
    const char *id = c.image.folder ? c.image.config : c.ran;
    rc = rc ? rc : make_lines(&c, read_only, layout, id, &lines, &err);
    tw_progress_clear();
    rc = rc ? tw_trouble(&err, "replay: nothing was run") : start(&c, &lines, started);
    clear_away(&c);
    if (lines.run)
        take_bits(&c);
    tw_command_lines_free(&lines);
    tw_free(read_only);
    free_contained(&c);
    return rc;
}

int tw_replay_print_lines(const struct tw_replay_args *a, const char *dir,
                          const struct twin_bag_verdict *verdict, const char *into)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char *copy = tw_path_join(into, "verified"), *expected = tw_path_join(dir, "data/expected");
    struct contained c = {.a = a, .dir = dir, .copy = copy, .into = into, .image = {.root = -1}};
    struct tw_command_lines lines = {0};
    int rc = copy && expected ? set_places(&c, &err) : tw_no_memory(&err, "printing");
    tw_free(c.expected);
    c.expected = expected;
    rc = rc ? rc : tw_package_image(dir, verdict, &c.named, &err);
    rc = rc ? rc : find_engine(&c, &err);
    rc = rc ? rc : tw_carry_words(c.twinrun, c.words, &err);
    /* where the layout will lie; an engine of its own images needs none where a registry has it */
    const bool inside = c.named.layout == TW_IMAGE_INSIDE && !a->image;
    const bool has_layout = a->image || inside || c.named.layout == TW_IMAGE_BESIDE ||
                            tw_container_wants_root(c.engine);
    c.layout = inside ? tw_printf("%s/data/" TW_PACKAGE_IMAGE, copy)
                      : tw_path_join(into, "image/layout");
    if (rc == 0 && a->image && tw_starts(a->image, "oci:")) {
        rc = tw_image_open_reference(a->image, NULL, &c.image, &err);
        snprintf(c.ran, sizeof c.ran, "%s", c.image.config);
    } else if (rc == 0 && a->image) {
        rc = twin_error_set(&err, TWIN_EINVAL,
                            "--print: what %s names is known when it was fetched: name a layout of "
                            "it (--image oci:DIR)",
                            a->image);
    } else if (rc == 0 && !c.named.is_named) {
        rc = not_here(&c, &err);
    } else {
        snprintf(c.ran, sizeof c.ran, "%s", c.named.id);
    }
    const char **read_only = rc == 0 ? read_only_of(&c, copy) : NULL;
    if (rc == 0 && (!read_only || !c.layout))
        rc = tw_no_memory(&err, "printing");
    const char *layout = has_layout ? c.layout : NULL;
    rc = rc ? rc : make_lines(&c, read_only, layout, c.ran, &lines, &err);
    if (rc == 0) {
        print_line(lines.before);
        print_line(lines.run);
    }
    rc = rc ? tw_trouble(&err, "replay: nothing can be printed") : 0;
    tw_command_lines_free(&lines);
    tw_free(read_only);
    free_contained(&c);
    tw_free(copy);
    return rc;
}
