# SPDX-License-Identifier: Apache-2.0
"""docs/huggingface.md: its script, unmodified, under its commands, before and behind its mend."""

import re

from conftest import ROOT, clean_environment, library_python
from pages import check_shown

PAGE = (ROOT / "docs" / "huggingface.md").read_text()


def test_the_page_prints_what_it_says(work, build, home, python, run, start):
    program = library_python(python, run, "transformers", "accelerate")
    script, mend = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    shown = re.findall(r"^    \$ twinrun (check .*)\n((?:    .*\n|\n(?=    ))*)", PAGE, re.M)
    assert len(shown) == 2
    env = clean_environment({"TWINRUN_HOME": str(home), "OMP_NUM_THREADS": "1"})
    env["PATH"] = f"{build / 'cmd'}:{env['PATH']}"
    mended = script.replace("model = ", mend + "model = ")
    assert mended != script
    for text, (command, lines) in zip((script, mended), shown):
        (work / "finetune.py").write_text(text)
        words = [program if word == "python" else word for word in command.split()]
        done = run([build / "cmd" / "twinrun", *words], cwd=work, env=env, timeout=500)
        assert done.rc == (1 if lines.lstrip().startswith("DIFFER") else 0), done
        check_shown(command, [line for line in lines.splitlines() if line.strip()], done.out)
