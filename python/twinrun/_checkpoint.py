# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all: the Python twin of src/snapshot/checkpoint.c, with the
same names and order of events.
"""

import fcntl
import hashlib
import os
import tempfile

_CHUNK = 1 << 20


def _lock(fd):
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:  # where locks are refused nothing is swept either
        pass


class _Writer:
    """The file that stands for the one to come: write(), and for writers that want a path
    os.fspath().
    """

    def __init__(self, path):
        self.path = os.path.realpath(path)  # a link stays a link
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise ValueError("%s is no file: a checkpoint has to be one" % self.path)
        folder, name = os.path.split(self.path)
        self._prefix = ".%s.twinrun-" % name
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._hash, self._told = hashlib.sha256(), 0
        self._temp = self._file = None
        try:
            self._sweep(folder)
            self._temp, self._file = self._locked(folder, self.path)
        except BaseException:
            os.close(self._folder)
            raise

    def _sweep(self, folder):
        for name in os.listdir(folder):
            if name.startswith(self._prefix):
                try:
                    with open(os.path.join(folder, name), "rb") as f:
                        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(f.name)
                except OSError:  # somebody writes it
                    pass

    def _locked(self, folder, like):
        while True:
            fd, temp = tempfile.mkstemp(prefix=self._prefix, dir=folder)
            _lock(fd)
            if os.fstat(fd).st_nlink:  # else another writer's sweep came between
                break
            os.close(fd)
        try:
            try:
                mode = os.stat(like).st_mode & 0o7777
            except FileNotFoundError:
                mask = os.umask(0)
                os.umask(mask)
                mode = 0o666 & ~mask
            os.fchmod(fd, mode)
            return temp, os.fdopen(fd, "w+b")
        except BaseException:
            os.close(fd)
            os.unlink(temp)
            raise

    # What writers call.
    def write(self, data):
        if self._file.tell() == self._told:  # in order: the digest goes along
            self._hash.update(data)
            self._told += memoryview(data).nbytes
        else:
            self._told = -1
        return self._file.write(data)

    def __fspath__(self):
        self._told = -1  # whoever writes there does so without us
        return self._temp

    def __getattr__(self, name):
        return getattr(self.__dict__["_file"], name)

    def _digest(self):
        self._file.flush()
        if (
            self._told != os.stat(self._temp).st_size
            or os.fstat(self._file.fileno()).st_ino != os.stat(self._temp).st_ino
        ):
            self._hash = hashlib.sha256()
            with open(self._temp, "rb") as f:
                while True:
                    chunk = f.read(_CHUNK)
                    if not chunk:
                        break
                    self._hash.update(chunk)
                os.fsync(f.fileno())
        os.fsync(self._file.fileno())
        return self._hash.hexdigest()

    def commit(self, sidecar):
        digest, side = self._digest(), None
        name = os.path.basename(self.path)
        if sidecar:
            escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
            side, f = self._locked(os.path.dirname(self.path), self.path + ".sha256")
            try:
                f.write(
                    os.fsencode("%s%s  %s\n" % ("\\" if escaped != name else "", digest, escaped))
                )
                f.flush()
                os.fsync(f.fileno())
            except BaseException:
                os.unlink(side)
                f.close()
                raise
        try:
            _lock(self._folder)  # two commits must not mix their files and digests
            # No digest of another content is ever found beside the file: absent, then the file,
            # then its digest.
            try:
                os.unlink(self.path + ".sha256")
            except FileNotFoundError:
                pass
            os.fsync(self._folder)
            os.rename(self._temp, self.path)
            self._temp = None
            if side:
                os.rename(side, self.path + ".sha256")
                side = None
            os.fsync(self._folder)
        finally:
            if side:
                os.unlink(side)
            if sidecar:
                f.close()  # and its lock, until here
        return digest

    def close(self):
        self._file.close()
        os.close(self._folder)
        if self._temp:
            os.unlink(self._temp)
            self._temp = None


class _Stream:
    """Only a stream: torch.save would put the name of a path into the file."""

    def __init__(self, writer):
        self.write, self.flush = writer.write, writer.flush


class atomic_write:
    def __init__(self, path, digest=True):
        self._path, self._sidecar, self.sha256 = os.fspath(path), digest, None

    def __enter__(self):
        self._writer = _Writer(self._path)
        return self._writer

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.sha256 = self._writer.commit(self._sidecar)
        finally:
            self._writer.close()
        return False


def save(obj, path, digest=True, **options):
    import torch

    place = atomic_write(path, digest)
    with place as f:
        torch.save(obj, _Stream(f), **options)
    return place.sha256
