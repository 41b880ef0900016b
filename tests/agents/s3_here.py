# SPDX-License-Identifier: Apache-2.0
"""An object store on this machine: moto's server, which checks signatures, and in front of it a
relay that loses, ages or refuses what the test says.
"""

import contextlib
import http.client
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from free_ports import free_port

# What makes the user, before signatures are checked: by requests that nobody signed for real.
SETUP = """
import json, sys, boto3
def client(name):
    return boto3.client(name, endpoint_url=sys.argv[1], aws_access_key_id="none",
                        aws_secret_access_key="none", region_name="us-east-1")
iam = client("iam")
def user(name, actions):
    iam.create_user(UserName=name)
    rule = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [rule]}))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return [key["AccessKeyId"], key["SecretAccessKey"]]
keys = [user("writer", "s3:*"), user("reader", ["s3:GetObject", "s3:ListBucket"])]
client("s3").create_bucket(Bucket="models")
print(json.dumps(keys))
"""
UNSIGNED = 7  # requests of SETUP


def python_of_s3():
    name = os.environ.get("TWINRUN_S3_PYTHON")
    if not name:
        pytest.skip("no moto: ./dev test makes a virtual environment of it (TWINRUN_S3_PYTHON)")
    return name


class Store:
    """url: of the relay. rule: called with a Request, may return (status, headers, body) in place
    of the store's answer; None: the store is asked."""

    def __init__(self, port, keys):
        self.port, self.keys = port, keys
        self.rule = lambda request: None
        self.requests = []
        self.places = itertools.count()

    def next_place(self):
        """A part of it where nothing lies yet."""
        return f"s3://models/team one/{next(self.places)}"

    def ask(self, request):
        """What the store itself says."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(c):
            c.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                c.putheader(name, value)
            c.endheaders(request.body)
            r = c.getresponse()
            return r.status, r.getheaders(), r.read()

    def env(self, user=0, secret=None):
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": self.keys[user][0],
            "AWS_SECRET_ACCESS_KEY": secret or self.keys[user][1],
            "AWS_REGION": "us-east-1",
            "no_proxy": "127.0.0.1",
        }


class Request:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body


def relay(store):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            n = int(self.headers.get("Content-Length") or 0)
            request = Request(self.command, self.path, self.headers.items(), self.rfile.read(n))
            store.requests.append(request)
            status, headers, body = store.rule(request) or store.ask(request)
            self.send_response_only(status)
            length = [v for k, v in headers if k.lower() == "content-length"]
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            head = self.command == "HEAD"
            self.send_header("Content-Length", length[0] if head and length else str(len(body)))
            self.end_headers()
            if not head:
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = answer

        def log_message(self, *args):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            if not isinstance(sys.exc_info()[1], ConnectionError):  # who asks may have been killed
                super().handle_error(request, client_address)

    return Server(("127.0.0.1", 0), Handler)


def wait_for(server, port, log=None):
    """Until somebody answers there. log: what the server says, told where it has ended."""
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert server.poll() is None, log and log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)


@contextlib.contextmanager
def moto(python):
    port = free_port()
    env = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(UNSIGNED)}
    server = subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(server, port)
        yield port
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def s3_server():
    """A store with the bucket "models"; user 0 may do all, user 1 only read."""
    python = python_of_s3()
    with moto(python) as port:
        url = f"http://127.0.0.1:{port}"
        made = subprocess.run(
            [python, "-c", SETUP, url], capture_output=True, text=True, check=True, timeout=120
        )
        store = Store(port, json.loads(made.stdout))
        server = relay(store)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        store.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield store
        server.shutdown()
        server.server_close()


@pytest.fixture
def s3(s3_server):
    """The same, with no rule of another test; .place is a part of it where nothing lies yet."""
    s3_server.rule = lambda request: None
    s3_server.requests.clear()
    s3_server.place = s3_server.next_place()
    return s3_server
