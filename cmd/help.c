/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help and man pages: printed from the tables of options.h, so that they cannot disagree with what
 * is parsed. Each form walks the same rows with functions of its own for a heading and for an
 * option. Completion scripts: completion.c.
 */
#include "options.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

/* WIDTH: of a line of help. OPTION_COLUMN: where the text of an option begins. COMMAND_WIDTH: of
 * the longest name of a command; VARIABLE_WIDTH: of the environment's. */
enum { WIDTH = 100, OPTION_COLUMN = 30, COMMAND_WIDTH = 11, VARIABLE_WIDTH = 15 };

static const char about[] =
    "twinrun runs an unmodified training job again, unchanged, and names the first place where the "
    "runs differ: step, rank, phase, tensor, operation and source line, and whether that place is "
    "the origin or only carries a difference on.";

static const struct tw_pair environment[] = {
    {"TWINRUN_HOME",
     "folder that holds the runs; .twinrun in the working folder unless set, or, for commands that "
     "only read runs, in the nearest folder above that has one"},
    {"TWINRUN_ROLLOUT", "flag file of a rollout, which record and run read"},
    {"NO_COLOR", "when set, nothing is coloured"},
    {NULL, NULL},
};

/* ---- plain text */

/* Prints text from column `at`, wrapped at WIDTH, further lines indented by `indent`. */
static void wrap(FILE *out, size_t at, size_t indent, const char *text)
{
    size_t column = at;
    bool fresh = true;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (!fresh && column + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            fresh = true;
        }
        fprintf(out, "%s%.*s", fresh ? "" : " ", (int)n, text);
        column += n + !fresh;
        fresh = false;
        text += n;
        text += *text == ' ';
    }
    fputc('\n', out);
}

/* One paragraph after the other; begin and end are called around each (for roff). */
static void paragraphs(const char *text, void (*each)(FILE *, const char *), FILE *out)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t n = end ? (size_t)(end - text) : strlen(text);
        char *one = tw_strndup(text, n);
        if (one)
            each(out, one);
        tw_free(one);
        text += n + (end ? 2 : 0);
    }
}

static void plain_paragraph(FILE *out, const char *text)
{
    fputc('\n', out);
    wrap(out, 0, 0, text);
}

/* What is behind an option's text where it has a default: " (default 3)". */
static void default_text(const struct tw_option *o, char text[64])
{
    text[0] = '\0';
    if (o->initial)
        snprintf(text, 64, " (default %s)", o->initial);
}

/* " -s, --steps N help text", the text in a column of its own, on the next line where the names are
 * too long for that. */
static void option_line(FILE *out, const struct tw_option *o)
{
    char head[64], initial[64];
    char *help;
    size_t n = (size_t)snprintf(head, sizeof head, "  %s%c%s --%s%s%s", o->short_name ? "-" : " ",
                                o->short_name ? o->short_name : ' ', o->short_name ? "," : " ",
                                o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    default_text(o, initial);
    help = tw_printf("%s%s%s", o->help, o->type == TW_OPT_LIST ? "; may be repeated" : "", initial);
    if (n + 2 > OPTION_COLUMN)
        fprintf(out, "%s\n%*s", head, OPTION_COLUMN, "");
    else
        fprintf(out, "%s%*s", head, (int)(OPTION_COLUMN - n), "");
    wrap(out, OPTION_COLUMN, OPTION_COLUMN, help ? help : o->help);
    tw_free(help);
}

/* Row i of a command's options; behind the last one --help, then NULL. */
static const struct tw_option *option_at(const struct tw_command *c, size_t i)
{
    size_t n = 0;
    while (c->options[n].name)
        n++;
    if (i < n)
        return &c->options[i];
    return i == n ? &tw_option_help : NULL;
}

/* Has a row before this one the same group? */
static bool group_was_met(const struct tw_command *c, size_t row)
{
    const char *group = option_at(c, row)->group;
    for (size_t i = 0; i < row; i++)
        if (strcmp(option_at(c, i)->group, group) == 0)
            return true;
    return false;
}

/* Calls head once for each group, in the order in which the table names them first, and each for
 * every option of that group. */
static void each_option(FILE *out, const struct tw_command *c, void (*head)(FILE *, const char *),
                        void (*each)(FILE *, const struct tw_option *))
{
    const struct tw_option *first, *o;
    for (size_t i = 0; (first = option_at(c, i)) != NULL; i++) {
        if (group_was_met(c, i))
            continue;
        head(out, first->group);
        for (size_t k = i; (o = option_at(c, k)) != NULL; k++)
            if (strcmp(o->group, first->group) == 0)
                each(out, o);
    }
}

static void plain_head(FILE *out, const char *group)
{
    fprintf(out, "\n%s:\n", group);
}

/* Usage, description, options by group, exit codes, examples: what the man page has, in the same
 * words. */
void tw_help_command(FILE *out, const struct tw_command *c)
{
    for (size_t i = 0; c->synopsis[i]; i++)
        fprintf(out, "%s twinrun %s %s\n", i ? "      " : "usage:", c->name, c->synopsis[i]);
    paragraphs(c->description, plain_paragraph, out);
    each_option(out, c, plain_head, option_line);
    fputs("\nExit status:\n", out);
    for (const struct tw_pair *p = c->exits; p->left; p++) {
        fprintf(out, "  %-6s", p->left);
        wrap(out, 8, 8, p->right);
    }
    fputs("\nExamples:\n", out);
    for (const struct tw_pair *p = c->examples; p->left; p++)
        fprintf(out, "  %s\n      %s\n", p->left, p->right);
}

/* The first command of the group from row *i on, with its row in *i; NULL where there is none. */
static const struct tw_command *next_of_group(enum tw_command_group group, size_t *i)
{
    while (tw_command_at(*i) && tw_command_group_at(*i) != group)
        ++*i;
    return tw_command_at(*i);
}

/* The commands by group, each with its summary; what all of them read from the environment. */
void tw_help_main(FILE *out)
{
    fputs("usage: twinrun COMMAND [options]\n\n", out);
    wrap(out, 0, 0, about);
    const struct tw_command *c;
    for (enum tw_command_group g = 0; g < TW_GROUPS; g++) {
        fprintf(out, "\n%s:\n", tw_command_group_titles[g]);
        for (size_t i = 0; (c = next_of_group(g, &i)) != NULL; i++) {
            fprintf(out, "  %-*s  ", COMMAND_WIDTH, c->name);
            wrap(out, COMMAND_WIDTH + 4, COMMAND_WIDTH + 4, c->summary);
        }
    }
    fputs("\nEnvironment:\n", out);
    for (const struct tw_pair *p = environment; p->left; p++) {
        fprintf(out, "  %-*s  ", VARIABLE_WIDTH, p->left);
        wrap(out, VARIABLE_WIDTH + 4, VARIABLE_WIDTH + 4, p->right);
    }
    fputs("\ntwinrun help COMMAND, or man twinrun-COMMAND, says more.  twinrun --version prints "
          "the version,\ntwinrun --schema COMMAND the JSON Schema of what the command prints with "
          "--json.\n",
          out);
}

/* ---- man pages (groff man macros) */

/* Escapes what groff would obey: a dot or quote at the start of a line is a request, and plain
 * hyphens and quotes become others that cannot be copied from the page. */
static void roff(FILE *out, const char *s)
{
    bool start = true;
    for (; *s; s++) {
        if (start && (*s == '.' || *s == '\''))
            fputs("\\&", out);
        start = *s == '\n';
        switch (*s) {
        case '\\': fputs("\\e", out); break;
        case '-': fputs("\\-", out); break;
        case '\'': fputs("\\(aq", out); break;
        case '`': fputs("\\(ga", out); break;
        case '^': fputs("\\(ha", out); break;
        case '~': fputs("\\(ti", out); break;
        default: fputc(*s, out);
        }
    }
}

/* .PP starts a paragraph. */
static void roff_paragraph(FILE *out, const char *text)
{
    fputs(".PP\n", out);
    roff(out, text);
    fputc('\n', out);
}

static void roff_head(FILE *out, const char *group)
{
    fputs(".SS ", out);
    roff(out, group);
    fputc('\n', out);
}

/* .TP: the names, then the text indented. */
static void roff_option(FILE *out, const struct tw_option *o)
{
    char initial[64];
    fputs(".TP\n", out);
    if (o->short_name)
        fprintf(out, "\\fB\\-%c\\fR, ", o->short_name);
    fputs("\\fB\\-\\-", out);
    roff(out, o->name);
    fputs("\\fR", out);
    if (o->argument) {
        fputs(" \\fI", out);
        roff(out, o->argument);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    default_text(o, initial);
    roff(out, o->help);
    fputs(o->type == TW_OPT_LIST ? "; may be repeated" : "", out);
    roff(out, initial);
    fputc('\n', out);
}

/* Names in bold with their texts: exit codes, variables, examples. */
static void roff_pairs(FILE *out, const struct tw_pair *pairs)
{
    for (const struct tw_pair *p = pairs; p->left; p++) {
        fputs(".TP\n.B ", out);
        roff(out, p->left);
        fputc('\n', out);
        roff(out, p->right);
        fputc('\n', out);
    }
}

/* The date is left empty: pages of one version are the same bytes whenever they are built. */
static void roff_title(FILE *out, const char *page)
{
    fprintf(out, ".\\\" Made from the option tables of twinrun %s: change those, not this file.\n",
            TWINRUN_VERSION);
    fprintf(out, ".TH %s 1 \"\" \"twinrun %s\" \"twinrun manual\"\n.SH NAME\n", page,
            TWINRUN_VERSION);
}

/* The page of one command, in the order of sections that man pages have. */
void tw_man_command(FILE *out, const struct tw_command *c)
{
    char page[64];
    size_t n = (size_t)snprintf(page, sizeof page, "TWINRUN-%s", c->name);
    for (size_t i = 0; i < n && i < sizeof page - 1; i++)
        page[i] = (char)(page[i] >= 'a' && page[i] <= 'z' ? page[i] - 32 : page[i]);
    roff_title(out, page);
    fprintf(out, "twinrun\\-%s \\- ", c->name);
    roff(out, c->summary);
    fputs("\n.SH SYNOPSIS\n", out);
    for (size_t i = 0; c->synopsis[i]; i++) {
        fprintf(out, "%s.B twinrun %s\n", i ? ".br\n" : "", c->name);
        roff(out, c->synopsis[i]);
        fputc('\n', out);
    }
    fputs(".SH DESCRIPTION\n", out);
    paragraphs(c->description, roff_paragraph, out);
    fputs(".SH OPTIONS\n", out);
    each_option(out, c, roff_head, roff_option);
    fputs(".SH EXIT STATUS\n", out);
    roff_pairs(out, c->exits);
    fputs(".SH ENVIRONMENT\n", out);
    roff_pairs(out, environment);
    fputs(".SH EXAMPLES\n", out);
    roff_pairs(out, c->examples);
    fputs(".SH SEE ALSO\n.BR twinrun (1)", out);
    for (size_t i = 0; tw_command_at(i); i++)
        if (tw_command_at(i) != c)
            fprintf(out, ",\n.BR twinrun\\-%s (1)", tw_command_at(i)->name);
    fputc('\n', out);
}

/* The page of the program itself, which names the pages of the commands. */
void tw_man_main(FILE *out)
{
    roff_title(out, "TWINRUN");
    fputs("twinrun \\- find where two runs of the same training job diverge\n.SH SYNOPSIS\n.B "
          "twinrun\n"
          "\\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n",
          out);
    roff(out, about);
    fputs("\n.SH COMMANDS\n", out);
    const struct tw_command *c;
    for (enum tw_command_group g = 0; g < TW_GROUPS; g++) {
        roff_head(out, tw_command_group_titles[g]);
        for (size_t i = 0; (c = next_of_group(g, &i)) != NULL; i++) {
            fprintf(out, ".TP\n.BR twinrun\\-%s (1)\n", c->name);
            roff(out, c->summary);
            fputc('\n', out);
        }
    }
    fputs(".SH ENVIRONMENT\n", out);
    roff_pairs(out, environment);
}
