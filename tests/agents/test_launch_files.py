# SPDX-License-Identifier: Apache-2.0
"""The files a job wrote, as evidence, and the scratch copy of its folder. SHA-256 comes from
hashlib.
"""

import hashlib
import os
import subprocess

import pytest
from launch_helper import DRIVER, children_cpu_s, environment, launch

pytestmark = pytest.mark.skipif(
    not DRIVER.exists(), reason="the launch driver is not built (set TWINRUN_BUILD)"
)


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def files(r):
    return {f["path"]: f for f in r.json["files"]}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def test_new_changed_and_untouched_files(work):
    (work / "old").write_text("old")
    (work / "grown").write_text("one\n")
    (work / "same").write_text("same")
    (work / "deep" / "er").mkdir(parents=True)
    r = launch(
        work,
        [
            "sh",
            "-c",
            "echo two >>grown; echo new >deep/er/new; mkdir made; printf '' >made/empty; cat same >/dev/null; ln -s same link; mkfifo pipe",
        ],
    )
    got = files(r)
    assert set(got) == {"grown", "deep/er/new", "made/empty", "link"}
    assert not r.json["files_truncated"]
    assert got["link"]["sha256"] == "" and got["link"]["why"] == "a symbolic link to same"
    assert got["grown"] == {
        "path": "grown",
        "bytes": 8,
        "sha256": sha(b"one\ntwo\n"),
        "why": None,
        "existed_before": True,
        "bytes_before": 4,
        "kept": "files/2",
    }
    assert (r.dir / "files" / "2").read_text() == "one\ntwo\n"
    assert (
        got["deep/er/new"]["sha256"] == sha(b"new\n")
        and got["deep/er/new"]["existed_before"] is False
    )
    assert got["made/empty"]["sha256"] == sha(b"")


def test_same_size_rewrite_and_replacement_are_seen(work):
    (work / "a").write_text("12345")
    (work / "b").write_text("12345")
    r = launch(
        work, ["sh", "-c", "printf 54321 >a; printf 54321 >b.tmp; touch -r b b.tmp; mv b.tmp b"]
    )
    assert {p: f["sha256"] for p, f in files(r).items()} == {"a": sha(b"54321"), "b": sha(b"54321")}


def test_bulk_folders_and_the_home_are_not_evidence(work):
    env = environment(work, TWINRUN_HOME=str(work / "odd-home"))
    r = launch(
        work,
        [
            "sh",
            "-c",
            "for d in .git node_modules __pycache__ .venv; do mkdir $d; echo x >$d/x; done; echo y >y",
        ],
        env=env,
    )
    assert set(files(r)) == {"y"}
    assert (work / "odd-home" / ".gitignore").read_text() == "*\n"


def test_unreadable_file_says_why(work):
    if os.geteuid() == 0:
        r = launch(work, ["sh", "-c", "echo x >gone; chmod 0 gone"])
        assert files(r)["gone"]["sha256"] == sha(b"x\n")  # root reads everything
    else:
        r = launch(work, ["sh", "-c", "echo x >gone; chmod 0 gone"])
        assert files(r)["gone"]["sha256"] == "" and "ermission" in files(r)["gone"]["why"]


def test_files_are_sorted(work):
    r = launch(work, ["sh", "-c", "for i in 9 3 7 1; do echo $i >f$i; done; mkdir d; echo x >d/z"])
    paths = [f["path"] for f in r.json["files"]]
    assert paths == sorted(paths) and len(paths) == 5


def test_more_than_two_gib_are_listed_but_not_hashed(work):
    r = launch(work, ["sh", "-c", "truncate -s 3G big; echo small >small"])
    assert files(r)["big"] == {
        "path": "big",
        "bytes": 3 << 30,
        "sha256": "",
        "why": files(r)["big"]["why"],
        "existed_before": False,
    }
    assert "2 GiB" in files(r)["big"]["why"] and files(r)["small"]["sha256"] == sha(b"small\n")


def test_unchanged_tree_of_twenty_thousand_files_is_cheap(work):
    for d in range(200):
        (work / f"d{d}").mkdir()
        for i in range(98):
            (work / f"d{d}" / f"f{i}").write_text("")
    begin = children_cpu_s()
    subprocess.run(
        ["find", str(work), "-printf", "%s %T@ %i\n"], stdout=subprocess.DEVNULL, check=True
    )
    find = children_cpu_s() - begin
    begin = children_cpu_s()
    r = launch(work, ["true"])
    ours = children_cpu_s() - begin
    assert r.json["files"] == [] and not r.json["files_truncated"]
    assert ours < max(1.0, 6 * find), (ours, find)


def test_too_many_files_are_cut_and_said(work):
    (work / "many").mkdir()
    for i in range(20100):
        (work / "many" / f"f{i}").write_text("")
    (work / "top").write_text("")
    r = launch(work, ["sh", "-c", "echo x >top; echo y >new"])
    assert r.json["files_truncated"] and {"top", "new"} <= set(
        files(r)
    ), "results beside the script come before the depths"
    assert len(files(r)) < 200, "old files beyond the cap are not called new"


# ---- the scratch copy


def test_scratch_copy_keeps_the_original_untouched(work):
    (work / "data").mkdir()
    (work / "data" / "in").write_bytes(os.urandom(300000))
    (work / "tool").write_text(
        "#!/bin/sh\npwd -P; echo $PWD; cat data/in | sha256sum; readlink link; stat -c '%a %Y' tool; echo out >data/out; rm data/in\n"
    )
    (work / "tool").chmod(0o750)
    os.utime(work / "tool", (1000000000, 1234567890))
    (work / "link").symlink_to("data/in")
    before = sorted(os.listdir(work / "data"))
    r = launch(work, ["./tool"], "--fresh")
    copy = r.dir / "work"
    lines = r.stored("stdout").decode().splitlines()
    assert (
        lines[0] == lines[1] == r.json["cwd"] == str(copy)
        and r.json["launched_from"] == str(work)
        and r.json["fresh_dir"]
    )
    assert lines[2].split()[0] == sha((work / "data" / "in").read_bytes())
    assert lines[3] == "data/in" and lines[4] == "750 1234567890"
    assert sorted(os.listdir(work / "data")) == before
    assert files(r) == {
        "data/out": {
            "path": "data/out",
            "bytes": 4,
            "sha256": sha(b"out\n"),
            "why": None,
            "existed_before": False,
            "kept": "files/1",
        }
    }


def test_scratch_copy_leaves_the_home_out_and_links_bulk(work):
    (work / ".git").mkdir()
    (work / ".git" / "HEAD").write_text("ref: x\n")
    env = environment(work, TWINRUN_HOME=str(work / "home"))
    r = launch(
        work, ["sh", "-c", "ls -A; cat .git/HEAD; readlink .git"], "--fresh", "--runs", 2, env=env
    )
    assert r.stored("stdout").decode().splitlines() == [".git", "ref: x", str(work / ".git")]
    assert any("links to the originals" in n for n in r.json["notes"])


def test_scratch_copy_of_a_too_large_folder_is_refused(work):
    subprocess.run(["truncate", "-s", "3G", str(work / "big")], check=True)
    r = launch(work, ["touch", "started"], "--fresh")
    assert r.returncode == 97 and b"error -7" in r.stderr and b"2 GiB" in r.stderr
    assert not list((work.parent / "work-home" / "runs").iterdir()), "no half a run is left"
