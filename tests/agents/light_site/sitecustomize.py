# SPDX-License-Identifier: Apache-2.0
"""PyTorch without its compiler, for jobs whose subject is another one (conftest.light).

The first optimizer of a process imports torch._dynamo, which takes as long as PyTorch itself, to
tell the compiler where not to look. Here that module holds what optimizers call of it; whatever
else a job wants of it fails with an ImportError or an AttributeError.
"""

import importlib.abc
import importlib.machinery
import sys


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "torch._dynamo" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.disable = lambda fn=None, recursive=True, **_: fn
        module.graph_break = lambda *_, **__: None


sys.meta_path.insert(0, StandIn())
