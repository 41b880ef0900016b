# SPDX-License-Identifier: Apache-2.0
"""Hostile packages do nothing: no path leads out of the folder, nobody's program is started."""

import json
import sys

import pytest

from package_helper import git, job, package, packed, recorded, repack  # noqa: F401


@pytest.mark.parametrize(
    "what",
    [
        "file up",
        "file git",
        "file absolute",
        "bundle up",
        "commit option",
        "diff up",
        "link in code",
        "folder up",
        "variable",
        "program path",
        "snapshot up",
        "data name",
        "config up",
        "pip option",
        "requirement option",
        "in_code up",
        "in_code git",
        "in_code alias",
        "in_code link",
        "folder git",
    ],
)
def test_hostile_packages(twinrun, package, tmp_path, what):
    """The manifests are right, so it verifies: what the JSON says must not lead anywhere."""
    witness = tmp_path / "witness"

    def change(area, edit):
        path = package / "data" / area / f"{area}.json"
        o = json.loads(path.read_text())
        edit(o)
        path.write_text(json.dumps(o))

    def set_(area, *keys):
        def edit(o):
            for k in keys[:-2]:
                o = o[k]
            o[keys[-2]] = keys[-1]

        change(area, edit)

    if what == "file up":
        set_("code", "files", 0, "path", "../../../../witness")
    elif what == "file git":
        hook = package / "data" / "code" / "files" / ".git" / "hooks" / "post-checkout"
        hook.parent.mkdir(parents=True)
        hook.write_text(f"#!/bin/sh\ntouch {witness}\n")
        change(
            "code",
            lambda o: o["files"].append(
                {
                    "path": ".git/hooks/post-checkout",
                    "sha256": "",
                    "role": "named",
                    "executable": True,
                }
            ),
        )
    elif what == "file absolute":
        set_("code", "files", 0, "path", str(witness))
    elif what == "bundle up":
        set_("code", "repositories", 0, "bundle", "../../../../etc/passwd")
    elif what == "commit option":
        set_("code", "repositories", 0, "commit", "--upload-pack=touch")
    elif what == "diff up":
        text = "diff --git a/../../../witness b/../../../witness\nnew file mode 100644\n--- /dev/null\n+++ b/../../../witness\n@@ -0,0 +1 @@\n+x\n"
        (package / "data" / "code" / "changes.diff").write_text(text)
    elif what == "link in code":
        # The commit has a link that leads out, and a file is to be written below it.
        evil = tmp_path / "evil"
        evil.mkdir()
        git(evil, "init", "-q")
        (evil / "out").symlink_to(tmp_path)
        (evil / "lib").mkdir()
        (evil / "lib" / "x").write_text("")
        git(evil, "add", ".")
        git(evil, "commit", "-qm", "x")
        git(evil, "branch", "twinrun")
        git(
            evil,
            "bundle",
            "create",
            "-q",
            str(package / "data" / "code" / "repository.bundle"),
            "refs/heads/twinrun",
        )
        (package / "data" / "code" / "files" / "out").mkdir()
        (package / "data" / "code" / "files" / "out" / "witness").write_text("x")

        def edit(o):
            o["repositories"] = [
                {
                    "path": "",
                    "commit": git(evil, "rev-parse", "HEAD").strip(),
                    "bundle": "code/repository.bundle",
                }
            ]
            o["files"] = [
                {"path": "out/witness", "sha256": "", "role": "untracked", "executable": False}
            ]

        change("code", edit)
    elif what == "folder up":
        set_("configuration", "folder", "../..")
    elif what == "variable":
        set_("configuration", "variables", "LD_PRELOAD", str(witness))
    elif what == "program path":
        set_("configuration", "argv", 0, [{"program": f"../../{witness}"}])
    elif what == "snapshot up":
        set_("data", "sets", 0, "snapshot", "../../../etc/passwd")
    elif what == "data name":
        set_("data", "sets", 0, "name", "../../x")
    elif what == "in_code up":
        set_("data", "sets", 0, "in_code", "../../..")
    elif what == "in_code git":
        set_("data", "sets", 0, "in_code", ".git/hooks")
    elif what == "in_code alias":
        set_("data", "sets", 0, "in_code", "git~1/hooks")
    elif what == "in_code link":
        set_("data", "sets", 0, "in_code", "lib/./../..")
    elif what == "folder git":
        set_("configuration", "folder", ".GIT")
    elif what == "config up":
        set_("configuration", "argv", 0, [{"config": "configuration/../../../../../bin/sh"}])
    elif what == "pip option":
        change(
            "environment",
            lambda o: o.update(
                python="3.11.2",
                requirements="environment/requirements.txt",
                pip_options=["--target=/tmp"],
                local=[],
            ),
        )
        (package / "data" / "environment" / "requirements.txt").write_text("")
        change("environment", lambda o: o.update(local=[{"name": "x", "path": "../.."}]))
    elif what == "requirement option":
        change(
            "environment",
            lambda o: o.update(python="3.11.2", requirements="environment/requirements.txt"),
        )
        (package / "data" / "environment" / "requirements.txt").write_text("--target=/tmp\n")
    repack(package)
    # What git keeps for itself may not even be listed: whoever calls git in the package's folder
    # would be in its hands.
    listed = what != "file git"
    assert twinrun("verify", str(package)).rc == (0 if listed else 1)
    before = sorted(tmp_path.rglob("*"))
    arguments = (
        ["--environment", "build", "--python", sys.executable]
        if what == "pip option"
        else ["--environment", "here", "--python", sys.executable]
    )
    r = twinrun("replay", str(package), *arguments)
    if listed:
        assert r.rc == 2 and r.err.startswith("twinrun: replay: nothing was run: "), r.out + r.err
    else:
        assert r.rc == 1 and "nothing was run" in r.err, r.out + r.err
    assert not witness.exists() and sorted(tmp_path.rglob("*")) == before, r.err


def test_hooks_and_filters_are_not_run(twinrun, recorded, tmp_path, monkeypatch):
    """A person's git may start programs (templates with hooks, filters, a monitor); packing and
    replaying start none of them.
    """
    witness = tmp_path / "witness"
    template = tmp_path / "template" / "hooks"
    template.mkdir(parents=True)
    for name in ["post-checkout", "post-merge", "reference-transaction", "pre-auto-gc"]:
        (template / name).write_text(f"#!/bin/sh\ntouch {witness}\n")
        (template / name).chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f'[init]\n templateDir = {template.parent}\n[core]\n hooksPath = {template}\n fsmonitor = touch {witness}\n[filter "f"]\n smudge = touch {witness}\n'
    )
    env = {"GIT_CONFIG_GLOBAL": str(config), "GIT_TEMPLATE_DIR": str(template.parent)}
    assert twinrun("pack", "last", "-o", str(tmp_path / "p"), env=env).rc == 0
    witness.unlink(missing_ok=True)  # the user's own repository is asked by the user's own git
    r = twinrun("replay", str(tmp_path / "p"), env=env)
    assert r.rc == 0, r.err
    assert not witness.exists()
