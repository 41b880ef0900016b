"""All configurations of a sweep, recorded. Each repeat starts them in another order, as schedulers do.

python sweep.py one-generator 1       repeat 1: trials take the next seed of one generator
python sweep.py seed-per-trial 1      repeat 1: each trial has the seed of its own name
"""

import os
import random
import subprocess
import sys

from twinrun import seeds

way, repeat = sys.argv[1:]
rates = ["0.5", "0.7", "0.9", "1.2", "1.6"]
random.Random(int(repeat)).shuffle(rates)
generator = random.Random(7)
for rate in rates:
    if way == "seed-per-trial":
        seed = seeds.seed(7, "rate=" + rate)
    else:
        seed = generator.getrandbits(64)
    job = [sys.executable, "train.py", "--rate", rate]
    env = {
        "SEED": str(seed),
        "TWINRUN_PROJECT": way,
        "TWINRUN_SWEEP": f"{way}/{repeat}",
    }
    subprocess.run(["twinrun", "record", "-q", "--", *job], env={**os.environ, **env}, check=True)
