/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of the lab has for an auditor, area by area: the lab's room stands below those that
 * know. */
#include "lab_report.h"

#include "src/package/package.h"

/* What the lab calls an area. */
static const char *area_name(enum twin_area which)
{
    return which == TWIN_AREA_SEEDS ? "random state" : twin_area_name(which);
}

int tw_lab_audit_run(const struct twin_run *run, json_t *areas, struct twin_error *err)
{
    struct twin_packed found = {0};
    int rc = twin_audit_run(run, &found, err);
    for (int i = 0; rc == 0 && i < TWIN_AREAS; i++) {
        json_t *area = json_deep_copy(found.area[i]);
        json_object_set_new(area, "name", json_string(area_name((enum twin_area)i)));
        json_array_append_new(areas, area);
    }
    twin_packed_free(&found);
    return rc;
}
