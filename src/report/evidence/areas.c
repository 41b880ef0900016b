/* SPDX-License-Identifier: Apache-2.0 */
/* The five areas of evidence that a package is judged by: what is there, what is missing, why that
 * matters. The facts come from src/package; this file has the words. */
#include "areas.h"

#include "base.h"
#include "json_text.h"
#include "put.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Most missing things in the text; --json has them all. */
enum { SHOWN = 10 };

/* By enum twin_area. risk: what may have made the number that the paper reports; ask: what would
 * rule that out. */
static const struct {
    const char *risk, *ask;
} words[TWIN_AREAS] = {
    {"another version of the code, or a change that nobody kept, may have made the number",
     "the commit and its changes: run in a git checkout, pack that run"},
    {"other data, other splits or samples that were seen in testing may have made the number",
     "a snapshot that was verified before the run: twinrun record --data DIR"},
    {"another version of a library or another machine may give another number",
     "the exact versions of everything that was loaded: pack a run that twinrun recorded to its "
     "end"},
    {"other settings than the reported ones may have made the number",
     "the full command and every configuration file, as they were"},
    {"it may be the luckiest of many seeds, or a number that nobody can get twice",
     "the seed, and the generators' states at the first step: set seeds, record with twinrun"},
};

bool tw_area_passes(const json_t *area)
{
    return area && json_array_size(json_object_get(area, "missing")) == 0;
}

const char *tw_area_risk(enum twin_area which)
{
    assert((unsigned)which < TWIN_AREAS);
    return words[which].risk;
}

const char *tw_area_ask(enum twin_area which)
{
    assert((unsigned)which < TWIN_AREAS);
    return words[which].ask;
}

/* Risk and advice are for whoever misses something, so an area that passes has none. */
json_t *tw_area_json(enum twin_area which, const json_t *area)
{
    bool pass = tw_area_passes(area);
    json_t *missing = json_object_get(area, "missing"), *o;
    const char *holds = json_string_value(json_object_get(area, "holds"));
    o = json_pack("{s:s, s:b, s:o, s:o}", "name", twin_area_name(which), "pass", pass, "holds",
                  tw_json_text(holds ? holds : ""), "missing",
                  missing ? json_deep_copy(missing) : json_array());
    if (o && !pass) {
        json_object_set_new(o, "risk", json_string(words[which].risk));
        json_object_set_new(o, "ask", json_string(words[which].ask));
    }
    return o;
}

/* One line with the name and pass or FAIL, then a line for each missing thing, and for explain the
 * risk. */
void tw_area_print(FILE *out, enum twin_area which, const json_t *area, bool explain)
{
    const json_t *missing = json_object_get(area, "missing");
    const char *holds = json_string_value(json_object_get(area, "holds"));
    size_t n = json_array_size(missing);
    tw_put_to(out, "%-13s  %s  ", twin_area_name(which), tw_area_passes(area) ? "pass" : "FAIL");
    tw_put_to(out, "%s", holds ? holds : "");
    tw_put_to(out, "\n");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const char *text = json_string_value(json_array_get(missing, i));
        tw_put_to(out, "  %-11s        ", i ? "" : "missing");
        tw_put_to(out, "%s", text ? text : "?");
        tw_put_to(out, "\n");
    }
    if (n > SHOWN)
        tw_put_to(out, "                     and %zu more (--json lists all)\n", n - SHOWN);
    if (explain && n)
        tw_put_to(out, "  %-11s        %s\n  %-11s        %s\n", "risk", words[which].risk,
                  "ask for", words[which].ask);
}
