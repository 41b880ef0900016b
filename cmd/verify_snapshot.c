/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twinrun verify SNAPSHOT: the folder is read again, and what differs from the manifest is named.
 */
#include "verify.h"

#include "json.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "snapshots.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

static bool is(const char *target, const char *head, size_t n)
{
    (void)n;
    return head && twin_snapshot_is(target, head);
}

static int report_text(const char *manifest, const char *dir, const struct twin_snapshot *was,
                       const struct twin_snapshot *now, size_t differences)
{
    char holds[160], n[32];
    size_t modes = 0;
    char *folder = tw_printable(dir, strlen(dir)), *name = tw_printable(manifest, strlen(manifest));
    if (differences)
        tw_put("DIFFER  %s is not what %s says: %s difference%s\n", folder ? folder : "?",
               name ? name : "?", tw_human_count(differences, n), differences == 1 ? "" : "s");
    tw_snapshot_print_differences(stdout, was, now, 0, &modes);
    if (!differences)
        tw_put("OK      %s  %s  sha256:%s\n", folder ? folder : "?", tw_snapshot_holds(was, holds),
               was->root);
    if (modes)
        tw_put("  note     %s with other permission bits or links, the same bytes\n",
               tw_human_count(modes, n));
    tw_free(folder);
    tw_free(name);
    return differences ? TW_EXIT_DIFFER : TW_EXIT_SAME;
}

static int report(const char *manifest, const char *dir, const struct twin_snapshot *was,
                  const struct twin_snapshot *now, bool json)
{
    size_t n = tw_snapshot_count_differences(was, now);
    if (!json)
        return report_text(manifest, dir, was, now, n);
    json_t *differences = tw_snapshot_json_differences(was, now, &n);
    int rc = tw_json_print(json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:s, s:I, s:I, s:o}", "schema", "twinrun.verify/1", "kind",
        "snapshot", "outcome", n ? "differ" : "same", "target", tw_json_text(manifest), "folder",
        tw_json_text(dir), "root", was->root, "files", (json_int_t)was->files, "bytes",
        (json_int_t)was->bytes, "differences", differences));
    if (rc != 0)
        return rc;
    return n ? TW_EXIT_DIFFER : TW_EXIT_SAME;
}

static int verify(char *const *operands, size_t operand_count, const struct tw_verify_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_looking looking;
    struct twin_snapshot was, now;
    char *dir = operand_count > 1 ? tw_strdup(operands[1]) : tw_snapshot_folder(operands[0]);
    if (!dir)
        return tw_bad_use("verify",
                          "expected the folder behind %s: its name does not end in .snapshot",
                          operands[0]);
    if (twin_snapshot_read(operands[0], &was, &err) != 0) {
        tw_free(dir);
        return tw_trouble(&err, "verify");
    }
    struct twin_snapshot_options o = tw_snapshot_options(&looking, "verifying");
    o.paranoid = !a->quick;
    o.not_this = operands[0];
    int rc = twin_snapshot_take_again(&was, dir, &o, &now, &err);
    tw_progress_clear();
    if (rc == 0) {
        rc = report(operands[0], dir, &was, &now, a->json);
        twin_snapshot_free(&now);
    } else {
        rc = tw_snapshot_failed(&looking, &err);
    }
    twin_snapshot_free(&was);
    tw_free(dir);
    return rc;
}

const struct tw_verify_kind tw_verify_snapshot = {"a snapshot's manifest", is, 2, verify};
