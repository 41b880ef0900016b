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

/* Its texts are printable already. */
static json_t *incident_json(const struct serve_incident *i)
{
    return json_pack(
        "{s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:I, s:I}", "run",
        i->run, "reference", *i->reference ? json_string(i->reference) : json_null(), "kind",
        i->unproven ? "unproven" : "diverged", "severity", i->page ? "page" : "ticket", "state",
        i->agreed ? "agreed" : "open", "project", i->project, "command", i->command, "verb",
        i->verb, "layer", i->layer, "first", i->first, "cause", i->cause, "host", i->host,
        "repeats", (int)i->repeats, "others", json_integer((json_int_t)i->others), "start_ns",
        (json_int_t)i->start_ns, "end_ns", (json_int_t)i->end_ns);
}

void serve_incidents_answer(const struct serve_incidents *s,
                            const struct serve_incident_rules *rules, int64_t made_ns,
                            int64_t now_ns, struct tw_buf *b)
{
    json_t *list = json_array();
    bool whole = list != NULL;
    for (size_t i = s->count; whole && i-- > 0;)
        if (s->item[i].start_ns > now_ns - rules->lasts_ns)
            whole = json_array_append_new(list, incident_json(&s->item[i])) == 0;
    if (!whole) { /* a list without one of them would be another list */
        json_decref(list);
        list = NULL;
    }
    serve_put_json(list ? json_pack("{s:s, s:I, s:I, s:I, s:o}", "schema", "twinrun.incidents/1",
                                    "until_ns", (json_int_t)made_ns, "lasts_s",
                                    (json_int_t)(rules->lasts_ns / SECOND_NS), "left_out",
                                    (json_int_t)s->left_out, "incidents", list)
                        : NULL,
                   b);
}
