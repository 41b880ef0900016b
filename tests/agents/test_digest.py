# SPDX-License-Identifier: Apache-2.0
"""`twinrun digest --config` against other people's implementations: the rfc8785 package, tomllib,
PyYAML where YAML 1.1 and 1.2 agree.
"""

import hashlib
import json
import math
import random
import struct

import pytest
import rfc8785
import yaml

from conftest import FULL

DOCUMENTS = 100_000 if FULL else 3_000


@pytest.fixture
def digest(twinrun):
    def of(*arguments):
        r = twinrun("digest", *map(str, arguments))
        assert r.rc in (0, 1), r
        return r.raw_out

    return of


def number(random):
    kind = random.randrange(5)
    if kind == 0:
        return random.randint(-(2**53 - 1), 2**53 - 1) >> random.randrange(53)
    if kind == 1:  # next to a power of two, where the shortest form is hardest
        value = math.ldexp(1, random.randint(-1060, 1020))
        return (
            math.nextafter(value, random.choice([0, math.inf])) if random.random() < 0.6 else value
        )
    while True:
        value = (
            struct.unpack("<d", random.randbytes(8))[0]
            if kind < 4
            else random.choice([0.1, 1e21, 1e-7, -0.0]) * random.randint(1, 99)
        )
        if math.isfinite(value):
            return value


def text(random):
    return "".join(
        chr(
            random.choice(
                [
                    random.randrange(0x20, 0x7F),
                    random.randrange(0x20),
                    random.randrange(0xA0, 0xD800),
                    random.randrange(0xE000, 0x10000),
                    random.randrange(0x10000, 0x110000),
                ]
            )
        )
        for _ in range(random.randrange(6))
    )


def value(random, depth=0):
    kind = random.randrange(7 if depth < 4 else 4)
    if kind == 0:
        return random.choice([None, True, False])
    if kind in (1, 2):
        return number(random)
    if kind == 3:
        return text(random)
    if kind == 4:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {
        key.replace("\0", ""): value(random, depth + 1)
        for key in (text(random) for _ in range(random.randrange(5)))
    }


def test_random_documents_have_the_canonical_form_of_the_rfc8785_package(digest, tmp_path):
    drawn = random.Random(5)
    documents = [value(drawn) for _ in range(DOCUMENTS)]
    file = tmp_path / "all.json"
    file.write_text(json.dumps(documents, ensure_ascii=drawn.random() < 0.5, indent=1))
    canonical = digest("--config", file, "--canonical")
    assert canonical == rfc8785.dumps(documents)
    (item,) = json.loads(digest("--config", file, "--json"))["items"]
    assert item["canonical"] == hashlib.sha256(canonical).hexdigest()
    assert item["raw"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_toml_says_what_tomllib_reads(digest, tmp_path):
    tomllib = pytest.importorskip("tomllib")
    source = '''
title = 'a "quoted" one'
[model]
depth = 0b101
"wide.key" = [[1, 2.50], ["x", "\\u00e9"]]
ratio = 6.626e-34
flags = {amp = true, compile = false}
[[stage]]
steps = 1_000
[[stage]]
text = """
two
lines"""
'''
    file = tmp_path / "c.toml"
    file.write_text(source)
    assert digest("--config", file, "--canonical") == rfc8785.dumps(tomllib.loads(source))


def test_yaml_says_what_pyyaml_reads_where_the_versions_agree(digest, tmp_path):
    source = """
defaults: &d
  lr: 1.0e-3
  betas: [0.9, 0.999]
run:
  <<: *d
  name: "caf\\u00e9 \\x41"
  'quoted': '1'
  folded: >
    one
    line
  list:
    - {a: 1, b: [true, null, ~]}
    - -3
"""
    file = tmp_path / "c.yml"
    file.write_text(source)
    assert digest("--config", file, "--canonical") == rfc8785.dumps(yaml.safe_load(source))


def test_any_changed_value_changes_the_digest_and_order_does_not(digest, tmp_path):
    config = {"lr": 0.1, "seed": 3, "model": {"depth": 4, "act": "relu"}, "data": ["a", "b"]}

    def of(c, **how):
        file = tmp_path / "c.json"
        file.write_text(json.dumps(c, **how))
        return json.loads(digest("--config", file, "--json"))["items"][0]["canonical"]

    first = of(config)
    assert of(dict(reversed(config.items())), indent=4) == first
    changed = [
        {**config, "lr": math.nextafter(0.1, 1)},
        {**config, "seed": "3"},
        {**config, "model": {"depth": 4, "act": "Relu"}},
        {**config, "data": ["b", "a"]},
        {**config, "extra": None},
        {k: v for k, v in config.items() if k != "seed"},
    ]
    assert len({first, *(of(c) for c in changed)}) == len(changed) + 1
