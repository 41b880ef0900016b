# SPDX-License-Identifier: Apache-2.0
"""Scripts whose functions hold what differs, and nobody else does: name -> (text, what the verdict
must name: the variable and the line). DRAWN is a number that differs in every run; in the twin of
the script, which must be "same", it is 0.
"""

BEGIN = "import os, sys\nimport numpy as np\n"
DRAWN = "(int.from_bytes(os.urandom(4), 'big') %% 9973 * %d)"

MUTANTS = {
    "local": (
        "def main():\n    x = np.arange(5.0)\n    hidden = x + DRAWN\n    print(x.sum())\nmain()\n",
        ("hidden", "s.py:5 in main"),
    ),
    "in place": (
        "def touch(a):\n    a[2] += DRAWN\ndef main():\n    touch(np.zeros(5))\nmain()\n",
        ("a", "s.py:4 in touch"),
    ),
    "closure": (
        "def make():\n    w = np.zeros(3)\n    def step():\n        w[0] += DRAWN\n    return step\n"
        "def main():\n    make()()\nmain()\n",
        ("w", "s.py:6 in step"),
    ),
    "global of a module": (
        "import beside\ndef main():\n    beside.table = np.arange(3) + DRAWN\nmain()\n",
        ("table", None),
    ),
    "attribute": (
        "class Model:\n    def __init__(self):\n        self.w = np.zeros(3)\n    def fit(self):\n"
        "        self.w += DRAWN\ndef main():\n    Model().fit()\nmain()\n",
        ("self.w", "s.py:7 in fit"),
    ),
    "slots": (
        "class Model:\n    __slots__ = ('w',)\n    def fit(self):\n        self.w = np.zeros(3) + DRAWN\n"
        "def main():\n    Model().fit()\nmain()\n",
        ("self.w", "s.py:6 in fit"),
    ),
    "order of a set": (
        "def main():\n    names = list({'a%d' % i for i in range(20 if DRAWN else 1)})\nmain()\n",
        ("names", "s.py:4 in main"),
    ),
    "time": (
        "import time\ndef main():\n    w = np.arange(3) * (time.time() if DRAWN else 1)\nmain()\n",
        ("w", "s.py:5 in main"),
    ),
    "generator": (
        "def gen():\n    w = np.zeros(3)\n    for i in range(5):\n        w = w + DRAWN\n"
        "        yield i\ndef main():\n    print(sum(gen()))\nmain()\n",
        ("w", "s.py:6 in gen"),
    ),
    "number": ("def main():\n    loss = 0.5 + DRAWN\nmain()\n", ("loss", "s.py:4 in main")),
    "result": (
        "def f(x):\n    return x + DRAWN\ndef main():\n    f(np.zeros(3))\nmain()\n",
        ("result", "s.py:4 in f"),
    ),
    "nested": (
        "def main():\n    d = {'a': {'b': [np.zeros(2), np.zeros(2) + DRAWN]}}\nmain()\n",
        ("d['a']['b'][1]", "s.py:4 in main"),
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass State:\n    x: object\n"
        "def main():\n    s = State(np.zeros(3) + DRAWN)\nmain()\n",
        ("s.x", "s.py:8 in main"),
    ),
    "exception": (
        "def f():\n    hidden = np.zeros(3) + DRAWN\n    raise ValueError\ntry:\n    f()\n"
        "except ValueError:\n    pass\n",
        ("hidden", "s.py:4 in f"),
    ),
    "exit": (
        "def main():\n    hidden = np.zeros(3) + DRAWN\n    sys.exit(0)\nmain()\n",
        ("hidden", "s.py:4 in main"),
    ),
    "recursion": (
        "def down(n, x):\n    y = x + DRAWN\n    return down(n - 1, x) if n else x\n"
        "down(50, np.zeros(2))\n",
        ("y", "s.py:4 in down"),
    ),
    "argument": (
        "def f(*args, **kw):\n    return None\ndef main():\n    f(b=np.zeros(2) + DRAWN)\nmain()\n",
        ("kw['b']", "s.py:6 in main"),
    ),
    "one call of many": (
        "def f(i):\n    return np.float64(i + (DRAWN if i == 100 else 0))\ndef main():\n"
        "    for i in range(1000):\n        f(i)\nmain()\n",
        ("result", "s.py:4 in f"),
    ),
    "generator object": (
        "def main():\n    rng = np.random.default_rng(DRAWN)\n    x = rng.integers(1, 2)\nmain()\n",
        ("rng", "s.py:4 in main"),
    ),
    "generator that fails": (
        "def gen():\n    yield 1.0\n    hidden = np.zeros(2) + DRAWN\n    raise ValueError\n"
        "def main():\n    try:\n        list(gen())\n    except ValueError:\n        pass\nmain()\n",
        ("hidden", "s.py:5 in gen"),
    ),
    "exception's argument": (
        "def f():\n    raise ValueError(np.zeros(2) + DRAWN)\ndef main():\n    try:\n        f()\n"
        "    except ValueError:\n        pass\nmain()\n",
        ("exception[0]", "s.py:4 in f"),
    ),
    "bits of a NaN": (
        "import struct\ndef main():\n    bits = 0x7FF8000000000000 | DRAWN\n"
        "    both = [1.0, struct.unpack('d', struct.pack('Q', bits))[0]]\n    del bits\nmain()\n",
        ("both", "s.py:6 in main"),
    ),
    "huge number": (
        "def main():\n    wide = (1 << 200000) + DRAWN\n    w = np.ones(2)\nmain()\n",
        ("wide", "s.py:4 in main"),
    ),
    "cycle": (
        "def main():\n    held = [1.0]\n    held.append(held)\n    held.append(np.ones(2) + DRAWN)\n"
        "main()\n",
        ("held[2]", "s.py:4 in main"),
    ),
    "key": (
        "def main():\n    table = {np.int64(DRAWN): 1.0}\nmain()\n",
        ("table", "s.py:4 in main"),
    ),
    "changed after it was given back": (
        "def f():\n    return np.zeros(2)\ndef main():\n    x = f()\n    x += DRAWN\n    g(x)\n"
        "    x[:] = 0\ndef g(x):\n    pass\nmain()\n",
        ("x", "s.py:8 in main"),
    ),
    "drawn by the clock": (
        "import random, time\ndef main():\n"
        "    loss = random.Random(time.time_ns() if DRAWN else 0).random()\nmain()\n",
        ("loss", "s.py:5 in main"),
    ),
    "class variable": (
        "class P:\n    table = np.zeros(3)\n    @classmethod\n    def go(cls):\n"
        "        cls.table[1] = DRAWN\nP.go()\n",
        ("cls.table", "s.py:7 in go"),
    ),
}
