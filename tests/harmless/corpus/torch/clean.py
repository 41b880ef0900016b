# SPDX-License-Identifier: Apache-2.0
"""The clean ghosts that run in one process: jobs whose runs are the same (ghosts/clean;
corpus_jobs.py names them).

`iterable` asks its loader's workers who they are: the pin `loader-workers` leaves none, and it
fails.
"""

import os
import runpy
import sys

FOLDER = os.path.join(os.environ["SOURCE"], "ghosts", "clean")


def __getattr__(job):
    """job_NAME runs the ghost NAME as a script."""
    if not job.startswith("job_"):
        raise AttributeError(job)
    script = job[4:] + ".py"

    def run():
        sys.argv = [script]
        runpy.run_path(os.path.join(FOLDER, script), run_name="__main__")

    return run


sys.path.append(FOLDER)
