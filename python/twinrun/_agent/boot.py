# SPDX-License-Identifier: Apache-2.0
"""Arming: what runs in every Python process of the job, before the user's code.

Called by `_site/sitecustomize.py`, and by the preloaded library where site customisation is off
(`-I`, `-S`, `-E`). Imports nothing but what the interpreter holds anyway: a job that never imports
torch pays for a look at two environment variables.
"""

import sys

PACKAGE = "_twinrun_agent"


def package():
    """The agent's package, loaded from the folder of this file; the one already loaded when there
    is one.
    """
    loaded = sys.modules.get(PACKAGE)
    if loaded is not None:
        return loaded
    bootstrap = sys.modules["_frozen_importlib"]
    external = sys.modules["_frozen_importlib_external"]
    folder = external._path_split(__file__)[0]
    spec = external.spec_from_file_location(
        PACKAGE, external._path_join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = bootstrap.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[PACKAGE]
        raise
    return module


class _Library:
    """Finds modules of Python's own library for one thread, whatever lies beside the job under
    their names.
    """

    def __init__(self):
        os, thread = __import__("os"), __import__("_thread")
        folder = os.path.dirname(os.__file__)
        self.path = [p for p in sys.path if p == folder or p == os.path.join(folder, "lib-dynload")]
        self.ask, self.mine, self.found = thread.get_ident, thread.get_ident(), {}

    def find_spec(self, name, path=None, target=None):
        if path is not None or self.ask() != self.mine:
            return None
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name, self.path)
        if spec is not None:
            self.found[name] = spec.origin
        return spec

    def leave(self):
        """The job gets what it would have got: a module of its own that we passed over is not
        loaded yet.
        """
        finder = sys.modules["_frozen_importlib_external"].PathFinder
        for name, origin in self.found.items():
            ordinary = finder.find_spec(name)
            if ordinary is not None and ordinary.origin != origin:
                for loaded in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
                    del sys.modules[loaded]


def own_import(name, wanted):
    """`from name import wanted` for the agent: with the library's modules, even where a file of the
    job has the name of one.
    """
    library = _Library()
    sys.meta_path.insert(0, library)
    try:
        return __import__(name, fromlist=[wanted])
    finally:
        sys.meta_path.remove(library)
        library.leave()


def arm():
    """Makes this process report what it does; once, however often it is called. Never raises.

    Returns True when the process is armed (now or before), False when twinrun is not around or
    something is in the way.
    """
    try:
        import os

        if "TWINRUN_RUN_DIR" not in os.environ:
            return False
        package()
        finder = __import__(PACKAGE + ".finder", fromlist=["install"])
        finder.install()
        if os.environ.get("TWINRUN_PINS") or os.environ.get("TWINRUN_TORCH_THREADS"):
            __import__(PACKAGE + ".pins", fromlist=["arm"]).arm()
        __import__(PACKAGE + ".results", fromlist=["arm"]).arm()
        if os.environ.get("TWINRUN_CONSUMERS"):
            __import__(PACKAGE + ".consumers", fromlist=["arm"]).arm()
        if os.environ.get("TWINRUN_OTHER_LINES"):
            __import__(PACKAGE + ".other_lines", fromlist=["arm"]).arm()
        if os.environ.get("TWINRUN_WATCH"):
            __import__(PACKAGE + ".watch", fromlist=["arm"]).arm()
        return True
    except Exception:
        return False
