# SPDX-License-Identifier: Apache-2.0
"""`run --replay-order` of messages over gloo: receives that leave their source open take the
recorded messages; a program that is another one is released in bounded time.

What decides is held against a PyTorch of our own making, whose clock the test turns.
"""

import os
import struct
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

from twinrun._agent import core, match_order, order_file, sent  # noqa: E402

WAYS = "recv,irecv,posted,turned,bodies,tag,large,group"
WAIT, SPAN = 10, 100  # seconds: --replay-wait, and the group's own


# ---------------------------------------------------------------- what decides


def order_of(*matches, names=("", "3"), wait=WAIT * 1000, head=None, more=b""):
    """An order file. A match: (source, tag, number of its name, what it left open)."""
    packed = [struct.pack("=HHii", *(m[2:] + (0, 1)[len(m) - 2 :]), *m[:2]) for m in matches]
    counts = head or (len(names), len(matches), 0)
    start = struct.pack("=8sIIIII", b"twinord", 1, *counts, wait)
    return start + b"".join(n.encode().ljust(160, b"\0") for n in names) + b"".join(packed) + more


class World:
    """Rank 0 of four replays an order; the others say what they send."""

    def __init__(self, folder, matches, monkeypatch):
        self.now, self.posted, self.notes, kept = 1000.0, [], [], {}
        self.folder = folder
        backend = SimpleNamespace(
            name=lambda: "gloo", options=SimpleNamespace(_timeout=timedelta(seconds=SPAN))
        )
        self.group = SimpleNamespace(group_name="0", _get_backend=lambda device: backend)
        store = SimpleNamespace(compare_set=lambda key, _, to: kept.setdefault(key, to).encode())
        c10d = SimpleNamespace(
            group=SimpleNamespace(WORLD=self.group),
            get_rank=lambda: 0,
            get_world_size=lambda: 4,
            get_global_rank=lambda group, rank: rank,
            get_group_rank=lambda group, rank: rank,
            get_process_group_ranks=lambda group: [0, 1, 2, 3],
            _get_default_store=lambda: store,
        )
        torch = SimpleNamespace(distributed_c10d=c10d)
        monkeypatch.setitem(sys.modules, "torch.distributed", torch)
        monkeypatch.setattr(core, "begin", lambda: True)
        monkeypatch.setattr(core, "note", lambda key, text: self.notes.append((key, text)))
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(match_order, "time", clock)
        (folder / "order.torch.0").write_bytes(order_of(*matches))
        self.replay = match_order.Replay(str(folder), [0], self.receive, self.receive_any)
        self.replay.joins()
        (word,) = kept.values()
        self.senders = {n: sent.Sender(str(folder), word, n, [0]) for n in (1, 2, 3)}

    def sleep(self, seconds):
        self.now += seconds

    def receive(self, group, tensors, source, tag):
        self.posted.append((source, tag))
        return "work"

    def receive_any(self, group, tensors, tag):
        self.posted.append(("any", tag))
        return "work"

    def send(self, source, tag=0):
        self.senders[source].tell(0, sent.key("0", tag))

    def ask(self, tag=0, source=None, numbered=True, group=None):
        """As the program's call does it: posted as it is where the replay has no say."""
        given, tensors = group or self.group, [SimpleNamespace(device="cpu")]
        if source is None:
            request = self.replay.receives_any(given, tensors, tag, numbered)
            return request or self.receive_any(given, tensors, tag)
        self.replay.receives(given, tensors, source, tag)
        return self.receive(given, tensors, source, tag)

    def pass_time(self, seconds):
        for _ in range(int(seconds * 2)):
            self.now += 0.5
            self.replay.look()


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = []

    def call(*matches):
        made.append(World(tmp_path, matches, monkeypatch))
        return made[-1]

    yield call
    for one in made:
        one.replay.ends()


def test_nothing_is_asked_for_before_the_recorded_message_is_under_way(world):
    w = world((2, 0), (1, 0))
    w.send(1)
    w.ask()
    assert w.posted == []
    w.send(2)
    w.replay.look()
    w.ask()
    assert w.posted == [(2, 0), (1, 0)] and w.replay.on and not w.notes


def test_it_is_released_where_another_message_could_be_taken(world):
    w = world((2, 0))
    w.ask()
    w.pass_time(3 * WAIT)  # nothing is there: gloo would wait as well
    assert w.replay.on
    w.send(1)
    w.pass_time(WAIT)
    assert w.replay.on and w.posted == []
    w.pass_time(1)
    assert not w.replay.on and w.posted == [("any", 0)]
    ((key, why),) = w.notes
    assert key == "match-order" and why == (
        "match 1 of rank 0: expected a message from rank 2 on the default group, tag 0; it did not "
        "come within 10 s"
    )
    assert (w.folder / "order.released").exists()


def test_a_rank_that_tells_nothing_may_have_sent(world):
    w = world((2, 0))
    os.unlink(w.replay.receiver.path(3))
    w.ask()
    w.pass_time(WAIT + 1)
    assert w.posted == [("any", 0)]


def test_half_of_the_groups_time_at_the_most(world):
    """Peers wait with the group's time, too."""
    w = world((2, 0))
    w.ask()
    w.pass_time(SPAN / 2 - 1)
    assert w.posted == []
    w.pass_time(1)
    assert w.posted == [("any", 0)] and "did not come within 50 s" in w.notes[0][1]


def test_a_wait_that_is_shorter(world):
    w = world((2, 0))
    request = w.ask()
    w.replay.wait(request, 4)
    assert request.inner == "work" and w.posted == [("any", 0)] and 1002 <= w.now < 1003


def test_a_named_receive_beside_an_open_one_gives_the_rank_up(world):
    """gloo would give it the message, MPI would give it to the open one: nobody recorded which."""
    w = world((2, 0), (1, 0))
    w.ask()
    w.ask(source=1, tag=4)  # the open one would not take that
    assert w.posted == [(1, 4)] and not w.notes
    w.ask(source=1)
    w.ask()
    assert w.posted == [(1, 4), ("any", 0), (1, 0), ("any", 0)]
    (note,) = w.notes
    assert note[1].startswith("match 1 of rank 0: a message from rank 1 was asked for")


def test_what_a_named_receive_takes_is_not_there_for_an_open_one(world):
    w = world((1, 0))
    w.send(1)
    w.ask(source=1)
    w.ask()
    w.replay.look()
    assert w.posted == [(1, 0)]
    w.send(1)
    w.replay.look()
    assert w.posted == [(1, 0), (1, 0)] and not w.notes


def test_what_waits_is_posted_as_it_was_asked_for(world):
    w = world((2, 0), (3, 0))
    w.ask()
    w.ask()
    other = SimpleNamespace(group_name="1")
    w.replay.parts(other)
    assert not w.posted
    w.replay.parts(None)
    assert w.posted == [("any", 0), ("any", 0)]
    assert w.notes == [("match-order", "match 1 of rank 0: the process group ends")]


def test_a_signal_amid_posting_leaves_nothing_that_waits_for_ever(world, monkeypatch):
    w = world((2, 0))
    request = w.ask()
    w.send(2)

    class Signal(BaseException):
        pass

    def handler(*_):
        raise Signal

    monkeypatch.setattr(w.replay, "_receive", handler)
    with pytest.raises(Signal):
        w.replay.look()
    w.replay.wait(request, None)
    assert request.inner is None and "interrupted" in str(request.error)


def test_it_is_released_with_another_rank(world):
    w = world((2, 0))
    w.ask()
    (w.folder / "order.released").touch()
    w.pass_time(1)
    assert w.posted == [("any", 0)]
    assert w.notes == [("match-order-told", "match 1 of rank 0: another rank was released")]


OTHERS = {
    "another tag": (dict(tag=7), "found a receive on the default group, tag 7"),
    "another group": (dict(group="5"), "found a receive on group 5, tag 0"),
    "not recorded": (dict(numbered=False), "found a receive that no record tells of"),
    "one more": (dict(), "expected no more messages, found a receive"),
    "not waited for": (dict(), "the recorded run did not wait for it"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_program_is_released_before_it_waits(world, name):
    order = {"one more": [], "not waited for": [(-1, -1)]}.get(name, [(2, 0)])
    w = world(*order)
    how, why = OTHERS[name]
    if "group" in how:
        group = SimpleNamespace(group_name="5", _get_backend=w.group._get_backend)
        how = dict(group=group)
    w.ask(**how)
    assert len(w.posted) == 1 and w.posted[0][0] == "any"
    assert why in w.notes[0][1] and w.notes[0][1].startswith("match 1 of rank 0: ")
    # the end of a recording is nothing that others have to know
    assert (w.folder / "order.released").exists() == (name != "one more")


def test_a_failure_of_ours_is_no_failure_of_the_program(world, monkeypatch):
    w = world((2, 0))
    monkeypatch.setattr(w.replay.receiver, "has", lambda *_: 1 / 0)
    w.ask()
    assert w.posted == [("any", 0)]
    assert w.notes == [("match-order", "rank 0: ZeroDivisionError: division by zero")]


def test_messages_of_ranks_that_met_elsewhere_do_not_count(world):
    w = world((2, 0))
    sent.Sender(str(w.folder), "1-1", 2, [0]).tell(0, sent.key("0", 0))
    with open(w.replay.receiver.path(2), "ab") as file:
        file.write(sent.key("0", 0)[:9])  # and half an entry is none
    w.ask()
    assert w.posted == []
    with open(w.replay.receiver.path(2), "ab") as file:
        file.write(sent.key("0", 0)[9:])
    w.replay.look()
    assert w.posted == [(2, 0)]


@pytest.mark.parametrize("word", ["", "a/../b", "1" * 65])
def test_a_word_that_another_program_left_in_the_store(word):
    store = SimpleNamespace(compare_set=lambda *_: word.encode())
    with pytest.raises(ValueError):
        sent.agree(store, 1)


HOSTILE = {
    "empty": b"",
    "short": order_of((1, 0))[:20],
    "longer": order_of((1, 0), more=b"x"),
    "many": order_of((1, 0), head=(2, 0xFFFFFFFF, 0)),
    "ends": order_of((1, 0), head=(2, 1, 1)),
    "no end of a name": order_of((1, 0), names=("x" * 160,)),
    "another name": order_of((1, 0, 2, 1)),
    "a negative source": order_of((-3, 0)),
    "a large tag": order_of((1, 1024)),
    "nothing open": order_of((1, 0, 0, 0)),
    "any tag": order_of((1, 0, 0, 3)),
    "a long wait": order_of((1, 0), wait=2**32 - 1),
    "another version": order_of((1, 0)).replace(b"twinord\0\1", b"twinord\0\2"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_none(name):
    assert order_file.load(HOSTILE[name]) is None


def test_a_sound_file():
    names, matches, wait = order_file.load(order_of((1, 5), (2, -1, 1, 1)))
    assert (names, matches, wait) == (["", "3"], [(0, 1, 1, 5), (1, 1, 2, -1)], WAIT)


# ---------------------------------------------------------------- with PyTorch


@pytest.fixture
def job(twinrun, python, home, tmp_path_factory, light):
    meet = tmp_path_factory.mktemp("meet")
    program = os.path.join(HERE, "torch_order_job.py")

    def call(options, order, ways, steps, before=()):
        command = [*before, python, program, meet, order, ways, steps]
        done = twinrun(*options, "--no-telemetry", "--", *command)
        assert done.rc == 0, done
        return done

    return call


def recording(job, home, *which):
    done = job(["record"], *which)
    return max((home / "runs").iterdir(), key=lambda p: p.stat().st_mtime), done.out


def replay(job, recorded, *which, wait=60, before=()):
    """The same program, or another one, in the order of a recorded run."""
    options = ["--pin", "hash-seed", "--replay-wait", wait, "--replay-order", recorded]
    return job(["run", *options], *which, before=before)


def test_the_order_is_the_recorded_one(twinrun, home, job):
    """By chance it would be that once in more than 6^18 times."""
    folder, shown = recording(job, home, "free", WAYS, 3)
    done = replay(job, folder, "free", WAYS, 3)
    assert done.out == shown and "order replayed: 72 of 72 matches" in done.err, done
    done = twinrun("diff", folder, "last")
    assert "no difference was found" in done.out, done


def test_an_order_that_chance_does_not_give_and_other_programs(twinrun, job, home, tmp_path):
    """The recorded order is the reverse of that of the ranks."""
    folder, shown = recording(job, home, "321", "recv,irecv,group", 2)
    assert shown.split() == ["3", "2", "1"] * 6
    done = replay(job, folder, "free", "recv,irecv,group", 2)
    assert done.out == shown and "order replayed: 18 of 18 matches" in done.err, done

    done = replay(job, folder, "free", "never", 2, wait=1)  # rank 3 sends nothing
    assert sorted(done.out.split()) == ["1", "1", "2", "2"]
    assert (
        "replay released after 0 of 18 matches: match 1 of rank 0: expected a message from rank 3 "
        "on the default group, tag 0; it did not come within 1 s"
    ) in done.err

    done = replay(job, folder, "free", "recv,irecv,tag", 2)
    assert "after 6 of 18 matches: match 7 of rank 0: expected a message from rank 3" in done.err
    assert "found a receive on the default group, tag 5" in done.err

    damage = tmp_path / "damage.sh"
    damage.write_text('printf x >> "$TWINRUN_RUN_DIR/order.torch.0"\nexec "$@"\n')
    done = replay(job, folder, "free", "recv", 1, before=["sh", damage])
    assert "rank 0: its order file cannot be read" in done.err
    assert sorted(done.out.split()) == ["1", "2", "3"]

    named, _ = recording(job, home, "free", "named", 1)
    done = twinrun("run", "--replay-order", named, "--", "echo", "ran")
    assert done.rc == 2 and "one rank was asked for a message" in done.err, done

    (trace,) = (folder / "ranks").glob("0.*.twt")
    trace.write_bytes(trace.read_bytes()[:-9])
    done = twinrun("run", "--replay-order", folder, "--", "echo", "ran")
    assert done.rc == 2 and done.out == "" and "lacks records" in done.err, done
