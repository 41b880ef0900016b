# SPDX-License-Identifier: Apache-2.0 Unit tests: arms the agent with the in-memory double of the
# library, as our own sitecustomize arms it with the real one; before it, runs the one that it
# shadows.
def _arm():
    import importlib.util
    import os
    import runpy

    if "FAKE_SHADOWED" in os.environ:
        runpy.run_path(os.environ["FAKE_SHADOWED"])
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "_fake_native", os.path.join(os.path.dirname(here), "fake_native.py")
    )
    fake = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fake)
    fake.arm_from_environment()


_arm()
del _arm
