/* SPDX-License-Identifier: Apache-2.0 */
/* Incidents as an answer of the API: those that an Alertmanager is told of, whether one is told or
 * not. */
#include "incidents.h"

#include "answer.h"
#include "serve.h"

#include "base.h"

static const int64_t SECOND_NS = 1000000000;

struct serve_incident_rules serve_incident_rules_of(const struct tw_serve_options *o)
{
    const int64_t lasts_ns = (int64_t)o->incident_hours * 3600 * SECOND_NS;
    const int64_t cool_down_ns = (int64_t)o->cool_down_minutes * 60 * SECOND_NS;
    return (struct serve_incident_rules){
        .lasts_ns = lasts_ns, .cool_down_ns = cool_down_ns < lasts_ns ? cool_down_ns : lasts_ns};
}

static json_t *incident_json(const struct serve_incident *i)
{
    return json_pack(
        "{s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:I, s:I}", "run",
        i->run, "reference", *i->reference ? json_string(i->reference) : json_null(), "kind",
        i->unproven ? "unproven" : "diverged", "severity", i->page ? "page" : "ticket", "state",
        i->agreed ? "agreed" : "open", "project", serve_text(i->project), "command",
        serve_text(i->command), "verb", serve_text(i->verb), "layer", serve_text(i->layer), "first",
        serve_text(i->first), "cause", serve_text(i->cause), "host", serve_text(i->host), "repeats",
        (int)i->repeats, "others", json_integer((json_int_t)i->others), "start_ns",
        (json_int_t)i->start_ns, "end_ns", (json_int_t)i->end_ns);
}

int serve_incidents_answer(struct twin_ledger *l, const struct tw_serve_options *o, int64_t now_ns,
                           struct tw_buf *b, struct twin_error *err)
{
    const struct serve_incident_rules rules = serve_incident_rules_of(o);
    struct serve_incidents found;
    json_t *list = json_array();
    int rc = serve_incidents_find(l, &rules, now_ns, &found, err);
    for (size_t i = found.count; rc == 0 && i-- > 0;)
        rc = json_array_append_new(list, incident_json(&found.item[i])) == 0 ? 0 : TWIN_ENOMEM;
    if (rc == 0)
        serve_put_json(json_pack("{s:s, s:I, s:I, s:O}", "schema", "twinrun.incidents/1", "lasts_s",
                                 (json_int_t)(rules.lasts_ns / SECOND_NS), "left_out",
                                 (json_int_t)found.left_out, "incidents", list),
                       b);
    json_decref(list);
    serve_incidents_free(&found);
    return rc == TWIN_ENOMEM || (rc == 0 && b->failed) ? tw_no_memory(err, "for incidents") : rc;
}
