#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the samples of this folder with NumPy, PyTorch and safetensors. What is in them: tests/unit/test_tensors.c.

    make.py [FOLDER]
"""
import os
import sys
import zipfile

import numpy as np
import safetensors.torch
import torch

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def at(name):
    return os.path.join(OUT, name)


w = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
np.save(at("c-order.npy"), w)
np.save(at("fortran-big-endian.npy"), np.asfortranarray(w.astype(">f8")))
with open(at("version-3.npy"), "wb") as f:
    np.lib.format.write_array(f, w.astype(np.float16), version=(3, 0))
with zipfile.ZipFile(at("stored.npz"), "w") as z:  # np.savez, with one date for all
    for name, a in (("w", w), ("ids", np.arange(5)), ("objects", np.array([None]))):
        with z.open(zipfile.ZipInfo(name + ".npy"), "w") as f:
            np.lib.format.write_array(f, a)
with zipfile.ZipFile(at("deflated.npz"), "w", zipfile.ZIP_DEFLATED) as z:
    info = zipfile.ZipInfo("w.npy")
    info.compress_type = zipfile.ZIP_DEFLATED
    with z.open(info, "w") as f:
        np.lib.format.write_array(f, w)
t = torch.from_numpy(w)
safetensors.torch.save_file({"w": t, "b": t[0].to(torch.bfloat16), "n": torch.arange(3)}, at("three.safetensors"))
value = {"model": {"w": t, "tied": t, "wT": t.t()}, "optimizer": {0: {"avg": [t[1].double(), t[2].half()]}}, "step": 7, "device": torch.device("cpu")}
torch.save(value, at("zip.pt"))
torch.save(value, at("old.pt"), _use_new_zipfile_serialization=False)
torch.save(torch.nn.Linear(2, 1, bias=False), at("module.pt"))
