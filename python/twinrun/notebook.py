# SPDX-License-Identifier: Apache-2.0
"""The magic of notebooks: `%load_ext twinrun`, then `%%twinrun` (docs/notebook.md).

The code of the cell becomes a job: a file that `twinrun check` runs several times, each time in a
process of its own. What the notebook's own process holds is not in it.
"""

import html
import os
import shlex
import shutil
import sys
import tempfile

from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from . import _check

# Of what the cell printed in the first run, so many characters are shown; as many of its errors.
SHOWN = 20000

# By exit code: the colours of the answer, readable on light and on dark pages.
COLOURS = {
    _check.REPRODUCED: "#1a7f37",
    _check.DIFFERS: "#b3261e",
    _check.TROUBLE: "#b3261e",
    _check.UNKNOWN: "#7a5c00",
}


class CellVerdict:
    """What `%%twinrun` returns: shown as HTML in notebooks and as text elsewhere.

    `code`, `outcome`, `text`, `json` and `runs` are those of `twinrun check`; `error` says why
    there is no verdict, else it is empty; `printed` is what the cell printed in the first run.
    """

    def __init__(self, found=None, error=""):
        self.error = error
        self.code = found.code if found else _check.TROUBLE
        self.outcome = found.outcome if found else "ERROR"
        self.text = found.text if found else error
        self.json = found.json if found else {}
        self.runs = found.runs if found else []
        self.printed = self._read("stdout")
        if self.code == _check.TROUBLE and found:
            self.text += "\n" + self._read("stderr")[-SHOWN:].rstrip()

    def _read(self, name):
        try:
            with open(os.path.join(self.runs[0], name), errors="replace") as f:
                return f.read()
        except (OSError, IndexError):
            return ""

    def __bool__(self):
        """Did the runs compute the same?"""
        return self.code == _check.REPRODUCED

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        lines = self.text.split("\n")
        first = lines[0][len(self.outcome) :].strip() if lines[0].startswith(self.outcome) else ""
        rest = lines[1:] if first or lines[0] == self.outcome else lines
        return (
            '<div class="twinrun-verdict" role="status">'
            '<p><strong style="background:%s;color:#fff;padding:2px 8px">%s</strong> %s</p>'
            '<pre style="white-space:pre-wrap">%s</pre></div>'
        ) % (
            COLOURS.get(self.code, COLOURS[_check.TROUBLE]),
            html.escape(self.outcome),
            html.escape(first),
            html.escape("\n".join(rest).strip("\n")),
        )


@magics_class
class TwinrunMagics(Magics):
    @magic_arguments()
    @argument("-n", "--runs", type=int, default=2, help="how many runs; the first is the reference")
    @argument("-s", "--steps", type=int, help="end each run after so many steps")
    @argument("-t", "--tolerance", help="a file of what may differ")
    @argument("-i", "--ignore", action="append", default=[], help="leave out what matches")
    @argument("-l", "--level", help="what is recorded: steps, tensors, modules or ops")
    @argument("--max-time", help="spend at most so long, such as 90s or 10m")
    @argument("--python", default=sys.executable, help="the interpreter; this one unless given")
    @cell_magic
    def twinrun(self, line, cell):
        """Runs the cell several times, each in a process of its own, and compares the runs."""
        asked = parse_argstring(self.twinrun, line)
        options = _check.options(
            runs=asked.runs,
            steps=asked.steps,
            tolerance=_word(asked.tolerance),
            ignore=[_word(p) for p in asked.ignore],
            level=asked.level,
            max_time=asked.max_time,
        )
        verdict = self._judged(cell, [_word(asked.python)], options)
        if verdict.printed:
            sys.stdout.write(verdict.printed[:SHOWN])
            sys.stdout.flush()
        return verdict

    def _judged(self, cell, python, options):
        folder = tempfile.mkdtemp(prefix="twinrun-cell-")
        job = os.path.join(folder, "cell.py")
        try:
            with open(job, "w", encoding="utf-8") as f:
                f.write(cell)
            # As in the notebook, modules beside it can be imported.
            env = dict(os.environ)
            path = [os.getcwd(), env.get("PYTHONPATH", "")]
            env["PYTHONPATH"] = os.pathsep.join(p for p in path if p)
            return CellVerdict(_check.check([*python, job], options, env=env))
        except _check.Trouble as error:
            return CellVerdict(error=str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _word(text):
    """A word as the shell would read it: IPython leaves the quotes on."""
    return text if text is None else " ".join(shlex.split(text))
