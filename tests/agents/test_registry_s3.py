# SPDX-License-Identifier: Apache-2.0
"""A registry in an object store: the whole way by signed requests, two who write at once, and a
store that refuses the key, is full, loses a part, gives old data, or keeps no two writers apart;
killed promotions and rollbacks.
"""

import hashlib
import os
import subprocess

import pytest

from registry_helper import (
    finds_damage,
    goes_the_whole_way,
    in_production,
    kill_promotions,
    kill_rollbacks,
    one_log,
    promotions_at_once,
)
from registry_helper import registry  # noqa: F401
from s3_here import s3, s3_server  # noqa: F401
from turn import FULL

PART = 16 << 20
KILLS = 1000 if FULL else 4


@pytest.fixture
def remote(registry, s3):  # noqa: F811
    def elsewhere():
        registry.env["TWINRUN_REGISTRY"] = s3.next_place()

    registry.env.update(s3.env(), TWINRUN_REGISTRY=s3.place)
    registry.s3 = s3
    registry.elsewhere = elsewhere
    return registry


def error(status, code):
    body = f"<Error><Code>{code}</Code><Message>because</Message></Error>".encode()
    return status, [("Content-Type", "application/xml")], body


def names(remote):
    """The log's entries, by a store that is asked for nothing but what lies there."""
    r = remote("log", "--json", env={"TWINRUN_HOME": "/nonexistent"})
    return len(r.json["entries"])


def test_the_whole_way(remote):
    goes_the_whole_way(remote)
    for request in remote.s3.requests:
        head = {k.lower(): v for k, v in request.headers}
        assert head["x-amz-content-sha256"] == hashlib.sha256(request.body).hexdigest()
        assert head["authorization"].startswith("AWS4-HMAC-SHA256 Credential=")
    remote("gc", "--older-than", "0", "--keep", "0", "--strays", "0", "--key", "ana.key")
    assert "nothing is wrong" in remote("verify", "--contents").out


def test_a_large_file_goes_in_parts(remote):
    """Of one part and two and a half; each part is signed by its own digest."""
    remote.make()
    for size in (PART, 2 * PART + 77):
        content = os.urandom(1 << 16) * (size // (1 << 16) + 1)
        remote.add(content=content[:size])
        remote.s3.requests.clear()
        remote("get", f"resnet@{1 if size == PART else 2}", "--into", f"{size}.pt")
        assert (remote.work / f"{size}.pt").read_bytes() == content[:size]
    # the same again is not sent again
    (remote.work / "model.pt").write_bytes(content[:size])
    remote.s3.requests.clear()
    remote("add", "again", "model.pt", "--key", "ci.key")
    assert not [q for q in remote.s3.requests if "partNumber" in q.path]


@pytest.mark.parametrize("how", ["wrong secret", "unknown key", "may only read"])
def test_a_key_that_is_refused(remote, how):
    remote.make().add()
    env = {
        "wrong secret": lambda: remote.s3.env(secret="x" * 40),
        "unknown key": lambda: {**remote.s3.env(), "AWS_ACCESS_KEY_ID": "AKIANOBODY"},
        "may only read": lambda: remote.s3.env(user=1),
    }[how]()
    r = remote("promote", "resnet", "--key", "ana.key", rc=2, env=env)
    assert "403" in r.err and "AWS_ACCESS_KEY_ID" in r.err, r.err
    assert remote.stages() == {1: "candidate"} and names(remote) == 2
    remote("ls", rc=0 if how == "may only read" else 2, env=env)


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_without_a_key_nothing_is_asked(remote, missing):
    remote.s3.requests.clear()
    r = remote("ls", rc=2, env={missing: ""})
    assert missing in r.err and not remote.s3.requests


def test_a_full_store_takes_nothing(remote):
    """In the middle of the parts, and for the entry alone."""
    remote.make().add()

    def full(request):
        last = request.method == "PUT" and (
            "partNumber=2" in request.path or "/log/" in request.path
        )
        return error(507, "InsufficientStorage") if last else None

    remote.s3.rule = full
    r = remote.add(content=bytes(PART + 5), rc=2)
    assert "507" in r.err and "nothing was added" in r.err
    assert [q.path for q in remote.s3.requests if q.method == "DELETE" and "uploadId" in q.path]
    r = remote("promote", "resnet", "--key", "ana.key", rc=2)
    assert "507" in r.err and "nothing was written" in r.err
    remote.s3.rule = lambda request: None
    assert remote.stages() == {1: "candidate"} and names(remote) == 2
    assert "nothing is wrong" in remote("verify", "--contents").out
    remote("promote", "resnet", "--key", "ana.key")


def test_a_part_that_is_lost_is_noticed(remote):
    """The store says that it took all, and has less: nothing is added. Then one that keeps the
    length and not the bytes: it is not promoted, and not given out."""
    remote.make()

    def shorter(request):
        if request.method == "POST" and "uploadId" in request.path:
            second = request.body.index(b"<Part><PartNumber>2")
            end = request.body.index(b"</Part>", second) + len(b"</Part>")
            body = request.body[:second] + request.body[end:]
            # what it keeps is what somebody with the right key would have sent
            sent = subprocess.run(
                [remote.python, "-c", COMPLETE, *remote.complete(request)],
                input=body,
                capture_output=True,
                timeout=60,
            )
            assert sent.returncode == 0, sent
            return 200, [], b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"
        return None

    remote.python = os.environ["TWINRUN_S3_PYTHON"]
    remote.complete = lambda q: [
        f"http://127.0.0.1:{remote.s3.port}",
        *remote.s3.keys[0],
        q.path,
    ]
    remote.s3.rule = shorter
    r = remote.add(content=bytes(2 * PART + 5), rc=2)
    assert "said that it took" in r.err and f"has {PART + 5} of them" in r.err, r.err
    remote.s3.rule = lambda request: None
    assert names(remote) == 1

    finds_damage(remote, remote.s3, "/contents/")
    remote.s3.rule = lambda request: None
    assert remote.stages() == {1: "candidate"}


COMPLETE = """
import re, sys, urllib.parse, boto3
url, key, secret, path = sys.argv[1:]
where, query = path.split("?")
bucket, name = urllib.parse.unquote(where).lstrip("/").split("/", 1)
tags = re.findall(r"<PartNumber>(\\d+)</PartNumber><ETag>(.*?)</ETag>", sys.stdin.read())
boto3.client("s3", endpoint_url=url, aws_access_key_id=key, aws_secret_access_key=secret,
             region_name="us-east-1").complete_multipart_upload(
    Bucket=bucket, Key=name, UploadId=urllib.parse.parse_qs(query)["uploadId"][0],
    MultipartUpload={"Parts": [{"PartNumber": int(n), "ETag": e} for n, e in tags]})
"""


def test_a_store_that_gives_old_data(remote):
    """Its listing lacks the last entry: who saw it says so, and a stranger's promotion, which is
    made from the old state, is not taken."""
    in_production(remote, b"one", b"two")

    def old(request):
        if request.method == "GET" and "list-type" in request.path and "log%2F" in request.path:
            status, headers, body = remote.s3.ask(request)
            last = body.rindex(b"<Contents>")
            end = body.index(b"</Contents>", last) + len(b"</Contents>")
            return status, headers, body[:last] + body[end:]
        return None

    remote.s3.rule = old
    assert "the log ends with entry 4" in " ".join(remote.faults())
    words = ["retire", "resnet@1", "--why", "x", "--key", "ana.key"]
    remote(*words, rc=2)
    r = remote(*words, rc=2, env={"TWINRUN_HOME": "/nonexistent"})
    assert "somebody added entry 5" in r.err
    remote.s3.rule = lambda request: None
    assert remote.stages() == {1: "retired", 2: "production"} and names(remote) == 5


def test_a_lost_answer_is_no_lost_entry(remote):
    """The entry was taken, and the answer did not come: it is the entry all the same, once."""
    remote.make().add()
    lost = []

    def lose(request):
        if request.method == "PUT" and "/log/" in request.path and not lost:
            lost.append(remote.s3.ask(request)[0])
            return error(503, "SlowDown")
        return None

    remote.s3.rule = lose
    remote("promote", "resnet", "--key", "ana.key")
    assert lost == [200] and remote.stages() == {1: "canary"} and names(remote) == 3


def test_an_entry_that_the_store_forgets(remote):
    remote.make().add()

    def forget(request):
        if request.method == "PUT" and "/log/" in request.path:
            return 200, [("ETag", '"x"')], b""
        return None

    remote.s3.rule = forget
    r = remote("promote", "resnet", "--key", "ana.key", rc=2)
    assert "does not give it back" in r.err
    remote.s3.rule = lambda request: None
    assert remote.stages() == {1: "candidate"}


def test_a_store_that_keeps_no_two_writers_apart_is_refused(remote):
    """One that does not know If-None-Match."""

    def ignore(request):
        if request.method == "PUT" and "/probe/" in request.path:
            return 200, [("ETag", '"x"')], b""
        return None

    remote.s3.rule = ignore
    r = remote("init", "--key", "ci.key", rc=2)
    assert "If-None-Match" in r.err
    assert not [q for q in remote.s3.requests if q.method == "PUT" and "/log/" in q.path]


def test_of_two_at_once_one_is_told(remote):
    remote.make()
    one_log(remote, 5, promotions_at_once(remote, 4))


def test_a_killed_rollback_is_done_or_is_not(remote):
    kill_rollbacks(remote, KILLS)


def test_a_killed_promote_is_done_or_is_not(remote):
    kill_promotions(remote, KILLS)


def test_a_gc_and_an_add_wait_for_each_other(remote):
    """By what each writes down in the store; what a killed one left counts for some hours."""
    remote.make().add()
    seen = []

    def watch(request):
        if "/lock/" in request.path:
            seen.append((request.method, request.path.rsplit("/", 1)[1].split("-")[0]))
        return None

    remote.s3.rule = watch
    remote.add(content=b"more")
    remote("gc", "--key", "ana.key")
    assert seen == [("PUT", "shared"), ("DELETE", "shared"), ("PUT", "alone"), ("DELETE", "alone")]


def test_no_server_is_said(remote):
    r = remote("ls", rc=2, env={"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"})
    assert "no answer" in r.err
    r = remote("ls", rc=2, env={"AWS_ENDPOINT_URL_S3": "ftp://host"})
    assert "AWS_ENDPOINT_URL" in r.err
    r = remote("ls", rc=2, env={"TWINRUN_REGISTRY": "s3://X"})
    assert "s3://BUCKET/PREFIX" in r.err
    remote("ls", rc=2, env={"TWINRUN_REGISTRY": "s3://models/nothing-here"})
