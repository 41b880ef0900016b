# SPDX-License-Identifier: Apache-2.0
"""What reading a hostile recording may cost, as test_memory.py has it for other people's formats.

Traces full of definitions, notes, gaps or records, telemetry, manifests, envelopes and tolerance
files: memory in proportion to the file, and seconds (docs/security.md has the table).
"""

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from test_memory import MIB, OURS, SECONDS, SIZE, TWINRUN, measured

PYTHON = Path(__file__).resolve().parents[2] / "python"
sys.path.append(str(PYTHON))
from twinrun import trace as form  # noqa: E402

pytestmark = pytest.mark.skipif(not TWINRUN.exists(), reason=f"no build: {TWINRUN}")

# Bytes of memory: (whatever the file, for each byte of it). docs/security.md has the same table.
TRACE = (64 * MIB, 16)
TELEMETRY = (64 * MIB, 16)
MANIFEST = (64 * MIB, 16)
ENVELOPE = (128 * MIB, 18)


# ---- traces


def entry(kind, body, flags=0):
    body += bytes(-len(body) % 8)
    return form.ENTRY.pack(8 + len(body), kind, 0, flags) + body


class Trace:
    """Blocks of entries with right checksums. The seals are zeros: only a check of the whole trace
    asks for them.
    """

    def __init__(self):
        run = bytes(range(16))
        head = form.FILE_HEADER.pack(
            form.MAGIC, 0x01020304, 1, 1, 512, 4711, 0, run, 0, 1, 0, 0, 4, 0, b"main", b"", 0
        )
        self.seed = form.crc32c(head[:508])
        self.data = bytearray(head[:508] + struct.pack("<I", self.seed))
        self.index = self.previous = self.last_dict = self.last_data = self.data_blocks = (
            self.records
        ) = 0

    def block(self, kind, payload, entries, records=0):
        at = len(self.data)
        is_data = kind == form.DATA
        head = form.BLOCK.pack(
            form.BLOCK_MAGIC,
            kind,
            b"",
            len(payload),
            at,
            self.index,
            self.previous,
            self.data_blocks,
            self.last_data,
            self.last_data if is_data else 0,
            self.last_dict,
            entries,
            records,
            0,
            0,
            int(records > 0),
            records,
            0,
            0,
            0,
            0,
            0,
            self.records + records,
            0,
            0,
            0,
            0,
            b"",
            0,
            0,
            0,
            0,
            form.crc32c(payload, self.seed),
            0,
        )
        head = head[:252] + struct.pack("<I", form.crc32c(head[:252], self.seed))
        self.data += head + payload + bytes(-(len(head) + len(payload)) % 64)
        self.previous, self.index, self.records = at, self.index + 1, self.records + records
        if is_data:
            self.last_data, self.data_blocks = at, self.data_blocks + 1
        else:
            self.last_dict = at

    def fill(self, kind, make, bytes_more):
        """Blocks of the entries make(0), make(1), ... of one kind."""
        i, until = 0, len(self.data) + bytes_more
        while len(self.data) < until:
            first, payload = i, b""
            while len(payload) < 60_000:
                payload += b"".join(make(k) for k in range(i, i + 200))
                i += 200
            self.block(kind, payload, i - first, i - first if kind == form.DATA else 0)
        return self


def string(i):
    return entry(16, struct.pack("<II8s", i + 1, 8, b"%08x" % i))


def series(i):
    return entry(17, struct.pack("<IBBHIIIIII", i + 1, 4, 5, 0, i + 1, 0, 0, i + 1, i + 1, 0))


def layout(i):
    return entry(18, struct.pack("<IBBHq", i + 1, 1, 1, 0, i))


def record(i):
    return entry(1, form.RECORD.pack(1, 0, 0, i + 1, i, 1, i, i, i))


def strings_and_series():
    return Trace().fill(form.DICT, string, SIZE // 3).fill(form.DICT, series, SIZE // 3)


TRACES = {
    "strings": lambda: Trace().fill(form.DICT, string, SIZE),
    "series": strings_and_series,
    "layouts": lambda: Trace().fill(form.DICT, layout, SIZE),
    "notes": lambda: Trace().fill(
        form.DICT, lambda i: entry(19, struct.pack("<II", 4, 4) + b"key value"[:8]), SIZE
    ),
    "gaps": lambda: Trace().fill(form.DICT, lambda i: entry(20, struct.pack("<II", i, 1)), SIZE),
    "records": lambda: strings_and_series().fill(form.DATA, record, SIZE),
    "unknown entries": lambda: Trace().fill(form.DATA, lambda i: entry(99, b""), SIZE),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(folder, two runs in it): of a job that records one value."""
    folder = tmp_path_factory.mktemp("runs")
    code = (
        "import array, twinrun; twinrun.record('weight:w', array.array('d', [1])); twinrun.step()"
    )
    env = {**os.environ, "TWINRUN_HOME": str(folder / "home"), "PYTHONPATH": str(PYTHON)}
    env.pop("LD_PRELOAD", None)
    for _ in range(2):
        argv = [str(TWINRUN), "record", "-q", "--", sys.executable, "-c", code]
        subprocess.run(argv, env=env, check=True, capture_output=True, timeout=120, cwd=folder)
    return folder, sorted((folder / "home" / "runs").iterdir())


def held(words, cwd, size, cap, label):
    status, peak, seconds, said = measured(*map(str, words), cwd=cwd)
    most = OURS + cap[0] + cap[1] * size
    told = f"{label}: {size:,} bytes, peak {peak >> 20} of {most >> 20} MiB, {seconds:.1f} s, {status:#x}: {said[:300]}"
    print(told)
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, 1, 2, 3), told
    assert peak <= most, told
    assert seconds <= SECONDS, told


@pytest.mark.parametrize("kind", TRACES)
def test_of_a_trace(kind, runs, tmp_path):
    data = bytes(TRACES[kind]().data)
    folder = shutil.copytree(runs[1][0], tmp_path / "run")
    next((folder / "ranks").iterdir()).write_bytes(data)
    held(["show", folder], tmp_path, len(data), TRACE, kind)
    held(["diff", folder, runs[1][1]], tmp_path, len(data), TRACE, kind)


def test_of_telemetry(runs, tmp_path):
    folder = shutil.copytree(runs[1][0], tmp_path / "run")
    table = next((folder / "telemetry").glob("0*"))
    lines = table.read_bytes().splitlines(keepends=True)
    table.write_bytes(b"".join(lines) + lines[-1] * (SIZE // len(lines[-1])))
    held(["report", folder], tmp_path, table.stat().st_size, TELEMETRY, "telemetry")


def test_of_a_manifest(tmp_path):
    names = [b"%07d" % i for i in range(SIZE // 16)]
    root = hashlib.sha256(b"twinrun.snapshot/1\0")
    for name in names:
        root.update(b"d" + struct.pack("<Q", len(name)) + name)
    text = b"# twinrun.snapshot/1\n# root sha256:%s\n" % root.hexdigest().encode()
    text += b"# holds 0 files, 0 links, %d folders, 0 bytes\n" % len(names)
    text += b"".join(b"#folder %s\n" % name for name in names)
    text += b"# end sha256:%s\n" % hashlib.sha256(text).hexdigest().encode()
    (tmp_path / "d").mkdir()
    (tmp_path / "d.snapshot").write_bytes(text)
    held(["verify", "d.snapshot"], tmp_path, len(text), MANIFEST, "manifest")


ENVELOPES = {
    "payload": lambda: {
        "payload": base64.b64encode(bytes(SIZE)).decode(),
        "signatures": [{"sig": "AAAA"}],
    },
    "objects": lambda: {
        "payload": base64.b64encode(b"[" + b"{}," * (SIZE // 4) + b"{}]").decode(),
        "signatures": [],
    },
    "signatures": lambda: {"payload": "e30=", "signatures": [{"sig": "AAAA"}] * (SIZE // 16)},
}


@pytest.mark.parametrize("kind", ENVELOPES)
def test_of_an_envelope(kind, tmp_path):
    text = json.dumps({"payloadType": "application/vnd.in-toto+json", **ENVELOPES[kind]()})
    (tmp_path / "x.dsse.json").write_text(text)
    (tmp_path / "subject").write_text("x")
    assert measured("sign", "--new-key", "key", cwd=tmp_path)[0] == 0
    held(
        ["verify", "x.dsse.json", "--key", "key.pub", "subject"],
        tmp_path,
        len(text),
        ENVELOPE,
        kind,
    )


def test_of_a_tolerance_file(runs, tmp_path):
    rule = '{"name": "*", "relative": 1e-6},'
    (tmp_path / "tolerance.json").write_text('{"rules": [' + rule * (SIZE // len(rule)) + "]}")
    words = ["diff", "--tolerance", tmp_path / "tolerance.json", *runs[1]]
    held(words, tmp_path, SIZE, (64 * MIB, 0), "tolerance")
