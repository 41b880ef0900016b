/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun manifest: files that hand a job to a cluster. `lint` holds them against rules, `write`
 * makes one; what it made is held against the same rules. All of it is src/jobfile's.
 */
#include "options.h"
#include "say.h"
#include "verify.h"
#include "verify_words.h"

#include "base.h"
#include "json_text.h"

#include "src/jobfile/jobfile.h"
#include "src/package/package.h"
#include "src/package/replayed.h"

#include <stdio.h>
#include <string.h>

struct manifest_args {
    const char *name, *space, *image, *package, *trust, *driver, *data, *snapshot, *run_id, *output;
    struct tw_strings pool, pool_labels, keys;
    uint64_t nodes, gpus, cpus, retries, seed;
    bool json;
};

#define FIELD(f) offsetof(struct manifest_args, f)

static const struct tw_option options[] = {
    {"name", 'n', TW_OPT_STRING, "NAME", "train", "Write", "name of the job", FIELD(name)},
    {"namespace", 0, TW_OPT_STRING, "NAME", NULL, "Write", "namespace of a Kubernetes cluster",
     FIELD(space)},
    {"image", 'i', TW_OPT_STRING, "IMAGE", NULL, "Write",
     "container image by its digest: REPOSITORY@sha256:DIGEST (default: the package's)",
     FIELD(image)},
    {"package", 0, TW_OPT_DIR, "PACKAGE", NULL, "Package",
     "the package (twinrun pack --image) whose image the job is to have: write takes it, lint says "
     "where the file has another one",
     FIELD(package)},
    {"key", 'k', TW_OPT_LIST, "PUB", NULL, "Package",
     "a public key (PEM) that must have signed the package; each one must have", FIELD(keys)},
    {"trust", 0, TW_OPT_FILE, "FILE", NULL, "Package",
     "a trust.toml: k of n keys, their validity, revoked ones", FIELD(trust)},
    {"pool", 'p', TW_OPT_LIST, "LABEL=VALUE", NULL, "Write",
     "nodes with this label, all of one type; a feature for Slurm", FIELD(pool)},
    {"driver", 0, TW_OPT_STRING, "VERSION", NULL, "Write",
     "nodes with this driver of NVIDIA's, in full: 550.54.15", FIELD(driver)},
    {"data", 'd', TW_OPT_STRING, "CLAIM:PATH", NULL, "Write",
     "mount this claim (for Slurm a folder) read-only at PATH", FIELD(data)},
    {"snapshot", 0, TW_OPT_STRING, "DIGEST", NULL, "Write",
     "root of the data's snapshot; the job gets it as DATA_SNAPSHOT", FIELD(snapshot)},
    {"seed", 's', TW_OPT_COUNT, "N", NULL, "Write", "SEED and PYTHONHASHSEED of the job",
     FIELD(seed), .max = UINT32_MAX},
    {"run-id", 0, TW_OPT_STRING, "NAME", NULL, "Write",
     "name of this run: RUN_ID of the job, and a label", FIELD(run_id)},
    {"nodes", 'N', TW_OPT_COUNT, "N", "1", "Write", "pods, or nodes, of the job", FIELD(nodes),
     .min = 1, .max = 100000},
    {"gpus", 'g', TW_OPT_COUNT, "N", "0", "Write", "GPUs of each", FIELD(gpus), .max = 1000},
    {"cpus", 'c', TW_OPT_COUNT, "N", "0", "Write", "processors of each, and OMP_NUM_THREADS",
     FIELD(cpus), .max = 10000},
    {"retries", 'r', TW_OPT_COUNT, "N", "0", "Write", "starts after a failure", FIELD(retries),
     .max = 1000},
    {"output", 'o', TW_OPT_FILE, "FILE", NULL, "Write", "write into FILE, not to stdout",
     FIELD(output)},
    {"pool-label", 0, TW_OPT_LIST, "LABEL", NULL, "Lint",
     "nodes with this label are of one type; a feature for Slurm", FIELD(pool_labels)},
    {"json", 0, TW_OPT_FLAG, NULL, NULL, "Lint", "print one JSON object", FIELD(json)},
    {NULL},
};

static const char *const synopsis[] = {
    "write argo|k8s|trainjob|slurm [options] -- COMMAND [ARG...]", "lint [options] FILE|-...",
    NULL};
static const struct tw_pair exits[] = {
    {"0", "every rule holds; with write, the file was written"},
    {"1", "a rule is broken; with write, the file was written"},
    {"2", "trouble: bad use, a file that cannot be read, is not YAML or holds no job"},
    {"3", "no rule is broken, and of some it is not known whether they hold"},
    {NULL, NULL},
};
static const struct tw_pair examples[] = {
    {"twinrun manifest lint job.yaml train.sbatch",
     "what of these would let a repeat be another run?"},
    {"twinrun manifest write k8s -i registry.example/train@sha256:0123... -p "
     "node.kubernetes.io/instance-type=p4d.24xlarge -g 8 -c 96 --driver 550.54.15 -d corpus:/data "
     "-s 7 --run-id lr3-a -- python train.py >job.yaml",
     "an Indexed Job in which every rule holds"},
    {"twinrun manifest write slurm -p a100 -s 7 -- python train.py",
     "a script for sbatch, and what it does not fix yet"},
    {NULL, NULL},
};

/* ---- the package */

/* Holds the package against its manifests, and its signature against whom the user trusts. -1: all
 * is right, and *v is the caller's; else the exit code. */
static int verify_package(const struct manifest_args *a, struct twin_bag_verdict *v)
{
    const struct tw_verify_args signers = {.keys = a->keys, .trust = a->trust};
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *trust = NULL;
    int64_t at_ns = tw_realtime_ns();
    if (!twin_package_is(a->package))
        return tw_bad_use("manifest", "--package %s: expected a package (twinrun pack makes one)",
                          a->package);
    if ((a->keys.count || a->trust) && tw_signed_trust(&signers, &trust, &at_ns, &err) != 0)
        return tw_trouble(&err, "manifest: --package %s", a->package);
    int rc = tw_package_open(a->package, trust, at_ns, NULL, v);
    twin_trust_free(trust);
    if (rc < 0 && v->findings) {
        tw_package_text(stderr, a->package, v);
        twin_bag_verdict_free(v);
        rc = tw_trouble(NULL,
                        "manifest: --package %s: expected a package that is as it was made, found "
                        "what stands above: nothing was done with it",
                        a->package);
    }
    return rc;
}

/* The image that the package names; *out is freed by the caller in any case. -1, or the exit
 * code. */
static int image_of(const struct manifest_args *a, struct tw_package_image *out)
{
    const char *package = a->package;
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_verdict v;
    *out = (struct tw_package_image){.reference = NULL};
    if (!package && (a->keys.count || a->trust))
        return tw_bad_use("manifest", "--key, --trust: expected --package PACKAGE with them");
    if (!package)
        return -1;
    int rc = verify_package(a, &v);
    if (rc >= 0)
        return rc;
    rc = tw_package_image(package, &v, out, &err);
    twin_bag_verdict_free(&v);
    if (rc != 0)
        return tw_trouble(&err, "manifest: --package %s", package);
    if (!out->is_named)
        return tw_trouble(NULL,
                          "manifest: --package %s: expected a package that names its image, found "
                          "one without: twinrun pack --image IMAGE",
                          package);
    if (out->moved)
        return tw_trouble(NULL,
                          "manifest: --package %s: expected the image of its run, found that it "
                          "names %s, and its run was made in %s: pack it again with --image "
                          "REPOSITORY@%s",
                          package, out->digest, out->recorded, out->recorded);
    return -1;
}

static struct tw_jobfile_asked asked_of(const char *const *pool_labels,
                                        const struct tw_package_image *image)
{
    struct tw_jobfile_asked asked = {.pool_labels = pool_labels};
    if (image->is_named) {
        asked.image_digest[0] = image->digest;
        asked.image_digest[1] = *image->manifest ? image->manifest : NULL;
        asked.image_reference = image->reference;
    }
    return asked;
}

/* ---- lint */

/* One file, with what was found of it. */
struct linted {
    const char *file;
    struct tw_jobfile_findings found;
};

static void print_finding(FILE *out, const char *file, const struct tw_jobfile_finding *f)
{
    tw_put_to(out, "%s:%zu: %s: %s: %s: %s\n", file, f->line, tw_jobfile_rule_name(f->rule),
              tw_jobfile_state_name(f->state), f->where, f->what);
    tw_put_to(out, "    why: %s\n", tw_jobfile_rule_reason(f->rule));
    tw_put_to(out, "    fix: %s\n", f->fix);
}

static size_t count_state(const struct tw_jobfile_findings *f, enum tw_jobfile_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        n += f->item[i].state == state;
    return n;
}

static json_t *finding_json(const struct tw_jobfile_finding *f)
{
    json_t *out = json_pack("{s:s, s:s, s:I, s:o, s:o, s:s}", "rule", tw_jobfile_rule_name(f->rule),
                            "state", tw_jobfile_state_name(f->state), "line", (json_int_t)f->line,
                            "where", tw_json_text(f->where), "found", tw_json_text(f->what), "why",
                            tw_jobfile_rule_reason(f->rule));
    if (f->fix)
        json_object_set_new(out, "fix", tw_json_text(f->fix));
    return out;
}

static json_t *linted_json(const struct linted *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->found.count; i++)
        if (json_array_append_new(list, finding_json(&l->found.item[i])) != 0) {
            json_decref(list);
            list = NULL;
            break;
        }
    return json_pack("{s:o, s:I, s:I, s:o}", "file", tw_json_text(l->file), "jobs",
                     (json_int_t)l->found.jobs, "other_documents", (json_int_t)l->found.skipped,
                     "rules", list);
}

/* The exit code of these files together. */
static int exit_of(const struct linted *l, size_t count)
{
    size_t broken = 0, open = 0;
    for (size_t i = 0; i < count; i++) {
        broken += count_state(&l[i].found, TW_RULE_BROKEN);
        open += count_state(&l[i].found, TW_RULE_NOT_KNOWN);
    }
    if (broken)
        return TW_EXIT_DIFFER;
    return open ? TW_EXIT_INCONCLUSIVE : TW_EXIT_SAME;
}

/* Findings that do not hold, each with its reason and a fix; then a line for each file. */
static void print_linted(FILE *out, const struct linted *l, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct tw_jobfile_findings *f = &l[i].found;
        for (size_t j = 0; j < f->count; j++)
            if (f->item[j].state != TW_RULE_HOLDS)
                print_finding(out, l[i].file, &f->item[j]);
        tw_put_to(out, "%s: jobs: %zu, rules that hold: %zu, broken: %zu, not known: %zu\n",
                  l[i].file, f->jobs, count_state(f, TW_RULE_HOLDS), count_state(f, TW_RULE_BROKEN),
                  count_state(f, TW_RULE_NOT_KNOWN));
    }
}

/* "-": standard input. 0, or an exit code; said. */
static int lint_file(const char *given, const struct tw_jobfile_asked *asked, struct linted *l)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const bool is_stdin = strcmp(given, "-") == 0;
    char *text = NULL;
    size_t bytes = 0;
    l->file = is_stdin ? "stdin" : given;
    int rc = tw_read_file(is_stdin ? "/dev/stdin" : given, TW_JOBFILE_BYTES, &text, &bytes, &err);
    if (rc == 0)
        rc = tw_jobfile_lint(l->file, text, bytes, asked, &l->found, &err);
    tw_free(text);
    if (rc != 0)
        return tw_trouble(&err, "manifest: cannot read the file");
    if (l->found.jobs == 0)
        return tw_trouble(NULL,
                          "manifest: %s: expected a job (a Pod, a Job, a Workflow, a TrainJob, a "
                          "script that begins with #!), found %zu other document%s",
                          l->file, l->found.skipped, l->found.skipped == 1 ? "" : "s");
    return 0;
}

static int lint(const struct manifest_args *a, const struct tw_package_image *image, char **files,
                size_t count)
{
    const struct tw_jobfile_asked asked = asked_of(a->pool_labels.items, image);
    struct linted *l = tw_calloc(count, sizeof *l);
    int rc = l ? 0 : tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "manifest: no memory");
    json_t *list = a->json ? json_array() : NULL;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = lint_file(files[i], &asked, &l[i]);
        if (rc == 0 && a->json && json_array_append_new(list, linted_json(&l[i])) != 0)
            rc = tw_trouble(&(struct twin_error){.code = TWIN_ENOMEM}, "manifest: no memory");
    }
    if (rc == 0 && a->json) {
        static const char *const outcome[] = {[TW_EXIT_SAME] = "holds",
                                              [TW_EXIT_DIFFER] = "broken",
                                              [TW_EXIT_TROUBLE] = "",
                                              [TW_EXIT_INCONCLUSIVE] = "not known"};
        rc = tw_json_print(json_pack("{s:s, s:s, s:O}", "schema", "twinrun.manifest/1", "outcome",
                                     outcome[exit_of(l, count)], "files", list));
    } else if (rc == 0) {
        print_linted(stdout, l, count);
    }
    rc = rc ? rc : exit_of(l, count);
    json_decref(list);
    for (size_t i = 0; l && i < count; i++)
        tw_jobfile_findings_free(&l[i].found);
    tw_free(l);
    return rc;
}

/* ---- write */

/* What was written, held against the rules: what does not hold is said on stderr. asked: with the
 * labels of --pool, which the user chose as those of one type. */
static int lint_written(const char *text, const char *file, const struct tw_jobfile_asked *asked)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct linted l = {.file = file};
    int rc = tw_jobfile_lint(file, text, strlen(text), asked, &l.found, &err);
    if (rc != 0) {
        rc = tw_trouble(&err, "manifest: it was written, and cannot be held against the rules");
    } else {
        rc = exit_of(&l, 1);
        if (rc != TW_EXIT_SAME)
            print_linted(stderr, &l, 1);
    }
    tw_jobfile_findings_free(&l.found);
    return rc;
}

/* The labels of --pool without their values; for Slurm the features. NULL: no memory. */
static char **labels_of(const struct tw_strings *pool)
{
    char **out = tw_calloc(pool->count + 1, sizeof *out);
    for (size_t i = 0; out && i < pool->count; i++)
        out[i] = tw_strndup(pool->items[i], strcspn(pool->items[i], "="));
    return out;
}

/* Nothing is escaped here: what a terminal would obey is escaped in the file itself. */
static int print_text(const char *text)
{
    /* exact bytes: a cluster reads them */
    const size_t written = fwrite(text, 1, strlen(text), stdout);
    if (written == strlen(text) && fflush(stdout) == 0)
        return 0;
    return tw_trouble(NULL, "manifest: cannot write to stdout");
}

static int hand_out(const struct manifest_args *a, const struct tw_package_image *image,
                    const char *text)
{
    struct twin_error err = TWIN_ERROR_INIT;
    char **labels = labels_of(&a->pool);
    const struct tw_jobfile_asked asked = asked_of((const char *const *)labels, image);
    int rc = 0;
    if (a->output && tw_write_file_atomic(a->output, text, strlen(text), &err) != 0)
        rc = tw_trouble(&err, "manifest: cannot write the file");
    else if (!a->output)
        rc = print_text(text);
    if (rc == 0)
        rc = lint_written(text, a->output ? a->output : "stdout", &asked);
    for (size_t i = 0; labels && i < a->pool.count; i++)
        tw_free(labels[i]);
    tw_free(labels);
    return rc;
}

static int write_file(const struct manifest_args *a, const struct tw_package_image *image,
                      const char *kind_name, char **argv, size_t argc)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const enum tw_jobfile_kind kind = tw_jobfile_kind_of(kind_name);
    char *claim = NULL, *text = NULL;
    if (kind == TW_JOBFILE_KINDS)
        return tw_bad_use("manifest", "write: expected argo, k8s, trainjob or slurm, found \"%s\"",
                          kind_name);
    if (a->json || a->pool_labels.count)
        return tw_bad_use("manifest", "write: expected neither --json nor --pool-label, which are "
                                      "for lint");
    if (a->package && !a->image && !image->reference)
        return tw_trouble(NULL,
                          "manifest: --package %s: its image %s came from no registry, so no "
                          "cluster can fetch it: push it, and write --image REPOSITORY@sha256:... "
                          "beside --package",
                          a->package, image->id);
    const char *colon = a->data ? strchr(a->data, ':') : NULL;
    if (a->data && (!colon || colon == a->data))
        return tw_bad_use("manifest", "--data: expected CLAIM:PATH, found \"%s\"", a->data);
    if (colon)
        claim = tw_strndup(a->data, (size_t)(colon - a->data));
    const struct tw_jobfile_job job = {.name = a->name,
                                       .space = a->space,
                                       .image = a->image ? a->image : image->reference,
                                       .pool = a->pool.items,
                                       .driver = a->driver,
                                       .claim = claim,
                                       .data_path = colon ? colon + 1 : NULL,
                                       .snapshot = a->snapshot,
                                       .run_id = a->run_id,
                                       .nodes = a->nodes,
                                       .gpus = a->gpus,
                                       .cpus = a->cpus,
                                       .retries = a->retries,
                                       .seed = a->seed,
                                       .has_seed = a->seed != TW_NOT_GIVEN,
                                       .argv = argv,
                                       .argc = argc};
    int rc = tw_jobfile_write(kind, &job, &text, &err);
    rc = rc ? tw_trouble(&err, "manifest: cannot write the file") : hand_out(a, image, text);
    tw_free(claim);
    tw_free(text);
    return rc;
}

static int run(int argc, char **argv)
{
    struct manifest_args a = {.seed = TW_NOT_GIVEN};
    struct tw_operands rest;
    int rc = tw_options_parse(&tw_command_manifest, argc, argv, &a, &rest);
    if (rc >= 0)
        return rc;
    const char *verb = rest.count && !rest.is_job ? rest.items[0] : "";
    struct tw_package_image image;
    if ((rc = image_of(&a, &image)) >= 0) {
        /* it was said */
    } else if (strcmp(verb, "lint") == 0) {
        if (rest.count < 2)
            rc = tw_bad_use("manifest", "lint: expected files, found none");
        else
            rc = lint(&a, &image, rest.items + 1, rest.count - 1);
    } else if (strcmp(verb, "write") != 0) {
        rc = tw_bad_use("manifest", "expected lint or write, found \"%s\"", verb);
    } else if (rest.count < 4 || strcmp(rest.items[2], "--") != 0) {
        rc = tw_bad_use("manifest", "write: expected argo, k8s, trainjob or slurm, then -- and the "
                                    "job's command");
    } else {
        rc = write_file(&a, &image, rest.items[1], rest.items + 3, rest.count - 3);
    }
    tw_package_image_free(&image);
    tw_free(a.pool.items);
    tw_free(a.pool_labels.items);
    tw_free(a.keys.items);
    return rc;
}

const struct tw_command tw_command_manifest = {
    "manifest",
    "write and check the files that hand a job to a cluster",
    synopsis,
    "lint holds manifests for Kubernetes (Job, Pod, CronJob, JobSet, Argo's Workflow, Kubeflow's "
    "TrainJob) and scripts for Slurm against rules: does the file fix what a repeat of the job "
    "needs? The image by its digest, nodes of one type, the driver, data that the job cannot "
    "change, seeds, a name of the run, what happens after a failure, the number of threads, and, "
    "for Slurm, an environment that is not the caller's. Each finding has its line, a reason and a "
    "fix. What stands in another object or is filled in later is not known, and said to be so.\n\n"
    "write makes such a file from a command, and says which rules it does not keep yet. No cluster "
    "is asked: whether it takes the file, kubectl apply --dry-run=server and sbatch --test-only "
    "say.",
    options,
    TW_OPERANDS_FILES,
    0,
    0,
    exits,
    examples,
    run,
};
