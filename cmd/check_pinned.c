/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun check --pinned before its first run and after its last: is there a search of this job,
 * and did what it named take effect? The search and the pins are src/isolate's (pinned.c), whether
 * the job is still the one that was searched is src/provenance's.
 */
#include "check_args.h"

#include "say.h"

#include "base.h"

#include "src/provenance/provenance.h"

#include <jansson.h>
#include <unistd.h>

/* Is this the job that the search was of? Its pins say nothing of another one. */
static int refuse_another_job(const struct tw_check *c, const struct tw_pinned *p,
                              struct twin_error *err)
{
    struct twin_run *run = NULL;
    struct twin_error lost = TWIN_ERROR_INIT;
    json_t *world = NULL;
    char *why = NULL, *folder = tw_printf("%s/pinned-%d", c->series.home, (int)getpid());
    int rc = folder ? twin_run_load(p->run, &run, &lost) : TWIN_ENOMEM;
    rc = rc ? rc : twin_provenance_load(p->run, &world, &lost);
    if (rc == TWIN_ENOMEM)
        rc = tw_no_memory(err, "looking at the job");
    else if (rc != 0)
        rc = twin_error_set(err, rc,
                            "whether this is the job that isolate searched cannot be said, since "
                            "a run of that search cannot be read (%s). Run twinrun isolate again",
                            lost.message);
    else
        rc = twin_provenance_changed(run, world, c->series.home, folder, &why, err);
    if (rc == 0 && why)
        rc = twin_error_set(err, TWIN_EINVAL,
                            "this is not the job any more that isolate searched: %s. Check it "
                            "without --pinned; where it still diverges, run twinrun isolate again",
                            why);
    tw_free(why);
    json_decref(world);
    twin_run_free(run);
    tw_free(folder);
    return rc;
}

int tw_check_pinned_open(struct tw_check_command *command)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_check *c = &command->check;
    struct tw_pinned *p = &command->pinned;
    int rc = tw_pins_find(c->series.home, c->arm[0], p, &err);
    rc = rc ? rc : refuse_another_job(c, p, &err);
    rc = rc ? rc : tw_pins_world(p, c->arm[0], command->args.factor_file, &err);
    if (rc != 0)
        return tw_trouble(&err, "check: --pinned");
    c->dress = tw_pins_dress;
    c->dress_user = p;
    return -1;
}

int tw_check_pinned_judge(struct tw_check_command *command)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_series *s = &command->check.series;
    if (tw_pins_judge(&command->pinned, s->runs, s->count, s->v, &err) != 0)
        return tw_trouble(&err, "check: --pinned: whether the pins took effect is not known, so "
                                "there is no verdict");
    return -1;
}
