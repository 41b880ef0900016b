/* SPDX-License-Identifier: Apache-2.0 */
/* A script for sbatch from what a job is to be. The environment is what the script says: nothing of
 * the shell that submits it. */
#include "inside.h"

#include <string.h>

static void put_directives(struct tw_buf *b, const struct tw_jobfile_job *job)
{
    tw_buf_printf(b, "#SBATCH --job-name=%s\n#SBATCH --nodes=%llu\n#SBATCH --ntasks-per-node=1\n",
                  job->name, (unsigned long long)(job->nodes ? job->nodes : 1));
    if (job->cpus)
        tw_buf_printf(b, "#SBATCH --cpus-per-task=%llu\n", (unsigned long long)job->cpus);
    if (job->gpus)
        tw_buf_printf(b, "#SBATCH --gpus-per-node=%llu\n", (unsigned long long)job->gpus);
    for (size_t i = 0; job->pool && job->pool[i]; i++)
        tw_buf_printf(b, "%s%s", i ? "&" : "#SBATCH --constraint=", job->pool[i]);
    if (job->pool && job->pool[0])
        tw_buf_puts(b, "\n");
    tw_buf_printf(b, "#SBATCH --%srequeue\n#SBATCH --export=NIL\n", job->retries ? "" : "no-");
}

static void put_environment(struct tw_buf *b, const struct tw_jobfile_job *job)
{
    tw_buf_puts(b, "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                   "export LC_ALL=C.UTF-8\n");
    if (job->run_id)
        tw_buf_printf(b, "export RUN_ID=%s\n", job->run_id);
    if (job->has_seed)
        tw_buf_printf(b, "export SEED=%llu\nexport PYTHONHASHSEED=%llu\n",
                      (unsigned long long)job->seed, (unsigned long long)job->seed);
    if (job->cpus)
        tw_buf_printf(b, "export OMP_NUM_THREADS=%llu\n", (unsigned long long)job->cpus);
    if (job->snapshot)
        tw_buf_printf(b, "export DATA_SNAPSHOT=%s\n", job->snapshot);
}

/* The script runs on the first node only: each node is asked, and all answers must be the one. */
static void put_checks(struct tw_buf *b, const struct tw_jobfile_job *job)
{
    if (job->retries)
        tw_buf_printf(b,
                      "if [ \"${SLURM_RESTART_COUNT:-0}\" -gt %llu ]; then\n"
                      "    echo \"it was started again %llu times: no more\" >&2\n"
                      "    exit 64\n"
                      "fi\n",
                      (unsigned long long)job->retries, (unsigned long long)job->retries);
    if (job->driver)
        tw_buf_printf(b,
                      "driver=$(srun --export=ALL nvidia-smi --query-gpu=driver_version "
                      "--format=csv,noheader | sort -u)\n"
                      "if [ \"$driver\" != %s ]; then\n"
                      "    echo \"expected driver %s on each node, found: $driver\" >&2\n"
                      "    exit 64\n"
                      "fi\n",
                      job->driver, job->driver);
}

int jf_write_slurm(const struct tw_jobfile_job *job, char **out, struct twin_error *err)
{
    struct tw_buf b = {0};
    char *command = tw_shell_quote(job->argv, job->argc);
    tw_buf_puts(&b, "#!/bin/bash\n");
    put_directives(&b, job);
    tw_buf_puts(&b, "set -euo pipefail\n");
    put_environment(&b, job);
    put_checks(&b, job);
    tw_buf_puts(&b, "exec srun --kill-on-bad-exit=1 --export=ALL ");
    if (job->image) {
        tw_buf_printf(&b, "apptainer exec --no-home %s", job->gpus ? "--nv " : "");
        if (job->claim)
            tw_buf_printf(&b, "--bind %s:%s:ro ", job->claim, job->data_path);
        tw_buf_printf(&b, "docker://%s ", job->image);
    }
    tw_buf_printf(&b, "%s\n", command ? command : "");
    tw_free(command);
    *out = command ? tw_buf_steal(&b) : NULL;
    tw_buf_free(&b);
    return *out ? 0 : tw_no_memory(err, "for a script");
}
