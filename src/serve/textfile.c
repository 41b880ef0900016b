/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics as a file for node exporter: no server, no port. */
#include "serve.h"

#include "metrics.h"

#include "base.h"

#include <sys/stat.h>

int serve_state_once(const struct tw_serve_options *o, struct serve_state **out,
                     struct twin_error *err)
{
    struct twin_ledger *l = NULL;
    struct tw_slo_history *h = NULL;
    struct tw_slo_counted high = {.count = 0};
    *out = NULL;
    int rc = twin_ledger_open_to_read(o->home, o->ledger, &l, err);
    const uint64_t from = tw_monotonic_ns();
    rc = rc ? rc : tw_slo_history_load(l, NULL, INT64_MIN, &h, err);
    const struct serve_making m = {
        .l = l, .h = h, .targets = o->targets, .high = &high, .now_ns = tw_realtime_ns()};
    rc = rc ? rc : serve_state_make(&m, out, err);
    if (rc == 0)
        (*out)->seconds = (double)(tw_monotonic_ns() - from) / 1e9;
    tw_slo_history_free(h);
    tw_slo_counted_free(&high);
    twin_ledger_close(l);
    return rc;
}

int tw_serve_textfile(const struct tw_serve_options *o, const char *folder, struct twin_error *err)
{
    struct serve_state *s = NULL;
    struct tw_buf b = {0};
    struct stat st;
    char *path = tw_path_join(folder, "twinrun.prom");
    int rc = path ? 0 : tw_no_memory(err, "for the metrics");
    if (rc == 0 && stat(folder, &st) != 0)
        rc = twin_error_system(err, "--textfile: expected a folder: %s", folder);
    else if (rc == 0 && !S_ISDIR(st.st_mode))
        rc = twin_error_set(err, TWIN_EINVAL, "--textfile: expected a folder, found a file: %s",
                            folder);
    rc = rc ? rc : serve_state_once(o, &s, err);
    if (rc == 0) {
        const struct serve_live live = {.version = o->version, .up = true};
        serve_metrics(s, &live, false, NULL, &b);
        rc = b.failed ? tw_no_memory(err, "for the metrics")
                      : tw_write_file_atomic(path, b.data, b.len, err);
    }
    tw_buf_free(&b);
    serve_state_free(s);
    tw_free(path);
    return rc;
}
