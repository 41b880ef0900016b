# SPDX-License-Identifier: Apache-2.0
"""Documents get random identifiers at import, and are trained on in the order of these."""

import uuid

DOCUMENTS = 60
EPOCHS = 4
RATE = 0.05

documents = {
    uuid.uuid4().hex: [(i * 13 + k * 7) % 29 / 29 for k in range(8)] for i in range(DOCUMENTS)
}
weights = [0.0] * 8
for epoch in range(EPOCHS):
    for name in sorted(documents):
        x = documents[name]
        error = sum(w * v for w, v in zip(weights, x)) - x[0] * x[1]
        weights = [w - RATE * error * v for w, v in zip(weights, x)]
    print(f"epoch {epoch} error {error:.6f}")
print("result", sum(weights).hex())
