/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_H
#define TW_SERVE_H
/*
 * twinrun serve: what a ledger says, over HTTP: metrics for Prometheus, JSON, an overview page, and
 * server-sent events. Room: src/serve. docs/serve.md, docs/internals/serve.md.
 *
 * It only reads. One thread talks to clients (libevent); a second one keeps a snapshot of all
 * indicators, a third one asks the ledger what the API is asked. So a slow database never keeps a
 * scrape waiting, which is answered from the snapshot.
 *
 * Errors: TWIN_EINVAL (options that do not go together), TWIN_EIO, TWIN_EUNSUPPORTED (built without
 * libevent), TWIN_ENOMEM, and those of the ledger.
 */
#include "src/slo/slo.h"

#include <stdbool.h>
#include <twin/error.h>

struct tw_front;

struct tw_serve_options {
    const char *home, *ledger; /* as twin_ledger_open takes them */
    const struct tw_slo_targets *targets;
    const char *version;
    const char *listen;     /* ADDRESS:PORT; [ADDRESS]:PORT for IPv6; port 0: any */
    const char *unix_path;  /* instead of listen; NULL: none */
    const char *token_file; /* NULL: none */
    const char *cert, *key; /* PEM; NULL: no TLS */
    /* incidents.h: who is told of them; NULL: nobody. ca: PEM, instead of the system's; NULL */
    const char *alertmanager, *alertmanager_token_file, *alertmanager_ca;
    /* who is pushed the results of CI, by tw_serve_push alone */
    const char *pushgateway, *pushgateway_token_file, *pushgateway_ca;
    const char *external_url; /* of this server, as people reach it; NULL: where it listens */
    uint64_t incident_hours, cool_down_minutes;
};

/* Serves until SIGINT or SIGTERM: 0. Says on front where it listens, and what goes wrong. */
int tw_serve(const struct tw_serve_options *o, const struct tw_front *front,
             struct twin_error *err);
/* The metrics once, as the file twinrun.prom in a folder that node exporter reads; replaced in one
 * step. */
int tw_serve_textfile(const struct tw_serve_options *o, const char *folder, struct twin_error *err);
/* The results of CI once, to the Pushgateway of o: a group for each project that has any. *groups:
 * how many were pushed, also with an error. */
int tw_serve_push(const struct tw_serve_options *o, size_t *groups, struct twin_error *err);

#endif
