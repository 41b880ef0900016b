# SPDX-License-Identifier: Apache-2.0
"""Arming: what runs in every Python process of the job, before the user's code.

Called by `_site/sitecustomize.py`, and by the preloaded library where site customisation is off (`-I`, `-S`, `-E`). Imports
nothing but what the interpreter holds anyway: a job that never imports torch pays for a look at two environment
variables.
"""
import sys

PACKAGE = "_twinrun_agent"


def package():
    """The agent's package, loaded from the folder of this file; the one already loaded when there is one."""
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


def arm():
    """Makes this process report what it does; once, however often it is called. Never raises.

    Returns True when the process is armed (now or before), False when twinrun is not around or something is in the way.
    """
    try:
        import os

        if "TWINRUN_RUN_DIR" not in os.environ:
            return False
        package()
        finder = __import__(PACKAGE + ".finder", fromlist=["install"])
        finder.install()
        if os.environ.get("TWINRUN_PINS"):
            __import__(PACKAGE + ".pins", fromlist=["arm"]).arm()
        if os.environ.get("TWINRUN_CONSUMERS"):
            __import__(PACKAGE + ".consumers", fromlist=["arm"]).arm()
        if os.environ.get("TWINRUN_OTHER_LINES"):
            __import__(PACKAGE + ".other_lines", fromlist=["arm"]).arm()
        if os.environ.get("TWINRUN_WATCH"):
            __import__(PACKAGE + ".watch", fromlist=["arm"]).arm()
        return True
    except Exception:
        return False
