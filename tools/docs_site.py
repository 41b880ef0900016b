#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the site of the pages (./dev docs): docs_site.py PROGRAM OUT, by a Python with Sphinx.

The pages stay plain Markdown where they are. They are copied to OUT/source with what Sphinx needs
beside them: menus, which are made of the lists in docs/README.md; a page for each command, made of
its man page; a page for each JSON Schema. A link that leads nowhere, a heading that is not there,
or a page that is in no menu fails the build."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MENU = "docs/README.md"
COMMANDS = "docs/commands.md"
SCHEMAS = "docs/json.md"


# ------------------------------------------------------------------ menus
def menus(text, folder):
    """{page: [(title, page)]} of the lists of a page, and [(heading, [(title, page)])] of its top
    level. An item that is indented belongs to the item above it."""
    top, below, parent = [], {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            top.append((line[3:], []))
        item = re.fullmatch(r"( *)- \[(.*)\]\(([^)]*)\)", line)
        if not item:
            continue
        page = os.path.normpath(os.path.join(folder, item[3]))
        if item[1]:
            below.setdefault(parent, []).append((item[2], page))
        else:
            top[-1][1].append((item[2], page))
            parent = page
    return top, below


def toctree(entries, caption=None):
    head = [f":caption: {caption}"] if caption else []
    lines = [f"{title} </{page.removesuffix('.md')}>" for title, page in entries]
    return "\n".join(["", "```{toctree}", ":hidden:", *head, "", *lines, "```", ""])


# ------------------------------------------------------------------ man pages
ESCAPES = {"e": "\\", "-": "-", "&": "", "(aq": "'", "(ga": "`", "(ha": "^", "(ti": "~"}


def unescaped(text):
    return re.sub(r"\\(e|-|&|\(aq|\(ga|\(ha|\(ti|f[BIRP])", lambda m: ESCAPES.get(m[1], ""), text)


def plain(text):
    """A sentence of a man page as Markdown: nothing in it is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", unescaped(text))


def code(text):
    text = unescaped(text)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def from_man(page):
    """The man page that `twinrun --man` prints, in Markdown: the requests that cmd/help.c uses."""
    out, lines, section = [], iter(page.splitlines()), ""
    for line in lines:
        request, _, rest = line.partition(" ")
        if request == ".br":
            continue
        if request in ('.\\"', ".TH", ".PP"):
            out.append("")
        elif request == ".SH":
            section = rest
            if section == "SEE ALSO":  # the menu has it
                break
            if section != "NAME":
                out += ["", f"## {rest.capitalize()}", ""]
        elif request == ".SS":
            out += ["", f"### {plain(rest)}", ""]
        elif request == ".TP":
            term = next(lines).removeprefix(".B ")
            out += ["", code(term), f": {plain(next(lines))}", ""]
        elif request == ".B" and section == "SYNOPSIS":
            out += [f"    {unescaped(rest)} {unescaped(next(lines))}"]
        elif section == "NAME":
            name, what = unescaped(line).split(" - ", 1)
            out += [
                f"# {name.replace('twinrun-', 'twinrun ')}",
                "",
                plain(what[0].upper() + what[1:]),
            ]
        elif line.startswith(".") and not line.startswith("\\&"):
            raise SystemExit(f"docs: a request of roff that is not known here: {line}")
        else:
            out.append(plain(line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


def man(program, *command):
    return subprocess.run(
        [program, "--man", *command], check=True, capture_output=True, text=True
    ).stdout


def command_pages(program, source):
    """Writes docs/commands/NAME.md for each command; returns the menu's entries."""
    names = re.findall(r"^\.BR twinrun\\-(\S+) \(1\)", man(program), re.M)
    for name in names:
        page = source / "docs" / "commands" / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(from_man(man(program, name)))
    return [(name, f"docs/commands/{name}.md") for name in names]


# ------------------------------------------------------------------ schemas
def schema_pages(source):
    """Writes docs/schemas/NAME.md for each JSON Schema of a command, docs/schemas/api/NAME.md for
    each of the API; returns the menu's entries."""
    entries = []
    commands = sorted((ROOT / "src/report/schemas").glob("*.json"))
    api = sorted((ROOT / "src/serve/schemas").glob("*.json"))
    for schema in commands + api:
        page = f"docs/schemas/{'api/' if schema in api else ''}{schema.stem}.md"
        title = json.loads(schema.read_text()).get("title", schema.stem)
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        (source / page).write_text(f"# {title}\n\n```json\n{schema.read_text()}\n```\n")
        entries.append((("API: " if schema in api else "") + schema.stem, page))
    return entries


# ------------------------------------------------------------------ staging
def copy(page, text, source):
    """A page with the files beside it that it links to; a link to a folder becomes its name."""

    def kept(link):
        target = link[2].partition("#")[0]
        file = os.path.normpath(os.path.join(os.path.dirname(page), target))
        if not target or re.match(r"[a-z]+:", target) or target.endswith(".md"):
            return link[0]
        if os.path.isdir(ROOT / file):
            return link[1]
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, source / file)
        return link[0]

    (source / page).parent.mkdir(parents=True, exist_ok=True)
    (source / page).write_text(re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", kept, text))


def stage(program, source):
    top, below = menus((ROOT / MENU).read_text(), os.path.dirname(MENU))
    below.setdefault(COMMANDS, []).extend(command_pages(program, source))
    below.setdefault(SCHEMAS, []).extend(schema_pages(source))
    pages = {page for _, entries in top for _, page in entries}
    pages.update(page for entries in below.values() for _, page in entries)
    pages.update(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))
    for page in sorted(pages | {"README.md"}):
        if not (source / page).exists():  # not one that was made
            text = (ROOT / page).read_text()
            copy(page, text + toctree(below.get(page, [])), source)
    with open(source / "README.md", "a", encoding="utf-8") as start:
        start.write(toctree([("All pages", MENU)]))
        for heading, entries in top:
            start.write(toctree(entries, heading))


def main():
    program, out = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(out, ignore_errors=True)
    source, site = out / "source", out / "html"
    source.mkdir(parents=True)
    stage(program, source)
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    os.environ["TWINRUN_SITE_VERSION"] = version.stdout.split()[1]
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same pages give the same bytes
    settings = ["-c", str(ROOT / "tools/site"), "-d", str(out / "doctrees")]
    command = ["-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", *settings]
    if subprocess.run([sys.executable, *command, str(source), str(site)]).returncode != 0:
        raise SystemExit("docs: the pages have the faults above")
    shutil.copy(site / "README.html", site / "index.html")
    print(site / "index.html")


if __name__ == "__main__":
    main()
