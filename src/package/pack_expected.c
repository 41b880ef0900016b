/* SPDX-License-Identifier: Apache-2.0 */
/* What was observed: the run folder without what a job may have printed of its secrets, so that a
 * replay is compared as any two runs are. Files go to data/expected; what is left out is listed
 * with its reason in package.json. */
#include "pack.h"

#include "base.h"

#include "src/snapshot/content.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most bytes of what the job printed; from this size on a file must have its bytes on the disk. */
static const uint64_t OUTPUT_MAX = (uint64_t)16 << 20, CLAIMED_MAX = (uint64_t)64 << 20;

/* Notes in package.json that a file is not packed, and why. */
static void leave_out(struct tw_pack *p, const char *what, const char *why)
{
    json_t *list = json_object_get(p->expected, "left_out");
    char *text = tw_printf("%s: %s", what, why);
    tw_pk_add(&p->failed, list, text ? tw_pk_printable(text) : NULL);
    tw_free(text);
}

/*
 * Why this is none of the files that twinrun itself wrote into a run folder, or NULL. Those are
 * plain: one that leads elsewhere would ship another file, one that claims a terabyte and has none
 * on the disk would fill it.
 */
static const char *not_ours(const char *from)
{
    struct stat st;
    if (lstat(from, &st) != 0)
        return "it cannot be read";
    if (!S_ISREG(st.st_mode))
        return "no regular file";
    const uint64_t bytes = (uint64_t)st.st_size, on_disk = (uint64_t)st.st_blocks * 512;
    return bytes > CLAIMED_MAX && on_disk < bytes / 64 ? "its size is claimed, not on the disk"
                                                       : NULL;
}

/* Copies a file of the run folder into the package, or leaves it out. 0, or trouble of ours. */
static int put_file(struct tw_pack *p, const char *from, const char *place, struct twin_error *err)
{
    struct twin_error inner = TWIN_ERROR_INIT;
    const char *why = not_ours(from);
    if (why) {
        leave_out(p, strrchr(place, '/') + 1, why);
        return 0;
    }
    int rc = tw_bag_copy(&p->w, place, from, NULL, NULL, &inner);
    if (rc == TWIN_EFORMAT) {
        leave_out(p, strrchr(place, '/') + 1, inner.message);
        return 0;
    }
    return rc ? twin_error_set(err, rc, "%s", inner.message) : 0;
}

/* Something that the job printed or wrote: only when it is small and does not seem to hold a
 * secret. cut: the recorded output was cut off. */
static int put_output(struct tw_pack *p, const char *name, bool cut, struct twin_error *err)
{
    struct stat st;
    char *from = tw_path_join(p->run->dir, name), *place = tw_printf("data/expected/%s", name);
    int rc = from && place ? 0 : tw_no_memory(err, "packing what was observed");
    if (rc == 0 && stat(from, &st) == 0) {
        if (cut || (uint64_t)st.st_size > OUTPUT_MAX)
            leave_out(p, name, "larger than 16 MiB; its digest is in run.json");
        else if (tw_pack_is_secret(from))
            leave_out(p, name, "seems to hold a secret; its digest is in run.json");
        else
            rc = put_file(p, from, place, err);
    }
    tw_free(from);
    tw_free(place);
    return rc;
}

/* The verdict of the check whose last run this is, with its claims. It quotes what was printed, so
 * it may hold a secret, too. */
static int put_verdict(struct tw_pack *p, struct twin_error *err)
{
    char *from = tw_path_join(p->run->dir, "verdict.json");
    int rc = from ? 0 : tw_no_memory(err, "packing what was observed");
    if (rc == 0 && access(from, F_OK) == 0 && tw_pack_is_secret(from))
        leave_out(p, "verdict.json", "seems to hold a secret");
    else if (rc == 0 && access(from, F_OK) == 0)
        rc = put_file(p, from, "data/expected/verdict.json", err);
    tw_free(from);
    return rc;
}

/* Packs the copies of result files, and the lists of what is in them, that a verdict's claims rest
 * on. */
static int put_files(struct tw_pack *p, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < p->run->file_count && rc == 0; i++) {
        const struct twin_run_file *f = &p->run->files[i];
        char *from = f->kept ? tw_path_join(p->run->dir, f->kept) : NULL;
        if (from && access(from, F_OK) == 0)
            rc = put_output(p, f->kept, false, err);
        tw_free(from);
    }
    return rc;
}

static bool is_tensors(const char *path)
{
    static const char *const ends[] = {".pt",          ".pth", ".ckpt", ".bin",
                                       ".safetensors", ".npy", ".npz",  NULL};
    for (const char *const *e = ends; *e; e++)
        if (tw_ends(path, *e))
            return true;
    return false;
}

/* Checkpoints that still lie where the job wrote them, unchanged: what their tensors are, whatever
 * the file's bytes. replay compares the tensors of its own files with these. */
static int put_checkpoints(struct tw_pack *p, struct twin_error *err)
{
    json_t *list = json_array();
    size_t n = 0;
    for (size_t i = 0; i < p->run->file_count; i++) {
        const struct twin_run_file *f = &p->run->files[i];
        struct twin_content c;
        char *path = is_tensors(f->path) && f->sha256[0] ? tw_path_join(p->run->cwd, f->path)
                                                         : NULL;
        if (path && twin_content_read(path, &c, NULL) == 0) {
            /* it is still the file that the run wrote */
            if (strcmp(c.file, f->sha256) == 0)
                tw_pk_add(&p->failed, list,
                          json_pack("{s:s, s:s, s:s, s:I}", "path", f->path, "sha256", c.file,
                                    "content", c.content, "tensors", (json_int_t)c.count));
            twin_content_free(&c);
        }
        tw_free(path);
    }
    int rc = 0;
    if (json_array_size(list)) {
        char *text = tw_pk_dump(list, &n);
        rc = text ? tw_bag_put(&p->w, "data/expected/checkpoints.json", text, n, err)
                  : tw_no_memory(err, "packing what was observed");
        tw_free(text);
    }
    json_decref(list);
    return rc;
}

/* run.json and provenance.json must be there; the rest is packed where there is any. */
int tw_pack_expected(struct tw_pack *p, struct twin_error *err)
{
    int rc = 0;
    tw_pk_put(&p->failed, p->expected, "left_out", json_array());
    static const struct {
        const char *name;
        bool optional;
    } files[] = {{"run.json", false}, {"provenance.json", false}, {"topology.xml", true}};
    for (size_t i = 0; i < sizeof files / sizeof files[0] && rc == 0; i++) {
        char *from = tw_path_join(p->run->dir, files[i].name);
        char *place = tw_printf("data/expected/%s", files[i].name);
        bool absent = files[i].optional && from && access(from, F_OK) != 0;
        if (!absent && from && place)
            rc = put_file(p, from, place, err);
        else if (!absent)
            rc = tw_no_memory(err, "packing what was observed");
        tw_free(from);
        tw_free(place);
    }
    /* the traces: what a replay is compared with */
    for (size_t i = 0; i < p->run->trace_count && rc == 0; i++) {
        const char *base = strrchr(p->run->traces[i], '/');
        char *place = tw_printf("data/expected/ranks/%s", base ? base + 1 : p->run->traces[i]);
        rc = place ? put_file(p, p->run->traces[i], place, err)
                   : tw_no_memory(err, "packing what was observed");
        tw_free(place);
    }
    rc = rc ? rc : put_output(p, "stdout", p->run->stdout_truncated, err);
    rc = rc ? rc : put_output(p, "stderr", p->run->stderr_truncated, err);
    rc = rc ? rc : put_verdict(p, err);
    rc = rc ? rc : put_files(p, err);
    return rc ? rc : put_checkpoints(p, err);
}
