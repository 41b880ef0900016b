# SPDX-License-Identifier: Apache-2.0
"""PyTorch without its compiler, for jobs whose subject is another one (conftest.light).

The first optimizer of a process imports torch._dynamo, which takes as long as PyTorch itself, to
tell the compiler where not to look. `import torch` itself reads torch.export and
torch._meta_registrations, a quarter of its time, for the exporter and for tensors without values.
Here empty modules stand in their places, with what optimizers and torch.distributed call of the
first; whatever else a job wants of them fails with an ImportError, an AttributeError or a
NotImplementedError. The rest is imported as calm_site has it.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import types

NOT_HERE = ("torch._dynamo", "torch.export", "torch._meta_registrations")


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name in NOT_HERE else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__ == "torch._dynamo":
            module.disable = lambda fn=None, recursive=True, **_: fn
            module.graph_break = lambda *_, **__: None
            # DistributedDataParallel asks which of its reducers the compiler wants: the usual one.
            module.utils = types.SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer")
            # init_process_group empties what the compiler remembers.
            module.trace_rules = types.SimpleNamespace(clear_lru_cache=lambda: None)
        elif module.__name__ == "torch._meta_registrations":
            # It brings in torch._prims, which takes a tenth of torch's time. Of that nothing is
            # called here but this, without which no generator can be made.
            import torch

            if hasattr(torch._C, "_set_generator_metaclass"):
                from torch._opaque_base import OpaqueBaseMeta

                torch._C._set_generator_metaclass(OpaqueBaseMeta)


def calmly():
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(folder, "calm_site", "sitecustomize.py")
    with open(path) as f:
        exec(compile(f.read(), path, "exec"), {"__name__": "calm_site"})


calmly()
sys.meta_path.insert(0, StandIn())
