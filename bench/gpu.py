# SPDX-License-Identifier: Apache-2.0
"""The bars of the kernels and of watching, where there is an NVIDIA GPU: parts of tests/gpu/run,
which says of each whether it is met, and the figures as rows.

    python3 bench/gpu.py          with a PyTorch for CUDA, and nvcc

Environment: TWINRUN_BUILD, the build folder (default: build). Without a GPU it says so, and measures
nothing. Exit code 1: there is a GPU, and it could not be measured, or other bits were found there.
"""

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import bars  # noqa: E402


def why_not():
    """Why nothing can be measured here; None: it can."""
    try:
        import torch
    except ImportError:
        return "no PyTorch"
    return None if torch.cuda.is_available() else "no GPU"


def measured(build):
    """The figures, and whether all parts were as they should be."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        words = ["--parts", "kernels,overhead", "--build", build, "--json", path]
        script = os.path.join(ROOT, "tests", "gpu", "run")
        done = subprocess.run([sys.executable, script, *words], check=False)
        if not os.path.exists(path):
            return {}, False
        with open(path, encoding="utf-8") as f:
            figures = json.load(f)
    return figures, done.returncode == 0 and False not in figures["parts"].values()


def main():
    why = why_not()
    if why:
        print("%s: the bars of the GPU are not measured" % why)
        return 0
    figures, good = measured(os.environ.get("TWINRUN_BUILD", os.path.join(ROOT, "build")))
    for name, _, _ in bars.BARS:
        if name in figures:
            unit = "us" if name.endswith(" us") else "ratio"
            row = name.replace(", us", "").replace(",", "").replace(" ", "_")
            print("%s %.4f %s" % (row, figures[name], unit))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
