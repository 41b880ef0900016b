# SPDX-License-Identifier: Apache-2.0
"""PyTorch as it is, imported with the garbage collector at rest (conftest.calm): a quarter of the
processor time in which a job starts and ends.

Its import makes some two hundred thousand objects that live as long as the process does. The
collector walks over them again and again while they are made, at each later collection of all, and
at the end. Here it rests meanwhile, and afterwards they lie where it does not look (gc.freeze).
What the job itself makes behind the import is collected as ever.
"""

import gc
import sys


class CalmImport:
    """A finder that answers for torch what the other finders say, the agent's among them, and
    borrows the loader's `exec_module` for that one call, as the agent does.
    """

    def __init__(self):
        self.asking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.asking:
            return None
        from importlib.util import find_spec

        self.asking = True
        try:
            spec = find_spec(name)
        finally:
            self.asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self.borrow(spec.loader)
        return spec

    def borrow(self, loader):
        # The agent's, where it was asked before us: it stands in the loader, and takes itself away.
        borrowed = vars(loader).get("exec_module")
        run = loader.exec_module

        def exec_module(module):
            vars(loader).pop("exec_module", None)
            if borrowed is not None:
                loader.exec_module = borrowed
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            was_on = gc.isenabled()
            gc.disable()
            try:
                run(module)
            finally:
                gc.freeze()
                if was_on:
                    gc.enable()

        loader.exec_module = exec_module


sys.meta_path.insert(0, CalmImport())
