/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REPORT_SCHEMAS_H
#define TW_REPORT_SCHEMAS_H
/* The JSON Schemas of what --json prints: the files of src/report/schemas, word for word, so that
 * a program that lies alone somewhere has those of its own version. */

struct tw_schema {
    const char *name;       /* "diff-env" */
    const char *printed_by; /* "check, diff, zoom": the commands that print it */
    const char *text;
};

/* Sorted by name; the last one has no name. Made by tools/embed_schemas.py. */
extern const struct tw_schema tw_schemas[];

/* The schema of that name, or the first one that this command prints; NULL: there is none. */
const struct tw_schema *tw_schema_find(const char *name);

#endif
