# SPDX-License-Identifier: Apache-2.0
"""torch.save of a checkpoint with a time stamp, a whole model, to memory, and of something that
cannot be pickled.
"""

import io
import os
import sys
import tempfile
import time

import numpy as np
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(1, 3)).sum().backward()
optimizer.step()
os.chdir(tempfile.mkdtemp())
stamp = float(sys.argv[1]) if len(sys.argv) > 1 else time.time()
torch.save(
    {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "saved_at": stamp,
        "array": np.arange(3),
    },
    "a.pt",
)
torch.save(model, "model.pt")
memory = io.BytesIO()
torch.save(torch.arange(6).reshape(2, 3).t(), memory)
torch.save(obj=[1], f="plain.pt")
print(sorted(torch.load("a.pt", weights_only=False)), len(memory.getvalue()))
try:
    torch.save(lambda: 0, "broken.pt")
except Exception as error:
    print(type(error).__name__)
