/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request asks for. Every byte of it may be hostile: lengths are checked before bytes are
 * copied, a parameter that is not known, not allowed here or given twice is an error, and values
 * are UTF-8 without control characters.
 */
#include "query.h"

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;

/* ---- parameters */

enum parameter {
    LIMIT,
    BEFORE,
    SINCE,
    PROJECT,
    COMMAND,
    OUTCOME,
    VERB,
    INDICATOR,
    SCOPE,
    ROWS,
    COLUMNS,
    FROM,
    TO,
    TENSOR,
    OTHER,
    KEYS
};
#define BIT(p) (1u << (p))
static const char *const key_name[KEYS] = {"limit",   "before", "since",     "project", "command",
                                           "outcome", "verb",   "indicator", "scope",   "rows",
                                           "columns", "from",   "to",        "tensor",  "other"};
enum { PAGED = BIT(LIMIT) | BIT(BEFORE) | BIT(SINCE) | BIT(PROJECT) | BIT(COMMAND) };
enum { VIEWED = BIT(ROWS) | BIT(COLUMNS) | BIT(FROM) | BIT(TO) | BIT(TENSOR) | BIT(OTHER) };

static const struct {
    const char *path; /* one that ends in '/' has a name behind it */
    enum serve_route route;
    unsigned keys;
    const char *behind; /* the name; NULL: nothing */
} routes[] = {
    {"/", SERVE_PAGE, 0},
    {"/assets/", SERVE_ASSET, 0},
    {"/plain", SERVE_PLAIN, 0},
    {"/healthz", SERVE_HEALTH, 0},
    {"/metrics", SERVE_METRICS, 0},
    {"/api/v1/runs", SERVE_RUNS, PAGED | BIT(OUTCOME)},
    {"/api/v1/runs/", SERVE_RUN, 0},
    {"/api/v1/verdicts", SERVE_VERDICTS, PAGED | BIT(OUTCOME) | BIT(VERB)},
    {"/api/v1/verdicts/", SERVE_POSTMORTEM, BIT(OTHER), "/postmortem"},
    {"/api/v1/comparisons/", SERVE_COMPARISON, VIEWED},
    {"/api/v1/searches", SERVE_SEARCHES, PAGED | BIT(OUTCOME)},
    {"/api/v1/searches/", SERVE_SEARCH, 0},
    {"/api/v1/indicators", SERVE_INDICATORS, BIT(INDICATOR) | BIT(SCOPE) | BIT(PROJECT)},
    {"/api/v1/incidents", SERVE_INCIDENT_LIST, 0},
    {"/api/v1/events", SERVE_EVENTS, 0},
    {"/api/v1/schemas", SERVE_SCHEMAS, 0},
    {"/api/v1/schemas/", SERVE_SCHEMA, 0},
};
enum { ROUTE_COUNT = sizeof routes / sizeof routes[0] };

/* Is this well-formed UTF-8 (no overlong forms, no surrogates) without control characters? */
static bool is_text(const char *s)
{
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        unsigned more = 0, least = 0x20, code = *p;
        if (*p >= 0xf0 && *p < 0xf5) {
            more = 3;
            least = 0x10000;
            code &= 7;
        } else if (*p >= 0xe0 && *p < 0xf0) {
            more = 2;
            least = 0x800;
            code &= 15;
        } else if (*p >= 0xc2 && *p < 0xe0) {
            more = 1;
            least = 0x80;
            code &= 31;
        } else if (*p >= 0x7f) {
            return false;
        }
        for (p++; more; more--, p++) {
            if ((*p & 0xc0) != 0x80)
                return false;
            code = code << 6 | (*p & 0x3f);
        }
        if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
            (code >= 0x80 && code < 0xa0))
            return false;
    }
    return true;
}

/* Takes %XX and '+' of the n bytes at s back; false: too long for room, a bad %, or no text. */
static bool decode(const char *s, size_t n, char *out, size_t room)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            const int high = i + 2 < n ? tw_hex_digit(s[i + 1]) : -1;
            const int low = i + 2 < n ? tw_hex_digit(s[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (unsigned char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || k + 1 >= room)
            return false;
        out[k++] = (char)c;
    }
    out[k] = '\0';
    return is_text(out);
}

/* 90s, 15m, 12h, 3d, 2w back from now; or seconds since 1970. */
static bool read_since(const char *s, int64_t now_ns, int64_t *out)
{
    static const struct {
        char unit;
        int64_t s;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    char number[24];
    uint64_t n = 0;
    const size_t length = strlen(s);
    if (length == 0 || length >= sizeof number)
        return false;
    if (tw_parse_u64(s, (uint64_t)(INT64_MAX / SECOND_NS), &n) == 0) {
        *out = (int64_t)n * SECOND_NS;
        return true;
    }
    memcpy(number, s, length);
    number[length - 1] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (s[length - 1] == units[i].unit &&
            tw_parse_u64(number, (uint64_t)(INT64_MAX / SECOND_NS / units[i].s), &n) == 0) {
            const int64_t back = (int64_t)n * units[i].s * SECOND_NS;
            *out = back > now_ns ? 0 : now_ns - back;
            return true;
        }
    return false;
}

/* NANOSECONDS-ID, as `next` of a page gives it. */
static bool read_before(const char *s, struct serve_query *q)
{
    char number[24];
    uint64_t n = 0;
    const char *dash = strchr(s, '-');
    if (!dash || (size_t)(dash - s) >= sizeof number || !tw_is_hex(dash + 1, 32))
        return false;
    memcpy(number, s, (size_t)(dash - s));
    number[dash - s] = '\0';
    if (tw_parse_u64(number, INT64_MAX, &n) != 0)
        return false;
    q->before_ns = (int64_t)n;
    memcpy(q->before_id, dash + 1, sizeof q->before_id);
    return true;
}

/* What a value of this key must be; NULL: it is, and was taken. */
static const char *take(struct serve_query *q, enum parameter key, const char *value,
                        int64_t now_ns)
{
    struct {
        char *to;
        size_t room;
    } text[KEYS] = {
        [PROJECT] = {q->project, sizeof q->project},
        [COMMAND] = {q->command, sizeof q->command},
        [OUTCOME] = {q->outcome, sizeof q->outcome},
        [VERB] = {q->verb, sizeof q->verb},
        [INDICATOR] = {q->indicator, sizeof q->indicator},
        [SCOPE] = {q->scope, sizeof q->scope},
        [TENSOR] = {q->tensor, sizeof q->tensor},
    };
    const struct {
        uint64_t *to, least, most;
        const char *expected;
    } number[KEYS] = {
        [LIMIT] = {&q->limit, 1, SERVE_LIMIT_MOST, "a number from 1 to 1000"},
        [ROWS] = {&q->rows, 1, SERVE_VIEW_MOST, "a number from 1 to 512"},
        [COLUMNS] = {&q->columns, 1, SERVE_VIEW_MOST, "a number from 1 to 512"},
        [FROM] = {&q->from, 0, UINT32_MAX, "a step"},
        [TO] = {&q->to, 0, UINT32_MAX, "a step"},
        [OTHER] = {&q->other, 1, SERVE_OTHER_MOST, "the place of a run in the list, from 1 on"},
    };
    if (number[key].to)
        return tw_parse_u64(value, number[key].most, number[key].to) == 0 &&
                       *number[key].to >= number[key].least
                   ? NULL
                   : number[key].expected;
    if (key == BEFORE)
        return read_before(value, q) ? NULL : "what `next` of the page before says";
    if (key == SINCE)
        return read_since(value, now_ns, &q->since_ns)
                   ? NULL
                   : "90s, 15m, 12h, 3d, 2w, or seconds since 1970";
    if (!*value || strlen(value) >= text[key].room)
        return "a text, not empty, not that long";
    memcpy(text[key].to, value, strlen(value) + 1);
    return NULL;
}

/* One KEY=VALUE of n bytes. */
static int read_parameter(const char *s, size_t n, unsigned allowed, unsigned *given,
                          int64_t now_ns, struct serve_query *q, char why[200])
{
    char value[SERVE_VALUE_BYTES];
    const char *equals = memchr(s, '=', n);
    const size_t length = equals ? (size_t)(equals - s) : n;
    for (enum parameter key = 0; key < KEYS; key++) {
        if (!(allowed & BIT(key)) || strlen(key_name[key]) != length ||
            memcmp(key_name[key], s, length) != 0)
            continue;
        if (*given & BIT(key)) {
            snprintf(why, 200, "%s: expected once, found twice", key_name[key]);
            return 400;
        }
        *given |= BIT(key);
        if (!equals || !decode(equals + 1, n - length - 1, value, sizeof value)) {
            snprintf(why, 200, "%s: expected a text in UTF-8 of less than %d bytes, in %%XX",
                     key_name[key], SERVE_VALUE_BYTES);
            return 400;
        }
        const char *expected = take(q, key, value, now_ns);
        if (expected)
            snprintf(why, 200, "%s: expected %s", key_name[key], expected);
        return expected ? 400 : 200;
    }
    size_t at = (size_t)snprintf(why, 200, "a parameter that is not known here; expected");
    for (enum parameter key = 0; key < KEYS; key++)
        if ((allowed & BIT(key)) && at < 180)
            at += (size_t)snprintf(why + at, 200 - at, " %s", key_name[key]);
    if (!allowed)
        snprintf(why + at, 200 - at, " none");
    return 400;
}

static int read_parameters(const char *s, unsigned allowed, int64_t now_ns, struct serve_query *q,
                           char why[200])
{
    unsigned given = 0;
    int status = 200;
    while (*s && status == 200) {
        const size_t n = strcspn(s, "&");
        if (n)
            status = read_parameter(s, n, allowed, &given, now_ns, q, why);
        s += n + (s[n] == '&');
    }
    return status;
}

/* ---- paths */

bool serve_is_of_pair(enum serve_route r)
{
    return r == SERVE_COMPARISON || r == SERVE_POSTMORTEM;
}

bool serve_search_is_name(const char *s)
{
    const size_t n = strlen(s);
    return n > 20 && n < 64 && *s >= '0' && *s <= '9' && strspn(s, "0123456789TZ-") == n;
}

static const char file_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789._-";

/* The name behind a route's path: a run's id, or a schema's or a file's name, and nothing that
 * could lead anywhere. */
static bool take_name(struct serve_query *q, const char *name, size_t n)
{
    if (n == 0 || n >= sizeof q->name)
        return false;
    memcpy(q->name, name, n);
    q->name[n] = '\0';
    if (q->route == SERVE_RUN || serve_is_of_pair(q->route))
        return tw_is_hex(q->name, 32);
    if (q->route == SERVE_SEARCH)
        return tw_is_hex(q->name, 32) || serve_search_is_name(q->name);
    if (q->route == SERVE_ASSET) /* a file of a table: no name of it begins with a dot */
        return *name != '.' && strspn(q->name, file_letters) == n;
    return strspn(q->name, "abcdefghijklmnopqrstuvwxyz") == n;
}

int serve_query_parse(const char *uri, int64_t now_ns, struct serve_query *q, char why[200])
{
    const size_t n = strcspn(uri, "?#");
    *q = (struct serve_query){
        .limit = SERVE_LIMIT, .rows = SERVE_VIEW, .columns = SERVE_VIEW, .to = UINT32_MAX};
    why[0] = '\0';
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        const size_t length = strlen(routes[i].path);
        const bool named = length > 1 && routes[i].path[length - 1] == '/';
        if (n < length || memcmp(uri, routes[i].path, length) != 0 || (!named && n != length))
            continue;
        const char *behind = routes[i].behind ? routes[i].behind : "";
        const size_t last = strlen(behind);
        if (n - length < last || memcmp(uri + n - last, behind, last) != 0)
            continue;
        q->route = routes[i].route;
        if (named && !take_name(q, uri + length, n - length - last))
            break;
        return uri[n] == '?' ? read_parameters(uri + n + 1, routes[i].keys, now_ns, q, why) : 200;
    }
    q->route = SERVE_NOTHING;
    snprintf(why, 200,
             "nothing is here; the API is below /api/v1/, its schemas are listed by "
             "/api/v1/schemas");
    return 404;
}

/* ---- who asks */

/* The name of a Host header without its port; its length. 0: none, or nonsense. */
static size_t host_name_length(const char *host)
{
    size_t n = 0;
    if (*host == '[') {
        n = strcspn(host, "]");
        n += host[n] == ']';
    } else {
        n = strcspn(host, ":");
    }
    if (n == 0 || n > 255)
        return 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)host[i] <= ' ' || strchr("/\\@?#\"'<>", host[i]) || host[i] & 0x80)
            return 0;
    if (host[n] == '\0')
        return n;
    return host[n] == ':' && strspn(host + n + 1, "0123456789") == strlen(host + n + 1) ? n : 0;
}

const char *serve_host_fault(const char *host, bool own)
{
    static const char *const ours[] = {"localhost", "127.0.0.1", "[::1]"};
    const size_t n = host ? host_name_length(host) : 0;
    if (!n)
        return "expected one Host header with a name";
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strlen(ours[i]) == n && strncasecmp(ours[i], host, n) == 0)
            return NULL;
    /* A page of another site can make its own name lead here; it cannot choose the header. */
    return own ? "expected localhost, 127.0.0.1 or [::1] as the host" : NULL;
}

const char *serve_origin_fault(const char *origin, const char *host, bool tls)
{
    if (!origin)
        return NULL;
    const char *scheme = tls ? "https://" : "http://";
    if (tw_starts(origin, scheme) && host && strcasecmp(origin + strlen(scheme), host) == 0)
        return NULL;
    return "pages of other sites are not answered";
}

/* ---- Accept */

/* The q of one part of an Accept header, in thousandths. */
static int quality(const char *part, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++) {
        if (part[i] != ';')
            continue;
        size_t k = i + 1;
        while (k < n && part[k] == ' ')
            k++;
        if (k + 2 < n + 1 && part[k] == 'q' && part[k + 1] == '=') {
            char number[8] = "";
            const size_t length = n - k - 2 < 7 ? n - k - 2 : 7;
            memcpy(number, part + k + 2, length);
            const double x = strtod(number, NULL);
            return x >= 0 && x <= 1 ? (int)(1000 * x + .5) : 0;
        }
    }
    return 1000;
}

bool serve_wants_openmetrics(const char *accept)
{
    static const char ours[] = "application/openmetrics-text", plain[] = "text/plain";
    int best = 0, classic = 0;
    for (const char *p = accept ? accept : ""; *p;) {
        const size_t n = strcspn(p, ",");
        const char *part = p;
        size_t left = n;
        while (left && *part == ' ') {
            part++;
            left--;
        }
        /* of the versions of OpenMetrics we write 1.0.0, which 0.0.1 differs from in no way that
         * shows here */
        if (left >= strlen(ours) && strncasecmp(part, ours, strlen(ours)) == 0)
            best = quality(part, left) > best ? quality(part, left) : best;
        else if (left >= strlen(plain) && strncasecmp(part, plain, strlen(plain)) == 0)
            classic = quality(part, left) > classic ? quality(part, left) : classic;
        p += n + (p[n] == ',');
    }
    return best > 0 && best >= classic;
}

bool serve_wants_gzip(const char *encodings)
{
    static const char name[] = "gzip";
    for (const char *p = encodings ? encodings : ""; *p;) {
        p += strspn(p, " \t,");
        const size_t n = strcspn(p, ","), word = strcspn(p, ",; \t");
        if (word == strlen(name) && strncasecmp(p, name, word) == 0)
            return quality(p, n) > 0;
        p += n;
    }
    return false;
}

bool serve_has_tag(const char *tags, const char *tag)
{
    for (const char *p = tags ? tags : ""; *p;) {
        p += strspn(p, " \t,");
        p += tw_starts(p, "W/") ? 2 : 0; /* for a GET the weak and the strong one are the same */
        const size_t n = strcspn(p, ", \t");
        if ((n == 1 && *p == '*') || (n == strlen(tag) && memcmp(p, tag, n) == 0))
            return true;
        p += n;
    }
    return false;
}

bool serve_is_public(const char *uri)
{
    return tw_starts(uri, "/assets/") || (*uri == '/' && strcspn(uri, "?#") == 1);
}
