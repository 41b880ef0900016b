# SPDX-License-Identifier: Apache-2.0
"""A registry in a container registry (Debian's docker-registry): the whole way, two who write at
once, kills, and one that loses a part, gives old data, is full, removes nothing or asks who we are.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from oci_here import docker_registry, need_registry, oci, oci_server, relayed  # noqa: F401
from registry_helper import (
    finds_damage,
    goes_the_whole_way,
    in_production,
    kill_promotions,
    kill_rollbacks,
)
from registry_helper import one_log, promotions_at_once
from registry_helper import registry  # noqa: F401
from s3_here import Request
from turn import FULL, part

PART = 16 << 20
KILLS = 1000 if FULL else 12
KILLED_MOVES = 1000 if FULL else 4


@pytest.fixture
def remote(registry, oci):  # noqa: F811
    registry.env.update(TWINRUN_REGISTRY=oci.place, no_proxy="127.0.0.1", HOME=str(registry.work))
    registry.oci = oci
    registry.elsewhere = lambda: elsewhere(registry)
    return registry


def names(remote):
    """How many entries the log has, for somebody who has seen nothing."""
    r = remote("log", "--json", env={"TWINRUN_HOME": "/nonexistent"})
    return len(r.json["entries"])


def ask(store, method, path, headers=(), body=b""):
    """The registry itself, without the relay's rule."""
    accept = ("Accept", "application/vnd.oci.image.manifest.v1+json")
    return store.ask(Request(method, path, [("Host", store.host), accept, *headers], body))


def tags(store):
    status, _, body = ask(store, "GET", f"/v2/{store.name}/tags/list")
    return json.loads(body)["tags"] or [] if status == 200 else []


def refuse(status, code):
    body = json.dumps({"errors": [{"code": code, "message": "because"}]}).encode()
    return status, [("Content-Type", "application/json")], body


def test_the_whole_way(remote):
    goes_the_whole_way(remote)
    assert not [t for t in tags(remote.oci) if t.startswith("lock-")]


def test_what_lies_there_is_for_other_tools_to_read(remote):
    """Each tag is an artifact whose digests are right; the log's tags say which manifest they are
    for."""
    in_production(remote, b"one")
    kinds = set()
    for tag in tags(remote.oci):
        kinds.add(tag.split("-")[0])
        status, headers, body = ask(remote.oci, "GET", f"/v2/{remote.oci.name}/manifests/{tag}")
        manifest = json.loads(body)
        assert status == 200 and manifest["artifactType"].startswith("application/vnd.twinrun.")
        if tag.startswith(("log-", "try-")):
            assert tag.rsplit("-", 1)[1] == hashlib.sha256(body).hexdigest()
            assert manifest["annotations"]["twinrun.entry"] == str(int(tag.split("-")[1]))
        for piece in [manifest["config"], *manifest["layers"]]:
            _, _, blob = ask(remote.oci, "GET", f"/v2/{remote.oci.name}/blobs/{piece['digest']}")
            assert "sha256:" + hashlib.sha256(blob).hexdigest() == piece["digest"]
            assert len(blob) == piece["size"]
    assert kinds == {"log", "try", "content"}


def test_a_large_file_goes_in_parts(remote):
    """Of one part and two and a half."""
    remote.make()
    for size in (PART, 2 * PART + 77):
        content = os.urandom(1 << 16) * (size // (1 << 16) + 1)
        remote.oci.requests.clear()
        remote.add(content=content[:size])
        ranges = [
            dict(q.headers)["Content-Range"] for q in remote.oci.requests if q.method == "PATCH"
        ]
        ends = [] if size == PART else ["0-16777215", "16777216-33554431", "33554432-33554508"]
        assert ranges == ends
        remote("get", f"resnet@{1 if size == PART else 2}", "--into", f"{size}.pt")
        assert (remote.work / f"{size}.pt").read_bytes() == content[:size]
    # the same again is not sent again
    remote.oci.requests.clear()
    remote("add", "again", "model.pt", "--key", "ci.key")
    assert max(len(q.body) for q in remote.oci.requests) < 1 << 16


@pytest.mark.parametrize("size", [7, PART + 7])
def test_a_file_that_grows_is_not_stored(remote, size):
    """Between its digest and its upload, by far more than the room that it needed."""
    remote.make()
    before = tags(remote.oci)
    content = bytes(size)
    blob = f"/blobs/sha256:{hashlib.sha256(content).hexdigest()}"
    grown = []

    def grow(request):
        if request.method == "HEAD" and request.path.endswith(blob) and not grown:
            grown.append(request.path)
            with open(remote.work / "model.pt", "ab") as f:
                f.write(b"x" * (PART - 100))

    remote.oci.rule = grow
    r = remote.add(content=content, rc=2)
    assert grown and "model.pt changed while it was read" in r.err, r
    remote.oci.rule = lambda request: None
    assert names(remote) == 1 and sorted(tags(remote.oci)) == sorted(before)


def test_a_full_registry_takes_nothing(remote):
    """In the middle of the parts, and for the entry alone, at each of its steps."""
    remote.make().add()

    def full(request):
        return refuse(507, "UNKNOWN") if wrong(request) else None

    remote.oci.rule = full
    wrong = lambda q: dict(q.headers).get("Content-Range", "").startswith("16777216-")  # noqa: E731
    r = remote.add(content=bytes(2 * PART + 5), rc=2)
    assert "507" in r.err and "nothing was added" in r.err
    assert [q for q in remote.oci.requests if q.method == "DELETE" and "/uploads/" in q.path]
    for step in "/blobs/uploads/", "/manifests/try-00000003-01-a-":
        wrong = lambda q, s=step: q.method in ("POST", "PUT") and s in q.path  # noqa: E731
        r = remote("promote", "resnet", "--key", "ana.key", rc=2)
        assert "507" in r.err and "nothing was written" in r.err
        assert "may come into the log" not in r.err
    remote.oci.rule = lambda request: None
    assert remote.stages() == {1: "candidate"} and names(remote) == 2
    assert "nothing is wrong" in remote("verify", "--contents").out
    remote("promote", "resnet", "--key", "ana.key")
    assert remote.stages() == {1: "canary"}


def test_a_registry_with_too_much_to_do_is_asked_again(remote):
    """Also for a part, which is else sent once: nothing was done. After as long as it asks for."""
    remote.make()
    busy, asked = {}, []

    def rule(request):
        if request.method != busy["method"] or busy["what"] not in request.path:
            return None
        asked.append(time.monotonic())
        if len(asked) > busy["times"]:
            return None
        status, headers, body = refuse(429, "TOOMANYREQUESTS")
        return status, [*headers, ("Retry-After", busy["after"])], body

    remote.oci.rule = rule
    content = os.urandom(1 << 16) * (PART // (1 << 16)) + b"more"
    busy.update(method="PATCH", what="/blobs/uploads/", times=1, after="2")
    remote.add(content=content)
    assert len(asked) == 3 and asked[1] - asked[0] >= 2
    for method, what, after in ("PUT", "digest=", "0"), ("GET", "/tags/list", "1"):
        asked.clear()
        busy.update(method=method, what=what, times=1, after=after)
        remote.add(content=os.urandom(9))
        assert len(asked) > 1
    asked.clear()
    busy.update(method="POST", what="/blobs/uploads/", times=9, after="3600")
    r = remote.add(content=b"never", rc=2)
    assert len(asked) == 1 and "come back in 3600 s" in r.err and "nothing was added" in r.err


def test_an_entry_that_stopped_half_way_is_brought_in_by_the_next(remote):
    """It was decided, and the last push failed: that is said, and who writes next brings it into
    the log, and is told."""
    remote.make().add()

    def full(request):
        last = request.method == "PUT" and "/manifests/log-" in request.path
        return refuse(507, "UNKNOWN") if last else None

    remote.oci.rule = full
    r = remote("promote", "resnet", "--key", "ana.key", rc=2)
    assert "the entry may come into the log, or not" in r.err
    assert "nothing was written" not in r.err
    remote.oci.rule = lambda request: None
    assert remote.stages() == {1: "candidate"}
    words = ["hold", "resnet@1", "--why", "x", "--key", "ci.key"]
    r = remote(*words, rc=2)
    assert "somebody added entry 3" in r.err
    assert remote.stages() == {1: "canary"}
    remote(*words)
    assert not remote.faults(rc=0) and names(remote) == 4


def test_gc_spares_what_an_entry_names_that_is_decided(remote):
    """Its contents seem to be strays: the log does not have the entry yet."""
    remote.make().add()

    def full(request):
        last = request.method == "PUT" and "/manifests/log-" in request.path
        return refuse(507, "UNKNOWN") if last else None

    remote.oci.rule = full
    assert "may come into the log" in remote.add(content=b"two", rc=2).err
    remote.oci.rule = lambda request: None
    assert remote.stages() == {1: "candidate"}
    r = remote("gc", "--strays", "0", "--key", "ana.key", rc=2)
    assert "somebody added entry 3" in r.err
    assert remote.stages() == {1: "candidate", 2: "candidate"}
    remote("gc", "--strays", "0", "--key", "ana.key")
    assert "nothing is wrong" in remote("verify", "--contents").out and names(remote) == 3


def test_gc_says_in_the_log_that_strays_go(remote):
    remote.make().add()
    remote.oci.rule = lambda q: (
        refuse(507, "UNKNOWN") if q.method == "PUT" and "/manifests/try-" in q.path else None
    )
    remote.add(content=b"two", rc=2)
    remote.oci.rule = lambda request: None
    contents = lambda: [t for t in tags(remote.oci) if t.startswith("content-")]  # noqa: E731
    before = len(contents())
    remote("gc", "--strays", "0", "--key", "ana.key")
    assert len(contents()) == before - 2 and names(remote) == 3
    assert "nothing is wrong" in remote("verify", "--contents").out


def test_a_part_that_is_lost_is_noticed(remote):
    """By the registry itself, when it holds the digest against what came; and by us, when it says
    that it took what it lost. Then bytes that come back damaged."""
    remote.make()

    def shorter(request):
        if request.method == "PATCH" and "16777216-" in dict(request.headers)["Content-Range"]:
            headers = [
                (k, str(len(request.body) - 9) if k == "Content-Length" else v)
                for k, v in request.headers
                if k != "Content-Range"
            ]
            return ask(remote.oci, "PATCH", request.path, headers[1:], request.body[9:])
        return None

    remote.oci.rule = shorter
    r = remote.add(content=os.urandom(16) * (PART // 8), rc=2)
    assert "nothing was added" in r.err
    assert names(remote) == 1

    def forgets(request):
        if request.method == "PUT" and "digest=" in request.path:
            return 201, [("Location", "/v2/x")], b""
        return None

    remote.oci.rule = forgets
    r = remote.add(content=b"weights", rc=2)
    assert "said that it took" in r.err and "has 0 of them" in r.err, r.err
    remote.oci.rule = lambda request: None
    assert names(remote) == 1

    finds_damage(remote, remote.oci, "/blobs/")
    # a registry that has a blob of this digest is not made right by bringing it again
    r = remote("add", "again", "model.pt", "--key", "ci.key", rc=2)
    assert "damaged" in r.err
    remote.oci.rule = lambda request: None
    assert remote.stages() == {1: "candidate"}


def hide(remote, wrong):
    """The list of tags lacks those."""

    def old(request):
        if request.method == "GET" and "/tags/list" in request.path:
            status, headers, body = remote.oci.ask(request)
            o = json.loads(body)
            o["tags"] = [t for t in o.get("tags") or [] if not wrong(t)]
            return status, headers, json.dumps(o).encode()
        return None

    remote.oci.rule = old


def test_a_registry_that_gives_old_data(remote):
    """Its list lacks the last entry and all that led to it. Who saw it says so. A stranger cannot
    know: his entry makes a fork, which from then on everybody sees, and nobody adds to."""
    in_production(remote, b"one", b"two")
    before = {t for t in tags(remote.oci) if "-00000005-" in t}
    hide(remote, before.__contains__)
    assert "the log ends with entry 4" in " ".join(remote.faults())
    words = ["retire", "resnet@1", "--why", "x", "--key", "ana.key"]
    remote(*words, rc=2)
    assert names(remote) == 4
    remote(*words, env={"TWINRUN_HOME": "/nonexistent"})
    remote.oci.rule = lambda request: None
    assert len([t for t in tags(remote.oci) if t.startswith("log-00000005-")]) == 2
    (fault,) = remote.faults(env={"TWINRUN_HOME": "/nonexistent"})
    assert "entry 5 is there twice" in fault and "forked" in fault
    assert any("entry 5 is there twice" in f for f in remote.faults())
    r = remote(*words, rc=2)
    assert "nothing was written" in r.err and "forked" in r.err
    remote("get", "resnet@production", "--into", "x.pt", rc=2)


def test_a_list_without_what_was_just_pushed_is_not_trusted(remote):
    remote.make().add()
    hide(remote, lambda t: t.startswith("try-00000003-"))
    r = remote("promote", "resnet", "--key", "ana.key", rc=2)
    assert "does not list it" in r.err and "old data" in r.err
    remote.oci.rule = lambda request: None
    assert remote.stages() == {1: "candidate"} and names(remote) == 2
    remote("promote", "resnet", "--key", "ana.key")


@pytest.mark.parametrize("tag", ["try-00000003-01-a", "try-00000003-01-c", "log-00000003"])
def test_a_lost_answer_is_no_lost_entry(remote, tag):
    """The tag was taken, and the answer did not come: it is the entry all the same, once."""
    remote.make().add()
    lost = []

    def lose(request):
        if request.method == "PUT" and f"/manifests/{tag}-" in request.path:
            lost.append(remote.oci.ask(request)[0])
            return refuse(503, "UNAVAILABLE")
        return None

    remote.oci.rule = lose
    remote("promote", "resnet", "--key", "ana.key")
    assert set(lost) == {201} and remote.stages() == {1: "canary"} and names(remote) == 3


def test_an_entry_that_the_registry_forgets(remote):
    remote.make().add()

    def forget(request):
        if request.method == "PUT" and "/manifests/log-" in request.path:
            return 201, [], b""
        return None

    remote.oci.rule = forget
    r = remote("promote", "resnet", "--key", "ana.key", rc=2)
    assert "does not list it" in r.err and "may come into the log, or not" in r.err
    remote.oci.rule = lambda request: None
    assert remote.stages() == {1: "candidate"}


def test_a_changed_manifest_of_an_entry_is_a_fault(remote):
    """The name of the tag says which one it is for."""
    in_production(remote, b"one")
    (tag,) = [t for t in tags(remote.oci) if t.startswith("log-00000003-")]
    digest = tag.rsplit("-", 1)[1]

    def other(request):
        if request.method == "GET" and request.path.endswith(f"/manifests/sha256:{digest}"):
            status, headers, body = remote.oci.ask(request)
            return status, headers, body.replace(b'"twinrun.entry":"3"', b'"twinrun.entry":"4"')
        return None

    remote.oci.rule = other
    assert any("damaged" in f for f in remote.faults())


# ---- several at once, and kills


def start(remote, *words, home):
    return subprocess.Popen(
        [str(remote.build / "cmd/twinrun"), "registry", *words],
        cwd=remote.work,
        env={**os.environ, **remote.env, "TWINRUN_HOME": str(remote.work / home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(p):
    _, err = p.communicate(timeout=300)
    return p.returncode, err


def test_of_four_at_once_each_is_told(remote):
    remote.make()
    one_log(remote, 5, promotions_at_once(remote, 4))


class Gates:
    """A rule that holds one request for each gate: of the process that is started first the at-th
    from its first write on, then of the next one, and so on. Requests behind the last pass.
    """

    def __init__(self, *at):
        self.gates = [(n, threading.Event(), threading.Event()) for n in at]
        self.now, self.count = 0, 0

    def __call__(self, request):
        if self.now >= len(self.gates):
            return None
        self.count += 1 if self.count else request.method != "GET"
        at, reached, may_go = self.gates[self.now]
        if self.count == at:
            self.now, self.count = self.now + 1, 0
            reached.set()
            assert may_go.wait(timeout=300)
        return None

    def stop(self, i, process):
        """Waits until gate i holds a request of the process. False: it has ended before."""
        reached = self.gates[i][1]
        while not reached.wait(timeout=0.01):
            if process.poll() is not None and not reached.is_set():
                self.now, self.count = max(self.now, i + 1), 0
                return False
        return True

    def let_go(self, i):
        self.gates[i][2].set()


def elsewhere(remote):
    """From here on in a new repository, where no registry is yet."""
    remote.oci.name = f"team/more-{next(remote.oci.numbers)}"
    remote.env["TWINRUN_REGISTRY"] = f"oci+http://{remote.oci.host}/{remote.oci.name}"


def begin_elsewhere(remote):
    elsewhere(remote)
    remote("init", "--key", "ci.key")


def log_of(remote):
    """The entries' reasons; no number is there twice."""
    numbers = [t.split("-")[1] for t in tags(remote.oci) if t.startswith("log-")]
    assert len(numbers) == len(set(numbers)), numbers
    r = remote("log", "--json", env={"TWINRUN_HOME": "/nonexistent"})
    return [e["why"] for e in r.json["entries"]]


def one_after_the_other(remote, *at):
    """Writers, all but the last of which stand still before their at-th request while those behind
    them go on; the last goes its whole way, then the one before, and so on. How many stood still.
    """
    begin_elsewhere(remote)
    gates = Gates(*at)
    remote.oci.rule = gates
    writers, stood = [], 0
    for i in range(len(at) + 1):
        words = ["vouch", "--why", f"writer {i}", "--key", "ci.key"]
        writers.append(start(remote, *words, home=f"w{i}"))
        stood += i < len(at) and gates.stop(i, writers[i])
    ends = []
    for i in reversed(range(len(writers))):
        if i < len(at):
            gates.let_go(i)
        ends.append((i, *ended(writers[i])))
    remote.oci.rule = lambda request: None
    for _, rc, err in ends:
        assert rc == 0 or b"somebody added entry" in err, (at, ends)
    won = sorted(f"writer {i}" for i, rc, _ in ends if rc == 0)
    assert won and sorted(log_of(remote)[1:]) == won, (at, ends)
    return stood


PLACES = range(1, 18)  # more requests than a writer makes that is alone


def test_wherever_one_writer_stands_still(remote):
    """He goes on when another has written: one log, and each of the two is told the truth. To stand
    still for ever is to be killed."""
    stood = [one_after_the_other(remote, at) for at in PLACES]
    assert 8 < sum(stood) < len(stood), stood  # all places where he can stand were tried


@pytest.mark.parametrize("at", part([(i, j) for i in PLACES for j in PLACES], of=60))
def test_wherever_two_writers_stand_still(remote, at):
    one_after_the_other(remote, *at)


def killed_after(remote, words, seconds):
    """Its exit code; None: it was killed before it had one."""
    p = start(remote, *words, home="killed")
    try:
        p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        p.send_signal(signal.SIGKILL)
        p.communicate()
    return None if p.returncode == -signal.SIGKILL else p.returncode


def test_a_killed_writer_has_written_or_has_not(remote):
    """SIGKILL at random moments: the log is whole, and holds the entry or does not. One that was
    decided, and not yet in the log, is brought there by the next writer."""
    rng = random.Random(KILLS)
    killed, done = 0, 0
    for i in range(KILLS):
        if i % 20 == 0:
            begin = time.monotonic()
            begin_elsewhere(remote)
            longest, entries = time.monotonic() - begin, 1
        words = ["vouch", "--why", f"{i}", "--key", "ci.key"]
        # what a call takes changes with the machine's other work: one is killed at once
        rc = killed_after(remote, words, rng.uniform(0, longest) if i else 0)
        killed += rc is None
        log = log_of(remote)
        assert len(log) in (entries, entries + 1) and rc in (None, 0)
        assert rc is None or len(log) == entries + 1
        done += len(log) > entries
        if len(log) == entries:
            r = remote(*words, rc=None, env={"TWINRUN_HOME": "/nonexistent"})
            assert r.rc == 0 or "somebody added entry" in r.err, r
            log = log_of(remote)
        assert len(log) == entries + 1 and log[-1] == f"{i}"
        entries += 1
    assert killed, KILLS
    print(f"{KILLS} kills: {killed} in the middle, {done} had been done")


def test_a_killed_rollback_is_done_or_is_not(remote):
    kill_rollbacks(remote, KILLED_MOVES)


def test_a_killed_promote_is_done_or_is_not(remote):
    kill_promotions(remote, KILLED_MOVES)


def test_a_killed_add_leaves_what_the_next_one_takes(remote):
    """Also of parts: nothing of it is in the log, and the same again is added."""
    remote.make()
    rng = random.Random(7)
    content = os.urandom(1 << 16) * 300
    (remote.work / "model.pt").write_bytes(content)
    words = ["add", "resnet", "model.pt", "--key", "ci.key"]
    for _ in range(20 if FULL else 3):
        at = rng.randrange(2, 24)
        gates = Gates(at)
        remote.oci.rule = gates
        p = start(remote, *words, home="killed")
        gates.stop(0, p)
        p.send_signal(signal.SIGKILL)
        p.communicate()
        gates.let_go(0)
        remote.oci.rule = lambda request: None
        r = remote(*words, rc=None, env={"TWINRUN_HOME": "/nonexistent"})
        assert r.rc == 0 or "somebody added entry" in r.err, r
    assert "nothing is wrong" in remote("verify", "--contents").out
    number = len(remote.stages())
    remote("get", f"resnet@{number}", "--into", "x.pt")
    assert (remote.work / "x.pt").read_bytes() == content
