# SPDX-License-Identifier: Apache-2.0
"""What a job in a replay's container can reach of the machine that it runs on: a package that means
harm may bring any command. Real containers, of bubblewrap and, as root, of chroot.
"""

import json
import os
import shutil
import signal
import subprocess

import pytest

from conftest import clean_environment
from image_helper import Layout, entry, tar
from test_container import ENGINES, can_contain, made, system_layer  # noqa: F401
from test_container import wait_until, with_command

pytestmark = pytest.mark.usefixtures("can_contain")


# The mode of each file is set to what it is: says which ones let it.
SET_MODE = """
#include <stdio.h>
#include <sys/stat.h>
int main(int n, char **path)
{
    struct stat st;
    for (int i = 1; i < n; i++)
        if (stat(path[i], &st) != 0 || chmod(path[i], st.st_mode & 07777) == 0)
            printf("mode %s\\n", path[i]);
    return 0;
}
"""


def replay_command(twinrun, made, tmp_path, engine, script, *words, **more):  # noqa: F811
    """Runs a shell's script as the job of a package; what it wrote to $TO/said."""
    into = tmp_path / "into"
    package = with_command(made, tmp_path / "p", "sh", "-c", f"TO={into}\n{script}")
    r = twinrun("replay", str(package), "--container", engine, "--into", str(into), *words, **more)
    assert (into / "said").exists(), r.out + r.err
    return (into / "said").read_text()


def kernel_files():
    """What uid 0 may open for writing here by its mode alone, and do harm with."""
    found = ["/proc/sysrq-trigger", "/proc/mtrr", "/proc/sys/kernel/core_pattern"]
    found += ["/proc/irq/default_smp_affinity", "/sys/kernel/mm/transparent_hugepage/enabled"]
    for line in open("/proc/self/mountinfo"):
        at = line.split()[4]
        if at.startswith("/sys/fs/cgroup"):
            found += [f"{at}/cgroup.procs", f"{at}/cgroup.subtree_control"]
    return [p for p in found if os.path.exists(p)]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_job_cannot_change_the_machine(build, twinrun, made, tmp_path, engine):  # noqa: F811
    """Without a right of root, uid 0 is still the owner of the kernel's files and of the device
    nodes. Files are opened for writing and nothing is written."""
    (tmp_path / "mode.c").write_text(SET_MODE)
    subprocess.run(["cc", "-o", tmp_path / "mode", tmp_path / "mode.c"], check=True)
    program = tar([entry("usr/bin/set-mode", (tmp_path / "mode").read_bytes(), 0o755)])
    Layout(tmp_path / "image", [system_layer(build), program], env=["PATH=/usr/bin"])
    files = kernel_files()
    assert "/proc/sys/kernel/core_pattern" in files
    nodes = " ".join(f"/dev/{d}" for d in ["null", "zero", "full", "random", "urandom"])
    script = f"""
        for p in {" ".join(files)}; do
            if (: >>$p) 2>/dev/null; then echo "open $p"; fi
        done >"$TO/said"
        set-mode {nodes} {" ".join(files)} >>"$TO/said"
        # what it needs is there all the same
        {{ echo x >/dev/null; }} && echo written >>"$TO/said"
        IFS= read -r line </proc/sys/kernel/core_pattern && echo read >>"$TO/said"
        for p in /sys/devices/system/cpu/online {" ".join(f for f in files if "procs" in f)}; do
            [ -r $p ] || echo "missing $p"
        done >>"$TO/said"
    """
    said = replay_command(
        twinrun, made, tmp_path, engine, script, "--image", f"oci:{tmp_path}/image"
    )
    assert said == "written\nread\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_job_cannot_read_the_callers_variables(twinrun, made, tmp_path, engine):  # noqa: F811
    """/proc has what each process was started with; the first one inside is the engine's."""
    script = """
        for p in /proc/[0-9]*; do
            echo "${p##*/}" >>"$TO/seen"
            { while IFS= read -r line || [ "$line" ]; do
                case $line in *a-password-of-mine*) echo "$p has it";; esac
            done; } <$p/environ
        done >"$TO/said" 2>/dev/null
        echo "$OF_THE_IMAGE" >>"$TO/said"
    """
    said = replay_command(
        twinrun, made, tmp_path, engine, script, env={"A_TOKEN": "a-password-of-mine"}
    )
    assert said == "1\n"
    assert "1" in (tmp_path / "into" / "seen").read_text().splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="root only: others are the owner or cannot read it")
@pytest.mark.parametrize("engine", ENGINES)
def test_data_that_root_cannot_read_without_roots_rights(
    twinrun,
    made,
    tmp_path,
    engine,  # noqa: F811
):
    """The job has none of them: said before the start, and not by the job's own error."""
    data = tmp_path / "above" / "images"
    shutil.copytree(made / "images", data)
    file = next(p for p in data.rglob("*") if p.is_file())
    words = ["replay", str(made / "without"), "--container", engine, "--image", f"oci:{made}/image"]
    words += ["--data", str(data), "--json"]

    for path, mode in [(file, 0o600), (file, 0o640), (data, 0o700), (data, 0o750)]:
        before, into = path.stat(), tmp_path / "refused"
        os.chown(path, 12345, 12345)
        path.chmod(mode)
        r = twinrun(*words, "--into", str(into))
        assert r.rc == 2 and not into.exists(), r.out + r.err
        assert f"cannot read {path} (of uid 12345, gid 12345, mode {mode:04o})" in r.err
        os.chown(path, before.st_uid, before.st_gid)
        path.chmod(before.st_mode & 0o7777)
    # what others may read, and what lies above, which nobody looks at inside
    for path, mode in [(file, 0o604), (data, 0o705), (data.parent, 0o700)]:
        os.chown(path, 12345, 12345)
        path.chmod(mode)
    r = twinrun(*words, "--into", str(tmp_path / "into"))
    assert r.rc == 0 and json.loads(r.out)["outcome"] == "same", r.out + r.err


# What a job may leave behind; the folder it is in is hard to look into.
LEAVE = """
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
static int leave(const char *name, mode_t mode)
{
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    return fd >= 0 && fchmod(fd, mode) == 0 && close(fd) == 0;
}
int main(int n, char **to)
{
    return !(n == 3 && chdir(to[1]) == 0 && mkdir("a", 0755) == 0 && mkdir("a/b", 0755) == 0 &&
             symlink(to[2], "a/link") == 0 && leave("a/b/su", 04755) && leave("a/sg", 02755) &&
             leave("plain", 0644) && leave("a/both", 06711) && chmod("a", 0311) == 0);
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_job_leaves_runs_with_nobodys_rights(  # noqa: F811
    build, twinrun, made, tmp_path, engine  # noqa: F811
):  # fmt: skip
    """But for what lies elsewhere, and is not the job's."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")
    outside.chmod(0o4755)
    (tmp_path / "leave.c").write_text(LEAVE)
    subprocess.run(["cc", "-o", tmp_path / "leave", tmp_path / "leave.c"], check=True)
    program = tar([entry("usr/bin/leave", (tmp_path / "leave").read_bytes(), 0o755)])
    Layout(tmp_path / "image", [system_layer(build), program], env=["PATH=/usr/bin"])
    into = tmp_path / "into"
    script = f"TO={into}; leave $TO {outside} && echo done >$TO/said"
    package = with_command(made, tmp_path / "p", "sh", "-c", script)
    words = ["replay", str(package), "--container", engine, "--image", f"oci:{tmp_path}/image"]
    r = twinrun(*words, "--into", str(into))
    assert (into / "said").exists(), r.out + r.err
    modes = lambda: {p: (into / p).lstat().st_mode & 0o7777 for p in LEFT}  # noqa: E731
    if os.geteuid() == 0:
        assert f"3 files in {into} with bits for setuid or setgid: they were taken away" in r.err
        assert modes() == LEFT
    else:
        assert f"find {into} -perm /6000" in r.err
    assert outside.stat().st_mode & 0o7777 == 0o4755


LEFT = {"a/b/su": 0o755, "a/sg": 0o755, "a/both": 0o711, "plain": 0o644}

# In place of unshare: twinrun is killed, and then the container starts all the same, as one does
# that was forked, and had not yet asked for its end with twinrun's.
LATE = """#!/bin/sh
case "$*" in *replay-inside*) ;; *) exec {unshare} "$@" ;; esac
(
    kill -9 $PPID
    while kill -0 $PPID 2>/dev/null; do sleep 0.05; done
    {unshare} "$@" >{said} 2>&1
    echo $? >{code}.new && mv {code}.new {code}
) &
wait
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root only")
def test_a_container_that_is_left_alone_starts_nothing(build, made, tmp_path, home):  # noqa: F811
    places = {name: tmp_path / name for name in ("said", "code")}
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "unshare"
    stand_in.write_text(LATE.format(unshare=shutil.which("unshare"), **places))
    stand_in.chmod(0o755)
    into = tmp_path / "into"
    package = with_command(made, tmp_path / "p", "sh", "-c", f"echo ran >{into}/said")
    env = {"TWINRUN_HOME": str(home), "PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    words = ["replay", str(package), "--container", "chroot", "--into", str(into)]
    r = subprocess.run([str(build / "cmd" / "twinrun"), *words], env=clean_environment(env))
    assert r.returncode == -signal.SIGKILL
    wait_until(places["code"].exists)
    assert "twinrun, which started this container, has ended" in places["said"].read_text()
    assert places["code"].read_text() == "2\n" and not (into / "said").exists()
    assert not list(into.glob("runs/*"))
