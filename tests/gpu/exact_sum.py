# SPDX-License-Identifier: Apache-2.0
"""A part of tests/gpu/run: how fast the exact sum of kernels/exact.cu is beside CUB's plain sum of
the same floats (sum_speed.cu, which also holds both against the host's sum).

The bar of issue 20: at least 0.8 of CUB's speed. On a double the program of the build is run, whose
CUB is a double, too: its times say nothing.
"""

import os
import subprocess
import tempfile

import bars

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C_SOURCES = (
    "src/base/error.c",
    "src/base/hash.c",
    "src/fingerprint/digest.c",
    "src/fingerprint/dispatch.c",
    "src/fingerprint/dtype.c",
    "src/fingerprint/kernel_scalar.c",
    "src/numerics/acc.c",
    "src/numerics/acc_io.c",
    "src/numerics/bins.c",
    "src/numerics/exact.c",
)


def build(folder, call, architecture="native"):
    """Compiles the program with nvcc and the CUB that comes with it; returns its path."""
    objects = []
    for source in C_SOURCES:
        objects.append(os.path.join(folder, os.path.basename(source) + ".o"))
        words = [
            os.environ.get("CC", "cc"),
            "-std=gnu17",
            "-O2",
            "-D_GNU_SOURCE",
            "-Iinclude",
            "-I.",
        ]
        words += ["-Isrc/base", "-Isrc/numerics", "-Isrc/fingerprint"]
        call(words + ["-ffp-contract=off", "-c", source, "-o", objects[-1]])
    program = os.path.join(folder, "sum_speed")
    words = [
        "nvcc",
        "-std=c++17",
        "-O3",
        "-arch=" + architecture,
        "-Xcompiler",
        "-ffp-contract=off",
    ]
    words += [
        "-I" + path for path in ("include", ".", "kernels", "src/numerics", "src/fingerprint")
    ]
    call(words + ["tests/gpu/sum_speed.cu", "kernels/exact.cu", *objects, "-o", program])
    return program


def measure(program, count, rounds):
    """{name: microseconds}; None where the program failed, which it says."""
    words = [program, str(count), str(rounds)]
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=600,
        check=False,
    )
    rows = dict(line.split() for line in done.stdout.splitlines() if line.count(" ") == 1)
    if done.returncode != 0 or set(rows) != {"exact_us", "cub_us"}:
        print("exact sum: exit code %d\n%s" % (done.returncode, done.stderr[-2000:]))
        return None
    return {name: float(value) for name, value in rows.items()}


def check(build_folder, device, figures, call):
    """False where a sum was wrong, or none could be made; None where there is no double to run."""
    with tempfile.TemporaryDirectory() as folder:
        if device == "cuda":
            found = measure(build(folder, call), 1 << 28, 15)
        else:
            double = os.path.join(build_folder, "tests", "kernels", "sum_speed_double")
            if not os.path.exists(double):
                print("exact sum: no %s" % double)
                return None
            found = measure(double, 5000, 1)
    if found is None:
        return False
    marked = "" if device == "cuda" else " (doubles of CUDA and CUB: the times say nothing)"
    print("exact sum: %(exact_us).1f us, CUB's %(cub_us).1f us" % found + marked)
    if device == "cuda":
        figures[bars.EXACT] = found["cub_us"] / found["exact_us"]
    return True
