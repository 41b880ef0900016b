#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_layers.py says when a room calls what it may not: in its includes, in its objects, in
the list itself.

  layers_breach.py TOOLS BUILD
"""

import contextlib
import io
import sys

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import check_layers  # noqa: E402


def main():
    rooms, public = check_layers.read_list()
    assert check_layers.check_includes(rooms, public)[1] == [], "the code keeps to the list"
    # Every arrow of the code that one line of the list stands for is missed when the line is not
    # there.
    rooms["src/snapshot"].calls.remove("src/formats")
    breaches = check_layers.check_includes(rooms, public)[1]
    assert any(b.startswith("src/snapshot/layout_dvc.c:") for b in breaches), breaches
    # A header that a room includes by its path belongs to the room of that path.
    rooms["src/cases"].calls.remove("src/compare")
    breaches = check_layers.check_includes(rooms, public)[1]
    assert any("includes src/compare/compare.h of src/compare" in b for b in breaches), breaches
    rooms["src/cases"].calls.append("src/compare")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        rc = check_layers.check_objects(rooms, sys.argv[2])
    if rc == check_layers.SKIPPED:
        print(said.getvalue(), end="")
        return rc
    assert (
        rc == 1 and "calls tw_config_from_yaml of src/formats" in said.getvalue()
    ), said.getvalue()
    # agents/common may call no agent. Its objects call none, so one is made to: a call back up, by
    # a declaration of its own that no include shows.
    objects = dict(check_layers.objects_of(rooms, sys.argv[2]))
    common = next(path for path, room in objects.items() if room.name == "agents/common")
    agents = sorted(path for path, room in objects.items() if room.name == "agents/libc")
    above = next(name for _, kind, name in check_layers.symbols(agents) if kind == "T")
    found = check_layers.symbols
    check_layers.symbols = lambda paths: [*found(paths), (common, "U", above)]
    rooms, public = check_layers.read_list()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        rc = check_layers.check_objects(rooms, sys.argv[2])
    check_layers.symbols = found
    assert (
        rc == 1 and f"agents/common calls {above} of agents/libc" in said.getvalue()
    ), said.getvalue()
    # A circle is found, and rooms that have none stay so.
    assert check_layers.circles({"a": {"b": 1}, "b": {"c": 1}, "c": {"b": 1}}) == [("b", "c")]
    calls = check_layers.calls_inside(rooms, sys.argv[2])
    for name in ("src/compare", "src/report", "src/study", "src/trial"):
        assert calls.get(name) and check_layers.circles(calls[name]) == [], (
            name,
            check_layers.circles(calls.get(name, {})),
        )
    # A header that changes its owner is another's.
    rooms, public = check_layers.read_list()
    public["exact.h"] = "src/report"
    assert any(
        "includes exact.h of src/report" in b for b in check_layers.check_includes(rooms, public)[1]
    )
    # The picture has every room of ours, and the steps in it are those of the table.
    picture = check_layers.shown_picture(rooms)
    for name in rooms:
        assert f"[{name.split('/')[-1]}" in picture or f"[{name}" in picture, name
    assert [n for n, _ in check_layers.way()] == [
        str(i + 1) for i in range(len(check_layers.way()))
    ]
    return 0


if __name__ == "__main__":
    sys.exit(main())
