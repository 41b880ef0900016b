# SPDX-License-Identifier: Apache-2.0
"""The mutation campaign (campaign.py): a few hundred mutants, with TWINRUN_FULL thousands."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import campaign  # noqa: E402
import mutants  # noqa: E402
import pool  # noqa: E402

FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
BUILD = Path(os.environ.get("TWINRUN_BUILD", HERE.parents[1] / "build")).resolve()
ROUNDS = 20 if FULL else 1  # of every kind, for each of the jobs
SEED = 11


@pytest.mark.parametrize("job", list(pool.JOBS))
def test_mutants(job):
    recorded = pool.recorded(job, BUILD)
    if recorded is None:
        pytest.skip("%s is not installed" % pool.JOBS[job][1])
    tasks = campaign.plan([job], ROUNDS * (len(mutants.HARMFUL) + len(mutants.HARMLESS)), SEED)
    results = list(campaign.run(BUILD, {job: recorded}, tasks))
    print("\n".join(campaign.table(results)))
    assert len(results) > len(tasks) // 2, "most kinds can be made of most jobs"
    bad = [r for r in results if r.bad]
    assert not bad, "\n".join(map(str, bad))


def test_threads_that_record_first_at_once_lose_nothing(tmp_path):
    """What a thread records while another one loads the agent's half was once dropped."""
    for i in range(3):
        recorded = pool.record("threads", tmp_path / str(i), BUILD)
        assert recorded.verdict["records"] == {"reference": 65, "compared": 65}
