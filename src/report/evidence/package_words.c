/* SPDX-License-Identifier: Apache-2.0 */
/* What was found when a package was held against its manifests, in words and as JSON. The text says
 * what the check did not cover, too: data that is not here, a signature that nobody was named for,
 * a package that anybody could have rewritten with its manifests. */
#include "verify_words.h"

#include "base.h"
#include "json_text.h"
#include "phrase.h"
#include "put.h"

enum { SHOWN = 20 }; /* findings in the text */

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

void tw_package_text(FILE *out, const char *dir, const struct twin_bag_verdict *v)
{
    char size[16], count[32];
    uint64_t later = 0;
    tw_put_to(out, "%-8s", v->findings ? "FAILED" : "OK");
    tw_put_to(out, "%s", dir);
    if (v->findings)
        tw_put_to(out, ": %s thing%s not as in its manifests\n", tw_human_count(v->findings, count),
                  v->findings == 1 ? " is" : "s are");
    else
        tw_put_to(out, "  %s files, %s, each as in its manifest, nothing besides\n",
                  tw_human_count(v->files, count), tw_human_bytes(v->bytes, size));
    for (size_t i = 0; i < v->findings && i < SHOWN; i++) {
        tw_put_to(out, "  %-11s  ", twin_bag_change_name(v->finding[i].change));
        tw_put_to(out, "%s", v->finding[i].path);
        tw_put_to(out, "\n               ");
        tw_put_to(out, "%s", v->finding[i].why);
        tw_put_to(out, "\n");
    }
    if (v->findings > SHOWN)
        tw_put_to(out, "  and %zu more (--json lists all)\n", v->findings - SHOWN);
    for (size_t i = 0; i < v->fetches; i++)
        later += v->fetch[i].bytes;
    if (v->fetches)
        tw_put_to(
            out,
            "  note         %s files of data (%s) are not here; fetch.txt says where they are\n",
            tw_human_count(v->fetches, count), tw_human_bytes(later, size));
    if (v->trust && v->trust->trusted)
        tw_put_to(out, "  signed       %zu good signature%s, %zu needed\n", v->trust->good,
                  tw_plural_s(v->trust->good), v->trust->needed);
    else if (!v->trust && v->is_signed)
        tw_put_to(out,
                  "  note         signed, but nobody was named to be trusted: --key PUB or --trust "
                  "FILE\n");
    else if (!v->is_signed && !v->findings)
        tw_put_to(
            out,
            "  note         not signed: whoever changes a file can change the manifests, too\n");
    if (!v->findings)
        tw_put_to(out,
                  "  name         sha256:%s ("
                  "tagmanifest-sha256.txt)\n",
                  v->tagmanifest);
}

json_t *tw_package_json(const char *dir, const struct twin_bag_verdict *v)
{
    json_t *later = json_array();
    for (size_t i = 0; i < v->fetches; i++)
        json_array_append_new(later,
                              json_pack("{s:o, s:o, s:I}", "path", tw_json_text(v->fetch[i].path),
                                        "url", tw_json_text(v->fetch[i].url), "bytes",
                                        (json_int_t)v->fetch[i].bytes));
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:s, s:b, s:o, s:o, s:o}", "schema",
                     "twinrun.verify/1", "kind", "package", "outcome",
                     v->findings ? "failed" : "verified", "target", tw_json_text(dir), "files",
                     (json_int_t)v->files, "bytes", (json_int_t)v->bytes, "tagmanifest_sha256",
                     v->tagmanifest, "signed", v->is_signed, "trusted",
                     v->trust ? json_boolean(v->trust->trusted) : json_null(), "findings",
                     tw_package_findings(v), "to_fetch", later);
}
