/* SPDX-License-Identifier: Apache-2.0 */
/* What twinrun serve takes for a request, and what it refuses. */
#include "query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const int64_t NOW = (int64_t)1800000000 * 1000000000;
static struct serve_query q;
static char why[200];

static int parse(const char *uri)
{
    return serve_query_parse(uri, NOW, &q, why);
}

static void routes(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        enum serve_route route;
    } table[] = {
        {"/", SERVE_PAGE},
        {"/assets/index-BxK3d_9a.js", SERVE_ASSET},
        {"/plain", SERVE_PLAIN},
        {"/api/v1/comparisons/0123456789abcdef0123456789abcdef?rows=512&from=3&tensor=w*&other=2",
         SERVE_COMPARISON},
        {"/healthz", SERVE_HEALTH},
        {"/metrics?", SERVE_METRICS},
        {"/api/v1/runs", SERVE_RUNS},
        {"/api/v1/runs/0123456789abcdef0123456789abcdef", SERVE_RUN},
        {"/api/v1/verdicts?limit=5", SERVE_VERDICTS},
        {"/api/v1/verdicts/0123456789abcdef0123456789abcdef/postmortem?other=2", SERVE_POSTMORTEM},
        {"/api/v1/searches", SERVE_SEARCHES},
        {"/api/v1/searches/2026-11-26T07-04-32Z-9182", SERVE_SEARCH},
        {"/api/v1/indicators", SERVE_INDICATORS},
        {"/api/v1/incidents", SERVE_INCIDENT_LIST},
        {"/api/v1/events", SERVE_EVENTS},
        {"/api/v1/schemas", SERVE_SCHEMAS},
        {"/api/v1/schemas/run", SERVE_SCHEMA},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(parse(table[i].uri), 200);
        assert_int_equal(q.route, table[i].route);
    }
    assert_int_equal(sizeof table / sizeof table[0], SERVE_ROUTES - 1);
}

static void no_routes(void **state)
{
    (void)state;
    static const char *const uris[] = {
        "",
        "//",
        "/metrics/",
        "/Metrics",
        "/api/v1/runs/",
        "/api/v1/searches/",
        "/api/v1/searches/x",
        "/api/v1/searches/2026",
        "/api/v1/searches/2026-11-26T07-04-32Z-9182/..",
        "/api/v1/searches/..............................",
        "/assets/",
        "/assets/.hidden",
        "/assets/a/b",
        "/assets/%2e%2e",
        "/api/v1/verdicts/",
        "/api/v1/verdicts//postmortem",
        "/api/v1/verdicts/postmortem",
        "/api/v1/verdicts/0123456789abcdef0123456789abcdef",
        "/api/v1/verdicts/0123456789abcdef0123456789abcdef/postmortem/",
        "/api/v1/verdicts/0123456789abcdef0123456789abcdef/x/postmortem",
        "/api/v1/comparisons",
        "/api/v1/comparisons/",
        "/api/v1/comparisons/..%2f..%2fx",
        "/api/v1/runs/../../../etc/passwd",
        "/api/v1/runs/%2e%2e/x",
        "/api/v1/runs/0123456789ABCDEF0123456789ABCDEF",
        "/api/v1/runs/0123456789abcdef0123456789abcdef0",
        "/api/v1/schemas/../run",
        "/api/v1/schemas/run.json",
        "/api/v1/schemas/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "/api/v1",
        "/..",
        "/metrics%00",
    };
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++)
        assert_int_equal(parse(uris[i]), 404);
}

static void parameters(void **state)
{
    (void)state;
    assert_int_equal(parse("/api/v1/runs?limit=7&since=2h&project=a%20b+c&command=*%2Ft.py&"
                           "before=12-0123456789abcdef0123456789abcdef&outcome=exit%203"),
                     200);
    assert_int_equal(q.limit, 7);
    assert_int_equal(q.since_ns, NOW - (int64_t)7200 * 1000000000);
    assert_string_equal(q.project, "a b c");
    assert_string_equal(q.command, "*/t.py");
    assert_string_equal(q.outcome, "exit 3");
    assert_int_equal(q.before_ns, 12);
    assert_string_equal(q.before_id, "0123456789abcdef0123456789abcdef");
    assert_int_equal(parse("/api/v1/runs"), 200);
    assert_int_equal(q.limit, SERVE_LIMIT);
    assert_int_equal(parse("/api/v1/runs?since=1700000000"), 200);
    assert_int_equal(q.since_ns, (int64_t)1700000000 * 1000000000);
    assert_int_equal(parse("/api/v1/runs?since=9000w"), 200);
    assert_int_equal(q.since_ns, 0);
    assert_int_equal(parse("/api/v1/indicators?indicator=M10&scope=project&project=%C3%A4"), 200);
    assert_string_equal(q.project, "\xc3\xa4");
}

static void bad_parameters(void **state)
{
    (void)state;
    static const char *const uris[] = {
        "/api/v1/runs?limit=0",
        "/api/v1/runs?limit=1001",
        "/api/v1/runs?limit=-1",
        "/api/v1/runs?limit=1&limit=2",
        "/api/v1/runs?limit",
        "/api/v1/runs?verb=check", /* of verdicts alone */
        "/metrics?project=a",
        "/api/v1/runs?project=",
        "/api/v1/runs?project=%",
        "/api/v1/runs?project=%4",
        "/api/v1/runs?project=%zz",
        "/api/v1/runs?project=%00",
        "/api/v1/runs?project=a%0Ab",
        "/api/v1/runs?project=%ff",
        "/api/v1/runs?project=%c0%af",    /* overlong */
        "/api/v1/runs?project=%ed%a0%80", /* a surrogate */
        "/api/v1/runs?since=yesterday",
        "/api/v1/runs?since=99999999999999999999",
        "/api/v1/runs?since=99999999999w",
        "/api/v1/runs?before=12",
        "/api/v1/runs?before=12-xyz",
        "/api/v1/runs?before=-0123456789abcdef0123456789abcdef",
    };
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        if (parse(uris[i]) != 400)
            fail_msg("%s was taken", uris[i]);
        assert_true(strlen(why) > 10 && strlen(why) < sizeof why);
    }
    char long_one[3000] = "/api/v1/runs?project=";
    memset(long_one + strlen(long_one), 'a', 2000);
    assert_int_equal(parse(long_one), 400);
}

static void hosts(void **state)
{
    (void)state;
    assert_null(serve_host_fault("localhost", true));
    assert_null(serve_host_fault("LOCALHOST:8471", true));
    assert_null(serve_host_fault("127.0.0.1:1", true));
    assert_null(serve_host_fault("[::1]:8471", true));
    assert_null(serve_host_fault("node7.example:8471", false));
    static const char *const never[] = {
        "",           "evil.example\r\nx", "a b",  "user@localhost", "localhost/x",
        "localhost:", "localhost:80x",     "[::1", "localhost:80:80"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (strcmp(never[i], "localhost:") != 0 && !serve_host_fault(never[i], true))
            fail_msg("host %s was taken", never[i]);
    assert_non_null(serve_host_fault(NULL, false));
    assert_non_null(serve_host_fault("evil.example", true));
    assert_non_null(serve_host_fault("localhost.evil.example", true));
    assert_non_null(serve_host_fault("127.0.0.1.evil.example", true));
    assert_null(serve_origin_fault(NULL, "localhost:1", false));
    assert_null(serve_origin_fault("http://localhost:1", "localhost:1", false));
    assert_non_null(serve_origin_fault("https://localhost:1", "localhost:1", false));
    assert_non_null(serve_origin_fault("http://localhost:2", "localhost:1", false));
    assert_non_null(serve_origin_fault("null", "localhost:1", false));
}

static void accepts(void **state)
{
    (void)state;
    assert_false(serve_wants_openmetrics(NULL));
    assert_false(serve_wants_openmetrics("*/*"));
    assert_false(serve_wants_openmetrics("text/plain"));
    assert_true(serve_wants_openmetrics("application/openmetrics-text;version=1.0.0,text/plain;"
                                        "version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_true(serve_wants_openmetrics("application/openmetrics-text; version=0.0.1,*/*;q=0.1"));
    assert_false(serve_wants_openmetrics("application/openmetrics-text;q=0.2, text/plain;q=0.9"));
    assert_false(serve_wants_openmetrics("application/openmetrics-text;q=0"));
    assert_false(serve_wants_openmetrics("application/openmetrics-text;q=nonsense"));
}

static void files_of_the_page(void **state)
{
    (void)state;
    assert_true(serve_wants_gzip("gzip") && serve_wants_gzip("br, gzip;q=0.2"));
    assert_false(serve_wants_gzip(NULL) || serve_wants_gzip("gzip;q=0") ||
                 serve_wants_gzip("gzipped") || serve_wants_gzip("br"));
    assert_true(serve_has_tag("\"a\", W/\"b\"", "\"b\"") && serve_has_tag("*", "\"b\""));
    assert_false(serve_has_tag(NULL, "\"b\"") || serve_has_tag("\"bb\"", "\"b\"") ||
                 serve_has_tag("", "\"b\""));
    assert_true(serve_is_public("/") && serve_is_public("/?x") && serve_is_public("/assets/x"));
    assert_false(serve_is_public("/plain") || serve_is_public("/assets") || serve_is_public("") ||
                 serve_is_public("//") || serve_is_public("/api/v1/runs"));
}

static void views(void **state)
{
    (void)state;
    assert_int_equal(parse("/api/v1/comparisons/0123456789abcdef0123456789abcdef"), 200);
    assert_int_equal(q.rows, SERVE_VIEW);
    assert_int_equal(q.to, UINT32_MAX);
    assert_int_equal(q.other, 0);
    static const char *const wrong[] = {
        "rows=0",        "rows=513",   "columns=", "from=-1",      "other=256",
        "to=4294967296", "tensor=%00", "before=1", "rows=1&rows=2"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char uri[200];
        snprintf(uri, sizeof uri, "/api/v1/comparisons/0123456789abcdef0123456789abcdef?%s",
                 wrong[i]);
        assert_int_equal(parse(uri), 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes), cmocka_unit_test(no_routes),  cmocka_unit_test(files_of_the_page),
        cmocka_unit_test(views),  cmocka_unit_test(parameters), cmocka_unit_test(bad_parameters),
        cmocka_unit_test(hosts),  cmocka_unit_test(accepts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
