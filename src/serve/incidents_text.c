/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incidents as Alertmanager's API reads them (POST /api/v2/alerts, version 0.25). Labels are what
 * an alert is known by, so nothing stands in them that may be learnt later, as the cause is: that
 * is an annotation.
 */
#include "incidents.h"

#include "base.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *time_json(int64_t ns)
{
    char text[32];
    tw_utc_time(ns, true, text);
    return json_string(text);
}

static json_t *labels_json(const struct serve_incident *i)
{
    const char *name = i->unproven ? "TwinrunRunUnproven" : "TwinrunRunDiverged";
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "alertname", name, "source",
                          "twinrun-event", "project", i->project, "run_id", i->run, "command_id",
                          i->command_id, "severity", i->page ? "page" : "ticket");
    if (j && *i->layer && json_object_set_new(j, "layer", json_string(i->layer)) != 0) {
        json_decref(j);
        return NULL;
    }
    return j;
}

char *serve_incident_key(const struct serve_incident *i)
{
    json_t *j = labels_json(i);
    char *text = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    char *key = text ? tw_strdup(text) : NULL;
    free(text);
    json_decref(j);
    return key;
}

/* What was compared, and what of it is known. */
static char *description(const struct serve_incident *i)
{
    struct tw_buf b = {0};
    tw_buf_printf(&b, "%s compared %s: %s", i->verb,
                  i->repeats ? "repeats of one job" : "runs that are not known to be repeats",
                  i->command);
    if (i->reference[0])
        tw_buf_printf(&b, "; the reference is run %s", i->reference);
    if (i->others)
        tw_buf_printf(&b, "; which of its runs differs is not said, this is the last of %zu",
                      i->others + 2);
    if (i->unproven)
        tw_buf_puts(&b, "; whether this run agrees could not be told: evidence is missing");
    else if (i->repeats && !i->page)
        tw_buf_puts(&b, "; another run of this job diverged shortly before, so this does not page");
    return tw_buf_steal(&b);
}

/* Adds a text that is given up to; an empty one is left out. False: no memory. */
static bool annotate(json_t *j, const char *name, char *text)
{
    const bool ok = text && (!*text || json_object_set_new(j, name, json_string(text)) == 0);
    tw_free(text);
    return ok;
}

static json_t *annotations_json(const struct serve_incident *i)
{
    json_t *j = json_object();
    char *next = i->reference[0] ? tw_printf("twinrun diff %s %s", i->reference, i->run)
                                 : tw_printf("twinrun show %s", i->run);
    bool ok = annotate(j, "next", next);
    ok = annotate(j, "summary",
                  tw_printf("%s: run %.8s %s%s%s", i->project, i->run,
                            i->unproven ? "is not proven to agree" : "diverged",
                            *i->first ? ": " : "", i->first)) &&
         ok;
    ok = annotate(j, "description", description(i)) && ok;
    ok = annotate(j, "cause", tw_strdup(i->cause)) && ok;
    ok = annotate(j, "host", tw_strdup(i->host)) && ok;
    ok = annotate(j, "home", tw_strdup(i->home)) && ok;
    if (ok)
        return j;
    json_decref(j);
    return NULL;
}

/* Alertmanager refuses an end before the beginning, and a beginning that is to come (of a clock
 * ahead of ours) would end behind it. */
static json_t *alert_json(const struct serve_incident *i, const char *link, int64_t now_ns)
{
    const int64_t start = i->start_ns < now_ns ? i->start_ns : now_ns;
    const int64_t end = i->end_ns > start ? i->end_ns : start;
    json_t *j = json_pack("{s:o, s:o, s:o, s:o}", "labels", labels_json(i), "annotations",
                          annotations_json(i), "startsAt", time_json(start), "endsAt",
                          time_json(end));
    if (j && *link &&
        json_object_set_new(j, "generatorURL", json_sprintf("%sapi/v1/runs/%s", link, i->run)) !=
            0) {
        json_decref(j);
        return NULL;
    }
    return j;
}

char *serve_incidents_body(const struct serve_incident *const *list, size_t count, const char *link,
                           int64_t now_ns)
{
    json_t *all = json_array();
    bool ok = all != NULL;
    for (size_t i = 0; ok && i < count; i++)
        ok = json_array_append_new(all, alert_json(list[i], link, now_ns)) == 0;
    char *text = ok ? json_dumps(all, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    char *body = text ? tw_strdup(text) : NULL;
    free(text);
    json_decref(all);
    return body;
}
