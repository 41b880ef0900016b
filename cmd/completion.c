/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for bash, zsh and fish, printed from the tables of options.h. */
#include "options.h"

#include <stdio.h>

/* Does the command take names of runs, which completion can list? */
static bool wants_runs(const struct tw_command *c)
{
    return c->operands == TW_OPERANDS_RUNS || c->operands == TW_OPERANDS_RUNS_OR_JOB;
}

/* ---- bash */

/* What bash offers for the value of an option. */
static const char *bash_values(enum tw_option_type type)
{
    switch (type) {
    case TW_OPT_LEVEL: return "COMPREPLY=($(compgen -W 'steps tensors modules ops' -- \"$cur\"))";
    case TW_OPT_FILE: return "COMPREPLY=($(compgen -f -- \"$cur\"))";
    case TW_OPT_DIR: return "COMPREPLY=($(compgen -d -- \"$cur\"))";
    default: return ":";
    }
}

/* One branch of a case for each option that takes a value: what follows it is completed by its
 * type. */
static void bash_option_values(FILE *out, const struct tw_command *c)
{
    for (const struct tw_option *o = c->options; o->name; o++) {
        if (o->type == TW_OPT_FLAG)
            continue;
        fprintf(out, "        %s:--%s", c->name, o->name);
        if (o->short_name)
            fprintf(out, "|%s:-%c", c->name, o->short_name);
        fprintf(out, ") %s; return ;;\n", bash_values(o->type));
    }
}

/* Behind "--" the job's own completion takes over, as if twinrun were not there. */
void tw_complete_bash(FILE *out)
{
    fputs("# bash completion for twinrun; made from its option tables\n"
          "# shellcheck disable=SC2207 # the words hold no spaces\n_twinrun()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
          "cmd=${COMP_WORDS[1]} i\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W '",
          out);
    for (size_t i = 0; tw_command_at(i); i++)
        fprintf(out, "%s ", tw_command_at(i)->name);
    fputs(
        "help --help --version' -- \"$cur\"))\n        return\n    fi\n"
        "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
        "        if [[ ${COMP_WORDS[i]} == -- ]]; then # from here on it is the job's command\n"
        "            if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); "
        "else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n            return\n        fi\n    done\n"
        "    case $cmd:$prev in\n",
        out);
    for (size_t i = 0; tw_command_at(i); i++)
        bash_option_values(out, tw_command_at(i));
    fputs("    esac\n    local opts=\"\" words=\"\"\n    case $cmd in\n        help) words='", out);
    for (size_t i = 0; tw_command_at(i); i++)
        fprintf(out, "%s%s", i ? " " : "", tw_command_at(i)->name);
    fputs("' ;;\n", out);
    for (size_t i = 0; tw_command_at(i); i++) {
        const struct tw_command *c = tw_command_at(i);
        fprintf(out, "        %s) opts='", c->name);
        for (const struct tw_option *o = c->options; o->name; o++)
            fprintf(out, "--%s ", o->name);
        fprintf(out, "--help%s'",
                c->operands == TW_OPERANDS_JOB || c->operands == TW_OPERANDS_RUNS_OR_JOB ? " --"
                                                                                         : "");
        if (c->operands == TW_OPERANDS_FILES)
            fputs("; words=\"$(compgen -f -- \"$cur\")\"", out);
        if (wants_runs(c))
            fputs("; words=\"last last~1 $(command ls \"${TWINRUN_HOME:-.twinrun}/runs\" "
                  "2>/dev/null)\"",
                  out);
        fputs(" ;;\n", out);
    }
    fputs("    esac\n    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W \"$opts\" -- "
          "\"$cur\"))\n"
          "    else\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    fi\n}\n"
          "complete -F _twinrun twinrun\n",
          out);
}

/* ---- zsh */

/* What zsh offers for the value of an option. */
static const char *zsh_values(enum tw_option_type type)
{
    switch (type) {
    case TW_OPT_LEVEL: return ":(steps tensors modules ops)";
    case TW_OPT_FILE: return ":_files";
    case TW_OPT_DIR: return ":_files -/";
    default: return ": ";
    }
}

/*
 * Inside '...[help]...': brackets, colons and quotes have meanings to _arguments and to the shell.
 */
static void zsh_text(FILE *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", out);
        else if (*s == '[' || *s == ']' || *s == ':' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else
            fputc(*s, out);
    }
}

/*
 * One word of _arguments: an option that was given is not offered again, unless it may be repeated.
 */
static void zsh_option(FILE *out, const struct tw_option *o)
{
    const char *repeat = o->type == TW_OPT_LIST ? "*" : "";
    const char *with = o->type == TW_OPT_FLAG ? "" : "=";
    if (o->short_name && *repeat)
        fprintf(out, "            '*'{-%c%s,--%s%s}'[", o->short_name, *with ? "+" : "", o->name,
                with);
    else if (o->short_name)
        fprintf(out, "            '(-%c --%s)'{-%c%s,--%s%s}'[", o->short_name, o->name,
                o->short_name, *with ? "+" : "", o->name, with);
    else
        fprintf(out, "            '%s--%s%s[", repeat, o->name, with);
    zsh_text(out, o->help);
    fputc(']', out);
    if (o->argument) {
        fputc(':', out);
        zsh_text(out, o->argument);
        fputs(zsh_values(o->type), out);
    }
    fputs("' \\\n", out);
}

/* What zsh offers for the operands of a command. */
static const char *zsh_operands(enum tw_operand_kind kind)
{
    switch (kind) {
    case TW_OPERANDS_JOB: return "'*:::job:_normal'";
    case TW_OPERANDS_NONE: return "&& return";
    case TW_OPERANDS_FILES: return "'*:file:_files'";
    case TW_OPERANDS_RUNS:
    case TW_OPERANDS_RUNS_OR_JOB: break;
    }
    return "'*:run:_twinrun_runs'";
}

/* _arguments takes one word for each option, made here from its row; the runs of the home are
 * listed by a function of their own. */
void tw_complete_zsh(FILE *out)
{
    fputs("#compdef twinrun\n# zsh completion for twinrun; made from its option "
          "tables\n_twinrun_runs()\n{\n"
          "    local -a runs\n    runs=(last 'last~1' ${TWINRUN_HOME:-.twinrun}/runs/*(N:t))\n    "
          "compadd -a runs\n}\n\n"
          "_twinrun()\n{\n    local -a commands\n    local curcontext=$curcontext state line\n    "
          "commands=(\n",
          out);
    for (size_t i = 0; tw_command_at(i); i++) {
        fprintf(out, "        '%s:", tw_command_at(i)->name);
        zsh_text(out, tw_command_at(i)->summary);
        fputs("'\n", out);
    }
    fputs("        'help:print the help of a command'\n    )\n"
          "    _arguments -C '(-)--help[print help]' '(-)--version[print the version]' "
          "'1:command:->command' '*::argument:->argument'\n"
          "    if [[ $state == command ]]; then\n        _describe command commands\n        "
          "return\n    fi\n"
          "    case $words[1] in\n        help) _describe command commands ;;\n",
          out);
    for (size_t i = 0; tw_command_at(i); i++) {
        const struct tw_command *c = tw_command_at(i);
        fprintf(out, "        %s) _arguments \\\n", c->name);
        for (const struct tw_option *o = c->options; o->name; o++)
            zsh_option(out, o);
        zsh_option(out, &tw_option_help);
        fprintf(out, "            %s ;;\n", zsh_operands(c->operands));
    }
    fputs("    esac\n}\n\n_twinrun \"$@\"\n", out);
}

/* ---- fish */

/* Inside '...': fish knows two escapes there. */
static void fish_text(FILE *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            fputc('\\', out);
        fputc(*s, out);
    }
}

/* What fish offers for the value of an option. */
static const char *fish_values(enum tw_option_type type)
{
    switch (type) {
    case TW_OPT_LEVEL: return " -x -a 'steps tensors modules ops'";
    case TW_OPT_FILE: return " -r -F";
    case TW_OPT_DIR: return " -x -a '(__fish_complete_directories)'";
    case TW_OPT_FLAG: return "";
    default: return " -x";
    }
}

static void fish_option(FILE *out, const struct tw_command *c, const struct tw_option *o)
{
    fprintf(out, "complete -c twinrun -n '__twinrun_is %s' -l %s", c->name, o->name);
    if (o->short_name)
        fprintf(out, " -s %c", o->short_name);
    fprintf(out, "%s -d '", fish_values(o->type));
    fish_text(out, o->help);
    fputs("'\n", out);
}

/* One line for each option. Behind "--" the job's own completion takes over, as if twinrun were not
 * there. */
void tw_complete_fish(FILE *out)
{
    fputs("# fish completion for twinrun; made from its option tables\n"
          "function __twinrun_in_job\n    contains -- -- (commandline -opc)\nend\n\n"
          "function __twinrun_is # COMMAND: is it this one, and its own words still?\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
          "    and not contains -- -- $words\nend\n\n"
          "function __twinrun_no_command\n    test (count (commandline -opc)) -eq 1\nend\n\n"
          "function __twinrun_job # what its own completion offers\n"
          "    set -l words (commandline -opc)\n"
          "    set -l job $words[(math (contains -i -- -- $words) + 1)..-1]\n"
          "    complete -C (string join -- ' ' (string escape -- $job) (commandline -ct))\nend\n\n"
          "function __twinrun_runs\n    set -q TWINRUN_HOME; or set -l TWINRUN_HOME .twinrun\n"
          "    printf '%s\\n' last last~1\n"
          "    test -d $TWINRUN_HOME/runs; and command ls $TWINRUN_HOME/runs\nend\n\n"
          "complete -c twinrun -f\n"
          "complete -c twinrun -n __twinrun_in_job -a '(__twinrun_job)'\n"
          "complete -c twinrun -n __twinrun_no_command -l help -d 'print help'\n"
          "complete -c twinrun -n __twinrun_no_command -l version -d 'print the version'\n"
          "complete -c twinrun -n __twinrun_no_command -a help -d 'print the help of a command'\n",
          out);
    for (size_t i = 0; tw_command_at(i); i++) {
        const struct tw_command *c = tw_command_at(i);
        fprintf(out, "complete -c twinrun -n __twinrun_no_command -a %s -d '", c->name);
        fish_text(out, c->summary);
        fprintf(out, "'\ncomplete -c twinrun -n '__twinrun_is help' -a %s\n", c->name);
        for (const struct tw_option *o = c->options; o->name; o++)
            fish_option(out, c, o);
        fish_option(out, c, &tw_option_help);
        if (c->operands == TW_OPERANDS_FILES)
            fprintf(out, "complete -c twinrun -n '__twinrun_is %s' -F\n", c->name);
        if (wants_runs(c))
            fprintf(out, "complete -c twinrun -n '__twinrun_is %s' -a '(__twinrun_runs)'\n",
                    c->name);
    }
}
