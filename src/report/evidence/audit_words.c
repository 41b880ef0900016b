/* SPDX-License-Identifier: Apache-2.0 */
/* What an audit found: in words, as JSON, and as the predicate of a statement. An audit passes when
 * every area passes and a package is what its manifests say; the three forms ask
 * tw_audited_passes() and nothing else. */
#include "audit_words.h"

#include "areas.h"
#include "base.h"
#include "checklist.h"
#include "json_text.h"
#include "put.h"
#include "verify_words.h"

#include <string.h>

/* Evidence in a package that was changed afterwards is none, so a finding of verify fails the
 * audit, too. */
bool tw_audited_passes(const struct tw_audited *t)
{
    bool all = t->verdict.findings == 0;
    for (size_t i = 0; i < TWIN_AREAS; i++)
        all &= tw_area_passes(t->found.area[i]);
    return all;
}

/* The answers to a checklist, a new reference. */
static json_t *answers_of(const struct tw_audited *t, const char *checklist)
{
    return t->operations ? json_incref(t->operations) : tw_checklist(checklist, t->found.area);
}

json_t *tw_audited_json(const struct tw_audited *t, const char *checklist)
{
    json_t *checks = json_array();
    for (size_t i = 0; i < TWIN_AREAS; i++)
        json_array_append_new(checks, tw_area_json((enum twin_area)i, t->found.area[i]));
    json_t *o = json_pack("{s:o, s:s, s:s, s:o, s:o}", "target", tw_json_text(t->given), "kind",
                          t->kind, "outcome", tw_audited_passes(t) ? "pass" : "fail", "sha256",
                          *t->name ? json_string(t->name) : json_null(), "checks", checks);
    if (strcmp(t->kind, "package") == 0)
        json_object_set_new(o, "findings", tw_package_findings(&t->verdict));
    if (checklist)
        json_object_set_new(o, "checklist", answers_of(t, checklist));
    return o;
}

void tw_audited_text(FILE *out, const struct tw_audited *t, const char *checklist, bool several)
{
    size_t failed = 0;
    char *safe = tw_printable(t->given, strlen(t->given));
    for (size_t i = 0; i < TWIN_AREAS; i++)
        failed += !tw_area_passes(t->found.area[i]);
    tw_put_to(out, "%s  %s, %s: ", tw_audited_passes(t) ? "PASS" : "FAIL", t->kind,
              safe ? safe : "?");
    if (failed)
        tw_put_to(out, "%zu of %d fail\n", failed, TWIN_AREAS);
    else
        tw_put_to(out, "all %d pass%s\n", TWIN_AREAS,
                  t->verdict.findings ? ", but it is not what its manifests say (twinrun verify)"
                                      : "");
    tw_free(safe);
    for (size_t i = 0; i < TWIN_AREAS; i++)
        tw_area_print(out, (enum twin_area)i, t->found.area[i], true);
    if (failed && t->verdict.findings)
        tw_put_to(out,
                  "verify         FAIL  %zu thing%s not as in the manifests (twinrun verify)\n",
                  t->verdict.findings, t->verdict.findings == 1 ? " is" : "s are");
    if (checklist) {
        json_t *list = answers_of(t, checklist);
        tw_checklist_print(out, checklist, list);
        json_decref(list);
    }
    if (several)
        tw_put_to(out, "\n");
}

/* The predicate for test results of in-toto: each area is a test, and verify is one more for a
 * package. */
json_t *tw_audited_predicate(const struct tw_audited *t, const char *version)
{
    json_t *passed = json_array();
    json_t *failed = json_array();
    json_t *configuration = json_array();
    json_t *missing = json_object();
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        bool ok = tw_area_passes(t->found.area[i]);
        json_array_append_new(ok ? passed : failed, json_string(twin_area_name((enum twin_area)i)));
        if (!ok)
            json_object_set_new(missing, twin_area_name((enum twin_area)i),
                                json_deep_copy(json_object_get(t->found.area[i], "missing")));
    }
    if (t->verdict.findings)
        json_array_append_new(failed, json_string("verify"));
    else if (strcmp(t->kind, "package") == 0)
        json_array_append_new(passed, json_string("verify"));
    json_array_append_new(configuration, json_pack("{s:s, s:s+}", "name", "twinrun audit", "uri",
                                                   "pkg:pypi/twinrun@", version));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "result",
                     tw_audited_passes(t) ? "PASSED" : "FAILED", "configuration", configuration,
                     "passedTests", passed, "warnedTests", json_array(), "failedTests", failed,
                     "missing", missing);
}
