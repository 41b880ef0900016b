/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job is about to start: is it one that gets the fix? This runs in twinrun run and twinrun
 * record, before the launch. Nothing that goes wrong here may keep the job from running as it would
 * without a rollout.
 */
#include "rollout_inside.h"

#include "base.h"

#include "src/isolate/isolate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

double tw_rollout_place(const char *id, const char *key)
{
    const struct tw_hash128 by = tw_hash_bytes(id, strlen(id), 0);
    const struct tw_hash128 h = tw_hash_bytes(key, strlen(key), by.a);
    /* 53 bits, so that the quotient is exact and below 1 */
    return (double)(h.a >> 11) / 9007199254740992.0;
}

bool tw_rollout_is_canary(const char *id, const char *key, uint32_t share)
{
    return tw_rollout_place(id, key) * TW_ROLLOUT_WHOLE < share;
}

/* "NAME=value/value..." of the variables that are set; NULL: the first is not. */
static char *key_from(const char *const *names)
{
    const char *value = getenv(names[0]);
    if (!value || !*value)
        return NULL;
    char *key = tw_printf("%s=%.200s", names[0], value);
    for (names++; key && *names; names++) {
        char *longer = getenv(*names) ? tw_printf("%s/%.200s", key, getenv(*names)) : NULL;
        if (longer) {
            tw_free(key);
            key = longer;
        }
    }
    return key;
}

char *tw_rollout_key(void)
{
    /* the number of an attempt belongs to it: a job that is made again is another run */
    static const char *const of[][4] = {
        {"TWINRUN_ROLLOUT_KEY", NULL},
        {"SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", NULL},
        {"PBS_JOBID", NULL},
        {"LSB_JOBID", "LSB_JOBINDEX", NULL},
        {"TORCHELASTIC_RUN_ID", NULL},
        {"PMIX_NAMESPACE", NULL}};
    static const char *const ranks[] = {"RANK", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID"};
    unsigned char bytes[16];
    char digits[33];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *value = getenv(of[i][0]);
        /* torchrun's own default, which all jobs share */
        if (value && *value && strcmp(value, "none") != 0)
            return key_from(of[i]);
    }
    /* ranks that know of no number in common would draw one arm each, and wait for each other */
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i]))
            return NULL;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return NULL;
    tw_hex(bytes, sizeof bytes, digits);
    return tw_strdup(digits);
}

/* ---- joining */

static const char NO_KEY[] = "its ranks have no number in common (or there is no memory): set "
                             "TWINRUN_ROLLOUT_KEY to one that is the same for all of them";

/* Does the list leave this factor out by name ("-threads")? */
static bool leaves_out(const char *list, const char *id)
{
    const size_t n = strlen(id);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (*at == '-' && strncmp(at + 1, id, n) == 0 && (!at[n + 1] || at[n + 1] == ','))
            return true;
    }
    return false;
}

/* A factor of the fix that the command line sets, or leaves out on purpose; NULL: none. */
static const char *common_setting(const struct twin_world *fix, const struct twin_world *line,
                                  const char *given)
{
    for (size_t i = 0; i < fix->count; i++) {
        const char *id = fix->setting[i].factor->id;
        if (twin_world_sets(line, id) || leaves_out(given, id))
            return id;
    }
    return NULL;
}

/* Can these pins be set here, and does the command line leave them to us? 0: yes. *own: what the
 * command line sets, too; NULL: nothing. */
static int look_at_pins(const char *pins, const char *given, const char *factor_file, char **own,
                        struct twin_error *err)
{
    struct twin_factors factors = {0};
    struct twin_world fix = {0}, line = {0};
    *own = NULL;
    /* a fix has no factors of a file, which may not be there where the job runs */
    int rc = twin_factors_load(factor_file, &factors, err);
    rc = rc ? rc : twin_world_parse(&factors, pins, &fix, NULL, err);
    rc = rc || !given ? rc : twin_world_parse(&factors, given, &line, NULL, err);
    const char *both = rc == 0 && given ? common_setting(&fix, &line, given) : NULL;
    if (both && !(*own = tw_strdup(both)))
        rc = tw_no_memory(err, "for the pins of a rollout");
    twin_world_free(&fix);
    twin_world_free(&line);
    twin_factors_free(&factors);
    return rc;
}

static void set_arm(struct tw_rollout_joined *j, const char *arm, char *why)
{
    tw_free(j->run.arm);
    tw_free(j->run.why);
    j->run.arm = tw_strdup(arm);
    j->run.why = why;
}

/* The pins of the flag file go on, behind those of the command line. */
static void take_pins(struct tw_rollout_joined *j, const char *arm, const char *pins,
                      const char *given, const char *factor_file)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char *own = NULL;
    const int rc = look_at_pins(pins, given, factor_file, &own, &why);
    if (rc != 0) {
        set_arm(j, "off", tw_strdup(why.message));
    } else if (own) {
        set_arm(j, "overridden", tw_printf("the command line sets %s itself", own));
    } else {
        set_arm(j, arm, tw_strdup(""));
        j->pins = given ? tw_printf("%s,%s", given, pins) : tw_strdup(pins);
        if (!j->pins)
            set_arm(j, "off", tw_strdup("out of memory"));
    }
    tw_free(own);
}

/* Did the job begin so shortly before the fix was taken back that some of its processes may have it
 * already while others start? Only then is it followed any further: jobs that are put into the
 * queue again, and loops in one allocation, have one key for as long as they like. All processes of
 * a job find the same, until an hour after the decision. */
static bool began_just_before(const struct tw_rollout_flag *f, int64_t since_ns)
{
    static const int64_t MINUTE = INT64_C(60000000000);
    return since_ns > f->decided_ns - 10 * MINUTE && tw_realtime_ns() < f->decided_ns + 60 * MINUTE;
}

/* This process's draw, and then what the first process of its job drew. False: the run is no part
 * of the rollout; why: it should have been. */
static bool agree(const char *path, const struct tw_rollout_flag *f, const char *key,
                  struct tw_rollout_agreed *a, struct twin_error *why)
{
    const bool goes_on = f->state != TW_ROLLOUT_OFF;
    a->share = f->share;
    if (f->state == TW_ROLLOUT_FALLBACK && f->fallback)
        a->arm = "fallback";
    else
        a->arm = tw_rollout_is_canary(f->id, key, f->share) ? "canary" : "control";
    if (!tw_rollout_key_is_shared(key))
        return goes_on;
    /* one that has ended is still that of a job that began before */
    const struct tw_rollout_agreed drawn = *a;
    const int rc = tw_rollout_agree(path, f->id, key, goes_on, a, why);
    if (rc == 0 && f->state != TW_ROLLOUT_ON && strcmp(a->arm, "canary") == 0 &&
        !began_just_before(f, a->since_ns)) {
        *a = drawn;
        return goes_on;
    }
    if (rc == 0 && !f->fallback && strcmp(a->arm, "fallback") == 0) {
        twin_error_set(why, TWIN_EFORMAT, "its first process had a fallback, and there is none");
        return false;
    }
    return rc == 0;
}

static void follow(struct tw_rollout_joined *j, const struct tw_rollout_flag *f, const char *arm,
                   const char *given, const char *factor_file)
{
    if (strcmp(arm, "fallback") == 0) {
        take_pins(j, "fallback", f->fallback, given, factor_file);
        /* who pins something himself has it pinned: all the better */
        if (j->run.arm && strcmp(j->run.arm, "overridden") == 0 && given) {
            j->pins = tw_printf("%s,%s", f->fallback, given);
            set_arm(j, j->pins ? "fallback" : "off", tw_strdup(j->pins ? "" : "out of memory"));
        }
    } else if (strcmp(arm, "canary") == 0) {
        take_pins(j, "canary", f->pins, given, factor_file);
    } else {
        /* a run that could not take the fix, or would not, is not one to hold the others against */
        struct twin_error why = TWIN_ERROR_INIT;
        char *own = NULL;
        if (look_at_pins(f->pins, given, factor_file, &own, &why) != 0)
            set_arm(j, "off", tw_strdup(why.message));
        else if (own)
            set_arm(j, "overridden", tw_printf("the command line sets %s itself", own));
        else
            set_arm(j, "control", tw_strdup(""));
        tw_free(own);
    }
}

void tw_rollout_join(const char *path, const char *given, const char *factor_file,
                     struct tw_rollout_joined *out)
{
    struct twin_error why = TWIN_ERROR_INIT;
    struct tw_rollout_flag f = {.id = ""};
    const char *project = getenv("TWINRUN_PROJECT");
    *out = (struct tw_rollout_joined){.pins = NULL};
    if (!path || !*path)
        return;
    const int rc = tw_rollout_flag_read(path, &f, &why);
    struct tw_rollout_agreed agreed = {.arm = NULL};
    const bool asked = rc != 0 || tw_glob(f.project, project ? project : "");
    char *key = asked ? tw_rollout_key() : NULL;
    const bool agrees = rc == 0 && key && agree(path, &f, key, &agreed, &why);
    /* after its end only the processes of a job that began before are part of it */
    if (asked && (agrees || rc != 0 || f.state != TW_ROLLOUT_OFF)) {
        out->run.id = tw_strdup(rc == 0 ? f.id : "");
        out->run.key = key;
        out->run.share = rc == 0 ? f.share : 0;
        key = NULL;
        if (!out->run.key || !out->run.id)
            set_arm(out, "off", tw_strdup(rc ? why.message : NO_KEY));
        else if (!agrees)
            set_arm(out, "off", tw_strdup(why.message));
        else {
            out->run.share = agreed.share;
            follow(out, &f, agreed.arm, given, factor_file);
        }
        if (!out->run.key)
            out->run.key = tw_strdup("");
        /* without memory for its words there is no rollout */
        if (!out->run.id || !out->run.key || !out->run.arm || !out->run.why)
            tw_rollout_joined_free(out);
    }
    tw_free(key);
    tw_rollout_flag_free(&f);
}

void tw_rollout_joined_free(struct tw_rollout_joined *j)
{
    tw_free(j->run.arm);
    tw_free(j->run.id);
    tw_free(j->run.key);
    tw_free(j->run.why);
    tw_free(j->pins);
    *j = (struct tw_rollout_joined){.pins = NULL};
}
