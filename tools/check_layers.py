#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the code against tools/layers.txt, the list of rooms.

  check_layers.py                  includes of every C file, and the list as the documents show it
  check_layers.py --objects BUILD  the functions that the objects of a build folder call; 77
  (skipped) where there are none
  check_layers.py --circles BUILD  the files of each room that call each other in a loop: none of
  them can be read without the others
  check_layers.py --write          puts the list into the documents

A file may include headers, and call functions, of its own room and of the rooms that the list lets
it call. Those all stand above it in the list, so that there is no circle. Exit 1 with file:line, or
object and function, on a breach.
"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = "tools/layers.txt"
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<twin/([^>]+)>)')
CODE = (".c", ".h", ".inc", ".cu", ".cuh")
SKIPPED = 77


class Room:
    def __init__(self, name, purpose, floor):
        self.name, self.purpose, self.floor, self.calls, self.owns = name, purpose, floor, [], []


def read_list():
    """The rooms by name, in the order of the file. What is wrong with the list itself ends the
    program.
    """
    rooms, room, floor, owners = {}, None, 0, {}
    with open(os.path.join(ROOT, LIST), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if not words:
                floor += 1
            elif not line[0].isspace():
                name, _, purpose = line.partition(":")
                room = rooms[name] = Room(name, purpose.strip(), floor)
                if not os.path.isdir(os.path.join(ROOT, name)):
                    sys.exit(f"{LIST}:{number}: {name} is no folder")
            elif words[0] == "calls" and room:
                room.calls = words[1:]
                for called in room.calls:
                    if called not in rooms or called == room.name:
                        sys.exit(
                            f"{LIST}:{number}: {room.name} calls {called}, which does not stand above it"
                        )
            elif words[0] == "owns" and room:
                room.owns = words[1:]
                for header in room.owns:
                    if owners.setdefault(header, room.name) != room.name:
                        sys.exit(f"{LIST}:{number}: {header} has two owners")
                    if not os.path.exists(os.path.join(ROOT, "include/twin", header)):
                        sys.exit(f"{LIST}:{number}: there is no include/twin/{header}")
            else:
                sys.exit(f"{LIST}:{number}: expected a room, calls or owns, found {words[0]}")
    for header in sorted(os.listdir(os.path.join(ROOT, "include/twin"))):
        if header not in owners:
            sys.exit(f"{LIST}: include/twin/{header} has no owner")
    for folder in sorted(os.listdir(os.path.join(ROOT, "src"))):
        if not any(name == "src/" + folder or name.startswith(f"src/{folder}/") for name in rooms):
            sys.exit(f"{LIST}: the folder src/{folder} is no room")
    return rooms, owners


def room_of(rooms, path):
    """The room that a path lies in; of two that hold it the inner one."""
    holding = [name for name in rooms if path.startswith(name + "/")]
    return rooms[max(holding, key=len)] if holding else None


# ---- includes


def sources(rooms):
    for top in sorted({name.split("/")[0] for name in rooms}):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if name.endswith(CODE) and room_of(rooms, path):
                    yield path


def private_headers(rooms):
    owner = {}
    for path in sources(rooms):
        if path.endswith(".h"):
            owner.setdefault(os.path.basename(path), set()).add(room_of(rooms, path).name)
    return owner


def check_includes(rooms, public):
    private, breaches, files = private_headers(rooms), [], 0
    for path in sources(rooms):
        files += 1
        room = room_of(rooms, path)
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                quoted, in_twin = found.groups()
                if in_twin:
                    owners = {public.get(in_twin, "?")}
                elif os.path.exists(os.path.join(ROOT, quoted)) and room_of(rooms, quoted):
                    owners = {room_of(rooms, quoted).name}
                elif os.path.exists(os.path.join(ROOT, os.path.dirname(path), quoted)):
                    continue
                else:
                    owners = private.get(os.path.basename(quoted))
                    if not owners:
                        continue  # a system header in quotes
                if not owners & {room.name, *room.calls}:
                    breaches.append(
                        f"{path}:{number}: {room.name} includes {in_twin or quoted} of {'/'.join(sorted(owners))}"
                    )
    return files, breaches


# ---- objects


def objects_of(rooms, build):
    """(object, room) for each object file of a room that the build folder has."""
    for made, room, _ in sources_of(rooms, build):
        yield made, room


def sources_of(rooms, build):
    """(object, room, source) for each object file of a room that the build folder has."""
    try:
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
            commands = json.load(f)
    except (OSError, ValueError):
        return
    for c in commands:
        source = os.path.relpath(os.path.normpath(os.path.join(c["directory"], c["file"])), ROOT)
        room = room_of(rooms, source)
        made = os.path.join(c["directory"], c.get("output", ""))
        if room and made.endswith(".o") and os.path.exists(made):
            yield made, room, source


def symbols(paths):
    """(object, kind, name) of our functions and variables. Names of others that we stand in front
    of (open, time) say nothing.
    """
    done = subprocess.run(
        ["nm", "-A", "-P", "--", *paths],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        path, _, rest = line.partition(": ")
        words = rest.split()
        if len(words) >= 2 and words[0].startswith(("tw_", "twin_")):
            yield path, words[1], words[0]


def check_objects(rooms, build):
    room_with = dict(objects_of(rooms, build))
    if not room_with:
        print(f"layers: no objects in {build}: nothing was checked")
        return SKIPPED
    try:
        found = list(symbols(sorted(room_with)))
    except FileNotFoundError:
        print("layers: no nm here: nothing was checked")
        return SKIPPED
    definers, calls, breaches, arrows = {}, [], set(), set()
    for path, kind, name in found:
        if kind in "Uwv":
            calls.append((path, name))
        elif kind.isupper():
            definers.setdefault(name, set()).add(room_with[path].name)
    for path, name in calls:
        room, owners = room_with[path], definers.get(name, set())
        if not owners or room.name in owners:
            continue
        arrows |= {(room.name, o) for o in owners}
        if not owners & set(room.calls):
            breaches.add(
                f"{os.path.relpath(path, build)}: {room.name} calls {name} of {'/'.join(sorted(owners))}"
            )
    for b in sorted(breaches):
        print(b)
    print(
        f"layers: {len(room_with)} objects, {len(arrows)} pairs of rooms of which one calls the other, {len(breaches)} breaches"
    )
    return 1 if breaches else 0


# ---- circles inside a room


def calls_inside(rooms, build):
    """By room: file -> file -> the names that the first takes from the second."""
    made = {path: (room.name, source) for path, room, source in sources_of(rooms, build)}
    definer, taken = {}, []
    for path, kind, name in symbols(sorted(made)) if made else ():
        if kind in "Uwv":
            taken.append((path, name))
        elif kind.isupper():
            definer[name] = made[path]
    calls = {}
    for path, name in taken:
        room, source = made[path]
        where, other = definer.get(name, (None, None))
        if where == room and other != source:
            calls.setdefault(room, {}).setdefault(source, {}).setdefault(other, set()).add(name)
    return calls


def reached(calls, start):
    """The files that a file calls, and those that they call."""
    seen, left = set(), list(calls.get(start, ()))
    while left:
        file = left.pop()
        if file not in seen:
            seen.add(file)
            left += calls.get(file, ())
    return seen


def circles(calls):
    """Groups of files of one room of which each is reached from each, sorted."""
    groups, reach = set(), {file: reached(calls, file) for file in calls}
    for file, files in reach.items():
        group = tuple(sorted(f for f in files if file in reach.get(f, ())))
        if len(group) > 1:
            groups.add(group)
    return sorted(groups)


def show_circles(rooms, build):
    calls, count = calls_inside(rooms, build), 0
    if not calls:
        print(f"layers: no objects in {build}: nothing was looked at")
        return SKIPPED
    for room in sorted(calls):
        for group in circles(calls[room]):
            count += 1
            print(f"{room}: {len(group)} files call each other in a loop")
            for file in group:
                for other in sorted(set(calls[room][file]) & set(group)):
                    names = " ".join(sorted(calls[room][file][other]))
                    print(f"  {os.path.basename(file)} -> {os.path.basename(other)}: {names}")
    print(f"layers: {count} circles inside of rooms")
    return 0


# ---- documents


def floors_of(rooms):
    """Lists of rooms that stand side by side, the ground first."""
    floors = {}
    for room in rooms.values():
        floors.setdefault(room.floor, []).append(room)
    return list(floors.values())


def shown_order(rooms):
    """base, json <- fingerprint, stats, launch <- ...; then what is linked into the user's process,
    by itself.
    """
    lines, line = [], "   "
    for floor in floors_of(rooms):
        ours = [os.path.basename(room.name) for room in floor if not in_the_job(room.name)]
        if not ours:
            continue
        word = (" <- " if line.strip() else " ") + ", ".join(ours)
        if len(line) + len(word) > 100:
            lines.append(line)
            line = "       "
        line += word
    lines += [line, ""]
    for room in rooms.values():
        if in_the_job(room.name):
            lines.append(
                f"    {room.name}: " + ", ".join(c.removeprefix("src/") for c in room.calls)
            )
    return "\n".join(lines)


def shown_table(rooms):
    lines = [
        "| room | what it is for | calls | installed headers (`include/twin`) |",
        "|---|---|---|---|",
    ]
    for room in rooms.values():
        calls = ", ".join(c.removeprefix("src/") for c in room.calls)
        headers = " ".join(f"`{h}`" for h in room.owns)
        lines.append(f"| `{room.name}` | {room.purpose} | {calls} | {headers} |")
    return "\n".join(lines)


def way():
    """(number, path) of the steps of the gradient's way, as the table of docs/architecture.md names
    them.
    """
    with open(os.path.join(ROOT, PICTURE), encoding="utf-8") as f:
        return re.findall(r"^\| (\d+) \| `([^`]+)` \|", f.read(), re.M)


def in_the_job(name):
    return name.split("/")[0] in ("agents", "python")


def shown_picture(rooms):
    """Our rooms, a line for each floor, at the left; what runs inside the user's process at the
    right, down to the trace.
    """
    steps = {}
    for number, path in way():
        room = room_of(rooms, path + "/")
        steps.setdefault(room.name if room else path.split("/")[0], []).append(number)

    def box(name, shown):
        return f"[{shown} ({' '.join(steps[name])})]" if name in steps else f"[{shown}]"

    left = []
    for floor in reversed(floors_of(rooms)):
        ours = [
            box(room.name, os.path.basename(room.name))
            for room in floor
            if not in_the_job(room.name)
        ]
        if ours:
            left += ["    |", " ".join(ours)] if left else [" ".join(ours)]
        if any(room.name == "src/trace" for room in floor):
            beside = len(left) - 1
    common = "agents/common"
    others = [
        box(name, os.path.basename(name)) for name in rooms if in_the_job(name) and name != common
    ]
    right = {
        beside - 4: "      " + box("python", "python/twinrun"),
        beside - 3: "          |",
        beside - 2: "      agents/ " + " ".join(others),
        beside - 1: "          |",
        beside: "<---- " + box(common, common),
    }
    lines = [f"{line:<55}{right.get(number, '')}".rstrip() for number, line in enumerate(left)]
    return "\n".join(["```text", f"{'our process':<61}the user's process", "", *lines, "```"])


PICTURE = "docs/architecture.md"
# What is shown where, between the lines that BEGIN (with its name in front) and END are.
BEGIN, END = (
    "<!-- {}: made from tools/layers.txt by tools/check_layers.py --write -->\n",
    "<!-- end -->",
)
SHOWN = [
    ("CONTRIBUTING.md", "the order", shown_order),
    (PICTURE, "the picture", shown_picture),
    (PICTURE, "the rooms", shown_table),
]


def check_documents(rooms, write):
    breaches = [
        f"{PICTURE}: step {number} names {path}, which is not there"
        for number, path in way()
        if not os.path.exists(os.path.join(ROOT, path))
    ]
    for path, what, show in SHOWN:
        full, begin = os.path.join(ROOT, path), BEGIN.format(what)
        with open(full, encoding="utf-8") as f:
            text = f.read()
        before, found, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        wanted = f"{before}{begin}\n{show(rooms)}\n\n{END}{after}"
        if not found or not end:
            breaches.append(f"{path}: expected the lines {begin.strip()} and {END}, found not both")
        elif wanted != text and write:
            with open(full, "w", encoding="utf-8") as f:
                f.write(wanted)
        elif wanted != text:
            breaches.append(
                f"{path}: {what}: not as {LIST} says; tools/check_layers.py --write mends it"
            )
    return breaches


def main():
    rooms, public = read_list()
    if sys.argv[1:2] == ["--objects"] and len(sys.argv) == 3:
        return check_objects(rooms, os.path.abspath(sys.argv[2]))
    if sys.argv[1:2] == ["--circles"] and len(sys.argv) == 3:
        return show_circles(rooms, os.path.abspath(sys.argv[2]))
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    files, breaches = check_includes(rooms, public)
    breaches += check_documents(rooms, sys.argv[1:] == ["--write"])
    for b in breaches:
        print(b)
    print(f"layers: {files} files in {len(rooms)} rooms, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
