/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_QUERY_H
#define TW_SERVE_QUERY_H
/* What a request asks for, and whether it may ask: pure functions of its bytes, which are fuzzed
 * (tests/fuzz/fuzz_request.c). */
#include "child.h"

#include "src/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum serve_route {
    SERVE_NOTHING,
    SERVE_PAGE, /* the live page, and its files */
    SERVE_ASSET,
    SERVE_PLAIN, /* the overview without script */
    SERVE_HEALTH,
    SERVE_METRICS,
    SERVE_RUNS,
    SERVE_RUN,
    SERVE_VERDICTS,
    SERVE_COMPARISON,
    SERVE_POSTMORTEM,
    SERVE_SEARCHES,
    SERVE_SEARCH,
    SERVE_INDICATORS,
    SERVE_INCIDENT_LIST,
    SERVE_EVENTS,
    SERVE_SCHEMAS,
    SERVE_SCHEMA,
    SERVE_ROUTES
};

enum {
    SERVE_LIMIT = 100,
    SERVE_LIMIT_MOST = 1000,
    SERVE_OTHER_MOST = 255,
    SERVE_VALUE_BYTES = 1024
};

/* A request whose path and parameters were understood. */
struct serve_query {
    enum serve_route route;
    char name[64]; /* of a schema or a file; of a run or a verdict its 32 digits, of a search
                    * those or its journal's name; else "" */
    /* values of parameters, decoded; "": not given */
    char project[SERVE_VALUE_BYTES], command[SERVE_VALUE_BYTES], outcome[64], verb[64];
    char indicator[16], scope[16], before_id[33];
    int64_t since_ns, before_ns;
    uint64_t limit;
    /* of a comparison: the view, and the run, by its place, that is held against the first; 0: that
     * which the verdict speaks of */
    char tensor[SERVE_VALUE_BYTES];
    uint64_t rows, columns, from, to, other;
};

/* The status of HTTP: 200, and q is filled; 400 or 404, and why says what was expected. uri: path
 * and query as they came. now_ns: from when durations count back. */
int serve_query_parse(const char *uri, int64_t now_ns, struct serve_query *q, char why[200]);

/* May a request for this host and from this origin be answered? own: the names under which we can
 * be reached without a token are those of this machine alone; else any host is. NULL: no such
 * header. Returns NULL when it may, else what is wrong. */
const char *serve_host_fault(const char *host, bool own);
const char *serve_origin_fault(const char *origin, const char *host, bool tls);

/* What an Accept header wants of /metrics: true for OpenMetrics. */
bool serve_wants_openmetrics(const char *accept);
/* Does an Accept-Encoding header take gzip? Does an If-None-Match header name this tag, which has
 * its quotes? NULL: no such header. */
bool serve_wants_gzip(const char *encodings);
bool serve_has_tag(const char *tags, const char *tag);
/* Does a query of this route need runs to be compared? */
bool serve_is_of_pair(enum serve_route r);
/* Is this the name of a search's journal, TIME-PID, and nothing that leads elsewhere? */
bool serve_search_is_name(const char *s);
/* Is this URI that of the live page's files, which hold nothing of the ledger? */
bool serve_is_public(const char *uri);

#endif
