# SPDX-License-Identifier: Apache-2.0
"""Which samples are held out is decided by the hash of their names, which Python salts anew in each
process.
"""

SAMPLES = 300
EPOCHS = 6
RATE = 0.02

samples = [(f"patient-{i:04}", i % 23 / 23, i % 7 / 7) for i in range(SAMPLES)]
train = [(x, y) for name, x, y in samples if hash(name) % 5]
held_out = [(x, y) for name, x, y in samples if hash(name) % 5 == 0]
slope = bias = 0.0
for epoch in range(EPOCHS):
    for x, y in train:
        error = slope * x + bias - y
        slope, bias = slope - RATE * error * x, bias - RATE * error
    loss = sum((slope * x + bias - y) ** 2 for x, y in held_out) / max(1, len(held_out))
    print(f"epoch {epoch} train {len(train)} held out loss {loss:.6f}")
print("result", (slope + bias).hex())
