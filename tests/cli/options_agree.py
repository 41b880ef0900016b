# SPDX-License-Identifier: Apache-2.0
"""Asks twinrun for its help, man pages and completion scripts and checks that they show the same
options.
"""

import os
import re
import shutil
import subprocess
import sys

SAMPLES = {
    "DIR=SNAPSHOT": "d=d.snapshot",
    "ENGINE": "local",
    "PLACE": "any",
    "WHICH": "none",
    "RUN": "last",
    "HOSTS": "a,b",
    "LEVEL": "ops",
    "STAGE": "canary",
    "N": "3",
    "K": "3",
    "TIME": "10m",
    "MINUTES": "5",
    "DAYS": "7",
    "FIRST:LAST": "1:2",
    "FILE": "file",
    "DIR": "folder",
    "TEXT": "text",
    "CMD": "true",
    "PATTERN": "*",
    "PYTHON": "python3",
    "LIST": "all",
    "ID": "mine",
    "KIND": "step",
    "BYTES": "4G",
    "DEVICE": "cpu",
    "KNOB": "--size=8:2",
    "FORMAT": "yaml",
    "NAME": "w",
    "TYPE": "bf16",
    "HOW": "fixed",
    "P": "4",
    "S": "5",
    "T": "2",
    "WHAT": "wall",
    "WORD": "metric",
    "PERCENT": "5%",
    "RATIO": "1.5",
    "SIZE": "3",
    "OPTION": "--no-index",
    "FOLDER": "folder",
    "VENUE": "icml",
    "PROGRAM": "python3",
    "KEY": "team.key",
    "RECIPIENT": "age:age1x",
    "PACKAGE": "package",
    "IMAGE": "r.example/x@sha256:0",
    "LABEL=VALUE": "team=a",
    "LABEL": "team",
    "VERSION": "1.2",
    "CLAIM:PATH": "a:/b",
    "DIGEST": "0123",
    "PUB": "team.pub",
    "PATH": "new.key",
    "ADDRESS:PORT": "127.0.0.1:0",
    "URL": "none",
    "PROJECT": "p",
    "WHEN": "3d",
    "WORK": "32*{n},samples",
}
bad = 0


def complain(text):
    global bad
    bad += 1
    print(text)


def ask(*args):
    done = subprocess.run(
        ("twinrun",) + args,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout.decode()


def options_of_help(text):
    """{long name: (short name or '', argument or '')}"""
    found = {}
    for short, name, argument in re.findall(
        r"^  (?:-(\w),|   ) --([a-z-]+)(?: ([A-Z_:=]+))?(?:  |$)", text, re.M
    ):
        found[name] = (short, argument)
    return found


def options_of_man(text):
    found = {}
    for short, name, argument in re.findall(
        r"^\.TP\n(?:\\fB\\-(\w)\\fR, )?\\fB\\-\\-([a-z\\-]+)\\fR(?: \\fI([A-Z_:=\\-]+)\\fR)?$",
        text,
        re.M,
    ):
        found[name.replace("\\-", "-")] = (short, argument)
    return found


def options_of_bash(text, command):
    block = re.search(r"^        %s\) opts='([^']*)'" % command, text, re.M)
    return (
        set(w[2:] for w in block.group(1).split() if w.startswith("--") and w != "--")
        if block
        else set()
    )


def options_of_zsh(text, command):
    block = re.search(r"^        %s\) _arguments(.*?);;" % command, text, re.M | re.S)
    return set(re.findall(r"--([a-z-]+)=?(?:\}'\[|\[)", block.group(1))) if block else set()


def options_of_fish(text, command):
    return set(re.findall(r"-n '__twinrun_is %s' -l ([a-z-]+)" % command, text))


def check_headings(command, text):
    headings = re.findall(r"^([A-Z][^:\n]*):$", text, re.M)
    for heading in sorted(set(headings)):
        if headings.count(heading) > 1:
            complain(
                "%s: the heading %r stands %d times" % (command, heading, headings.count(heading))
            )
    for option in re.split(r"^  (?=-\w,|    --)", text, flags=re.M):
        if " ".join(option.split()).count("may be repeated") > 1:
            complain("%s: 'may be repeated' twice: %s" % (command, option.split("\n")[0]))


def check_command(command, bash, zsh, fish):
    text = ask(command, "--help")[1]
    check_headings(command, text)
    shown = options_of_help(text)
    man = options_of_man(ask("--man", command)[1])
    if shown != man:
        complain(
            "%s: help and man page differ: %s"
            % (command, sorted(set(shown.items()) ^ set(man.items())))
        )
    for shell, found in (
        ("bash", options_of_bash(bash, command)),
        ("zsh", options_of_zsh(zsh, command)),
        ("fish", options_of_fish(fish, command)),
    ):
        if found != set(shown):
            complain(
                "%s: help and %s completion differ: %s"
                % (command, shell, sorted(found ^ set(shown)))
            )
    for name, (short, argument) in shown.items():
        value = [SAMPLES[argument]] if argument else []
        for form in (["--" + name] + value,) + ((["-" + short] + value,) if short else ()):
            if "--help" not in form and "-h" not in form:
                form = form + ["--help"]  # the options before it are parsed, nothing is run
            code, text = ask(command, *form)
            if code != 0 or not text.startswith("usage: twinrun " + command):
                complain("%s %s: refused, exit code %d" % (command, " ".join(form), code))
        if argument and ask(command, "--" + name)[0] != 2:
            complain("%s --%s without its value: not refused" % (command, name))
    return len(shown)


def main():
    commands = re.findall(r"^  ([a-z]+) ", ask("help")[1].split("\nEnvironment:\n")[0], re.M)
    if len(commands) < 5:
        complain("the help names only %s" % commands)
    scripts = [ask("--completion", shell)[1] for shell in ("bash", "zsh", "fish")]
    pages = os.path.join(
        os.path.dirname(os.path.realpath(shutil.which("twinrun"))), "..", "docs", "man"
    )
    for command in commands:
        if check_command(command, *scripts) < 2:
            complain("%s: no options found" % command)
        if os.path.isdir(pages) and not os.path.exists(
            os.path.join(pages, "twinrun-%s.1" % command)
        ):
            complain("%s: the build makes no man page for it (docs/man/meson.build)" % command)
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs/commands.md")
    with open(page, encoding="utf-8") as f:
        listed = set(re.findall(r"`(?:twinrun )?([a-z]+)[ `]", f.read()))
    for command in sorted(set(commands) - listed - {"help"}):
        complain("%s: not in docs/commands.md" % command)
    if not bad:
        print("help, man pages, completion and parser agree")
    return 1 if bad else 0


sys.exit(main())
