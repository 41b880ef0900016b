# SPDX-License-Identifier: Apache-2.0
"""The second reader of traces: held against published values, against damage, and against the C
reader on damaged files.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "trace"
sys.path.insert(0, str(ROOT / "python"))
from twinrun import trace  # noqa: E402

BASIC = (GOLDEN / "v1-basic.twt").read_bytes()


def test_crc32c_published_values():
    # RFC 3720, B.4
    assert trace.crc32c(b"123456789") == 0xE3069283
    assert trace.crc32c(bytes(32)) == 0x8A9136AA
    assert trace.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert trace.crc32c(bytes(range(32))) == 0x46DD794E
    assert trace.crc32c(b"6789", trace.crc32c(b"12345")) == trace.crc32c(b"123456789")


def test_mix64_published_values():
    # splitmix64 with seed 1234567 (Vigna's reference program): its outputs are mix64 of the state
    gamma, expected = (
        0x9E3779B97F4A7C15,
        [6457827717110365317, 3203168211198807973, 9817491932198370423],
    )
    assert [trace.mix64(1234567 + gamma * n & trace.M64) for n in (1, 2, 3)] == expected


def test_windows_are_equal_wherever_they_lie():
    rng = random.Random(3)
    elements = [rng.randrange(trace.P127) for _ in range(50)]
    long, short = [0], [0]
    for e in elements:
        long.append(trace.prefix_push(long[-1], e))
    for e in elements[20:]:
        short.append(trace.prefix_push(short[-1], e))
    for n in range(1, 31):
        assert trace.prefix_window(long[20 + n], long[20], n) == short[n]
    assert trace.prefix_window(long[30], long[20], 10) != trace.prefix_window(
        long[31], long[21], 10
    )


def test_basic_sample():
    t = trace.Trace(BASIC)
    assert t.verify() == []
    assert t.info.closed and t.info.steps == 3 and t.info.records == 12 and t.info.lost == 1
    first = next(t.records())
    assert t.key(first) == ("forward", "activation", "encoder.weight", "model", "", 0)
    assert first.stats.min == float("-inf") and first.sketch == (1.5, -2.25, 1e-300, 0.0)
    assert t.notes[0][0] == b"armed"


@pytest.mark.parametrize(
    "data,words",
    [
        (b"", "magic"),
        (b"PK\3\4" + bytes(600), "magic"),
        (BASIC[:511], "cut short"),
        (BASIC[:200] + b"!" + BASIC[201:], "damaged"),
        (BASIC[:14] + b"\2" + BASIC[15:], "unknown to this reader"),
    ],
)
def test_no_trace(data, words):
    with pytest.raises(trace.TraceError, match=words):
        trace.Trace(data)


def test_every_cut_is_a_tail():
    ends = [512] + [
        b.offset + (256 + b.payload_bytes + 63) // 64 * 64 for b in trace.Trace(BASIC).blocks()
    ]
    for n in range(512, len(BASIC) + 1, 13):
        t = trace.Trace(BASIC[:n])
        assert t.info.tail_bytes == n - max(e for e in ends if e <= n)


def dump_or_error(data):
    try:
        return json.loads(json.dumps(trace.dump(trace.Trace(data))))
    except trace.TraceError:
        return None


def test_readers_agree_on_damaged_traces(tmp_path):
    tool = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")) / "tests" / "unit" / "trace_json"
    if not os.access(tool, os.X_OK):
        pytest.skip("no %s: built with the unit tests only (needs cmocka)" % tool)
    rng, path = random.Random(9), tmp_path / "x.twt"
    agreed = opened = 0
    for _ in range(150):
        data = bytearray(BASIC)
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            del data[rng.randrange(600, len(data)) :]
        path.write_bytes(data)
        c = subprocess.run([tool, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        by_c = json.loads(c.stdout.decode("ascii")) if c.returncode == 0 else None
        by_python = dump_or_error(bytes(data))
        assert by_c == by_python
        agreed += 1
        opened += by_c is not None
    assert agreed == 150 and opened > 50


def test_command_line():
    python = [sys.executable, "-m", "twinrun.trace"]
    env = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    done = subprocess.run(
        python + [str(GOLDEN / "v1-gaps.twt")], env=env, stdout=subprocess.PIPE, check=True
    )
    assert json.loads(done.stdout.decode()) == json.loads((GOLDEN / "v1-gaps.json").read_text())
    bad = subprocess.run(
        python + [__file__], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert bad.returncode == 2 and b"is no trace" in bad.stderr and bad.stdout == b""
