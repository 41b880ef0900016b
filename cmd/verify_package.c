/* SPDX-License-Identifier: Apache-2.0 */
/* twinrun verify PACKAGE: every file against its manifest, nothing more, nothing less, and the
 * signature. */
#include "verify.h"

#include "json.h"
#include "package.h"
#include "progress.h"
#include "say.h"
#include "signed.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 20 };

static bool is_package(const char *target, const char *head, size_t n)
{
    (void)n;
    return !head && twin_package_is(target);
}

static void progress(void *user, uint64_t bytes, uint64_t all)
{
    static uint64_t next_ns;
    char line[120], a[16], b[16];
    (void)user;
    uint64_t now = tw_monotonic_ns();
    if (!tw_progress_on() || now < next_ns)
        return;
    next_ns = now + 100000000;
    snprintf(line, sizeof line, "verifying: %s of %s", tw_human_bytes(bytes, a),
             tw_human_bytes(all, b));
    tw_progress_line(line);
}

int tw_package_open(const char *dir, struct twin_trust *trust, int64_t at_ns, const char *copy,
                    struct twin_bag_verdict *out)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_bag_options o = {
        .trust = trust, .at_ns = at_ns, .progress = progress, .copy = copy};
    int rc = twin_package_verify(dir, &o, out, &err);
    tw_progress_clear();
    return rc ? tw_trouble(&err, "nothing was verified") : -1;
}

json_t *tw_package_findings(const struct twin_bag_verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->findings; i++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "change",
                                              twin_bag_change_name(v->finding[i].change), "path",
                                              tw_json_text(v->finding[i].path), "why",
                                              tw_json_text(v->finding[i].why)));
    return list;
}

void tw_package_print(const char *dir, const struct twin_bag_verdict *v)
{
    char size[16], count[32];
    uint64_t later = 0;
    tw_put("%-8s", v->findings ? "FAILED" : "OK");
    tw_put("%s", dir);
    if (v->findings)
        tw_put(": %s thing%s not as in its manifests\n", tw_human_count(v->findings, count),
               v->findings == 1 ? " is" : "s are");
    else
        tw_put("  %s files, %s, each as in its manifest, nothing besides\n",
               tw_human_count(v->files, count), tw_human_bytes(v->bytes, size));
    for (size_t i = 0; i < v->findings && i < SHOWN; i++) {
        tw_put("  %-11s  ", twin_bag_change_name(v->finding[i].change));
        tw_put("%s", v->finding[i].path);
        tw_put("\n               ");
        tw_put("%s", v->finding[i].why);
        tw_put("\n");
    }
    if (v->findings > SHOWN)
        tw_put("  and %zu more (--json lists all)\n", v->findings - SHOWN);
    for (size_t i = 0; i < v->fetches; i++)
        later += v->fetch[i].bytes;
    if (v->fetches)
        tw_put("  note         %s files of data (%s) are not here; fetch.txt says where they are\n",
               tw_human_count(v->fetches, count), tw_human_bytes(later, size));
    if (v->trust && v->trust->trusted)
        tw_put("  signed       %zu good signature%s, %zu needed\n", v->trust->good,
               v->trust->good == 1 ? "" : "s", v->trust->needed);
    else if (!v->trust && v->is_signed)
        tw_put("  note         signed, but nobody was named to be trusted: --key PUB or --trust "
               "FILE\n");
    else if (!v->is_signed && !v->findings)
        tw_put("  note         not signed: whoever changes a file can change the manifests, too\n");
    if (!v->findings)
        tw_put("  name         sha256:%s ("
               "tagmanifest-sha256.txt)\n",
               v->tagmanifest);
}

static int verify(char *const *operands, size_t count, const struct tw_verify_args *a)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct twin_trust *trust = NULL;
    struct twin_bag_verdict v;
    int64_t at_ns = tw_realtime_ns();
    (void)count;
    if ((a->keys.count || a->trust) && tw_signed_trust(a, &trust, &at_ns, &err) != 0)
        return tw_trouble(&err, "nothing was verified");
    int rc = tw_package_open(operands[0], trust, at_ns, NULL, &v);
    twin_trust_free(trust);
    if (rc >= 0)
        return rc;
    rc = v.findings ? TW_EXIT_DIFFER : TW_EXIT_SAME;
    if (a->json) {
        json_t *later = json_array();
        for (size_t i = 0; i < v.fetches; i++)
            json_array_append_new(later, json_pack("{s:o, s:o, s:I}", "path",
                                                   tw_json_text(v.fetch[i].path), "url",
                                                   tw_json_text(v.fetch[i].url), "bytes",
                                                   (json_int_t)v.fetch[i].bytes));
        int bad = tw_json_print(json_pack(
            "{s:s, s:s, s:s, s:o, s:I, s:I, s:s, s:b, s:o, s:o, s:o}", "schema", "twinrun.verify/1",
            "kind", "package", "outcome", rc ? "failed" : "verified", "target",
            tw_json_text(operands[0]), "files", (json_int_t)v.files, "bytes", (json_int_t)v.bytes,
            "tagmanifest_sha256", v.tagmanifest, "signed", v.is_signed, "trusted",
            v.trust ? json_boolean(v.trust->trusted) : json_null(), "findings",
            tw_package_findings(&v), "to_fetch", later));
        rc = bad ? bad : rc;
    } else {
        tw_package_print(operands[0], &v);
    }
    twin_bag_verdict_free(&v);
    return rc;
}

const struct tw_verify_kind tw_verify_package = {"a package", is_package, 1, verify};
