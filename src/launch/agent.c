/* SPDX-License-Identifier: Apache-2.0 */
/* Gets the agent ready for one run: finds our parts (parts.c), gives them paths that LD_PRELOAD and
 * PYTHONPATH can hold, and tries whether the agent can be loaded into the job's program (trial.c).
 * Called by launch.c before the job; env.c then turns the result into variables.
 *
 * Nothing here refuses a job. Where the agent cannot be used, the reason is kept (`why`), noted in
 * the run, and the job runs unobserved. Errors are for memory only. */
#include "launch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- staging: LD_PRELOAD is split at spaces and colons, PYTHONPATH at colons */

/* A new folder whose path has no space and no colon, malloc'ed; NULL when none can be made. */
static char *staging_folder(void)
{
    const char *places[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!places[i] || places[i][0] != '/' || strpbrk(places[i], " :\t\n"))
            continue;
        char *folder = tw_printf("%s/twinrun-XXXXXX", places[i]);
        if (folder && mkdtemp(folder))
            return folder;
        tw_free(folder);
    }
    return NULL;
}

/* Replaces *path by a link below the staging folder when it holds one of `bad`. 0, or -1 when that
 * cannot be done. */
static int stage(struct tw_agent_setup *a, char **path, const char *name, const char *bad)
{
    if (!strpbrk(*path, bad))
        return 0;
    if (!a->stage_dir && !(a->stage_dir = staging_folder()))
        return -1;
    char *link = tw_path_join(a->stage_dir, name);
    if (!link || symlink(*path, link) != 0) {
        tw_free(link);
        return -1;
    }
    tw_free(*path);
    *path = link;
    return 0;
}

/* Sets a->library, a->preload and a->why. With a program that cannot take the agent this is a note
 * and 0. */
static int prepare_library(struct tw_agent_setup *a, const char *program, struct tw_env *e,
                           struct twin_run *run, struct twin_error *err)
{
    bool ok = false;
    char *why = NULL;
    if (!a->parts.agent_library) {
        why = tw_strdup("libtwinrun.so was not found; set TWINRUN_LIBDIR to its folder");
    } else {
        a->library = tw_strdup(a->parts.agent_library);
        if (!a->library)
            return tw_no_memory(err, "preparing the agent");
        if (stage(a, &a->library, "libtwinrun.so", " :\t\n") != 0) {
            why = tw_printf("its path %s has a space or colon, which LD_PRELOAD cannot hold, and "
                            "no temporary folder can be written",
                            a->library);
        } else {
            int rc = tw_trial_load(program, a->library, e, &ok, &why, err);
            if (rc)
                return rc;
        }
    }
    a->preload = ok;
    a->why = why;
    if (!ok && !why)
        return tw_no_memory(err, "preparing the agent");
    if (!ok)
        tw_run_note(run, "the agent cannot be loaded: %s; the job runs without it", why);
    return 0;
}

/* Beside the agent, when asked for. What is missing is a note: the job runs, and the factors that
 * need it are off. */
static int prepare_hot(struct tw_agent_setup *a, struct twin_run *run, struct twin_error *err)
{
    struct twin_run_hold *h = &run->hot;
    if (!a->preload)
        h->why = tw_strdup("the agent is not preloaded");
    else if (!a->parts.hot_library)
        h->why = tw_strdup("libtwinrun_hot.so was not found beside libtwinrun.so");
    else if (!(a->hot = tw_strdup(a->parts.hot_library)))
        return tw_no_memory(err, "preparing the agent");
    else if (stage(a, &a->hot, "libtwinrun_hot.so", " :\t\n") != 0)
        h->why = tw_strdup("the path of libtwinrun_hot.so has a space or colon, and no temporary "
                           "folder can be written");
    h->done = a->hot && !h->why;
    if (!h->done) {
        tw_free(a->hot);
        a->hot = NULL;
        tw_run_note(run, "fresh memory and locks are left as they are: %s",
                    h->why ? h->why : "out of memory");
    }
    return 0;
}

/* Programs that start MPI's processes, or queues that will; those of PyTorch's ranks. */
static const char *const of_mpi[] = {"mpirun", "mpiexec", "orterun", "prterun", "srun",
                                     "sbatch", "salloc",  "jsrun",   "aprun",   "ibrun",
                                     "qsub",   "bsub",    NULL};
static const char *const of_torch[] = {
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed",
    NULL};

/* Does the word name one of these launchers? */
static bool is_a_launcher(const char *word, size_t n, const char *const *launchers)
{
    for (size_t i = n; i > 0; i--)
        if (word[i - 1] == '/') {
            word += i;
            n -= i;
            break;
        }
    for (; *launchers; launchers++) {
        size_t length = strlen(*launchers);
        if (n >= length && strncmp(word, *launchers, length) == 0)
            return true;
    }
    return false;
}

/* Do these words start ranks? A launcher may stand anywhere in them ("timeout 60 mpirun ..."),
 * also inside of a script given to a shell ("sh -c 'X=1 srun ...'"). */
static bool names_a_launcher(char *const *argv, const char *const *launchers)
{
    static const char between[] = " \t\n;&|()'\"`";
    for (size_t i = 0; argv[i]; i++) {
        for (const char *word = argv[i] + strspn(argv[i], between); *word;) {
            size_t n = strcspn(word, between);
            if (is_a_launcher(word, n, launchers))
                return true;
            word += n;
            word += strspn(word, between);
        }
    }
    return false;
}

/* Is MPI's agent wanted? What the user says (TWINRUN_MPI=on, off) comes first. It stands in front
 * of MPI_Init, by which some programs tell whether MPI is there: so no other job gets it. */
static bool wants_mpi(char *const *argv, const char *said, const char *folders)
{
    struct twin_error quiet = TWIN_ERROR_INIT;
    struct tw_elf elf = {0};
    if (said && *said)
        return strcmp(said, "off") != 0;
    for (size_t i = 0; argv[i]; i++) /* "openmpirun" as well */
        if (strstr(argv[i], "mpirun") || strstr(argv[i], "mpiexec"))
            return true;
    if (names_a_launcher(argv, of_mpi))
        return true;
    char *path = tw_program_find(argv[0], folders, &quiet);
    bool calls = path && tw_elf_inspect(path, &elf) == 0 && elf.mpi;
    tw_free(path);
    return calls;
}

bool twin_launch_wants_mpi(char *const *argv)
{
    return wants_mpi(argv, getenv("TWINRUN_MPI"), getenv("PATH"));
}

bool twin_launch_names_torch(char *const *argv)
{
    return names_a_launcher(argv, of_torch);
}

/* Beside the agent, for jobs of MPI. Where it cannot be had the messages are not seen, and a note
 * says so. */
static int prepare_mpi(struct tw_agent_setup *a, struct twin_run *run, struct twin_error *err)
{
    if (!a->preload)
        return 0;
    if (!a->parts.mpi_library) {
        tw_run_note(run, "MPI's messages are not seen: libtwinrun_mpi.so was not found beside "
                         "libtwinrun.so");
        return 0;
    }
    a->mpi = tw_strdup(a->parts.mpi_library);
    if (!a->mpi)
        return tw_no_memory(err, "preparing the agent");
    if (stage(a, &a->mpi, "libtwinrun_mpi.so", " :\t\n") == 0)
        return 0;
    tw_run_note(run, "MPI's messages are not seen: the path of libtwinrun_mpi.so has a space or "
                     "colon, and no temporary folder can be written");
    tw_free(a->mpi);
    a->mpi = NULL;
    return 0;
}

/* Keeps site_dir only when PYTHONPATH can hold it; NULL afterwards means no Python half. */
static int prepare_python(struct tw_agent_setup *a, struct twin_run *run, struct twin_error *err)
{
    struct twin_parts *p = &a->parts;
    if (!p->site_dir) {
        tw_run_note(run, "the Python half (sitecustomize.py) was not found; set TWINRUN_LIBDIR to "
                         "the folder that holds python/");
        return 0;
    }
    if (!strchr(p->site_dir, ':'))
        return 0;
    tw_free(p->site_dir);
    p->site_dir = NULL;
    if (stage(a, &p->python_dir, "python", ":") != 0) {
        tw_run_note(run,
                    "the Python half cannot be used: %s has a colon, which PYTHONPATH cannot hold",
                    p->python_dir);
        return 0;
    }
    p->site_dir = tw_path_join(p->python_dir, "twinrun/_site");
    return p->site_dir ? 0 : tw_no_memory(err, "preparing the agent");
}

int tw_agent_prepare(struct tw_agent_setup *a, const struct twin_launch_options *o,
                     struct tw_env *e, struct twin_run *run, struct twin_error *err)
{
    uint64_t begin = tw_monotonic_ns();
    int rc = twin_parts_find(&a->parts, err);
    if (rc == 0)
        rc = prepare_library(a, o->argv[0], e, run, err);
    if (rc == 0 && run->hot.asked)
        rc = prepare_hot(a, run, err);
    if (rc == 0 && wants_mpi(o->argv, tw_env_get(e, "TWINRUN_MPI"), tw_env_get(e, "PATH")))
        rc = prepare_mpi(a, run, err);
    if (rc == 0) {
        tw_nccl_prepare(a, e, run);
        tw_cupti_prepare(a, e, run);
    }
    if (rc == 0)
        rc = prepare_python(a, run, err);
    a->load_s = (double)(tw_monotonic_ns() - begin) * 1e-9;
    return rc;
}

void tw_agent_cleanup(struct tw_agent_setup *a, bool keep_stage)
{
    if (a->stage_dir && !keep_stage)
        tw_remove_tree(a->stage_dir, NULL, NULL);
    tw_free(a->stage_dir);
    tw_free(a->library);
    tw_free(a->hot);
    tw_free(a->mpi);
    tw_free(a->why);
    twin_parts_free(&a->parts);
    *a = (struct tw_agent_setup){0};
}
