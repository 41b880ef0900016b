# SPDX-License-Identifier: Apache-2.0
"""Temporary files, sqlite, pickles, zip archives, memory maps, numbers of descriptors,
sys.stdin.
"""

import json
import mmap
import os
import pickle
import sqlite3
import sys
import tempfile
import zipfile

print([os.open(os.devnull, os.O_RDONLY) for _ in range(5)])
with tempfile.TemporaryDirectory(dir=".") as folder:
    print(os.listdir(folder), os.stat(folder).st_mode)
base = sqlite3.connect("base.db")
base.execute("create table t (x)")
base.executemany("insert into t values (?)", [(i,) for i in range(100)])
base.commit()
print(base.execute("select sum(x) from t").fetchone())
base.close()
pickle.dump({"a": [1, 2, 3]}, open("data.pkl", "wb"))
with zipfile.ZipFile("data.zip", "w") as z:
    z.writestr(zipfile.ZipInfo("name"), "content" * 100)
with open("map", "wb+") as f:
    f.truncate(10000)
    m = mmap.mmap(f.fileno(), 0)
    m[100:105] = b"bytes"
json.dump(sorted(os.listdir(".")), sys.stdout)
print(sum(len(line) for line in sys.stdin))
os.mkfifo("fifo", 0o620)
try:
    with open("large", "wb") as f:
        for _ in range(40):
            f.write(bytes(10000))
except OSError as e:
    print(e)
