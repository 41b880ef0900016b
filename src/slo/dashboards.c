/* SPDX-License-Identifier: Apache-2.0 */
/* Dashboards for Grafana, made by dashboards/make.py when twinrun is built. They need no targets:
 * the metrics of serve bring those along. */
#include "slo.h"

#define DASHBOARD(name)                            \
    extern const unsigned char dashboard_##name[]; \
    extern const size_t dashboard_##name##_bytes;
DASHBOARD(executive)
DASHBOARD(on_call)
DASHBOARD(debug)
#undef DASHBOARD

static const struct {
    const char *file;
    const unsigned char *text;
    const size_t *bytes;
} dashboards[TW_SLO_DASHBOARDS] = {
    {"twinrun-executive.json", dashboard_executive, &dashboard_executive_bytes},
    {"twinrun-on-call.json", dashboard_on_call, &dashboard_on_call_bytes},
    {"twinrun-debug.json", dashboard_debug, &dashboard_debug_bytes},
};

const char *tw_slo_dashboard(size_t i, const char **file, size_t *bytes)
{
    *file = dashboards[i].file;
    *bytes = *dashboards[i].bytes;
    return (const char *)dashboards[i].text;
}
