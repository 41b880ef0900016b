# SPDX-License-Identifier: Apache-2.0
"""The clean ghosts that run in one process: jobs whose runs are the same (ghosts/clean).

`iterable` asks its loader's workers who they are: the pin `loader-workers` leaves none, and it fails.
"""
import os
import runpy
import sys

FOLDER = os.path.join(os.environ["SOURCE"], "ghosts", "clean")
NAMES = ("accumulation by_hand checkpointing closure cnn dict_batches eval_only gan grad_scaler helpers lbfgs "
         "mlp no_autograd raw_tensors second_order several_optimizers transformer").split()


def ghost(name):
    def job():
        sys.argv = [name + ".py"]
        runpy.run_path(os.path.join(FOLDER, name + ".py"), run_name="__main__")

    return job


sys.path.append(FOLDER)
for _name in NAMES:
    globals()["job_" + _name] = ghost(_name)
