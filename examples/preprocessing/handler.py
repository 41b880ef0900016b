"""What a cloud function does for one object of a bucket: reads readings, scales them, writes them.

`careful` derives names and numbers from the object alone; `careless` takes a random name, as
temporary files have, and scales by what this worker has seen so far, which workers are reused for.
"""

import hashlib
import json
import uuid
from pathlib import Path

seen = []


def scaled(values, of):
    low, high = min(of), max(of)
    return [round((v - low) / (high - low), 12) for v in values]


def careful(source, target):
    data = Path(source).read_bytes()
    values = json.loads(data)
    name = hashlib.sha256(data).hexdigest()[:16]
    partial = Path(
        target, f".{name}.{uuid.uuid4().hex}"
    )  # a second delivery of one event is harmless
    partial.write_text(json.dumps(scaled(values, values)) + "\n")
    partial.rename(Path(target, f"{name}.json"))


def careless(source, target):
    values = json.loads(Path(source).read_bytes())
    seen.extend(values)
    Path(target, f"{uuid.uuid4().hex}.json").write_text(json.dumps(scaled(values, seen)) + "\n")
