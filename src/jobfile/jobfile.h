/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_JOBFILE_H
#define TW_JOBFILE_H
/*
 * Files that hand a job to a cluster: manifests for Kubernetes (Jobs, Argo Workflows, Kubeflow
 * TrainJobs) and scripts for Slurm's sbatch. They are written here, and held against rules: does
 * the file fix what a repeat of the job needs? Room: src/jobfile. docs/manifest.md.
 *
 * Nothing is run, and no cluster is asked. Findings are not errors. All functions may be called
 * from several threads on different data.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* ---- rules */

enum tw_jobfile_rule {
    TW_RULE_IMAGE,      /* the container image is named by its digest */
    TW_RULE_POOL,       /* all nodes that can take it are of one type */
    TW_RULE_DRIVER,     /* GPUs: one version of the driver */
    TW_RULE_SNAPSHOT,   /* data come from a mount that the job cannot write to */
    TW_RULE_SEED,       /* seeds are in the file */
    TW_RULE_RUN_ID,     /* the run has a name that is in the file */
    TW_RULE_RETRY,      /* what happens after a failure is in the file */
    TW_RULE_THREADS,    /* the number of threads does not follow from the node */
    TW_RULE_DIRECTIVES, /* Slurm: every directive is read, and none comes from the caller's shell */
    TW_RULE_PACKAGE,    /* the image is the one that a package names; judged where one was given */
    TW_RULES            /* their number */
};
const char *tw_jobfile_rule_name(enum tw_jobfile_rule r);
/* Why a repeat needs it: one sentence. */
const char *tw_jobfile_rule_reason(enum tw_jobfile_rule r);

enum tw_jobfile_state { TW_RULE_HOLDS, TW_RULE_BROKEN, TW_RULE_NOT_KNOWN };
const char *tw_jobfile_state_name(enum tw_jobfile_state s); /* holds|broken|not known */

/* One rule at one place. where: which job and container; what: what was looked at and found; fix:
 * what to write instead, NULL where the rule holds. All malloc'ed. line: from 1. */
struct tw_jobfile_finding {
    enum tw_jobfile_rule rule;
    enum tw_jobfile_state state;
    size_t line;
    char *where, *what, *fix;
};

/* Of one file, in its order. jobs: how many it holds; skipped: documents that are no jobs. */
struct tw_jobfile_findings {
    struct tw_jobfile_finding *item;
    size_t count, room, jobs, skipped;
    bool failed; /* no memory; the finding is lost */
};
void tw_jobfile_findings_free(struct tw_jobfile_findings *f);

/* No larger file is read: a cluster takes 1.5 MiB at most. */
enum { TW_JOBFILE_BYTES = 4 << 20 };

/* What whoever asks knows. */
struct tw_jobfile_asked {
    /* further labels of nodes (or features of Slurm) that stand for one type of machine;
     * NULL-terminated, may be NULL */
    const char *const *pool_labels;
    /* The image that each job is to have: "sha256:...", as a registry names it, and of its manifest
     * for one platform where that is another one. NULL: any. */
    const char *image_digest[2];
    const char *image_reference; /* REPOSITORY@sha256:..., for the fix; may be NULL */
};

/*
 * Holds a file's text against the rules. What begins with "#!" is a script for sbatch, all else
 * YAML or JSON, of several documents. name: for messages.
 *
 * TWIN_EFORMAT: not YAML, or a key twice, a script with a NUL; TWIN_ELIMIT: too large, too deep,
 * too many values behind aliases; TWIN_EUNSUPPORTED: YAML, and this build has no libyaml;
 * TWIN_ENOMEM. *out is freed by the caller in any case.
 */
int tw_jobfile_lint(const char *name, const char *text, size_t bytes,
                    const struct tw_jobfile_asked *asked, struct tw_jobfile_findings *out,
                    struct twin_error *err);

/* ---- writing */

enum tw_jobfile_kind {
    TW_JOBFILE_ARGO,
    TW_JOBFILE_K8S,
    TW_JOBFILE_TRAINJOB,
    TW_JOBFILE_SLURM,
    TW_JOBFILE_KINDS
};
/* argo, k8s, trainjob, slurm */
const char *tw_jobfile_kind_name(enum tw_jobfile_kind k);
/* TW_JOBFILE_KINDS: there is no such kind. */
enum tw_jobfile_kind tw_jobfile_kind_of(const char *name);

/* What the job is to be. NULL or 0 where nothing was said: the file then does not have it. */
struct tw_jobfile_job {
    const char *name, *space; /* space: the namespace */
    const char *image;        /* REPOSITORY@sha256:... */
    const char *const *pool;  /* "LABEL=VALUE"; for Slurm features; NULL-terminated */
    const char *driver;       /* a full version, "550.54.15" */
    const char *claim;        /* of the data: a PersistentVolumeClaim; for Slurm a folder */
    const char *data_path;    /* where the job sees the data; absolute */
    const char *snapshot;     /* digest of the data, 64 hex digits */
    const char *run_id;
    uint64_t nodes, gpus, cpus, retries, seed;
    bool has_seed;
    char *const *argv;
    size_t argc;
};

/*
 * The file as text, malloc'ed into *out. TWIN_EINVAL: a value that the cluster would refuse, or
 * that could be read as something else (the message says which and what is expected).
 */
int tw_jobfile_write(enum tw_jobfile_kind kind, const struct tw_jobfile_job *job, char **out,
                     struct twin_error *err);

#endif
