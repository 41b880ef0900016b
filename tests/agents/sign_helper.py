# SPDX-License-Identifier: Apache-2.0
"""What the tests of `twinrun sign` and `verify` share."""

import base64
import json
import os

import pytest

from conftest import FULL, ROOT

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture
def sign(twinrun, work):
    def of(*args, rc=0, env=None, command="sign"):
        r = twinrun(command, *map(str, args), cwd=str(work), env=env)
        assert r.rc == rc, r
        return r

    return of


@pytest.fixture
def verify(sign):
    def of(*args, rc=0, env=None):
        return sign(*args, rc=rc, env=env, command="verify")

    return of


def pae(envelope):
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def statement(envelope):
    return json.loads(base64.b64decode(envelope["payload"], validate=True))


@pytest.fixture(scope="module")
def signers():
    """A Python with the clients: model_signing, securesystemslib (./dev test --full makes it)."""
    python = os.environ.get("TWINRUN_SIGNING_PYTHON")
    if not python and not FULL:
        pytest.skip(
            "the clients themselves are TWINRUN_FULL=1; one golden signature of theirs is verified above"
        )
    assert (
        python
    ), "TWINRUN_SIGNING_PYTHON must name a Python with model-signing and securesystemslib"
    return python
