/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told of alerts: a configuration of Alertmanager that goes with rules.c and with the
 * incidents of `twinrun serve`. It has one file and no includes, so ours is whole, and its
 * receivers tell nobody until somebody says how. */
#include "slo.h"

const char *tw_slo_routes(void)
{
    return "# Made by `twinrun slo --alertmanager-config`: routes of the alerts of twinrun. It is "
           "a\n"
           "# whole configuration: put pagers and addresses into its receivers, or its routes and\n"
           "# inhibit_rules into your own.\n"
           "route:\n"
           "  receiver: twinrun-ticket\n"
           "  group_by: [project, slo]\n"
           "  routes:\n"
           "    # runs that diverged, told by `twinrun serve --alertmanager`: each by itself\n"
           "    - matchers: ['source=\"twinrun-event\"']\n"
           "      group_by: [project, run_id]\n"
           "      group_wait: 5s\n"
           "      routes:\n"
           "        - matchers: ['severity=\"page\"']\n"
           "          receiver: twinrun-page\n"
           "    # targets that are broken, judged by Prometheus\n"
           "    - matchers: ['source=\"twinrun\"']\n"
           "      group_by: [project, slo]\n"
           "      routes:\n"
           "        - matchers: ['severity=\"page\"']\n"
           "          receiver: twinrun-page\n"
           "inhibit_rules:\n"
           "  # who was paged needs no ticket of the same: the same target of a project, or runs "
           "of\n"
           "  # the same command (only incidents have a command_id, and only targets have an slo)\n"
           "  - source_matchers: ['source=~\"twinrun|twinrun-event\"', 'severity=\"page\"']\n"
           "    target_matchers: ['source=~\"twinrun|twinrun-event\"', 'severity=\"ticket\"']\n"
           "    equal: [project, slo, command_id]\n"
           "receivers:\n"
           "  - name: twinrun-page\n"
           "  - name: twinrun-ticket\n";
}
