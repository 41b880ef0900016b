# SPDX-License-Identifier: Apache-2.0
"""A file of recorded values: frames of named tensors and plain values, read back only when their
digest is right.

A frame is a fixed header (magic, step, sort, number, payload's length, digest) and its payload: the
length of a JSON list, the list ([name, "torch.float32", shape, bytes] or [name, "plain", value]),
then the bytes of each tensor in that order. Nothing in it is ever executed. A frame cut off at the
end of the file does not count. Format: docs/internals/transplant.md.
"""

import hashlib
import json
import os
import struct

MAGIC = b"TWV1"
HEAD = struct.Struct("<4sIIIQ16s")
LENGTH = struct.Struct("<I")
STATE, BATCH = 0, 1
PLAIN = "plain"


class Damaged(Exception):
    """What is stored is not what was written."""


def _digest(step, sort, number, parts):
    digest = hashlib.blake2b(struct.pack("<III", step, sort, number), digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


class Writer:
    """Appends frames up to `cap` bytes in all."""

    def __init__(self, path, cap):
        self.file = open(path, "xb", buffering=0)
        self.left = cap

    def add(self, step, sort, number, entries):
        """entries: (name, type, shape, bytes-like) or (name, PLAIN, value, None). False when there
        is no room for the frame.
        """
        listed = [
            [name, kind, what] if data is None else [name, kind, what, len(data)]
            for name, kind, what, data in entries
        ]
        index = json.dumps(listed, separators=(",", ":")).encode("ascii")
        parts = [LENGTH.pack(len(index)), index] + [
            data for _name, _kind, _what, data in entries if data is not None
        ]
        length = sum(len(part) for part in parts)
        if HEAD.size + length > self.left:
            return False
        self.left -= HEAD.size + length
        self._write(
            HEAD.pack(MAGIC, step, sort, number, length, _digest(step, sort, number, parts))
        )
        for part in parts:
            self._write(part)
        return True

    def _write(self, data):
        view = memoryview(data)
        while len(view):
            view = view[self.file.write(view) :]

    def close(self):
        self.file.close()


class Reader:
    """Finds frames by (step, sort, number)."""

    def __init__(self, path):
        self.file = open(path, "rb", buffering=0)
        self.frames = {}
        at, end = 0, os.fstat(self.file.fileno()).st_size
        while at + HEAD.size <= end:
            self.file.seek(at)
            magic, step, sort, number, length, digest = HEAD.unpack(self._exactly(HEAD.size))
            if magic != MAGIC or length > end - at - HEAD.size:
                break
            self.frames[step, sort, number] = (at + HEAD.size, length, digest)
            at += HEAD.size + length

    def _exactly(self, size):
        data = bytearray(size)
        view = memoryview(data)
        while len(view):
            count = self.file.readinto(view)
            if not count:
                raise Damaged("the file ends early")
            view = view[count:]
        return data

    def get(self, step, sort, number):
        """The entries of a frame as Writer.add takes them, their data as writable views; None when
        there is no such frame.
        """
        found = self.frames.get((step, sort, number))
        if found is None:
            return None
        at, length, digest = found
        self.file.seek(at)
        payload = memoryview(self._exactly(length))
        if _digest(step, sort, number, [payload]) != digest:
            raise Damaged("the digest of step %d is wrong" % step)
        try:
            (size,) = LENGTH.unpack(payload[: LENGTH.size])
            listed = json.loads(bytes(payload[LENGTH.size : LENGTH.size + size]))
            entries, at = [], LENGTH.size + size
            for name, kind, what, *rest in listed:
                data = payload[at : at + rest[0]] if rest else None
                at += rest[0] if rest else 0
                entries.append((name, kind, what, data))
        except (struct.error, ValueError, TypeError, IndexError) as error:
            raise Damaged("step %d cannot be read: %s" % (step, error)) from None
        if at != length:
            raise Damaged("step %d has %d bytes too many" % (step, length - at))
        return entries

    def close(self):
        self.file.close()
