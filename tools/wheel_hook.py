# SPDX-License-Identifier: Apache-2.0
"""Hatchling's hook that puts the compiled half of twinrun into the wheel.

What goes in is what `meson install` would install: meson's own plan is read, and PLACES says where
each part of it lies in the wheel (src/launch/parts.c looks there). So the objects of a build folder
that is there are used as they are; only the program is linked a second time, with the archives of
the libraries that other machines may not have. Nothing in the wheel is an extension module, so one
wheel serves every Python 3. Its tag is read off the finished files: the newest version of glibc
that one of them asks for.

TWINRUN_BUILD names the build folder (default: build, in the source tree).
"""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where meson would install it, and where it lies in the wheel. The first that fits decides.
PACKAGE, SHARED, LEFT_OUT = "package", "shared", "left out"
PLACES = (
    ("{bindir}/twinrun", PACKAGE, "twinrun"),
    ("{prefix}/lib/twinrun/python/", PACKAGE, "agent/"),
    ("{prefix}/lib/twinrun/", PACKAGE, ""),
    ("{prefix}/lib/libtwinnumerics.so", PACKAGE, "libtwinnumerics.so"),
    ("{datadir}/twinrun/cases", PACKAGE, "cases"),
    ("{datadir}/twinrun/data/", PACKAGE, "workloads/data/"),
    ("{libexecdir}/twinrun/trainer_mpi_", LEFT_OUT, ""),  # linked with one MPI
    ("{libexecdir}/twinrun/", PACKAGE, "workloads/"),
    ("{mandir}/", SHARED, "share/man/"),
    ("{datadir}/", SHARED, "share/"),  # completion, schemas
    # linked with one MPI, with CUDA, with OpenSSL
    ("{prefix}/lib/libtwinmpi-", LEFT_OUT, ""),
    ("{prefix}/lib/libtwincuda.so", LEFT_OUT, ""),
    ("{prefix}/lib/libtwinnccl.so", LEFT_OUT, ""),
    ("{prefix}/lib/libtwincheckpoint.so", LEFT_OUT, ""),
    ("{includedir}/twin/allreduce.h", LEFT_OUT, ""),
    ("{includedir}/twin/cuda.h", LEFT_OUT, ""),
    ("{includedir}/twin/nccl.h", LEFT_OUT, ""),
    ("{includedir}/twin/checkpoint.h", LEFT_OUT, ""),
    ("{includedir}/twin/", PACKAGE, "include/twin/"),
)
FOLDER = "twinrun/_bin/"
PKGCONFIG = ("twinrun", "twinrun-numerics")  # those whose libraries are in the wheel
LICENCES = "LICENSE-THIRD-PARTY"

# What every glibc system has; anything else has to be inside of our files.
OF_THE_SYSTEM = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d$|ld-linux")
OLDEST = (2, 17)  # what pip takes for the beginning


class Failed(Exception):
    pass


def say(text):
    """Shown while pip is silent: pip keeps what a backend prints, but not what it says to the
    terminal.
    """
    try:
        with open("/dev/tty", "w") as terminal:
            terminal.write("\n" + text)
    except OSError:
        print(text, file=sys.stderr, flush=True)


def run(*command, cwd=None):
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=dict(os.environ, LC_ALL="C"),
    )
    if done.returncode:
        raise Failed("%s failed:\n%s" % (" ".join(command[:2]), done.stdout[-4000:]))
    return done.stdout


# ---- the build folder


def configure(root, build):
    if not os.path.isfile(os.path.join(build, "build.ninja")):
        say("twinrun: configuring %s" % build)
        run("meson", "setup", build, root, "-Dtests=disabled", "-Dmpi=disabled")
    options = {option["name"]: option["value"] for option in introspected(build, "buildoptions")}
    if options["b_sanitize"] != "none" or options["buildtype"] not in ("release", "debugoptimized"):
        raise Failed(
            "%s is no build folder to make a wheel from: expected a release without sanitizers, found "
            "buildtype %s with b_sanitize %s. Name another one in TWINRUN_BUILD"
            % (build, options["buildtype"], options["b_sanitize"])
        )


def introspected(build, what):
    with open(os.path.join(build, "meson-info", "intro-%s.json" % what)) as file:
        return json.load(file)


class Progress:
    """Says how far ninja is, at each tenth of the way, and how long the rest may take."""

    def __init__(self, say, clock=time.monotonic):
        self.say, self.clock, self.began, self.tenth = say, clock, clock(), 0

    def line(self, text):
        """Whether the line was about progress."""
        found = re.match(r"\[(\d+)/(\d+)\] ", text)
        if not found:
            return False
        done, all_of_them = int(found.group(1)), int(found.group(2))
        tenth = done * 10 // all_of_them
        if all_of_them >= 20 and tenth > self.tenth:
            self.tenth = tenth
            left = (self.clock() - self.began) / done * (all_of_them - done)
            self.say(
                "twinrun: %d of %d compiled" % (done, all_of_them)
                + (", about %d s left" % round(left) if done < all_of_them else "")
            )
        return True


def compile_all(build, targets):
    progress = Progress(say)
    ninja = subprocess.Popen(
        ["ninja", "-C", build, *targets],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ, NINJA_STATUS="[%f/%t] "),
    )
    said = [line for line in ninja.stdout if not progress.line(line)]
    if ninja.wait():
        raise Failed("the compiler failed:\n%s" % "".join(said)[-4000:])


# ---- what is in it


def place_of(destination):
    for start, kind, place in PLACES:
        if destination.startswith(start):
            return kind, place + destination[len(start) :]
    raise Failed(
        "meson installs %s, and tools/wheel_hook.py (PLACES) does not say where it lies in a wheel"
        % destination
    )


def files_of(path, place):
    """(file, its place) for a file, or for all files of a folder."""
    if not os.path.isdir(path):
        yield path, place
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            file = os.path.join(folder, name)
            yield file, os.path.join(place, os.path.relpath(file, path))


def planned(build):
    """{kind: {path: place}} of all that meson would install. Two places for one path do not occur:
    the plan itself has one.
    """
    found = {PACKAGE: {}, SHARED: {}, LEFT_OUT: {}}
    for entries in introspected(build, "install_plan").values():
        for path, entry in entries.items():
            if path.endswith(".pc"):  # written anew: see pkgconfig
                continue
            kind, place = place_of(entry["destination"])
            found[kind][os.path.normpath(path)] = place
    return found


def link_program(root, build, to):
    """The program once more, with an archive wherever it was linked with a library of another
    project. Their licences must be in LICENCES.
    """
    command = shlex.split(run("ninja", "-t", "commands", "-s", "cmd/twinrun", cwd=build))
    with open(os.path.join(root, LICENCES)) as file:
        licences = file.read()
    for i, word in enumerate(command):
        if re.match(r"/.*/lib[^/]+\.so$", word):
            archive = word[: -len("so")] + "a"
            if not os.path.isfile(archive):
                raise Failed("%s is there, and %s is not: the wheel needs it" % (word, archive))
            if os.path.basename(archive) not in licences:
                raise Failed("%s does not name %s" % (LICENCES, os.path.basename(archive)))
            command[i] = archive
    command[command.index("-o") + 1] = to
    run(*command, "-Wl,-s", cwd=build)


def pkgconfig(build, name, to):
    """meson's file, for a folder that may lie anywhere. Programs find the library by themselves:
    no linker's cache knows a virtual environment.
    """
    with open(os.path.join(build, "meson-private", name + ".pc")) as file:
        text = file.read()
    text = re.sub(r"(?m)^prefix=.*$", "prefix=${pcfiledir}/..", text)
    text = re.sub(r"(?m)^libdir=.*$", "libdir=${prefix}", text)
    text = re.sub(r"(?m)^Libs: -L\S+", "Libs: -L${libdir} -Wl,-rpath,${libdir}", text)
    with open(to, "w") as file:
        file.write(text)


def glibc_of(path):
    """The newest version of glibc that a file asks for. Libraries of others are refused."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-Wd", path))
    foreign = [name for name in needed if not OF_THE_SYSTEM.match(name) and name != "libtwinrun.so"]
    if foreign:
        raise Failed("%s needs %s, which other machines may not have" % (path, foreign))
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", run("readelf", "-WV", path))
    return max([OLDEST] + [(int(major), int(minor)) for major, minor in versions])


def is_compiled(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def tag_of(paths):
    newest = max(glibc_of(path) for path in paths if is_compiled(path))
    return "py3-none-manylinux_%d_%d_%s" % (newest + (platform.machine(),))


def copied(root, ours, file, place):
    """A copy of a file of the package: hatchling takes each file once, and these lie in the wheel
    twice, in the package and in the folder that jobs get on their PYTHONPATH.
    """
    if not file.startswith(os.path.join(root, "python", "")):
        return file
    copy = os.path.join(ours, place)
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    return shutil.copy2(file, copy)


def contents(root, build):
    """({path: place in the wheel}, {path: place below the prefix}), all there and compiled."""
    configure(root, build)
    plan = planned(build)
    made = {path: place for path, place in plan[PACKAGE].items() if path.startswith(build + "/")}
    shared = plan[SHARED]
    built = [path for path in shared if path.startswith(build + "/")]
    targets = [os.path.relpath(path, build) for path in list(made) + built]
    compile_all(build, [target for target in targets if not target.endswith((".py", ".toml"))])
    ours = os.path.join(build, "wheel")
    os.makedirs(ours, exist_ok=True)
    program = os.path.join(build, "cmd", "twinrun")
    link_program(root, build, os.path.join(ours, "twinrun"))
    package = {}
    for path, place in plan[PACKAGE].items():
        path = os.path.join(ours, "twinrun") if path == program else path
        for file, at in files_of(path, place):
            package[copied(root, ours, file, at)] = FOLDER + at
    for name in PKGCONFIG:
        file = os.path.join(ours, name + ".pc")
        pkgconfig(build, name, file)
        package[file] = FOLDER + "pkgconfig/" + name + ".pc"
    return package, shared


class WheelHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            raise Failed("an editable twinrun is not made: ./dev build, then build/cmd/twinrun")
        # meson's plan has real paths
        build = os.environ.get("TWINRUN_BUILD") or os.path.join(self.root, "build")
        build = os.path.realpath(build)
        package, shared = contents(self.root, build)
        build_data["pure_python"] = False
        build_data["tag"] = tag_of(package)
        build_data["force_include"].update(package)
        build_data["shared_data"].update(shared)
