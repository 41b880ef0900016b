# SPDX-License-Identifier: Apache-2.0
"""What ghosts/run and ghosts/verify_natively.py have in common: the truths, and how a ghost is put
into a folder to run.

A staged ghost has a neutral name. With a seed its tensors' names and its sizes are redrawn as well,
so that nothing that watches it can know it from before.
"""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD", os.path.join(ROOT, "build")))


MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


class Trouble(Exception):
    """The suite itself is wrong, or something that it needs is missing."""


def truths():
    """Name of each ghost -> its truth."""
    found = {}
    for name in sorted(os.listdir(HERE)):
        path = os.path.join(HERE, name, "truth.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as text:
                found[name] = json.load(text)
    return found


def is_c(name):
    return os.path.exists(os.path.join(HERE, name, "job.c"))


def is_torch(name):
    if is_c(name):
        return False
    with open(os.path.join(HERE, name, "job.py"), encoding="utf-8") as text:
        return re.search(r"^(import|from) torch\b", text.read(), re.M) is not None


def missing(truth):
    """Of what a ghost of MPI needs, the first program that is not installed; else None."""
    mpi = truth.get("mpi")
    needed = [f"mpicc.{mpi}", f"mpirun.{mpi}"] if mpi else []
    return next((program for program in needed if not shutil.which(program)), None)


def word(chance):
    return "".join(chance.choice("bdfgklmnprstv") + chance.choice("aeiou") for _ in range(3))


class Staged:
    """A ghost or its twin in FOLDER, ready to run: `argv`, or `arms` (a and b), and `env`. `sizes`:
    constants as redrawn.
    """

    def __init__(self, name, truth, variant, folder, seed=None):
        self.name, self.truth, self.variant, self.folder = name, truth, variant, folder
        self.chance = random.Random(f"{name} {seed}")
        self.redrawn = seed is not None
        self.env, self.sizes = dict(truth.get("env", {})), {}
        if missing(truth):
            raise Trouble(f"{name}: {missing(truth)} is not installed")
        if truth.get("mpi"):  # more ranks than processors, also as root
            self.env.update(MPI)
        self.program = os.path.join(folder, word(self.chance) if self.redrawn else "job") + (
            "" if is_c(name) else ".py"
        )
        edits = truth.get("fix", []) if variant == "twin" else []
        script = (
            "twin.py"
            if variant == "twin" and "twin" in truth
            else "job.c"
            if is_c(name)
            else "job.py"
        )
        with open(os.path.join(HERE, name, script), encoding="utf-8") as text:
            source = self._edited(text.read(), edits)
        self._write(source)
        for extra in truth.get("files", []):
            shutil.copytree(os.path.join(HERE, name, extra), os.path.join(folder, extra))
        commands = truth["twin"] if variant == "twin" and "twin" in truth else truth["job"]
        for argv in commands.get("prepare", []):
            done = subprocess.run(
                self.filled(argv),
                cwd=folder,
                env={**os.environ, **self.env},
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise Trouble(f"{name}: preparation failed: {done.stderr[-1000:]}")
        self.argv = self.filled(commands["argv"]) if "argv" in commands else None
        self.arms = None if self.argv else {arm: self.filled(commands[arm]) for arm in "ab"}

    def _edited(self, source, edits):
        for old, new in edits:
            if source.count(old) != 1:
                raise Trouble(
                    f"{self.name}/truth.json: expected {old!r} once in the source, found it {source.count(old)} times"
                )
            source = source.replace(old, new)
        return source

    def _renamed(self, source, redraw):
        for name in redraw.get("rename", []):
            source = re.sub(rf"\b{name}\b", self.names.setdefault(name, word(self.chance)), source)
        for name, (low, high) in redraw.get("redraw", {}).items():
            value = self.sizes.setdefault(name, self.chance.randint(low, high))
            source = re.sub(rf"\b({name} = )[0-9_]+", rf"\g<1>{value}", source)
        return source

    def as_redrawn(self, text):
        """TEXT with the names that this copy's identifiers have."""
        for old, new in self.names.items():
            text = re.sub(rf"\b{old}\b", new, text)
        return text

    def _write(self, source):
        self.names, redraws = {}, [self.truth]
        sources = {self.program + (".c" if is_c(self.name) else ""): source}
        if is_c(self.name):
            with open(os.path.join(HERE, "common", "redraw.json"), encoding="utf-8") as text:
                redraws.append(json.load(text))
            with open(os.path.join(HERE, "common", "task.h"), encoding="utf-8") as text:
                sources[os.path.join(self.folder, "task.h")] = text.read()
        for path, text in sources.items():
            for redraw in redraws if self.redrawn else []:
                text = self._renamed(text, redraw)
            for constant, value in re.findall(r"\b([A-Z]+) = ([0-9][0-9_]*)\b", text):
                self.sizes.setdefault(constant, int(value))
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        if is_c(self.name):
            self._compile()

    def _compile(self):
        if self.truth.get("mpi"):  # it knows nothing of twinrun
            compiler = [shutil.which(f"mpicc.{self.truth['mpi']}"), "-std=gnu17", "-O1", "-g"]
            command = [*compiler, "-ffp-contract=off", self.program + ".c", "-o", self.program]
            self._run_compiler([*command, "-lm"])
            return
        library = os.path.join(BUILD, "agents")
        command = shlex.split(os.environ.get("CC", "cc")) + [
            "-std=gnu17",
            "-O1",
            "-g",
            "-ffp-contract=off",
            "-fopenmp",
            "-pthread",
            "-I" + os.path.join(ROOT, "include"),
            self.program + ".c",
            "-o",
            self.program,
            "-L" + library,
            "-ltwinrun",
            "-lm",
            "-Wl,-rpath," + library,
        ]
        self._run_compiler(command)

    def _run_compiler(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Trouble(f"{self.name}: {done.stderr[-2000:]}")

    def filled(self, argv):
        """The command with its placeholders filled in."""
        python = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)
        torchrun = os.path.join(os.path.dirname(python), "torchrun")
        said = [
            part.replace("{here}/job.py", "{job}").replace("{here}/twin.py", "{job}")
            for part in argv
        ]
        return [
            part.format(
                python=python,
                torchrun=torchrun,
                mpirun=f"mpirun.{self.truth.get('mpi')}",
                job=self.program,
                here=self.folder,
            )
            for part in said
        ]

    def command(self):
        """Arguments of `twinrun check` or `twinrun isolate` that name the job."""
        if self.argv:
            return ["--", *self.argv]
        return [
            part
            for arm in "ab"
            for part in (f"--{arm}", " ".join(map(shlex.quote, self.arms[arm])))
        ]

    def result(self, argv):
        """Runs the job without twinrun; its last line shows every bit of the result."""
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            raise Trouble(f"{argv}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return (done.stdout.splitlines() or [""])[-1]

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
