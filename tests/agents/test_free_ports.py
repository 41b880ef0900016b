# SPDX-License-Identifier: Apache-2.0
"""Ports that are given out (free_ports.py) are nobody else's."""

import socket
import subprocess
import sys
from pathlib import Path

import free_ports

HERE = Path(__file__).resolve().parent


def test_each_is_given_out_once():
    mine = free_ports.free_ports(5) + [free_ports.free_port()]
    assert mine[:5] == list(range(mine[0], mine[0] + 5)) and mine[5] not in mine[:5]
    for port in mine:
        assert free_ports._hold(port) is None
    # another process is given none of them, and its own are free once it has ended
    words = f"import free_ports as f; f.FIRST = {mine[0]}; print(*f.free_ports(3))"
    done = subprocess.run(
        [sys.executable, "-c", words], cwd=HERE, capture_output=True, text=True, check=True
    )
    theirs = [int(word) for word in done.stdout.split()]
    assert len(theirs) == 3 and not set(theirs) & set(mine), (mine, theirs)


def test_one_on_which_somebody_listens_is_left_out():
    with socket.socket() as s:
        s.bind(("127.0.0.1", free_ports.free_port()))
        s.listen()
        taken = s.getsockname()[1]
        free_ports._held.pop().close()
        assert free_ports._hold(taken) is None
    held = free_ports._hold(taken)
    assert held is not None
    held.close()
