"""Calls the handler for every object of a folder, on several workers at a time.

python fan_out.py careful raw first --workers 4
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import handler
from twinrun import seeds

args = argparse.ArgumentParser()
args.add_argument("way", choices=["careful", "careless"])
args.add_argument("source", type=Path)
args.add_argument("target", type=Path)
args.add_argument("--workers", type=int, default=4)
args = args.parse_args()

if not args.source.exists():  # stands for what devices have sent
    args.source.mkdir()
    for device in range(24):
        readings = list(seeds.normal(seeds.seed(7, device=device), range(50)))
        Path(args.source, f"device-{device:02}.json").write_text(json.dumps(readings))
args.target.mkdir()
with ProcessPoolExecutor(args.workers) as pool:
    # from the highest name to the lowest with an odd number of workers: any order is as good
    objects = sorted(args.source.iterdir(), reverse=args.workers % 2 == 1)
    done = [pool.submit(getattr(handler, args.way), o, args.target) for o in objects]
    for each in done:
        each.result()
