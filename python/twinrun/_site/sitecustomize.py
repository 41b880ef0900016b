# SPDX-License-Identifier: Apache-2.0 First in PYTHONPATH under `twinrun`: arms the agent, then
# steps aside for the sitecustomize that it shadows. When there is none, the ImportError that leaves
# this file is the one that `site` expects and passes over.
def _twinrun():
    import sys

    external = sys.modules["_frozen_importlib_external"]
    here = external._path_split(__file__)[0]
    try:
        boot = external._path_join(
            external._path_join(external._path_split(here)[0], "_agent"), "boot.py"
        )
        spec = external.spec_from_file_location("_twinrun_boot", boot)
        module = sys.modules["_frozen_importlib"].module_from_spec(spec)
        spec.loader.exec_module(module)
        module.arm()
    except Exception:
        pass
    sys.path[:] = [p for p in sys.path if p != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    __import__("sitecustomize")


_twinrun()
