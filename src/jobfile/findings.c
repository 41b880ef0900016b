/* SPDX-License-Identifier: Apache-2.0 */
/* The rules by name, what is found of them, and questions that manifests and scripts share. */
#include "inside.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

static const struct {
    const char *name, *reason;
} rules[] = {
    [TW_RULE_PACKAGE] = {"package", "in another image the package's run is not repeated"},
    [TW_RULE_IMAGE] = {"image", "a tag can name another image tomorrow; a digest cannot"},
    [TW_RULE_POOL] = {"pool", "another type of processor or GPU chooses other kernels and adds in "
                              "another order"},
    [TW_RULE_DRIVER] = {"driver", "another driver can compile other machine code for the same "
                                  "kernels"},
    [TW_RULE_SNAPSHOT] = {"snapshot", "data that a job can change are not the same in its repeat"},
    [TW_RULE_SEED] = {"seed", "a seed that is not in the file is drawn anew, or taken from where "
                              "nobody will look"},
    [TW_RULE_RUN_ID] = {"run-id", "without a name of its own a run cannot be found, and a repeat "
                                  "cannot be held against it"},
    [TW_RULE_RETRY] = {"retry", "a silent restart makes another run of it, and hides how often it "
                                "fails"},
    [TW_RULE_THREADS] = {"threads", "the number of threads decides how sums are split, and it "
                                    "follows from the node where nothing is said"},
    [TW_RULE_DIRECTIVES] = {"directives", "what sbatch does not read, or takes from the shell of "
                                          "whoever submits, is not in the file"},
};
_Static_assert(sizeof rules / sizeof rules[0] == TW_RULES, "a row for each rule");

const char *tw_jobfile_rule_name(enum tw_jobfile_rule r)
{
    assert(r < TW_RULES);
    return rules[r].name;
}

const char *tw_jobfile_rule_reason(enum tw_jobfile_rule r)
{
    assert(r < TW_RULES);
    return rules[r].reason;
}

const char *tw_jobfile_state_name(enum tw_jobfile_state s)
{
    static const char *const names[] = {
        [TW_RULE_HOLDS] = "holds", [TW_RULE_BROKEN] = "broken", [TW_RULE_NOT_KNOWN] = "not known"};
    assert(s < sizeof names / sizeof names[0]);
    return names[s];
}

void tw_jobfile_findings_free(struct tw_jobfile_findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        tw_free(f->item[i].where);
        tw_free(f->item[i].what);
        tw_free(f->item[i].fix);
    }
    tw_free(f->item);
    *f = (struct tw_jobfile_findings){0};
}

void jf_say(const struct jf_place *p, enum tw_jobfile_rule rule, enum tw_jobfile_state state,
            char *what, const char *fix)
{
    struct tw_jobfile_findings *f = p->out;
    assert((state == TW_RULE_HOLDS) == (fix == NULL));
    if (f->count == f->room) {
        const size_t room = f->room ? 2 * f->room : 16;
        struct tw_jobfile_finding *grown = tw_reallocarray(f->item, room, sizeof *grown);
        if (!grown) {
            f->failed = true;
            tw_free(what);
            return;
        }
        f->item = grown;
        f->room = room;
    }
    char *where = tw_strdup(p->where), *copy = fix ? tw_strdup(fix) : NULL;
    if (!where || !what || (fix && !copy))
        f->failed = true;
    f->item[f->count++] = (struct tw_jobfile_finding){rule, state, p->line, where, what, copy};
}

void jf_holds(const struct jf_place *p, enum tw_jobfile_rule rule, const char *what, ...)
{
    va_list ap;
    va_start(ap, what);
    jf_say(p, rule, TW_RULE_HOLDS, tw_vprintf(what, ap), NULL);
    va_end(ap);
}

bool jf_has_digest(const char *image)
{
    const char *at = strrchr(image, '@');
    return at && at > image && tw_starts(at, "@sha256:") && tw_is_hex(at + 8, 64);
}

bool jf_is_template(const char *text)
{
    return strstr(text, "{{") || strchr(text, '$');
}

bool jf_is_number(const char *text)
{
    uint64_t n;
    return tw_parse_u64(text, UINT64_MAX, &n) == 0;
}

/* ---- the image of a package */

void jf_see_image(struct jf_images *x, const char *image, size_t line)
{
    bool is_it = false;
    const bool has_digest = jf_has_digest(image);
    if (!x->asked->image_digest[0])
        return; /* no package was named */
    for (size_t i = 0; has_digest && i < 2; i++) {
        const char *digest = x->asked->image_digest[i];
        is_it |= digest && strcmp(strrchr(image, '@') + 1, digest) == 0;
    }
    x->same += is_it;
    x->others += !is_it && has_digest;
    x->open += !is_it && !has_digest; /* a tag, or what is filled in later */
    if (is_it || x->found)
        return;
    x->found = tw_strdup(image);
    x->line = line;
}

void jf_judge_package(const struct jf_place *p, struct jf_images *x, bool elsewhere)
{
    const char *digest = x->asked->image_digest[0], *fix = x->asked->image_reference;
    const struct jf_place at = {p->out, x->line ? x->line : p->line, p->where};
    if (!fix)
        fix = "push the package's image to a registry, and name it by REPOSITORY@sha256:DIGEST";
    if (!digest)
        return;
    if (x->same)
        jf_holds(&at, TW_RULE_PACKAGE, "%s", digest);
    else if (x->open || elsewhere)
        jf_say(&at, TW_RULE_PACKAGE, TW_RULE_NOT_KNOWN,
               tw_printf("which image %s is, is not in the file; the package names %s",
                         x->found ? x->found : "it has", digest),
               fix);
    else
        jf_say(&at, TW_RULE_PACKAGE, TW_RULE_BROKEN,
               tw_printf("expected the image that the package names, %s, found %s", digest,
                         x->found ? x->found : "none"),
               fix);
    tw_free(x->found);
    x->found = NULL;
}

int tw_jobfile_lint(const char *name, const char *text, size_t bytes,
                    const struct tw_jobfile_asked *asked, struct tw_jobfile_findings *out,
                    struct twin_error *err)
{
    *out = (struct tw_jobfile_findings){0};
    if (bytes > TW_JOBFILE_BYTES)
        return twin_error_set(err, TWIN_ELIMIT, "%s: expected at most 4 MiB, found %zu bytes", name,
                              bytes);
    if (bytes >= 2 && memcmp(text, "#!", 2) == 0) {
        int rc = jf_lint_script(name, text, bytes, asked, out, err);
        return rc == 0 && out->failed ? tw_no_memory(err, "for the findings of %s", name) : rc;
    }
    struct jf_yaml y;
    int rc = jf_yaml_read(name, text, bytes, &y, err);
    if (rc == 0)
        jf_lint_documents(&y, asked, out);
    jf_yaml_free(&y);
    return rc == 0 && out->failed ? tw_no_memory(err, "for the findings of %s", name) : rc;
}
