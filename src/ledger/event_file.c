/* SPDX-License-Identifier: Apache-2.0 */
/* Events: what happened once, as a file of the home that outlives any ledger, and as a record. */
#include "noted.h"

#include "base.h"
#include "json_text.h"
#include "noted_inside.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EVENT_BYTES = 1 << 20 };
static const char SCHEMA[] = "twinrun.event/1";

int tw_event_save(const char *home, const struct twin_ledger_event *e, struct twin_error *err)
{
    json_t *j = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "schema", SCHEMA,
                          "id", e->id, "time_ns", (json_int_t)e->time_ns, "kind", e->kind,
                          "outcome", e->outcome, "subject", tw_json_text(e->subject), "project",
                          tw_json_text(e->project), "family", tw_json_text(e->family),
                          "contributor", tw_json_text(e->contributor), "run",
                          tw_json_text(e->run_id));
    const int rc = tw_noted_save(home, "events", e->id, j, err);
    json_decref(j);
    return rc;
}

int tw_event_put_file(struct twin_ledger *l, const char *dir, const char *name,
                      struct twin_error *err)
{
    json_t *j = tw_noted_load(dir, name, EVENT_BYTES);
    const struct twin_ledger_event e = {
        .id = tw_noted_text(j, "id"),
        .time_ns = json_integer_value(json_object_get(j, "time_ns")),
        .kind = tw_noted_text(j, "kind"),
        .outcome = tw_noted_text(j, "outcome"),
        .subject = tw_noted_text(j, "subject"),
        .project = tw_noted_text(j, "project"),
        .family = tw_noted_text(j, "family"),
        .contributor = tw_noted_text(j, "contributor"),
        .run_id = tw_noted_text(j, "run"),
    };
    /* only a file of ours that is called by its id */
    const bool ours = strcmp(tw_noted_text(j, "schema"), SCHEMA) == 0 && *e.id &&
                      tw_starts(name, e.id);
    int rc = ours ? twin_ledger_put_event(l, &e, err) : 0;
    json_decref(j);
    return rc;
}

/* Secrets in a subject are replaced, as in any text that is kept. */
int tw_ledger_write_event(const char *home, const char *url, const struct twin_ledger_event *e,
                          struct twin_error *err)
{
    if (twin_ledger_off(url) || access(home, W_OK) != 0)
        return 0;
    char id[33];
    struct twin_ledger *l = NULL;
    struct twin_redactor *safe = NULL;
    struct twin_run_belongs to = {0};
    int rc = e->id ? 0 : tw_ledger_new_id(id, err);
    if (e->id)
        snprintf(id, sizeof id, "%s", e->id);
    rc = rc ? rc : twin_redactor_open(home, &safe, err);
    if (rc == 0 && !twin_run_belongs_here(&to))
        rc = tw_no_memory(err, "writing an event");
    const char *given = e->subject ? e->subject : "";
    char *subject = rc == 0 ? twin_redact(safe, given, NULL) : NULL;
    if (rc == 0 && !subject)
        rc = tw_no_memory(err, "writing an event");
    const struct twin_ledger_event whole = {.id = id,
                                            .time_ns = e->time_ns ? e->time_ns : tw_realtime_ns(),
                                            .kind = e->kind,
                                            .outcome = e->outcome,
                                            .subject = subject,
                                            .project = to.project,
                                            .family = to.family,
                                            .contributor = to.contributor,
                                            .run_id = e->run_id};
    /* The file first: where no ledger can be written, one catches up from it later. */
    rc = rc ? rc : tw_event_save(home, &whole, err);
    rc = rc ? rc : twin_ledger_open(home, url, &l, err);
    rc = rc ? rc : twin_ledger_put_event(l, &whole, err);
    twin_ledger_close(l);
    twin_redactor_close(safe);
    twin_run_belongs_free(&to);
    tw_free(subject);
    return rc;
}
