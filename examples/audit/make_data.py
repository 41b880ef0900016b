"""Writes 600 applications for credit, and what became of them: loans/loans.csv."""

import random
from pathlib import Path

EFFECT = {"income": 1.2, "debt": -0.9, "years": 0.4, "late": -1.5}
draw = random.Random(7)
lines = [",".join([*EFFECT, "repaid"])]
for _ in range(600):
    values = {name: draw.gauss(0, 1) for name in EFFECT}
    score = sum(EFFECT[name] * v for name, v in values.items()) + draw.gauss(0, 1)
    lines.append(",".join([*(f"{v:.6f}" for v in values.values()), str(int(score > 0))]))
Path("loans").mkdir()
Path("loans", "loans.csv").write_text("\n".join(lines) + "\n")
