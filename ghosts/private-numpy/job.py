# SPDX-License-Identifier: Apache-2.0
"""numpy.random.seed was called; the augmentation uses the newer default_rng(), which that does not
seed.
"""

import numpy

SAMPLES = 200
STEPS = 25
RATE = 0.1


class Crops:
    """Windows of a long recording, cut at places that a generator of its own draws."""

    def __init__(self, recording, width):
        self.recording, self.width = recording, width
        self.where = numpy.random.default_rng()

    def batch(self, count):
        starts = self.where.integers(0, len(self.recording) - self.width, count)
        return numpy.stack([self.recording[s : s + self.width] for s in starts])


numpy.random.seed(7)
recording = numpy.cumsum(numpy.random.randn(SAMPLES)).astype(numpy.float32)
crops = Crops(recording, 12)
weights = numpy.random.randn(12).astype(numpy.float32)
for step in range(STEPS):
    x = crops.batch(16)
    error = x @ weights - x.mean(1)
    weights -= RATE * (x.T @ error) / 16 / 100
    print(f"step {step} error {float(numpy.abs(error).mean()):.6f}")
print("result", float(weights.sum()).hex())
