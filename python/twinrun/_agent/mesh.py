# SPDX-License-Identifier: Apache-2.0
"""This rank's place in the meshes of all ranks that the job declares (torch's DeviceMesh with names
of its dimensions): a note of the process, by which runs whose launchers numbered the places
otherwise are compared role with role (src/compare/roles.c).
"""

import functools
import re
import sys

from . import core
from .core import S, hook, trim

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
DIMENSIONS = 8

_places = {}  # text -> this process's rank in the job; in the order of the declarations


def _note(text):
    if _places[text] == S.rank:
        core.note("mesh", text)


def _begins():
    for text in _places:
        _note(text)


@hook
def _declared(mesh):
    c10d = sys.modules["torch.distributed"].distributed_c10d
    names, shape, at = mesh.mesh_dim_names, tuple(mesh.shape), mesh.get_coordinate()
    if not names or at is None or not c10d.is_initialized():
        return
    ranks = 1
    for n in shape:
        ranks *= n
    # of a part of the ranks it tells no rank from those outside of it
    if ranks != c10d.get_world_size() or ranks < 2:
        return
    good = all(NAME.fullmatch(n) for n in names) and len(set(names)) == len(names)
    if not good or not len(names) == len(shape) == len(at) <= DIMENSIONS:
        return
    text = ",".join("%s=%d/%d" % dim for dim in zip(names, at, shape))
    if text not in _places:
        _places[text] = c10d.get_rank()
        if S.begun:
            _note(text)


def arm(torch):
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        return []
    cls = getattr(getattr(distributed, "device_mesh", None), "DeviceMesh", None)
    original = getattr(cls, "__init__", None)
    if original is None:
        return []

    def init(self, *args, **kwargs):
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            trim(error)
            raise
        if S.on:
            _declared(self)

    cls.__init__ = functools.update_wrapper(init, original)
    S.on_begin.append(_begins)
    S.armed.append("meshes of ranks")
    return [cls.__init__]
