#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a Debian package of what a build folder holds: make_deb.py BUILD OUT

What goes in is what `meson install` installs, below /usr: programs find their parts by their own
place (src/launch/parts.c), so the prefix of the build does not matter. Left out is what is linked
with one MPI or with CUDA. debhelper does the rest (packaging/debian).

The time in it is SOURCE_DATE_EPOCH, else that of the last commit: same objects, same file.
"""

import email.utils
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Linked with one MPI, with CUDA: they would tie the package to it.
LEFT_OUT = (
    "usr/include/twin/allreduce.h",
    "usr/include/twin/cuda.h",
    "usr/include/twin/nccl.h",
    "usr/lib/libtwincuda*",
    "usr/lib/libtwinmpi-*",
    "usr/lib/libtwinnccl*",
    "usr/lib/pkgconfig/twinrun-cuda.pc",
    "usr/lib/pkgconfig/twinrun-mpi-*",
    "usr/lib/pkgconfig/twinrun-nccl.pc",
    "usr/libexec/twinrun/trainer_mpi_*",
)
# The interpreter of Debian sees the half that jobs get, and no second copy of it.
MODULE = "usr/lib/python3/dist-packages/twinrun"
MODULE_IS = "../../twinrun/python/twinrun"
NEEDED = ("dpkg-deb", "dpkg-shlibdeps", "dh", "dh_python3", "meson")


class Failed(Exception):
    pass


def run(*command, cwd=None, **env):
    done = subprocess.run(
        command,
        cwd=cwd,
        env=dict(os.environ, LC_ALL="C.UTF-8", **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    if done.returncode:
        raise Failed("%s failed:\n%s" % (" ".join(command[:3]), done.stdout[-4000:]))
    return done.stdout


def epoch():
    """Seconds: when what is packed was last changed."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    if os.path.exists(os.path.join(ROOT, ".git")):
        try:
            return int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
        except (Failed, OSError):
            pass  # no git, or a checkout of another user
    return int(os.stat(os.path.join(ROOT, "meson.build")).st_mtime)


def options(build):
    with open(os.path.join(build, "meson-info", "intro-buildoptions.json")) as file:
        found = {option["name"]: option["value"] for option in json.load(file)}
    if found["b_sanitize"] != "none" or found["buildtype"] not in ("release", "debugoptimized"):
        raise Failed(
            "%s is no build folder to package: expected a release without sanitizers, found "
            "buildtype %s with b_sanitize %s" % (build, found["buildtype"], found["b_sanitize"])
        )
    return found


def version(build):
    with open(os.path.join(build, "meson-info", "intro-projectinfo.json")) as file:
        return json.load(file)["version"]


def installed(build, prefix, folder):
    """Puts into folder/usr what meson would install."""
    run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder + ".at")
    os.makedirs(folder)
    shutil.move(os.path.join(folder + ".at", prefix.lstrip("/")), os.path.join(folder, "usr"))
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), folder)
            if any(fnmatch.fnmatch(path, pattern) for pattern in LEFT_OUT):
                os.remove(os.path.join(folder, path))
    pkgconfig = os.path.join(folder, "usr", "lib", "pkgconfig")
    for name in os.listdir(pkgconfig):
        path = os.path.join(pkgconfig, name)
        with open(path) as file:
            text = file.read()
        text = re.sub(r"(?m)^prefix=.*$", "prefix=/usr", text)
        text = re.sub(r"(?m)^libdir=.*$", "libdir=${prefix}/lib", text)
        with open(path, "w") as file:
            file.write(text)


def python_module(folder, number):
    """The module for Debian's python3, and what names the plugin of pytest."""
    link = os.path.join(folder, MODULE)
    os.makedirs(os.path.dirname(link))
    os.symlink(MODULE_IS, link)
    with open(os.path.join(ROOT, "pyproject.toml")) as file:
        plugin = re.search(
            r'(?m)^\[project\.entry-points\.(\w+)\]\n(\w+) = "([\w.]+)"', file.read()
        )
    info = "%s-%s.dist-info" % (link, number)
    os.mkdir(info)
    with open(os.path.join(info, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\nName: twinrun\nVersion: %s\n" % number)
    with open(os.path.join(info, "entry_points.txt"), "w") as file:
        file.write("[%s]\n%s = %s\n" % plugin.groups())
    with open(os.path.join(info, "INSTALLER"), "w") as file:
        file.write("debian\n")


def changelog(path, number, seconds):
    with open(os.path.join(ROOT, "packaging", "debian", "control")) as file:
        maintainer = re.search(r"(?m)^Maintainer: (.*)$", file.read()).group(1)
    with open(path, "w") as file:
        file.write(
            "twinrun (%s) unstable; urgency=medium\n\n"
            "  * What is new: /usr/share/doc/twinrun/NEWS.md.gz\n\n"
            " -- %s  %s\n" % (number, maintainer, email.utils.formatdate(seconds, False))
        )


def make(build, out):
    """The path of the package."""
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        raise Failed(
            "expected %s in PATH, found none of that name; try `apt-get install debhelper "
            "dh-python dpkg-dev meson`" % ", ".join(missing)
        )
    prefix, number, seconds = options(build)["prefix"], version(build), epoch()
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="twinrun-deb-") as work:
        folder = os.path.join(work, "twinrun")  # debhelper puts the package beside it
        shutil.copytree(os.path.join(ROOT, "packaging", "debian"), os.path.join(folder, "debian"))
        # under its own name debhelper would take it for Debian's
        shutil.copy2(os.path.join(ROOT, "CHANGELOG.md"), os.path.join(folder, "NEWS.md"))
        installed(build, prefix, os.path.join(folder, "root"))
        python_module(os.path.join(folder, "root"), number)
        changelog(os.path.join(folder, "debian", "changelog"), number, seconds)
        rules = ("dpkg-architecture", "-c", "debian/rules binary")  # dh_python3 asks for its names
        run(*rules, cwd=folder, SOURCE_DATE_EPOCH=str(seconds))
        (name,) = [name for name in os.listdir(work) if name.endswith(".deb")]
        return shutil.copy2(os.path.join(work, name), os.path.join(out, name))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_deb.py BUILD OUT")
    try:
        print(make(os.path.realpath(sys.argv[1]), sys.argv[2]))
    except Failed as error:
        print("make_deb.py: %s" % error, file=sys.stderr)
        sys.exit(2)
