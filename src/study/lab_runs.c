/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the lab: launched in a world, then all that is measured of it, and a copy of the
 * weights that it wrote. The first run in the natural world is remembered, since later steps look
 * at it again; its time tells how long the others may take. */
#include "lab.h"

#include "configuration.h"
#include "run_state.h"
#include "trial.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files of a run that are looked into for tensors. */
enum { GUESSES = 64 };
/* bytes that are copied; above it the distance is estimated */
#define WEIGHTS_MAX ((uint64_t)1 << 30)

int tw_lab_world(struct tw_lab *lab, const char *list, struct tw_lab_world *out,
                 struct twin_error *err)
{
    *out = (struct tw_lab_world){.plan = {.cpu = -1}};
    int rc = list ? twin_world_parse(&lab->factors, list, &out->world, &out->left_out, err) : 0;
    if (rc == 0)
        rc = twin_world_plan(&out->world, lab->argv, &out->plan, err);
    if (rc != 0)
        tw_lab_world_free(out);
    return rc;
}

void tw_lab_world_free(struct tw_lab_world *w)
{
    twin_world_plan_free(&w->plan);
    twin_world_free(&w->world);
    tw_free(w->left_out);
    *w = (struct tw_lab_world){.plan = {.cpu = -1}};
}

/* ---- what else the processors did */

/* Processor time used so far. NaN: it cannot be read. */
struct load {
    double busy_s, own_s;
    uint64_t at_ns;
};

/* Processor time of the whole machine, and of us and all that we started and saw end. */
static struct load load_now(void)
{
    struct load l = {NAN, NAN, tw_monotonic_ns()};
    unsigned long long v[8] = {0};
    struct rusage self, children;
    FILE *f = fopen("/proc/stat", "re");
    /* user nice system idle iowait irq softirq steal */
    if (f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
                    &v[4], &v[5], &v[6], &v[7]) == 8)
        l.busy_s = (double)(v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / (double)sysconf(_SC_CLK_TCK);
    if (f)
        fclose(f);
    if (getrusage(RUSAGE_SELF, &self) == 0 && getrusage(RUSAGE_CHILDREN, &children) == 0) {
        const struct timeval *t[4] = {&self.ru_utime, &self.ru_stime, &children.ru_utime,
                                      &children.ru_stime};
        l.own_s = 0;
        for (int i = 0; i < 4; i++)
            l.own_s += (double)t[i]->tv_sec + 1e-6 * (double)t[i]->tv_usec;
    }
    return l;
}

/* The share of all processors that others used between two looks. NaN: not known. */
static double others_between(const struct load *a, const struct load *b)
{
    const double wall = (double)(b->at_ns - a->at_ns) / 1e9;
    const double processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
    const double share = ((b->busy_s - a->busy_s) - (b->own_s - a->own_s)) / (wall * processors);
    if (share < 0)
        return 0;
    return share > 1 ? 1 : share;
}

/* ---- the weights that it wrote */

/* What tells a file that was written by this run from one that lay there. */
struct seen {
    bool there;
    struct stat st;
};

/* path may be NULL: nothing is there. */
static struct seen look_at(const char *path)
{
    struct seen s = {0};
    s.there = path && stat(path, &s.st) == 0;
    return s;
}

/* Was the file written between two looks? */
static bool is_new(const struct seen *before, const struct seen *now)
{
    const struct stat *a = &before->st, *b = &now->st;
    return now->there &&
           (!before->there || a->st_ino != b->st_ino || a->st_size != b->st_size ||
            a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec);
}

/* Did the run write it? In a scratch copy every file is a new one, so there the run's own list of
 * files decides. */
static bool was_written(const struct tw_lab *lab, const struct seen *before, const struct seen *now,
                        const struct twin_run *run)
{
    if (!lab->args.fresh_dir)
        return is_new(before, now);
    for (size_t i = 0; i < run->file_count; i++)
        if (strcmp(run->files[i].path, lab->weights) == 0)
            return true;
    return false;
}

/* Is it a file with at least one tensor in it? */
static bool holds_tensors(const char *path)
{
    struct twin_tensors *f;
    if (twin_tensors_open(path, &f, NULL) != 0)
        return false;
    const bool any = twin_tensors_count(f) > 0;
    twin_tensors_close(f);
    return any;
}

/* Nobody named the file: the one file of tensors that the run wrote. NULL and *why: there is none,
 * or more than one. */
static char *guess_weights(const struct twin_run *r, char **why)
{
    char *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < r->file_count && i < GUESSES; i++) {
        char *path = tw_path_join(r->cwd, r->files[i].path);
        if (path && holds_tensors(path) && count++ == 0) {
            found = path;
            path = NULL;
        }
        tw_free(path);
    }
    if (count == 1)
        return found;
    tw_free(found);
    *why = count ? tw_printf("the job writes %zu files of tensors; name the one with its final "
                             "weights with --weights",
                             count)
                 : tw_strdup(
                       "the job writes no file of tensors; distances are estimated from sketches");
    return NULL;
}

/* A copy that is there whole or not at all. */
static int copy_file(const char *from, const char *to, struct twin_error *err)
{
    char *temp = NULL;
    int out = -1, in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc = in < 0 ? twin_error_system(err, "cannot read %s", from)
                    : tw_file_beside(to, &temp, &out, err);
    if (rc == 0 && tw_copy_bytes(in, out, NULL) != 0)
        rc = twin_error_system(err, "cannot copy %s to %s", from, to);
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s", to);
    if (rc == 0 && rename(temp, to) != 0)
        rc = twin_error_system(err, "cannot write %s", to);
    if (rc != 0 && temp)
        unlink(temp);
    tw_free(temp);
    return rc;
}

/* A later run writes to the same place, so that this one's are kept in the lab's folder. What
 * cannot be had is said in r->no_weights. */
static void keep_weights(const struct tw_lab *lab, const struct seen *before, struct tw_lab_run *r)
{
    struct twin_error err = TWIN_ERROR_INIT;
    const struct twin_run *run = r->run;
    char *from = lab->weights ? tw_path_join(run->cwd, lab->weights)
                              : guess_weights(run, &r->no_weights);
    const struct seen now = look_at(from);
    char *to = from ? tw_printf("%s/weights-%02llu", lab->folder, (unsigned long long)lab->made)
                    : NULL;
    if (!from)
        return;
    if (!to)
        r->no_weights = NULL;
    else if (lab->weights && !now.there)
        r->no_weights = tw_printf("%s was not written", lab->weights);
    else if (lab->weights && !was_written(lab, before, &now, run))
        r->no_weights = tw_printf("%s lay there already, and this run did not write it",
                                  lab->weights);
    else if (!S_ISREG(now.st.st_mode) || (uint64_t)now.st.st_size > WEIGHTS_MAX)
        r->no_weights = tw_printf(
            "%s is not a file of at most 1 GiB; distances are estimated from sketches",
            tw_base_name(from));
    else if (copy_file(from, to, &err) != 0 ||
             twin_content_read_tensors(to, &r->weights, &err) != 0)
        r->no_weights = tw_printf("%s", err.message);
    else
        r->has_weights = true;
    tw_free(from);
    tw_free(to);
}

/* ---- one run */

/* Launches the job in a world. t says how it ended. ahead: so many runs like it are wanted, which
 * an engine makes side by side. Timed runs are all made on one node, where that can be asked for.
 */
static int launch_run(struct tw_lab *lab, const struct tw_lab_world *w, enum twin_level level,
                      size_t ahead, struct tw_trial *t, struct twin_error *err)
{
    struct twin_launch_options o = {
        .argv = lab->argv,
        .home = lab->home,
        .label = "lab",
        .level = level,
        .agents = true,
        .window_last = UINT32_MAX,
        .sketch_every = 1, /* the last step's must be there */
        .fresh_dir = lab->args.fresh_dir,
        .stdin_spool = lab->spool,
        .data = lab->data.item,
        .data_count = lab->data.count,
        .on = lab->on,
        .at_node = level == TWIN_LEVEL_STEPS ? lab->timed_node : NULL,
    };
    twin_world_plan_apply(&w->plan, &o);
    int rc = lab->given.taken == lab->given.count ? tw_given_add(&lab->given, &o, t, ahead, err)
                                                  : 0;
    return rc ? rc : tw_given_make(&lab->given, &o, t, err);
}

/* The first timed run says on which node the others are made. */
static void note_node(struct tw_lab *lab, enum twin_level level, const struct twin_run *r)
{
    if (level == TWIN_LEVEL_STEPS && !lab->timed_node && r && r->node.engine &&
        tw_remote_can_pin(lab->on, NULL) == 0)
        lab->timed_node = tw_strdup(r->node.name);
}

static int run_one(struct tw_lab *lab, const struct tw_lab_world *w, enum twin_level level,
                   const char *title, size_t ahead, struct tw_lab_run *out, struct twin_error *err)
{
    char text[32];
    struct tw_trial t = {.front = lab->front, .title = title, .expected_s = lab->expected_s};
    *out = (struct tw_lab_run){.others = NAN,
                               .ends = {.loss = NAN, .loop_s = NAN, .nonfinite_step = -1}};
    if (lab->expected_s > 0)
        t.deadline_ns = tw_patience_ends_ns(&tw_patience_in_the_lab, lab->expected_s);
    const struct seen before = look_at(lab->weights);
    const struct load from = load_now();
    lab->made++;
    int rc = launch_run(lab, w, level, ahead, &t, err);
    const struct load to = load_now();
    out->run = t.run;
    lab->interrupted |= rc == TWIN_EINTR || t.end == TW_TRIAL_INTERRUPTED;
    if (rc != 0)
        return rc;
    note_node(lab, level, out->run);
    if (!out->run->node.engine) /* of a node it is not known */
        out->others = others_between(&from, &to);
    if (!lab->args.quiet)
        tw_trial_line(lab->front, title, out->run,
                      t.end == TW_TRIAL_OUT_OF_TIME ? "stood still" : tw_run_state(out->run, text));
    if (out->run->outcome != TWIN_RUN_EXITED || out->run->exit_code != 0)
        return 0;
    if (w->world.count == lab->natural.world.count && out->run->wall_s > lab->expected_s)
        lab->expected_s = out->run->wall_s;
    if (!lab->configuration && w->world.count == lab->natural.world.count)
        lab->configuration = tw_configuration_of_world(out->run, true);
    if (!lab->first && level == TWIN_LEVEL_TENSORS && w->world.count == lab->natural.world.count)
        lab->first = tw_strdup(out->run->dir);
    rc = twin_ends_read(out->run, &out->ends, err);
    if (rc == 0)
        keep_weights(lab, &before, out);
    return rc;
}

int tw_lab_run(struct tw_lab *lab, const struct tw_lab_world *w, enum twin_level level,
               const char *title, struct tw_lab_run *out, struct twin_error *err)
{
    return run_one(lab, w, level, title, 1, out, err);
}

void tw_lab_run_free(struct tw_lab_run *r)
{
    if (r->has_weights)
        twin_content_free(&r->weights);
    twin_ends_free(&r->ends);
    twin_run_free(r->run);
    tw_free(r->no_weights);
    *r = (struct tw_lab_run){.others = NAN};
}

int tw_lab_gap(const struct tw_lab_run *a, const struct tw_lab_run *b, struct twin_gap *out,
               struct twin_error *err)
{
    twin_gap_estimate(&a->ends, &b->ends, out);
    return a->has_weights && b->has_weights
               ? twin_gap_exact(&a->ends, &a->weights, &b->weights, out, err)
               : 0;
}

/* ---- several */

int tw_lab_set_make(struct tw_lab *lab, const struct tw_lab_world *w, size_t wanted,
                    const char *word, struct tw_lab_set *out, struct twin_error *err)
{
    char title[64];
    *out = (struct tw_lab_set){.run = tw_calloc(wanted ? wanted : 1, sizeof *out->run)};
    int rc = out->run ? 0 : tw_no_memory(err, "for %zu runs", wanted);
    while (rc == 0 && out->count < wanted && !lab->interrupted) {
        snprintf(title, sizeof title, "%-8s run %2zu/%zu", word, out->count + 1, wanted);
        struct tw_lab_run *r = &out->run[out->count];
        /* the first one alone: it says how long the others may take */
        const size_t ahead = lab->expected_s > 0 ? wanted - out->count : 1;
        rc = run_one(lab, w, TWIN_LEVEL_TENSORS, title, ahead, r, err);
        if (rc == 0)
            out->count++;
        if (rc == 0 && (r->run->outcome != TWIN_RUN_EXITED || r->run->exit_code != 0))
            break;
    }
    tw_given_end(&lab->given);
    return rc;
}

void tw_lab_set_free(struct tw_lab_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        tw_lab_run_free(&set->run[i]);
    tw_free(set->run);
    *set = (struct tw_lab_set){0};
}

/* Is the end of two runs the same, by all that was seen of it? */
static bool same_end(const struct tw_lab_run *a, const struct tw_lab_run *b)
{
    const bool traces = a->ends.bits_records == b->ends.bits_records &&
                        a->ends.bits.a == b->ends.bits.a && a->ends.bits.b == b->ends.bits.b;
    return traces && a->has_weights == b->has_weights &&
           (!a->has_weights || strcmp(a->weights.content, b->weights.content) == 0);
}

size_t tw_lab_classes(const struct tw_lab_set *set)
{
    size_t classes = 0;
    for (size_t i = 0; i < set->count; i++) {
        size_t k = 0;
        while (k < i && !same_end(&set->run[k], &set->run[i]))
            k++;
        classes += k == i;
    }
    return classes;
}
