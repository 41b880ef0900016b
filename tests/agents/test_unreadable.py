# SPDX-License-Identifier: Apache-2.0
"""twin_record of memory that cannot be read: the job goes on as it would alone, and the record says
that nothing was seen.
"""

import shutil
import subprocess

import pytest

from conftest import ROOT

JOB = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <twin/twin.h>
int main(void)
{
    char *m = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float good[4] = {1, 2, 3, 4};
    mprotect(m + (512 << 10), 4096, PROT_NONE);
    for (int step = 0; step < 3; step++) {
        twin_record("good", TWIN_F32, 1, (int64_t[]){4}, 0, good, 0);
        twin_record("hole", TWIN_F32, 1, (int64_t[]){1 << 18}, 0, m, 0);
        twin_record("null page", TWIN_F32, 1, (int64_t[]){4}, 0, (void *)64, 0);
        twin_record("nowhere", TWIN_F32, 2, (int64_t[]){4, 4}, 0, (void *)0x7000deadb000, 0);
        twin_record("too long", TWIN_F32, 1, (int64_t[]){INT64_MAX}, 0, m, 0);
        twin_record("backwards", TWIN_F32, 1, (int64_t[]){1 << 20}, (int64_t[]){-1}, m, 0);
        twin_step();
    }
    puts("went on");
    return 7;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_the_job_goes_on(twinrun, build, work, home):
    (work / "job.c").write_text(JOB)
    library = next(build.rglob("libtwinrun.so")).parent
    subprocess.run(
        [
            "cc",
            "-o",
            "job",
            "job.c",
            f"-I{ROOT}/include",
            f"-L{library}",
            "-ltwinrun",
            f"-Wl,-rpath,{library}",
        ],
        cwd=work,
        check=True,
    )
    done = twinrun("record", "--", "./job")
    assert (done.rc, done.out) == (7, "went on\n"), done
    shown = twinrun("show", "last", "--step", "1")
    seen = {
        name: line
        for line in shown.out.splitlines()
        for name in ("good", "hole", "null page", "nowhere", "too long", "backwards")
        if f" {name}  " in line
    }
    assert len(seen) == 6, shown
    assert all(
        ("contents not re" in line) == (name != "good") for name, line in seen.items()
    ), shown
    # Two such runs are not called the same: what was not seen is not known.
    checked = twinrun("check", "--runs", "2", "--", "sh", "-c", "./job; true")
    assert "not observed" in checked.out or checked.rc == 3, checked
