/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container image does not fix: it brings its own files, and shares kernel, processor, GPU
 * and driver with whatever machine it is started on. Each of these that the run's record says is
 * held against the record of the replay.
 */
#include "pack.h"
#include "replayed.h"

#include "base.h"
#include "json_text.h"

#include "src/provenance/provenance.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where each stands in a provenance. Those without a path are made of several values. */
static const struct {
    const char *what, *path[4];
} things[] = {
    {"kernel", {"environment", "kernel", "release"}},
    {"address layout (kernel.randomize_va_space)", {"environment", "kernel", "address_layout"}},
    {"overcommitted memory (vm.overcommit_memory)", {"environment", "memory", "overcommit"}},
    {"transparent huge pages", {"environment", "memory", "transparent_hugepages"}},
    {"NUMA balancing", {"environment", "cpu", "numa_balancing"}},
    {"processor", {"environment", "cpu", "name"}},
    {"microcode", {"environment", "cpu", "microcode"}},
    {"instruction set", {"environment", "cpu", "flags"}},
    {"processors that may be used", {"environment", "cpu", "usable"}},
    {"GPUs", {NULL}},
    {"GPU driver", {"accelerators", "driver"}},
};

/* The names of the GPUs, in their order; malloc'ed. NULL: the record does not say; "none" is
 * said. */
static char *gpu_names(const json_t *record)
{
    json_t *gpus = TW_PK_AT((json_t *)record, "accelerators", "gpus"), *gpu;
    struct tw_buf b = {0};
    size_t i;
    if (!json_is_array(gpus))
        return NULL;
    tw_buf_puts(&b, json_array_size(gpus) ? "" : "none");
    json_array_foreach (gpus, i, gpu) {
        const char *name = tw_pk_text(gpu, "name");
        tw_buf_printf(&b, "%s%s", i ? ", " : "", name ? name : "?");
    }
    return tw_buf_steal(&b);
}

static char *value_of(const json_t *record, size_t i)
{
    if (!things[i].path[0])
        return gpu_names(record);
    const char *text = json_string_value(tw_pk_at((json_t *)record, things[i].path));
    return text ? tw_strdup(text) : NULL;
}

/* Is `flag` one of the words of flags? */
static bool has_word(const char *flags, const char *flag, size_t n)
{
    for (const char *p = flags; *p; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        if (length == n && memcmp(p, flag, n) == 0)
            return true;
        p += length;
    }
    return false;
}

/* The words of a that b has not, for people; malloc'ed. */
static char *words_without(const char *a, const char *b)
{
    struct tw_buf out = {0};
    tw_buf_puts(&out, "");
    for (const char *p = a; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n && !has_word(b, p, n))
            tw_buf_printf(&out, "%s%.*s", out.len ? " " : "", (int)n, p);
        p += n;
    }
    return tw_buf_steal(&out);
}

/* Of two lists of instructions only what one has and the other has not; in place. */
static void keep_differences(char **was, char **is)
{
    char *gone = words_without(*was, *is), *more = words_without(*is, *was);
    char *a = NULL, *b = NULL;
    if (gone && more) {
        a = tw_printf("%s%s", *gone ? "with " : "nothing more", gone);
        b = tw_printf("%s%s", *more ? "with " : "nothing more", more);
    }
    if (a && b) {
        tw_free(*was);
        tw_free(*is);
        *was = a;
        *is = b;
    } else {
        tw_free(a);
        tw_free(b);
    }
    tw_free(gone);
    tw_free(more);
}

static bool no_gpus(const json_t *record)
{
    json_t *gpus = TW_PK_AT((json_t *)record, "accelerators", "gpus");
    return json_is_array(gpus) && json_array_size(gpus) == 0;
}

json_t *tw_replay_outside(const char *expected, const struct twin_run *now)
{
    json_t *a = NULL, *b = NULL, *list = json_array();
    /* a record that cannot be read says nothing */
    twin_provenance_load(expected, &a, NULL);
    twin_provenance_load(now->dir, &b, NULL);
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        char *was = value_of(a, i), *is = value_of(b, i);
        /* where neither side has a GPU, nobody asks for its driver */
        if (strcmp(things[i].what, "GPU driver") == 0 && !was && !is && no_gpus(a) && no_gpus(b))
            continue;
        json_t *same = was && is ? json_boolean(strcmp(was, is) == 0) : json_null();
        if (json_is_false(same) && strcmp(things[i].what, "instruction set") == 0)
            keep_differences(&was, &is);
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o}", "what", things[i].what, "package",
                                        tw_json_text(was), "here", tw_json_text(is), "same", same));
        tw_free(was);
        tw_free(is);
    }
    json_decref(a);
    json_decref(b);
    return list;
}

/* ---- the image */

int tw_package_image(const char *dir, const struct twin_bag_verdict *verdict,
                     struct tw_package_image *out, struct twin_error *err)
{
    static const char where[] = "data/environment/environment.json";
    json_t *environment = NULL;
    char *text = NULL;
    size_t n = 0;
    *out = (struct tw_package_image){.layout = TW_IMAGE_ELSEWHERE};
    const int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = root >= 0 ? 0 : twin_error_system(err, "cannot read %s", dir);
    rc = rc ? rc : tw_bag_read_verified(root, verdict, where, TW_BAG_JSON_MAX, &text, &n, err);
    rc = rc ? rc : tw_pk_parse(text, n, where, &environment, err);
    if (root >= 0)
        close(root);
    const json_t *image = json_object_get(environment, "image");
    const char *id = tw_pk_text(image, "id"), *digest = tw_pk_text(image, "digest");
    const char *manifest = tw_pk_text(image, "manifest");
    const char *reference = tw_pk_text(image, "reference"), *word = tw_pk_text(image, "layout");
    const char *recorded = tw_pk_text(image, "recorded");
    const bool named = id || digest;
    const bool right = tw_image_is_digest(id) && tw_image_is_digest(digest);
    if (rc == 0 && ((named && !right) || (recorded && !tw_image_is_digest(recorded)) ||
                    (reference && (*reference == '-' || strpbrk(reference, " \t\r\n@")))))
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected an image with \"id\" and \"digest\" (sha256:...) and "
                            "a reference without blanks",
                            where);
    if (rc == 0 && named) {
        snprintf(out->id, sizeof out->id, "%s", id);
        snprintf(out->digest, sizeof out->digest, "%s", digest);
        if (tw_image_is_digest(manifest))
            snprintf(out->manifest, sizeof out->manifest, "%s", manifest);
        out->is_named = true;
    }
    if (rc == 0 && recorded)
        snprintf(out->recorded, sizeof out->recorded, "%s", recorded);
    if (rc == 0 && reference && named) {
        out->reference = tw_printf("%s@%s", reference, digest);
        rc = out->reference ? 0 : tw_no_memory(err, "reading a package");
    }
    out->moved = json_is_true(json_object_get(image, "moved"));
    out->moved_unknown = json_is_null(json_object_get(image, "moved"));
    if (word && strcmp(word, "inside") == 0)
        out->layout = TW_IMAGE_INSIDE;
    else if (word && strcmp(word, "beside") == 0)
        out->layout = TW_IMAGE_BESIDE;
    json_decref(environment);
    tw_free(text);
    if (rc)
        tw_package_image_free(out);
    return rc;
}

void tw_package_image_free(struct tw_package_image *i)
{
    tw_free(i->reference);
    *i = (struct tw_package_image){.reference = NULL};
}

bool tw_package_used_gpus(const char *expected)
{
    json_t *record = NULL;
    twin_provenance_load(expected, &record, NULL);
    bool yes = json_array_size(TW_PK_AT(record, "accelerators", "gpus")) > 0;
    json_decref(record);
    return yes;
}
