# SPDX-License-Identifier: Apache-2.0
"""Source lines: the part of the Python stack that belongs to the job, above the frames of torch,
the library and us.
"""

import os
import sys
import sysconfig

from .core import FOLDER

FRAMES = 4
BEYOND = 60  # of a framework that are looked through for lines of the job's own

# twinrun.record and its like stand in the folder above ours: they are no lines of the job either.
_skipped = [os.path.dirname(FOLDER) + os.sep, "<frozen"]
_library_folder = sysconfig.get_paths().get("stdlib", os.sep) + os.sep
_packages = set()
_judged = {}  # file name -> may be shown
_lines = {}  # (code, instruction) -> text
_near = {}  # (code, instruction) -> the whole text
_cwd = None


def arm(torch):
    """torch's own folder is never a source line of the job."""
    skip(torch)


def skip(package):
    """No file of this package is a source line of the job from now on."""
    file = package.__file__
    if file in _packages:
        return
    _packages.add(file)
    folder = os.path.dirname(os.path.abspath(file)) + os.sep
    if folder not in _skipped:
        _skipped.append(folder)
        _judged.clear()


def _shown(file):
    found = _judged.get(file)
    if found is None:
        library = file.startswith(_library_folder) and "-packages" not in file
        found = _judged[file] = not library and not file.startswith(tuple(_skipped))
    return found


def short(file):
    """As the user would write it: below the working folder, or behind site-packages."""
    global _cwd
    if _cwd is None:
        try:
            _cwd = os.getcwd() + os.sep
        except OSError:
            _cwd = os.sep
    if file.startswith(_cwd) and _cwd != os.sep:
        return file[len(_cwd) :]
    for mark in ("site-packages" + os.sep, "dist-packages" + os.sep):
        if mark in file:
            return file.split(mark, 1)[1]
    return file


def _line(code, frame):
    key = (code, frame.f_lasti)
    found = _lines.get(key)
    if found is None:
        if len(_lines) >= 1 << 16:
            _lines.clear()
        found = _lines[key] = "%s:%d in %s" % (
            short(code.co_filename),
            frame.f_lineno or 0,
            code.co_name,
        )
    return found


def near(frame):
    """user(), remembered for the instruction at which the job's frame above waits: cheap for calls
    that come in every step.
    """
    while frame is not None and not _shown(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ""
    key = (frame.f_code, frame.f_lasti)
    found = _near.get(key)
    if found is None:
        if len(_near) >= 1 << 16:
            _near.clear()
        found = _near[key] = user()
    return found


def user(frames=FRAMES):
    """The job's lines on this thread's stack, innermost first, joined by newlines; empty when there
    are none. Where the innermost one is a framework's, only those follow that are of no package.
    """
    return above(sys._getframe(1), frames)


def above(frame, frames=FRAMES):
    """The same from a frame on."""
    found, own, looked_at = [], [], 0
    while frame is not None and looked_at < BEYOND:
        code = frame.f_code
        if _shown(code.co_filename):
            looked_at += 1
            line = _line(code, frame)
            if len(found) < frames:
                found.append(line)
            if "-packages" not in code.co_filename:
                if looked_at == 1:
                    return "\n".join(_outwards(frame, frames))
                own.append(line)
                if len(own) == frames - 1:
                    break
        frame = frame.f_back
    return "\n".join([*found[:1], *own] if own else found)


def _outwards(frame, frames):
    while frame is not None and frames:
        code = frame.f_code
        if _shown(code.co_filename):
            frames -= 1
            yield _line(code, frame)
        frame = frame.f_back
