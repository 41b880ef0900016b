/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thin command around twin_launch for the tests: options by name, then -- and the command. Prints
 * facts of the finished run to a file (--report FILE), never to stdout, so that tests can look at
 * what the job's output looks like from outside. Not a product: no help, no niceties.
 */
#include "base.h"

#include "src/launch/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ticks {
    unsigned count, stop_after;
    double last_elapsed;
    unsigned max_processes, armed;
};

static int on_tick(void *user, const struct twin_progress *p)
{
    struct ticks *t = user;
    t->count++;
    t->last_elapsed = p->elapsed_s;
    if (p->processes > t->max_processes)
        t->max_processes = p->processes;
    t->armed = p->armed;
    return t->stop_after && t->count >= t->stop_after;
}

static void report(const char *path, const struct twin_run *r, const struct ticks *t)
{
    FILE *f = fopen(path, "we");
    if (!f)
        exit(99);
    fprintf(f,
            "dir=%s\noutcome=%d\nexit_code=%d\nsignal=%d\nwall_s=%.3f\nticks=%u\nmax_processes=%"
            "u\nload_s=%.4f\n",
            r->dir, (int)r->outcome, r->exit_code, r->signal, r->wall_s, t->count, t->max_processes,
            r->agent_load_s);
    fclose(f);
}

int main(int argc, char **argv)
{
    struct ticks ticks = {0};
    struct twin_launch_options o = {
        .level = TWIN_LEVEL_TENSORS, .window_last = UINT32_MAX, .on_tick = on_tick, .user = &ticks};
    const char *report_path = NULL, *env[64] = {0};
    size_t envs = 0;
    int i = 1, runs = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--agents") == 0)
            o.agents = true;
        else if (strcmp(name, "--show") == 0)
            o.show_output = true;
        else if (strcmp(name, "--fresh") == 0)
            o.fresh_dir = true;
        else {
            i++;
            if (strcmp(name, "--home") == 0)
                o.home = value;
            else if (strcmp(name, "--label") == 0)
                o.label = value;
            else if (strcmp(name, "--env") == 0)
                env[envs++] = value;
            else if (strcmp(name, "--steps") == 0)
                o.max_steps = (uint32_t)atoi(value);
            else if (strcmp(name, "--cap") == 0)
                o.output_cap_bytes = (uint64_t)atoll(value);
            else if (strcmp(name, "--spool") == 0)
                o.stdin_spool = value;
            else if (strcmp(name, "--stop-after") == 0)
                ticks.stop_after = (unsigned)atoi(value);
            else if (strcmp(name, "--runs") == 0)
                runs = atoi(value);
            else if (strcmp(name, "--report") == 0)
                report_path = value;
            else
                return 98;
        }
    }
    if (i >= argc)
        return 98;
    o.argv = argv + i + 1;
    o.env = (char *const *)env;
    int code = 0;
    for (int k = 0; k < runs; k++) {
        struct twin_error err = TWIN_ERROR_INIT;
        struct twin_run *run = NULL;
        int rc = twin_launch(&o, &run, &err);
        if (rc) {
            fprintf(stderr, "driver: error %d: %s\n", rc, err.message);
            return 97;
        }
        if (report_path)
            report(report_path, run, &ticks);
        code = run->exit_code;
        twin_run_free(run);
    }
    return code;
}
