/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun pack: makes a folder of a run that a stranger can verify, audit and run again. What goes
 * in, and what is left out and why, is src/package's; the words are src/report/evidence/areas.c's.
 */
#include "areas.h"
#include "say.h"
#include "options.h"
#include "terminal.h"
#include "runs.h"
#include "scale.h"

#include "base.h"

#include "src/package/package.h"

#include <stdio.h>
#include <string.h>

/* What the command line gave; NULL, false or 0 where it gave nothing. */
struct pack_args {
    const char *home, *out, *data, *study;
    struct tw_strings keys, code, pip;
    const char *image;
    bool json, quiet, image_inside, image_beside;
};

#define FIELD(f) offsetof(struct pack_args, f)

static const struct tw_option options[] = {
    {"data", 'd', TW_OPT_STRING, "HOW", "auto", "What",
     "embed: the data's files go into the package; fetch=URL: only their addresses, below URL; "
     "omit: only their snapshot; none: you say that the job reads none; auto: embed up to 64 MiB, "
     "omit more",
     FIELD(data)},
    {"code", 'c', TW_OPT_LIST, "PATH", NULL, "What",
     "also pack this file or folder, which git does not track", FIELD(code)},
    {"study", 0, TW_OPT_FILE, "FILE", NULL, "What",
     "also the result.json of a study of twinrun scale: a stranger draws its curve again with "
     "twinrun scale --from PACKAGE",
     FIELD(study)},
    {"image", 'i', TW_OPT_STRING, "IMAGE", NULL, "What",
     "the container image that the run was made in; the package names it by its digest: "
     "REPOSITORY:TAG or REPOSITORY@sha256:DIGEST, oci:DIR[:TAG] (a layout), "
     "docker-archive:FILE",
     FIELD(image)},
    {"image-inside", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "pack the image itself, too: a replay needs no registry", FIELD(image_inside)},
    {"image-beside", 0, TW_OPT_FLAG, NULL, NULL, "What",
     "put the image into FOLDER.image beside the package", FIELD(image_beside)},
    {"pip-option", 0, TW_OPT_LIST, "OPTION", NULL, "What",
     "an option that pip needs to find the packages again "
     "(--pip-option=--extra-index-url=https://...)",
     FIELD(pip)},
    {"key", 'k', TW_OPT_LIST, "KEY", NULL, "Signature",
     "sign the package with it, as twinrun sign does", FIELD(keys)},
    {"out", 'o', TW_OPT_DIR, "FOLDER", NULL, "Output",
     "folder to make (default: RUN.package in the working folder)", FIELD(out)},
    {"home", 0, TW_OPT_DIR, "DIR", NULL, "Output", "folder that holds the runs", FIELD(home)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Output", "print one JSON object", FIELD(json)},
    {"quiet", 'q', TW_OPT_FLAG, NULL, NULL, "Output", "no progress", FIELD(quiet)},
    {NULL},
};

static const char *const synopsis[] = {
    "RUN [-o FOLDER] [--key KEY] [--data embed|fetch=URL|omit|none]", NULL};
static const struct tw_pair exits[] = {
    {"0", "packed; what could not be packed was named"},
    {"2", "trouble: bad use, no such run, a folder that is there already, a key that cannot sign"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun record --data mnist -- python train.py",
     "a run whose data were verified before the start"},
    {"twinrun pack last -o paper-table-2 --key team.key",
     "what a stranger needs to repeat it, signed"},
    {"twinrun pack last --image python:3.11-slim --image-inside",
     "with the container image, whose tag may lead elsewhere tomorrow"},
    {"twinrun pack last --data fetch=https://example.org/mnist", "the data by address"},
    {NULL, NULL},
};

/* A step of the packing, as a line that goes away again. */
static void show_step(void *user, const char *what)
{
    (void)user;
    char line[120];
    snprintf(line, sizeof line, "packing: %s", what);
    if (tw_progress_on())
        tw_progress_line(line);
}

/* How the data go into the package. A URL with a blank in it would not survive fetch.txt. -1, or
 * the exit code after a complaint. */
static int data_option(const char *text, struct twin_pack_options *o)
{
    static const struct {
        const char *name;
        enum twin_pack_data how;
    } words[] = {{"auto", TWIN_PACK_DATA_AUTO},
                 {"embed", TWIN_PACK_DATA_EMBED},
                 {"omit", TWIN_PACK_DATA_OMIT},
                 {"none", TWIN_PACK_DATA_NONE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].name, text) == 0) {
            o->data = words[i].how;
            return -1;
        }
    if (tw_starts(text, "fetch=") &&
        (tw_starts(text + 6, "https://") || tw_starts(text + 6, "http://") ||
         tw_starts(text + 6, "file:///")) &&
        !strpbrk(text + 6, " \t\r\n")) {
        o->data = TWIN_PACK_DATA_FETCH;
        o->url = text + 6;
        return -1;
    }
    return tw_bad_use("pack",
                      "--data: expected embed, fetch=URL (https://, http:// or file:///), omit, "
                      "none or auto, found \"%s\"",
                      text);
}

/* What was packed, area by area, with what each lacks. The exit code. */
static int report(const struct twin_packed *p, bool json)
{
    char size[16], count[32];
    if (json) {
        json_t *areas = json_array();
        for (size_t i = 0; i < TWIN_AREAS; i++)
            json_array_append_new(areas, tw_area_json((enum twin_area)i, p->area[i]));
        return tw_json_print(json_pack(
            "{s:s, s:o, s:I, s:I, s:s, s:b, s:o}", "schema", "twinrun.pack/1", "package",
            tw_json_text(p->path), "files", (json_int_t)p->files, "bytes", (json_int_t)p->bytes,
            "tagmanifest_sha256", p->tagmanifest, "signed", p->is_signed, "areas", areas));
    }
    char *path = tw_printable(p->path, strlen(p->path));
    tw_put("packed  %s\n        %s files, %s, %s\n", path ? path : "?",
           tw_human_count(p->files, count), tw_human_bytes(p->bytes, size),
           p->is_signed ? "signed" : "not signed");
    tw_free(path);
    for (size_t i = 0; i < TWIN_AREAS; i++)
        tw_area_print(stdout, (enum twin_area)i, p->area[i], false);
    tw_put("next    twinrun replay %s\n", tw_base_name(p->path));
    return 0;
}

/* Says why not. */
static bool is_study(const char *path)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (tw_scale_is_study(path, &err) == 0)
        return true;
    tw_trouble(&err, "scale: cannot read the study");
    return false;
}

static int run(int argc, char **argv)
{
    struct pack_args a = {0};
    struct tw_operands given;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_packed packed = {0};
    struct twin_pack_options o = {.progress = show_step};
    int rc = tw_options_parse(&tw_command_pack, argc, argv, &a, &given);
    if (rc >= 0 || (rc = data_option(a.data, &o)) >= 0)
        return rc;
    if ((a.image_inside || a.image_beside) && !a.image)
        return tw_bad_use("pack", "--image-inside and --image-beside: expected --image with them");
    tw_progress_setup(a.quiet);
    char *home = tw_home_to_read(a.home);
    struct twin_run *r = home ? tw_run_open(home, given.items[0]) : NULL;
    tw_free(home);
    if (!r)
        return TW_EXIT_TROUBLE;
    /* Named after the run, in the working folder: a package is for taking away. */
    char *out = a.out ? tw_strdup(a.out) : tw_printf("%s.package", tw_base_name(r->dir));
    o.out = out;
    o.keys = a.keys.items;
    o.code = a.code.items;
    o.pip = a.pip.items;
    o.study = a.study;
    o.image = a.image;
    o.image_inside = a.image_inside;
    o.image_beside = a.image_beside;
    /* A file that is no study would be packed for nothing. */
    if (a.study && !is_study(a.study)) {
        twin_run_free(r);
        tw_free(out);
        return TW_EXIT_TROUBLE;
    }
    rc = -1;
    /* Of a run that goes on nothing is final. */
    if (r->in_progress)
        rc = tw_bad_use("pack", "%s is still going on", given.items[0]);
    else if (!out)
        rc = tw_bad_use("pack", "out of memory");
    if (rc < 0 && twin_pack(r, &o, &packed, &err) != 0)
        rc = tw_trouble(&err, "nothing was packed");
    tw_progress_clear();
    if (rc < 0)
        rc = report(&packed, a.json);
    twin_packed_free(&packed);
    twin_run_free(r);
    tw_free(out);
    return rc;
}

const struct tw_command tw_command_pack = {
    "pack",
    "make a folder of a run that a stranger can verify, audit and run again",
    synopsis,
    "Makes a folder (BagIt 1.0, RO-Crate 1.1) with the code as it was (a git bundle of the commit, "
    "the changes, untracked files), the snapshots of the data and the data themselves when they "
    "are small, lock lists of the environment, command and configuration, seeds, everything that "
    "the run's record says, and what was observed, to which a replay is compared. Its README.md "
    "has two commands: one verifies, one runs it again.\n\n"
    "What seems to hold a secret is left out, and so is what has changed since the run; each is "
    "named. Outside a git repository the script is packed, and the modules beside it that it "
    "imports.",
    options,
    TW_OPERANDS_RUNS,
    1,
    1,
    exits,
    examples,
    run,
};
