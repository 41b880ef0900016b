# SPDX-License-Identifier: Apache-2.0
"""Who may reach a container registry, and how: passwords, tokens, certificates, redirects, pages of
a list, one that removes nothing.
"""

import base64
import crypt
import http.server
import itertools
import json
import shutil
import subprocess
import threading

import pytest

from oci_here import docker_registry, need_registry, oci, oci_server, relayed  # noqa: F401
from registry_helper import a_proxy, registry  # noqa: F401

USER, WORD = "ci", "open sesame"
LOGIN = {"TWINRUN_OCI_USERNAME": USER, "TWINRUN_OCI_PASSWORD": WORD}


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A registry that wants a name and a password, behind a relay."""
    need_registry()
    folder = tmp_path_factory.mktemp("locked")
    word = crypt.crypt(WORD, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))
    (folder / "htpasswd").write_text(f"{USER}:{word}\n")
    auth = f"auth:\n  htpasswd:\n    realm: here\n    path: {folder}/htpasswd\n"
    with docker_registry(folder, more=auth) as port, relayed(port) as store:
        store.numbers = itertools.count()
        yield store


@pytest.fixture
def remote(registry, locked):  # noqa: F811
    locked.rule = lambda request: None
    locked.requests.clear()
    locked.name = f"models-{next(locked.numbers)}"
    place = f"oci+http://{locked.host}/{locked.name}"
    registry.env.update(TWINRUN_REGISTRY=place, no_proxy="127.0.0.1", HOME=str(registry.work))
    registry.oci = locked
    return registry


def basic(user=USER, word=WORD):
    return base64.b64encode(f"{user}:{word}".encode()).decode()


def test_a_name_and_a_password(remote):
    r = remote("init", "--key", "ci.key", rc=2)
    assert "TWINRUN_OCI_USERNAME" in r.err and "docker" in r.err
    remote.env.update(LOGIN)
    remote.make().add()
    assert remote.stages() == {1: "candidate"}
    r = remote("ls", rc=2, env={"TWINRUN_OCI_PASSWORD": "closed"})
    assert "401" in r.err and "TWINRUN_OCI_USERNAME" in r.err and "closed" not in r.err
    for env in {"TWINRUN_OCI_PASSWORD": ""}, {"TWINRUN_OCI_USERNAME": "a:b"}:
        r = remote("ls", rc=2, env=env)
        assert "both TWINRUN_OCI_USERNAME" in r.err


def test_no_proxy_stands_between_us_and_this_machine(remote):
    """By plain HTTP it would read the password."""
    with a_proxy() as proxy:
        remote.env.update(
            LOGIN, no_proxy="", NO_PROXY="", http_proxy=proxy.url, ALL_PROXY=proxy.url
        )
        remote.make().add()
        assert remote.stages() == {1: "candidate"} and proxy.asked == []
        # what goes to another machine does ask it, and it is there
        r = remote("ls", rc=2, env={"TWINRUN_REGISTRY": "s3://models/x", "AWS_ACCESS_KEY_ID": "a",
                                    "AWS_SECRET_ACCESS_KEY": "b",
                                    "AWS_ENDPOINT_URL_S3": "http://store.example"})  # fmt: skip
        assert proxy.asked and "store.example" in proxy.asked[0], r


@pytest.mark.parametrize("form", ["docker", "podman", "https"])
def test_a_login_of_docker_or_podman(remote, form):
    host = remote.oci.host
    folder = remote.work / "logins"
    folder.mkdir()
    name = "https://" + host if form == "https" else host
    (folder / "config.json").write_text(json.dumps({"auths": {name: {"auth": basic()}}}))
    env = {"REGISTRY_AUTH_FILE": str(folder / "config.json")}
    if form == "docker":
        env = {"DOCKER_CONFIG": str(folder)}
    remote.env.update(env)
    remote.make()
    for text, word in (
        ("{", "expected JSON"),
        (json.dumps({"auths": {host: {"auth": "!"}}}), "base64"),
        (json.dumps({"auths": {host: {}}, "credsStore": "pass"}), "helpers"),
        (json.dumps({"auths": {"other:5000": {"auth": basic()}}}), "TWINRUN_OCI_USERNAME"),
    ):
        (folder / "config.json").write_text(text)
        assert word in remote("ls", rc=2).err


class Tokens:
    """A server of tokens: gives one for the right name and password."""

    def __init__(self):
        self.asked = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append((self.path, self.headers.get("Authorization")))
                good = self.headers.get("Authorization") == "Basic " + basic()
                body = json.dumps({"token": "a.good.token"} if good else {}).encode()
                self.send_response(200 if good else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


def test_a_token(remote):
    """The registry names where; the password goes there, and the token alone to the registry."""
    tokens = Tokens()
    realm = tokens.url

    def with_tokens(request):
        given = dict(request.headers).get("Authorization", "")
        if given != "Bearer a.good.token":
            challenge = f'Bearer realm="{realm}",service="here",scope="repository:x:pull,push"'
            return 401, [("WWW-Authenticate", challenge)], b"{}"
        request.headers = [
            (k, "Basic " + basic() if k == "Authorization" else v) for k, v in request.headers
        ]
        return remote.oci.ask(request)

    remote.oci.rule = with_tokens
    remote.env.update(LOGIN)
    try:
        remote.make().add()
        assert remote.stages() == {1: "candidate"}
        path, _ = tokens.asked[0]
        assert path == "/token?service=here&scope=repository%3Ax%3Apull%2Cpush"
        r = remote("ls", rc=2, env={"TWINRUN_OCI_PASSWORD": "closed"})
        assert "status 401" in r.err and "closed" not in r.err
        other = "http://localhost:x@token.example/", "http://127.0.0.1:1@token.example/"
        for realm in *other, "http://token.example/", "ftp://127.0.0.1/", "":
            r = remote("ls", rc=2)
            assert "expected a place by https" in r.err
    finally:
        tokens.server.shutdown()
        tokens.server.server_close()


def test_a_content_that_lies_elsewhere(remote):
    """A redirect of a GET is followed, without the password; of a PUT it is not."""
    remote.env.update(LOGIN)
    remote.make().add(content=b"weights")
    seen = []
    need_registry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"weights")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    there = f"http://127.0.0.1:{server.server_port}/x"

    def elsewhere(request):
        if request.method == "GET" and "/blobs/" in request.path:
            status, _, body = remote.oci.ask(request)
            if body == b"weights":
                return 307, [("Location", there)], b""
        if request.method == "PUT" and there.startswith("http://other"):
            return 307, [("Location", there)], b""
        return None

    remote.oci.rule = elsewhere
    try:
        remote("get", "resnet@1", "--into", "x.pt")
        assert (remote.work / "x.pt").read_bytes() == b"weights" and seen == [None]
        there = "http://other.example/x"
        r = remote("get", "resnet@1", "--into", "y.pt", rc=2)
        assert "expected a path, or a place by https" in r.err
        r = remote("hold", "resnet@1", "--why", "x", "--key", "ci.key", rc=2)
        assert "307" in r.err
    finally:
        server.shutdown()
        server.server_close()


def in_pages(remote, link='<{}>; rel="next"', size=2, empty=False):
    """Lists of tags come in pages. link: one or several lines Link of a page that is not the last;
    empty: behind each page with tags one without."""
    lines = [link] if isinstance(link, str) else link

    def pages(request):
        if request.method != "GET" or "/tags/list" not in request.path:
            return None
        path, _, query = request.path.partition("?")
        at = int(query.split("last=")[1]) if "last=" in query else 0
        request.path = path
        status, headers, body = remote.oci.ask(request)
        if status != 200:
            return status, headers, body
        o = json.loads(body)
        cut = [o["tags"][i : i + size] for i in range(0, len(o["tags"]), size)]
        if empty:
            cut = [page for tags in cut for page in (tags, [])]
        there = f"{path}?n={size}&last={at + 1}"
        more = [("Link", line.format(there)) for line in lines] if at + 1 < len(cut) else []
        o["tags"] = cut[at] if cut else []
        return status, [*headers, *more], json.dumps(o).encode()

    remote.oci.rule = pages


@pytest.mark.parametrize(
    "link",
    [
        '<{}>; rel="next"',
        "<{}>;rel=next",
        '<{}>; title="a, <b>; c"; REL="last next"',
        '</v2/x/tags/list?last=0>; rel="prev", <{}>; rel="next"',
        ['</v2/x/tags/list?last=0>; rel="prev"; title="next"', '<{}>; rel="next"'],
        "empty",
    ],
)
def test_a_list_in_pages(remote, link):
    remote.env.update(LOGIN)
    remote.make().add()
    remote.add(content=b"two")
    if link == "empty":
        in_pages(remote, empty=True)
    else:
        in_pages(remote, link)
    assert remote.stages() == {1: "candidate", 2: "candidate"}
    remote("promote", "resnet@2", "--key", "ana.key")
    assert "nothing is wrong" in remote("verify", "--contents").out


def test_a_list_whose_next_page_is_not_known(remote):
    """What it has would be taken for all."""
    remote.env.update(LOGIN)
    remote.make().add()
    long = "x" * 5000
    for link, words in (
        (f'<{{}}&x={long}>; rel="next"', "a place of more than 4095 bytes"),
        (["<{}>; rel=prev", f"<{{}}>; title={long}; rel=next"], "a place of more than 4095 bytes"),
        ("{}; rel=next", "expected <PLACE>"),
        ("<http://other.example/>; rel=next", "expected a path, or a place by https"),
    ):
        in_pages(remote, link)
        assert words in remote("ls", rc=2).err
    in_pages(remote, '<{}>; rel="prev"; title="next"', size=1000)
    assert remote.stages() == {1: "candidate"}


def test_a_page_that_leads_to_itself(remote):
    """It would be asked for without an end."""
    remote.env.update(LOGIN)
    remote.make().add()
    body = json.dumps({"name": remote.oci.name, "tags": ["x"]}).encode()

    def endless(request):
        if request.method != "GET" or "/tags/list" not in request.path:
            return None
        return 200, [("Link", "<{}?last=1>; rel=next".format(request.path.split("?")[0]))], body

    remote.oci.rule = endless
    assert "leads to itself" in remote("ls", rc=2).err


def test_a_content_ends_where_it_must(remote):
    """One that goes on is not written on and on."""
    remote.env.update(LOGIN)
    remote.make().add(content=b"weights")

    def longer(request):
        if request.method == "GET" and "/blobs/" in request.path:
            status, headers, body = remote.oci.ask(request)
            return (status, headers, body * 1000) if body == b"weights" else None
        return None

    remote.oci.rule = longer
    r = remote("get", "resnet@1", "--into", "x.pt", rc=2)
    assert "goes on behind the 7 bytes" in r.err and not (remote.work / "x.pt").exists()
    assert "is damaged: it goes on" in remote("verify", "--contents", rc=1).out


@pytest.mark.parametrize("delete", [True, False])
def test_a_registry_that_removes_nothing(registry, tmp_path, delete):  # noqa: F811
    """gc says so, and nothing else is hurt; locks are given back all the same."""
    need_registry()
    with docker_registry(tmp_path / "keeps", delete=delete) as port:
        place = f"oci+http://127.0.0.1:{port}/models"
        registry.env.update(TWINRUN_REGISTRY=place, no_proxy="127.0.0.1")
        registry.make().add()
        registry("retire", "resnet@1", "--why", "x", "--key", "ci.key")
        words = ["gc", "--older-than", "0", "--keep", "0", "--strays", "0", "--key", "ci.key"]
        r = registry(*words, rc=0 if delete else 2)
        assert delete or ("405" in r.err and "enabled: true" in r.err), r
        registry.add(content=b"two")
        registry("promote", "resnet@2", "--key", "ana.key")
        assert "nothing is wrong" in registry("verify", "--contents").out


def test_only_by_a_certificate_that_is_right(registry, tmp_path):  # noqa: F811
    need_registry()
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made += ["-days", "2", "-keyout", str(tmp_path / "k.pem"), "-out", str(tmp_path / "c.pem")]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    http = f"  tls:\n    certificate: {tmp_path}/c.pem\n    key: {tmp_path}/k.pem\n"
    with docker_registry(tmp_path / "safe", http=http) as port:
        registry.env.update(
            TWINRUN_REGISTRY=f"oci://localhost:{port}/models", no_proxy="localhost,127.0.0.1"
        )
        r = registry("init", "--key", "ci.key", rc=2)
        assert "no answer" in r.err and "certificate" in r.err.lower()
        registry.env["TWINRUN_OCI_CA"] = str(tmp_path / "c.pem")
        registry.make().add()
        assert registry.stages() == {1: "candidate"}
        # a right certificate of another name
        r = registry("ls", rc=2, env={"TWINRUN_REGISTRY": f"oci://127.0.0.1:{port}/models"})
        assert "no answer" in r.err


@pytest.mark.parametrize(
    "place",
    [
        "oci+http://registry.example/models",
        "oci+http://127.0.0.1.example/models",
        "oci+http://127.0.0.1@other/models",
        "oci+http://127.0.0.1:x/models",
        "oci://",
        "oci://host",
        "oci://host/",
        "oci://host/Models",
        "oci://host/a//b",
        "oci://host/-a",
        "oci://host/a___b",
        "oci://host/../b",
        "oci://us er/models",
    ],
)
def test_places_that_are_none(registry, place):  # noqa: F811
    r = registry("ls", rc=2, env={"TWINRUN_REGISTRY": place})
    assert "expected oci://" in r.err
