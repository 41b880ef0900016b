# SPDX-License-Identifier: Apache-2.0
"""twinrun serve --textfile: the file for node exporter."""

import os
import resource
import signal
import subprocess
import threading

import pytest
from ledger_by_hand import some_ledger
from serve_helper import TWINRUN, read_metrics, serving

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)


def textfile(home, folder, **more):
    return subprocess.run(
        [TWINRUN, "serve", "--home", home, "--textfile", str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "TWINRUN_LEDGER": ""},
        **more,
    )


def test_textfile(tmp_path):
    home = some_ledger(tmp_path / "home", 18).done()
    folder = tmp_path / "node"
    assert textfile(home, folder).returncode == 2
    folder.mkdir()
    assert textfile(home, folder).returncode == 0
    assert os.listdir(folder) == ["twinrun.prom"]
    text = (folder / "twinrun.prom").read_text()
    with serving(home) as s:
        served = s.get("/metrics").text
    drop = ("twinrun_snapshot_",)
    assert {k: v for k, v in read_metrics(text).items() if not k[0].startswith(drop)} == {
        k: v for k, v in read_metrics(served).items() if not k[0].startswith(drop)
    }

    # no room for it: the old one stays whole, and nothing is left beside it
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = textfile(home, folder, preexec_fn=small_files)
    assert done.returncode == 2 and "no metrics were written" in done.stderr
    assert (folder / "twinrun.prom").read_text() == text
    assert os.listdir(folder) == ["twinrun.prom"]

    # a reader never meets half of one
    stop = threading.Event()
    seen = []

    def read():
        while not stop.is_set():
            seen.append((folder / "twinrun.prom").read_text().endswith("\n"))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(5):
        assert textfile(home, folder).returncode == 0
    stop.set()
    reader.join()
    assert seen and all(seen)
