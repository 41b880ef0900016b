# SPDX-License-Identifier: Apache-2.0
"""An exception of a signal handler, or of another thread, may come before any instruction: it is put
before each one in turn here, and what the agent has switched must be as the job had it.
"""

import opcode
import sys
import types

import pytest
from corpus_run import ROOT

sys.path.insert(0, str(ROOT / "python"))
from twinrun._agent import core, tensors  # noqa: E402

MOST = 1000  # instructions of one function


class Stop(Exception):
    pass


def put(function, code, number):
    """Calls it with Stop put before the instruction of this number that runs in the code. Returns
    whether there was one.
    """
    seen = 0

    def within(frame, event, _given):
        nonlocal seen
        # nothing comes before a NOP, which is where a `try` begins
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] != opcode.opmap["NOP"]:
            seen += 1
            if seen == number:
                raise Stop
        return within

    def entering(frame, _event, _given):
        if frame.f_code is not code:
            return None
        frame.f_trace = within  # 3.13 wants it first
        frame.f_trace_opcodes = True
        return within

    sys._getframe().f_trace_opcodes = True  # 3.12 and later look for it when tracing begins
    before = sys.gettrace()
    sys.settrace(entering)
    try:
        function()
    except Stop:
        assert seen == number
    finally:
        sys.settrace(before)
    return seen >= number


def numbers_of(function, code):
    number = 1
    while put(function, code, number):
        yield number
        number += 1
        assert number < MOST
    assert number > 10, "its instructions were not seen"


@pytest.mark.parametrize("enabled", [True, False])
def test_gradients_are_as_they_were(monkeypatch, enabled):
    now = [enabled]
    switches = types.SimpleNamespace(_set_grad_enabled=lambda on: now.__setitem__(0, on))
    torch = types.SimpleNamespace(is_grad_enabled=lambda: now[0], _C=switches)
    monkeypatch.setattr(tensors, "_torch", torch)
    within = []
    function = tensors.without_gradients(lambda: within.append(now[0]))
    for number in numbers_of(function, function.__code__):
        assert now == [enabled], number
    assert within and not any(within)


def test_the_next_hook_works(monkeypatch):
    monkeypatch.setattr(core.S, "on", True)
    worked = []
    function = core.hook(lambda: worked.append(core.T.busy))
    for number in numbers_of(function, function.__code__):
        assert not core.T.busy and core.S.on, number
        worked.clear()
        function()
        assert worked == [True], number
