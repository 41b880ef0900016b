# SPDX-License-Identifier: Apache-2.0
"""Which messages were sent, told by the sender to the receiver while an order is replayed.

A receive of gloo cannot be taken back once it is posted, and nothing asks whether a message is
there. So a rank that replays an order must know that the recorded message is under way before it
asks for it. Each sender appends 16 bytes to a file in the run's folder, one file for each pair of
ranks, once its send is posted: never before, so that what is told is true. The receiver counts.

The name of the file holds a word that all ranks of one group agree on, by the store that they met
at: what ranks that were started again send is not taken for what the first ones sent.
"""

import hashlib
import os
import time

FILE = "order.sent.%s.%d.%d"  # word, receiver, sender
ENTRY = 16
MOST = 1 << 22  # messages of one pair; those beyond are not told
READ = 1 << 16


def key(group, tag):
    """What a message is known by beside its two ranks."""
    return hashlib.blake2b(b"%d %s" % (tag, group.encode()), digest_size=ENTRY).digest()


def agree(store, number):
    """The word of this meeting of ranks: what the first one proposes; it waits for nobody."""
    word = b"%d-%d" % (os.getpid(), time.monotonic_ns())
    found = store.compare_set("twinrun.order/%d" % number, "", word.decode())
    text = found.decode()
    if len(text) > 64 or not text.replace("-", "").isdigit():
        raise ValueError("the store of the group gave %r for the word of the ranks" % text)
    return text


class Sender:
    """One rank's messages to those that replay an order."""

    def __init__(self, folder, word, rank, receivers):
        self.left = dict.fromkeys(receivers, MOST)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self.files = {
            to: os.open(os.path.join(folder, FILE % (word, to, rank)), flags, 0o600)
            for to in receivers
        }

    def tell(self, to, which):
        file = self.files.get(to)
        if file is None:
            return
        if not self.left[to] or os.write(file, which) != ENTRY:
            raise OSError("no more messages to rank %d can be told" % to)
        self.left[to] -= 1

    def close(self):
        for file in self.files.values():
            os.close(file)
        self.files = {}


class Receiver:
    """What others have sent to one rank, and what it has asked for by name."""

    def __init__(self, folder, word, rank, ranks):
        self.ranks = ranks
        self.path = lambda source: os.path.join(folder, FILE % (word, rank, source))
        self.files = {}  # source -> (descriptor, bytes read)
        self.unasked = {}  # (source, key) -> messages sent, less receives posted for them

    def look(self, source):
        """Reads what a source has told since. False: it tells nothing, or not yet."""
        file, at = self.files.get(source, (None, 0))
        if file is None:
            try:
                file = os.open(self.path(source), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                return False
            self.files[source] = file, at
        while True:
            data = os.pread(file, READ, at)
            whole = len(data) - len(data) % ENTRY
            for place in range(0, whole, ENTRY):
                which = source, data[place : place + ENTRY]
                self.unasked[which] = self.unasked.get(which, 0) + 1
            at += whole
            self.files[source] = file, at
            if len(data) < READ:
                return True

    def has(self, source, which):
        """Is there a message that no receive was posted for?"""
        if self.unasked.get((source, which), 0) > 0:
            return True
        self.look(source)
        return self.unasked.get((source, which), 0) > 0

    def asked(self, source, which):
        left = self.unasked.pop((source, which), 0) - 1
        if left:
            self.unasked[source, which] = left

    def close(self):
        """Nobody else reads them."""
        for file, _at in self.files.values():
            os.close(file)
        for source in range(self.ranks):
            try:
                os.unlink(self.path(source))
            except OSError:
                pass
        self.files = {}
