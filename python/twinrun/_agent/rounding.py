# SPDX-License-Identifier: Apache-2.0
"""The operations of the first step with their values, for `check --explain rounding`.

TWINRUN_ROUNDING = <bytes of values that one process may write>. recorder.py writes; here is when.
"""

import os

from . import core, faults, recorder
from .core import S

_recorder = None


def arm(torch):
    """Begins a recording where one was asked for."""
    global _recorder
    room = os.environ.get("TWINRUN_ROUNDING", "")
    if not room.isdigit() or _recorder is not None:
        return
    name = "rounding.%d.%d" % (max(S.rank, 0), os.getpid())
    folder = os.path.join(os.environ["TWINRUN_RUN_DIR"], "values", name)
    try:
        _recorder = recorder.Recorder(torch, folder, int(room))
    except OSError as error:
        core.note("rounding.failed", str(error))
        return
    S.on_step_ends.append(_ends)
    S.on_exit.append(_ends)
    S.on_fork.append(_forked)


def _ends():
    _give_up("")


def _forked():
    global _recorder
    _recorder = None  # the files are the parent's


def _give_up(why):
    global _recorder
    if _recorder is not None:
        writer, _recorder = _recorder, None
        try:
            writer.end(why)
            _name_by_rank(writer.folder)
        except (OSError, ValueError) as error:
            core.note("rounding.failed", str(error))


def _name_by_rank(folder):
    """The rank is known since the process joined the others, after the recording began."""
    base = os.path.dirname(folder)
    name = os.path.join(base, "rounding.%d.%d" % (max(S.rank, 0), os.getpid()))
    if name != folder:
        os.rename(folder, name)


def before(operation, args, kwargs):
    """What the recorder wants to be given behind the operation; None: nothing is recorded."""
    if _recorder is None:
        return None
    try:
        return _recorder.before(operation, args, kwargs)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        faults.pass_on(error)
        _give_up("%s could not be recorded: %s" % (operation, error))
    return None


def collective(operation, args, scope, site):
    """Before a collective is called."""
    if _recorder is None:
        return
    try:
        _recorder.collective(operation, args, scope, site)
    except (OSError, RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        faults.pass_on(error)
        _give_up("%s could not be recorded: %s" % (operation, error))


def after(line, values, scope, site):
    if _recorder is None:
        return
    try:
        _recorder.after(line, values, scope, site)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        faults.pass_on(error)
        _give_up("a result could not be recorded: %s" % error)
