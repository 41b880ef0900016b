# SPDX-License-Identifier: Apache-2.0
"""The Python half of `twinrun export` to trackers and of `twinrun import`: python _trackers FILE.

FILE holds where to, and what the traces hold (src/export/trackers.c), or where from. Prints a line
of JSON for whatever is to be said. The exit code is 0 where all was written, else 1.
"""

import json
import sys

import common
import curves
import mirror
import runs
import to_mlflow
import to_openlineage
import to_otlp
import to_perfetto
import to_tensorboard
import to_wandb


# What a run.json or verdict.json that somebody edited leads to.
UNLIKE = (AttributeError, KeyError, OSError, OverflowError, TypeError, ValueError)


def tell(**words):
    for name, value in words.items():
        if isinstance(value, str):
            words[name] = common.printable(value)
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        request = json.load(f)
    if "mirror" in request:
        failed = mirror_models(request)
    else:
        failed = import_curves(request) if "from" in request else export(request)
    tell(done=True)
    return 1 if failed else 0


def import_curves(request):
    try:
        curves.run(request, lambda text: tell(wrote=text))
    except common.Trouble as error:
        tell(said=str(error))
        return True
    except UNLIKE as error:
        tell(said="%s gave what it should not: %r" % (request["from"], error))
        return True
    return False


def mirror_models(request):
    try:
        tell(result=mirror.run(request, lambda text: tell(progress=text)))
    except common.Trouble as error:
        tell(said=str(error))
        return True
    except UNLIKE as error:
        tell(said="MLflow gave what it should not: %r" % error)
        return True
    return False


def export(request):
    targets = (
        ("tensorboard", to_tensorboard.write),
        ("perfetto", to_perfetto.write),
        ("otlp", to_otlp.write),
        ("openlineage", to_openlineage.write),
        ("mlflow", to_mlflow.write),
        ("wandb", to_wandb.write),
    )
    failed = False
    exported = []
    for facts in request["runs"]:
        try:
            exported.append(runs.Run(facts))
        except UNLIKE as error:
            folder = common.path_of(facts["dir"])
            tell(said="%s was left out: its run.json is not ours: %r" % (folder, error))
            failed = True
    for name, write in targets if exported else ():
        if request[name] is None:
            continue
        try:
            where = common.path_of(request[name])
            write(exported, where, request, lambda text: tell(wrote=text))
        except common.Trouble as error:
            tell(said="%s: %s" % (name, error))
            failed = True
        except UNLIKE as error:
            tell(said="%s: nothing was written: a file of a run is not ours: %r" % (name, error))
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
