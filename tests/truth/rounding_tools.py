# SPDX-License-Identifier: Apache-2.0
"""Records a function with the agent's recorder, without an agent, and asks for the answer."""

import os
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PYTHON = os.path.join(os.path.dirname(__file__), "../../python/twinrun")
for folder in (os.path.join(PYTHON, "_rounding"), os.path.dirname(PYTHON)):
    if folder not in sys.path:
        sys.path.append(folder)

import judge  # noqa: E402
import ranks  # noqa: E402
import recording  # noqa: E402
from twinrun._agent import recorder  # noqa: E402

FRESH = ("empty", "new_empty", "_empty", "lift", "set_", "resize_", "detach")


def _flat(value, found):
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _flat(inner, found)
    return found


class Watch(TorchDispatchMode):
    def __init__(self, recorder, marked):
        super().__init__()
        self.recorder, self.marked, self.forward = recorder, marked, {}

    def _site(self):
        node = (
            torch._C._current_autograd_node() if torch._C._current_graph_task_id() != -1 else None
        )
        if node is not None:
            return "backward of " + self.forward.get(node._sequence_nr(), "?")
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename != self.marked:
            frame = frame.f_back
        site = "%s:%d" % (os.path.basename(self.marked), frame.f_lineno if frame else 0)
        self.forward.setdefault(torch._C._autograd._get_sequence_nr() - 1, site)
        return site

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        returns = [r.alias_info for r in schema.returns]
        view = bool(returns) and all(r is not None and not r.is_write for r in returns)
        if (
            view
            or schema.name.startswith("profiler::")
            or schema.name.split("::")[1].startswith(FRESH)
        ):
            return func(*args, **kwargs)
        site = self._site()
        if schema.name.startswith("c10d::"):
            self.recorder.collective(func, args, "", site)
            return func(*args, **kwargs)
        line = self.recorder.before(func, args, kwargs)
        result = func(*args, **kwargs)
        outs = _flat(result, [])
        for i, a in enumerate(schema.arguments):
            if a.alias_info is not None and a.alias_info.is_write:
                for t in _flat(args[i] if i < len(args) else kwargs.get(a.name), []):
                    if not any(t is o for o in outs):
                        outs.append(t)
        if line is not None:
            self.recorder.after(line, outs, "", site)
        return result


def write(folder, function, marked, limit=1 << 30):
    writer = recorder.Recorder(torch, str(folder), limit)
    with Watch(writer, marked):
        function()
    writer.end()


def record(folder, function, marked, limit=1 << 30):
    write(folder, function, marked, limit)
    return recording.Recording(str(folder))


def joined(folder, world):
    """The recordings of all ranks of a world, in folders WORLD.RANK."""
    each = {
        rank: recording.Recording(os.path.join(folder, "%d.%d" % (world, rank)))
        for rank in range(world)
    }
    return ranks.Joined(each)


def answer(folder, a, b, marked):
    one = record(os.path.join(folder, "a"), a, marked)
    return judge.judge(one, record(os.path.join(folder, "b"), b, marked))
