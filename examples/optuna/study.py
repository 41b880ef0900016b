"""A study of Optuna: `python study.py WORKERS`. Trials run side by side, in whatever order; each has
the seed of its own parameters.
"""

import os
import subprocess
import sys
from pathlib import Path

import optuna
from twinrun import seeds

optuna.logging.set_verbosity(optuna.logging.WARNING)
TRAIN = Path(__file__).parent.parent / "sweep" / "train.py"
RATES = [0.5, 0.7, 0.9, 1.2, 1.6]


def objective(trial):
    rate = trial.suggest_float("rate", 0.1, 2.0)
    # not trial.number, and no generator that trials share: both say when a trial was started
    seed = seeds.seed(7, *(f"{name}={value!r}" for name, value in sorted(trial.params.items())))
    done = subprocess.run(
        [sys.executable, TRAIN, "--rate", str(rate)],
        env={**os.environ, "SEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.rpartition("loss=")[2])


study = optuna.create_study()
for rate in RATES:
    study.enqueue_trial({"rate": rate})
study.optimize(objective, n_trials=len(RATES), n_jobs=int(sys.argv[1]))
for trial in sorted(study.trials, key=lambda trial: (trial.value, trial.params["rate"])):
    print(f"rate={trial.params['rate']} loss={trial.value:.6f}")
