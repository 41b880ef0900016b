# SPDX-License-Identifier: Apache-2.0
"""A container registry on this machine: Debian's docker-registry, and in front of it a relay that
loses, ages or refuses what the test says.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import threading

import pytest

from free_ports import free_port
from s3_here import Store, relay, wait_for


def need_registry():
    if not shutil.which("docker-registry"):
        pytest.skip("no container registry (Debian: docker-registry)")


@contextlib.contextmanager
def docker_registry(folder, delete=True, more="", http=""):
    """Its port. more: lines of the configuration; http: lines of its part on HTTP."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n"
        f"    rootdirectory: {folder}/data\n  delete:\n    enabled: {str(delete).lower()}\n"
        f"http:\n  addr: 127.0.0.1:{port}\n{http}{more}"
    )
    # OTEL: version 3 would look for a collector of traces
    env = {**os.environ, "OTEL_TRACES_EXPORTER": "none"}
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            ["docker-registry", "serve", str(config)], stdout=log, stderr=log, env=env
        )
    try:
        wait_for(server, port, folder / "log")
        yield port
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


@contextlib.contextmanager
def relayed(port):
    """A store (s3_here.Store) behind a relay to this port."""
    store = Store(port, None)
    server = relay(store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    store.host = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def oci_server(tmp_path_factory):
    need_registry()
    with docker_registry(tmp_path_factory.mktemp("oci")) as port, relayed(port) as store:
        store.numbers = itertools.count()
        yield store


@pytest.fixture
def oci(oci_server):
    """.place is a repository where nothing lies yet; no rule of another test is left."""
    oci_server.rule = lambda request: None
    oci_server.requests.clear()
    oci_server.name = f"team/models-{next(oci_server.numbers)}"
    oci_server.place = f"oci+http://{oci_server.host}/{oci_server.name}"
    return oci_server
