"""A sweep of Hydra: `python sweep.py --multirun rate=0.5,0.9`. Each job has the seed of what it was
given, so neither its number nor the launcher decides about it.
"""

import os
import subprocess
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from twinrun import seeds

TRAIN = Path(__file__).parent.parent / "sweep" / "train.py"


@hydra.main(version_base="1.3", config_path=".", config_name="config")
def main(config):
    # "rate=0.9": what this job was given, in the order of names; not hydra.job.num, its place in
    # the sweep
    seed = seeds.seed(7, HydraConfig.get().job.override_dirname)
    subprocess.run(
        [sys.executable, TRAIN, "--rate", str(config.rate)],
        env={**os.environ, "SEED": str(seed)},
        check=True,
    )


main()
