/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run in a copy of a folder, and the state that it left.
 */
#include "inside.h"

#include "base.h"

#include "src/snapshot/content.h"

#include <signal.h>
#include <string.h>

enum { PRINTED_BYTES = 64 << 20 };

/* ---- one run */

struct aimed {
    struct dr_killer *killer;
    const char *checkpoint;
    const struct dr_run *run;
};

static void aim(void *user, int pid)
{
    struct aimed *a = user;
    if (a->killer)
        dr_killer_aim(a->killer, pid);
}

static int fill_work(const struct dr_run *r, const char *run_dir, struct twin_error *err)
{
    char *work = tw_path_join(run_dir, "work");
    int rc = work ? r->fill(r->fill_user, work, err) : tw_no_memory(err, "for a drill");
    tw_free(work);
    return rc;
}

/* The copy of the working folder is there, the job is not: now its folder can be listened to. */
static int begin_run(void *user, const char *run_dir, struct twin_error *err)
{
    struct aimed *a = user;
    char *path = tw_printf("%s/work%s%s", run_dir, a->checkpoint ? "/" : "",
                           a->checkpoint ? a->checkpoint : "");
    int rc = path ? 0 : tw_no_memory(err, "for a drill");
    if (rc == 0 && a->run->moment != DR_NEVER)
        rc = dr_killer_start(path, a->run->moment, &a->killer, err);
    if (rc == 0 && a->run->fill)
        rc = fill_work(a->run, run_dir, err);
    tw_free(path);
    return rc;
}

int dr_make(const struct tw_drill_asked *asked, struct dr_run *r, struct twin_error *err)
{
    struct aimed a = {.checkpoint = asked->checkpoint, .run = r};
    const struct twin_launch_watcher watcher = {.user = &a, .started = aim, .no_copies = r->secret};
    const struct twin_launch_options o = {.argv = r->argv,
                                          .env = r->env,
                                          .home = asked->home,
                                          .label = "drill",
                                          .agents = r->agents,
                                          .no_telemetry = true,
                                          /* this program ends what it has begun, if it is asked */
                                          .death_signal = r->is_ours ? SIGTERM : SIGKILL,
                                          .fresh_dir = !r->in_place,
                                          .copy_of = r->copy_of,
                                          .fill_folder = begin_run,
                                          .fill_user = &a,
                                          .watcher = &watcher};
    int rc = twin_launch(&o, &r->run, err);
    r->ended_ns = tw_monotonic_ns();
    r->killed_ns = dr_killer_stop(a.killer);
    if (rc == 0 && r->run->outcome == TWIN_RUN_INTERRUPTED)
        rc = twin_error_set(err, TWIN_EINTR, "stopped by a signal; nothing was written down");
    return rc;
}

/* ---- what a run left */

char *dr_checkpoint_of(const struct tw_drill_asked *asked, const struct twin_run *run)
{
    return tw_path_join(run->cwd, asked->checkpoint);
}

int dr_printed(const struct twin_run *run, json_t **out, struct twin_error *err)
{
    char *path = tw_path_join(run->dir, "stdout"), *text = NULL;
    size_t n = 0;
    int rc = path ? tw_read_file(path, PRINTED_BYTES, &text, &n, err)
                  : tw_no_memory(err, "for a drill");
    *out = rc == 0 ? json_loadb(text, n, 0, NULL) : NULL;
    if (*out && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    tw_free(text);
    tw_free(path);
    return rc;
}

bool dr_ended_well(const struct twin_run *run)
{
    return run->outcome == TWIN_RUN_EXITED && run->exit_code == 0;
}

/* Did the run itself write the checkpoint? One that lay there before proves nothing. */
bool dr_wrote(const struct tw_drill_asked *asked, const struct twin_run *run)
{
    for (size_t i = 0; i < run->file_count; i++)
        if (strcmp(run->files[i].path, asked->checkpoint) == 0)
            return true;
    return false;
}

/* Do two files hold the same bytes? *same is set with 0. */
static int same_bytes(const char *a, const char *b, bool *same, struct twin_error *err)
{
    char *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    int rc = tw_read_file(a, DR_CHECKPOINT_BYTES, &x, &n, err);
    rc = rc ? rc : tw_read_file(b, DR_CHECKPOINT_BYTES, &y, &m, err);
    *same = rc == 0 && n == m && memcmp(x, y, n) == 0;
    tw_free(x);
    tw_free(y);
    return rc;
}

/* Do two checkpoints say the same: by tensors and values where both can be read, else by bytes. */
int dr_same_state(const struct tw_drill_asked *asked, const struct twin_run *p,
                  const struct twin_run *q, bool *same, struct twin_error *err)
{
    struct twin_content x, y;
    char *a = dr_checkpoint_of(asked, p), *b = dr_checkpoint_of(asked, q);
    int rc = a && b ? 0 : tw_no_memory(err, "for a drill");
    bool read = false;
    *same = false;
    if (rc == 0 && twin_content_read_tensors(a, &x, NULL) == 0) {
        if (twin_content_read_tensors(b, &y, NULL) == 0) {
            read = true;
            *same = strcmp(x.content, y.content) == 0 && strcmp(x.values, y.values) == 0;
            twin_content_free(&y);
        }
        twin_content_free(&x);
    }
    if (rc == 0 && !read)
        rc = same_bytes(a, b, same, err);
    tw_free(a);
    tw_free(b);
    return rc;
}
