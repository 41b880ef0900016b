/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_NODE_RUN_H
#define TW_CMD_NODE_RUN_H
/* One run of a ticket, started by an engine on a node (node_run.c). The exit code. */
int tw_node_run(const char *folder);
#endif
