# SPDX-License-Identifier: Apache-2.0
"""Holds both readers against the sample traces: check.py PATH-OF-trace_json [--accept].

Each sample FILE.twt has its expected contents beside it in FILE.json. --accept writes them from the Python reader and is for
new samples only: a difference in an old one is a broken promise to everyone who has kept traces.
"""
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))
from twinrun import trace  # noqa: E402


def main():
    tool, accept, failures = sys.argv[1], "--accept" in sys.argv, 0
    samples = sorted(glob.glob(os.path.join(HERE, "*.twt")))
    for sample in samples:
        expectation = sample[:-4] + ".json"
        with trace.Trace.open(sample) as t:
            by_python = json.loads(json.dumps(trace.dump(t)))
        if accept and not os.path.exists(expectation):
            with open(expectation, "w") as f:
                json.dump(by_python, f, indent=1)
                f.write("\n")
        with open(expectation) as f:
            expected = json.load(f)
        by_c = json.loads(subprocess.check_output([tool, sample]).decode("ascii"))
        for reader, found in (("python", by_python), ("c", by_c)):
            for part in sorted(set(expected) | set(found)):
                if expected.get(part) != found.get(part):
                    failures += 1
                    print("%s: %s reader: %s: expected %s, found %s" % (
                        os.path.basename(sample), reader, part, expected.get(part), found.get(part)))
    print("%d samples, %d failures" % (len(samples), failures))
    return 1 if failures or not samples else 0


if __name__ == "__main__":
    sys.exit(main())
