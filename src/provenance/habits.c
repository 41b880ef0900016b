/* SPDX-License-Identifier: Apache-2.0 */
/* Habits that look like seeding and are not (seen in real scripts again and again): PYTHONHASHSEED
 * set by the script itself, a worker seed that repeats in every epoch, a seed or a flag that is set
 * after something was built that has drawn or read already. A script is looked at line by line with
 * regular expressions; no line is executed or parsed, so a habit is a hint and never a finding. */
#include "habits.h"

#include "base.h"

#include <regex.h>
#include <stdbool.h>
#include <string.h>

/* What a line is looked at for. BUILDS is what may draw numbers or read flags (a model, a loader);
 * NOT_CODE is what executes nothing. */
enum { HASH_SEED, WORKER_SEED, WORKER_SEED_FINE, FLAG, SEED, BUILDS, NOT_CODE, PATTERNS };

static const char *const patterns[PATTERNS] = {
    [HASH_SEED] = "(environ *\\[ *['\"]PYTHONHASHSEED['\"] *\\] *=[^=])|((environ *\\. "
                  "*setdefault|putenv) *\\( *['\"]PYTHONHASHSEED)",
    [WORKER_SEED] = "seed[a-z_]* *\\([^#]*((\\+ *(worker_?id|worker_info *\\. "
                    "*id|wid))|((worker_?id|worker_info *\\. *id|wid) *\\+))",
    [WORKER_SEED_FINE] = "epoch|initial_seed|base_seed|info *\\. *seed|step",
    [FLAG] = "use_deterministic_algorithms *\\(|cudnn *\\. *(deterministic|benchmark|allow_tf32) "
             "*=|CUBLAS_WORKSPACE_CONFIG|set_float32_matmul_precision *\\(",
    [SEED] = "(torch|random|np|numpy) *\\. *(random *\\. *)?(manual_seed|seed) *\\(",
    [BUILDS] = "= *[A-Za-z_.]*(nn *\\. "
               "*[A-Z][A-Za-z0-9]*|DataLoader|Model|Net|Network|from_pretrained) *\\(",
    [NOT_CODE] = "^[ \t]*(#|import |from |class |def |@)",
};

/* The scan of one script. */
struct scan {
    regex_t compiled[PATTERNS];
    struct tw_habit *found;
    size_t count;
    size_t built_line;   /* first construction in the present block, 0 = none */
    size_t block_indent; /* of the present function's body lines */
    bool in_function;
};

/* Does the pattern stand in the line? */
static bool hits(struct scan *s, int pattern, const char *line)
{
    return regexec(&s->compiled[pattern], line, 0, NULL, 0) == 0;
}

/* Adds a habit at a line; earlier: the line that makes it one, 0 for none. 0 or TWIN_ENOMEM. */
static int add_habit(struct scan *s, size_t line, size_t earlier, const char *id, const char *text)
{
    struct tw_habit *grown = tw_reallocarray(s->found, s->count + 1, sizeof *grown);
    if (!grown)
        return TWIN_ENOMEM;
    grown[s->count++] = (struct tw_habit){line, earlier, id, text};
    s->found = grown;
    return 0;
}

/* Order of lines is order of execution only within one function, so a new `def`, or leaving one,
 * starts afresh. Blank lines and comments have no say in indentation. */
static void follow_blocks(struct scan *s, const char *line)
{
    size_t indent = strspn(line, " \t");
    bool def = tw_starts(line + indent, "def ") || tw_starts(line + indent, "async def ") ||
               tw_starts(line + indent, "class ");
    if (line[indent] == '\0' || line[indent] == '#')
        return;
    if (def || (s->in_function && indent <= s->block_indent)) {
        s->built_line = 0;
        s->in_function = def;
        s->block_indent = indent;
    }
}

/* Looks at one line: for habits, and whether something is built in it. */
static int scan_line(struct scan *s, const char *line, size_t number)
{
    int rc = 0;
    follow_blocks(s, line);
    if (hits(s, NOT_CODE, line))
        return 0;
    if (hits(s, HASH_SEED, line))
        rc = add_habit(
            s, number, 0, "hash-seed",
            "PYTHONHASHSEED is read when the interpreter starts: set here it changes child "
            "processes only. Set it before python starts: PYTHONHASHSEED=0 python ...");
    if (rc == 0 && hits(s, WORKER_SEED, line) && !hits(s, WORKER_SEED_FINE, line))
        rc = add_habit(
            s, number, 0, "worker-seed",
            "a worker seed of base + worker id repeats in every epoch and after a resume. "
            "Derive it from torch.initial_seed(), which the loader changes per epoch");
    if (rc == 0 && s->built_line && hits(s, FLAG, line))
        rc = add_habit(
            s, number, s->built_line, "late-flag",
            "this flag is set after something was built that may have read it. Set it first");
    if (rc == 0 && s->built_line && hits(s, SEED, line))
        rc = add_habit(s, number, s->built_line, "late-flag",
                       "this seed is set after something was built that may have drawn from the "
                       "generator. Seed first");
    if (!s->built_line && hits(s, BUILDS, line))
        s->built_line = number;
    return rc;
}

/* Lines are cut at 1023 bytes: longer ones are data. */
int tw_habits_scan(const char *source, struct tw_habit **found, size_t *count,
                   struct twin_error *err)
{
    struct scan s = {0};
    int ready = 0, rc = 0;
    char line[1024];
    for (; ready < PATTERNS && rc == 0; ready++)
        if (regcomp(&s.compiled[ready], patterns[ready], REG_EXTENDED | REG_NOSUB) != 0) {
            rc = twin_error_set(err, TWIN_ENOMEM, "cannot compile pattern %d", ready);
            break;
        }
    for (size_t number = 1; rc == 0 && *source; number++) {
        size_t n = strcspn(source, "\n"), kept = n < sizeof line ? n : sizeof line - 1;
        memcpy(line, source, kept);
        line[kept] = '\0';
        if (scan_line(&s, line, number) != 0)
            rc = tw_no_memory(err, "for what the script shows");
        source += n + (source[n] == '\n');
    }
    while (ready > 0)
        regfree(&s.compiled[--ready]);
    *found = s.found;
    *count = s.count;
    return rc;
}
