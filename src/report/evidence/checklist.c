/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The items are those of the NeurIPS paper checklist (2025), of the machine learning
 * reproducibility checklist that ICML refers to (version 2.0), and of the artifact appendix that
 * MLSys uses, in our words and shortened. Each is answered from areas of the audit, or left to the
 * author.
 */
#include "checklist.h"

#include "areas.h"
#include "operations.h"

#include "base.h"
#include "put.h"

#include <stdio.h>
#include <string.h>

const char *const tw_checklist_names =
    "neurips, icml, mlsys, pre-production, production or incident";

/* Bits for the areas that an item needs, in the order of enum twin_area, so that bit i is area i.
 * YOURS: no area can answer it. */
enum { CODE = 1, DATA = 2, ENVIRONMENT = 4, CONFIGURATION = 8, SEEDS = 16, ALL = 31, YOURS = 0 };

/* One question. hint: a help for the author, said behind the answer; NULL: none. A list ends with
 * text NULL. */
struct item {
    const char *text;
    unsigned needs;
    const char *hint;
};

/* Each item has its question, the areas that it needs, and a hint. */
static const struct item neurips[] = {
    {"Claims: the abstract says what the paper shows", YOURS, NULL},
    {"Limitations are discussed", YOURS, NULL},
    {"Theory: assumptions and proofs are complete", YOURS, NULL},
    {"Experimental results can be reproduced", ALL, NULL},
    {"Open access to data and code, with instructions", CODE | DATA, NULL},
    {"Experimental setting: splits, hyperparameters, how they were chosen", CONFIGURATION | DATA,
     "how they were chosen is yours to say"},
    {"Statistical significance: error bars, over what", YOURS,
     "twinrun check --runs N gives the spread over repeated runs"},
    {"Compute: type of machine, memory, time", ENVIRONMENT, NULL},
    {"Code of ethics", YOURS, NULL},
    {"Broader impacts", YOURS, NULL},
    {"Safeguards for models and data with a risk of misuse", YOURS, NULL},
    {"Licences of assets that were used", YOURS, NULL},
    {"New assets are documented", CODE | DATA | CONFIGURATION, NULL},
    {"Crowdsourcing and human subjects: instructions, pay", YOURS, NULL},
    {"Review board approval", YOURS, NULL},
    {"Use of language models is declared", YOURS, NULL},
    {NULL, 0, NULL},
};
static const struct item icml[] = {
    {"Models and algorithms: setting, assumptions, complexity are described", YOURS, NULL},
    {"Theory: statements and proofs", YOURS, NULL},
    {"Data sets: statistics, splits, what was left out, preprocessing", YOURS,
     "the snapshot has files and sizes"},
    {"Data sets: a link to a version that can be downloaded", DATA, NULL},
    {"Data sets: for new ones, how they were collected", YOURS, NULL},
    {"Code: dependencies are specified", ENVIRONMENT, NULL},
    {"Code: training code", CODE, NULL},
    {"Code: evaluation code", CODE,
     "the code that the run started; whether it evaluates is yours to say"},
    {"Code: trained models", YOURS, "the package has their digests, not the models"},
    {"Code: README with results and the commands that give them", CONFIGURATION, NULL},
    {"Results: range of hyperparameters, how the best were chosen, all of those reported", YOURS,
     "the package has those of this run"},
    {"Results: exact number of training and evaluation runs", YOURS,
     "twinrun ls lists the recorded ones"},
    {"Results: a clear definition of the measures", YOURS, NULL},
    {"Results: central tendency and variation", YOURS,
     "twinrun check --runs N gives the spread over repeated runs"},
    {"Results: average runtime, or estimate of energy", YOURS, "run.json has the time of this run"},
    {"Results: computing infrastructure", ENVIRONMENT, NULL},
    {NULL, 0, NULL},
};
static const struct item mlsys[] = {
    {"Algorithm", YOURS, NULL},
    {"Program", CODE, NULL},
    {"Compilation: compilers and flags", ENVIRONMENT, "flags are in the build files of the code"},
    {"Data set", DATA, NULL},
    {"Run-time environment: system and libraries", ENVIRONMENT, NULL},
    {"Hardware", ENVIRONMENT, NULL},
    {"Run-time state: seeds, caches, clocks", SEEDS, NULL},
    {"Execution: the command", CONFIGURATION, NULL},
    {"Metrics", YOURS, NULL},
    {"Output: what is to be expected, how it is compared", ALL, NULL},
    {"Experiments: the workflow to repeat them", ALL, NULL},
    {"Disk space and time needed", YOURS, "bag-info.txt and run.json have them for this run"},
    {"Publicly available, archived under a DOI", YOURS,
     "the package is a BagIt folder with RO-Crate metadata: archives take it as it is"},
    {"Licences of code and data", YOURS, NULL},
    {NULL, 0, NULL},
};

static const char *answer_word(const struct item *x, bool yes)
{
    if (x->needs == YOURS)
        return "yours";
    return yes ? "yes" : "no";
}

/* "yes" when all needed areas pass. "because" lists what they hold, or, when one fails, only what
 * those that fail lack, the first missing thing of each. */
static json_t *answer(const struct item *x, json_t *const area[TWIN_AREAS])
{
    struct tw_buf why = {0};
    bool yes = true;
    tw_buf_puts(&why, "");
    /* areas that the item needs, and those of them that do not pass */
    size_t needed = 0, failed = 0;
    for (size_t i = 0; i < TWIN_AREAS; i++) {
        needed += (x->needs >> i) & 1u;
        failed += (x->needs >> i) & !tw_area_passes(area[i]);
    }
    if (needed == TWIN_AREAS && !failed)
        tw_buf_puts(&why, "all five pass");
    /* with a failure only the failed areas are named, else all that are needed */
    for (size_t i = 0; i < TWIN_AREAS; i++)
        if (x->needs & 1u << i && (failed || needed < TWIN_AREAS) &&
            (!failed || !tw_area_passes(area[i]))) {
            bool pass = tw_area_passes(area[i]);
            const char *holds = json_string_value(json_object_get(area[i], "holds"));
            const char *lack = json_string_value(
                json_array_get(json_object_get(area[i], "missing"), 0));
            const char *said = pass ? holds : lack;
            yes &= pass;
            tw_buf_printf(&why, "%s%s: %s%s", why.len ? "; " : "",
                          twin_area_name((enum twin_area)i),
                          pass ? "" : "missing: ", said ? said : "");
        }
    if (x->hint)
        tw_buf_printf(&why, "%s%s", why.len ? "; " : "", x->hint);
    /* what an area says is escaped already */
    char *safe = why.failed ? NULL : tw_printable_again(why.data, why.len);
    json_t *o = json_pack("{s:s, s:s, s:s}", "item", x->text, "answer", answer_word(x, yes),
                          "because", safe ? safe : "");
    tw_free(safe);
    tw_buf_free(&why);
    return o;
}

/* The questions of a venue; NULL when it is not known. */
static const struct item *items_of(const char *name)
{
    if (strcmp(name, "neurips") == 0)
        return neurips;
    if (strcmp(name, "icml") == 0)
        return icml;
    return strcmp(name, "mlsys") == 0 ? mlsys : NULL;
}

/* The answers in the order of the venue's questions. */
json_t *tw_checklist(const char *name, json_t *const area[TWIN_AREAS])
{
    const struct item *items = items_of(name);
    json_t *list = items ? json_array() : NULL;
    for (; list && items->text; items++)
        json_array_append_new(list, answer(items, area));
    return list;
}

/* Two lines for each question: the answer, and why. */
void tw_checklist_print(FILE *out, const char *name, const json_t *list)
{
    const bool ours = tw_operations_is(name);
    const char *open = ours ? "\"not known\": no evidence of it was found"
                            : "\"yours\": the author has to say it";
    const int width = ours ? 9 : 5;
    tw_put_to(out, "\n%s checklist, as far as the evidence goes (%s)\n", name, open);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        const char *why = json_string_value(json_object_get(x, "because"));
        tw_put_to(out, "  %-*s  %s\n", width, json_string_value(json_object_get(x, "answer")),
                  json_string_value(json_object_get(x, "item")));
        if (why && *why)
            tw_put_to(out, "  %-*s  %s\n", width, "", why);
    }
}
