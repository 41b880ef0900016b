# SPDX-License-Identifier: Apache-2.0
"""Runs told to Weights & Biases through its own client: what it writes offline, and what it sends,
are formats of its own.

A run there has the id of ours. Where to, and who asks, is the client's affair: `wandb login`, or
WANDB_BASE_URL, WANDB_API_KEY, WANDB_MODE, WANDB_DIR.
"""

import glob
import hashlib
import json
import os
import shutil
import sys
import time

from common import Trouble

# W&B takes these as names of projects and entities.
REFUSED, LONGEST = '/\\#?%:"', 128
# Its own step only ever grows and has one row each; the step of the job is this metric, the name of
# which other trainers use, too.
STEP = "trainer/global_step"
# Holds the digest of what was told: the run is whole, and need not be told again.
EXPORTED = "twinrun.exported"


def write(runs, where, request, wrote):
    try:
        import wandb
    except ImportError as error:
        raise Trouble(
            "expected a Python with wandb, found none (%s): pip install wandb, or name another "
            "interpreter with --python" % error
        ) from None
    entity, _, project = where.rpartition("/")
    for name in [project] + ([entity] if entity else []):
        if (
            not name
            or len(name) > LONGEST
            or any(c in REFUSED or not c.isprintable() for c in name)
        ):
            raise Trouble(
                "expected PROJECT or ENTITY/PROJECT, each of 1 to %d characters and none of %s, "
                "found %s" % (LONGEST, REFUSED, where[: 2 * LONGEST])
            )
    # The client asks for a key where it has a terminal; nobody would see the question.
    sys.stdin = open(os.devnull)
    try:
        for run in runs:
            wrote("%s  %s" % (run.name, _write_run(wandb, entity or None, project, run)))
    # OSError: its folder, its core program. What else the client raises is its own base class.
    except (wandb.errors.Error, OSError) as error:
        raise Trouble(
            "the client of W&B refused: %s. Nothing is lost: the runs are here, and exported "
            "again, what is missing is added" % (" ".join(str(error).split()) or repr(error))
        ) from None
    finally:
        wandb.teardown()


def _rows(run):
    """The losses as rows of W&B: a step is one, or as many as it has values of one name."""
    found = {}
    for name, points in run.curves():
        seen = {}
        for step, value, ns in points:
            seen[step] = seen.get(step, -1) + 1
            row = found.setdefault((step, seen[step]), {STEP: step, "_timestamp": ns / 1e9})
            row[name] = value
            row["_timestamp"] = max(row["_timestamp"], ns / 1e9)
    return [found[k] for k in sorted(found)]


def _config(run):
    config = dict(run.parameters())
    config["started"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.start_ns / 1e9))
    for folder, digest in run.data():
        config["data/" + folder] = digest
    return config


def _digest(run, rows, config):
    verdict = b""
    if run.verdict_path:
        with open(run.verdict_path, "rb") as f:
            verdict = f.read()
    # repr: a NaN is equal to itself here
    whole = [repr(rows), sorted(config.items()), run.tags(), hashlib.sha256(verdict).hexdigest()]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _settings(wandb):
    """It is not this process that is the run: nothing of it goes there."""
    return wandb.Settings(
        console="off",
        silent=True,
        symlink=False,
        save_code=False,
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


def _is_offline():
    mode = os.environ.get("WANDB_MODE", "online")
    if mode not in ("online", "offline", "dryrun"):
        raise Trouble("expected online or offline in WANDB_MODE, found %s" % mode[:100])
    return mode != "online"


def _written_before(folder, ident):
    """Folders of this run, with the digest that each says it holds: {path: digest or ""}."""
    found = {}
    for path in glob.glob(os.path.join(glob.escape(folder), "wandb", "offline-run-*-" + ident)):
        try:
            with open(os.path.join(path, EXPORTED), encoding="ascii") as f:
                found[path] = f.read().strip()
        except (OSError, UnicodeDecodeError):
            found[path] = ""
    return found


def _write_run(wandb, entity, project, run):
    rows, config = _rows(run), _config(run)
    mark = project + " " + _digest(run, rows, config)
    offline = _is_offline()
    folder = os.environ.get("WANDB_DIR") or os.getcwd()
    before = _written_before(folder, run.id) if offline else {}
    for path, had in before.items():
        if had == mark:
            return "is there already, %s" % path
    # A folder of an export that was cut off stays until the whole one is there.
    told = wandb.init(
        entity=entity,
        project=project,
        id=run.id,
        name=run.name,
        config=config,
        tags=_tags(run),
        dir=folder,
        mode="offline" if offline else "online",
        settings=_settings(wandb),
        # of a run that the server has already, what is missing is added
        **({} if offline else {"resume": "allow"}),
    )
    told_whole = False
    try:
        there = not offline and told.summary.get(EXPORTED) == mark
        if not there:
            _tell(wandb, told, run, rows)
            told.summary[EXPORTED] = mark
        told_whole = True
    finally:
        told.finish(exit_code=0 if run.succeeded and told_whole else 1)
    where = told.settings.sync_dir if offline else "run %s" % run.id
    if offline:
        with open(os.path.join(where, EXPORTED), "w", encoding="ascii") as f:
            f.write(mark + "\n")
        for path in before:
            if os.path.realpath(path) != os.path.realpath(where):
                shutil.rmtree(path, ignore_errors=True)
    if there:
        return "is there already, %s" % where
    verdict = ", verdict" if run.verdict_path else ""
    return "%s: %d steps, %d parameters%s" % (where, len(rows), len(config), verdict)


def _tags(run):
    return ["twinrun"] + (["twinrun: %s" % run.verdict.get("outcome")] if run.verdict else [])


def _tell(wandb, told, run, rows):
    told.define_metric("*", step_metric=STEP)
    # A resumed run has its first rows; W&B would refuse them a second time.
    for i in range(told.step, len(rows)):
        told.log(rows[i], step=i)
    for name, words in run.tags().items():
        told.summary[name] = words
    if run.verdict_path:
        verdict = wandb.Artifact("verdict-" + run.id, "verdict")
        verdict.add_file(run.verdict_path, "verdict.json")
        told.log_artifact(verdict)
