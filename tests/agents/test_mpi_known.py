# SPDX-License-Identifier: Apache-2.0
"""Each function of the MPI libraries here is one that the agent stands in front of, or one that
neither waits for other ranks nor moves contents: a new library's functions do not pass unseen.
"""

import re
import subprocess
from pathlib import Path

import pytest

LIBRARIES = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}
# What they have in common: they ask, convert, pack, compute or set something in this process, or
# give a request at once.
LOCAL = """
MPI_(Type|Group|Info|T|Op|Errhandler|Keyval|Attr|Error|Address|Aint|AINT|Status|Message)_.* MPI_Address
MPI_(Get|Add_error|Remove_error|Pack|Unpack|Query|Is_thread|Initialized|Finalized|Grequest).*
MPI_(Register_datarep|CONVERSION|DUP|NULL|COMM|TYPE|WIN|WTIME|WTICK).* MPI_(Wtime|Wtick|Pcontrol)
MPI_(Init|Init_thread|Abort|Alloc_mem|Free_mem|Buffer_attach(_c)?|Reduce_local(_c)?)
MPI_(Open|Close)_port MPI_(Topo_test|Dims_create|Test_cancelled) MPI_(Cartdim|Graphdims)_get
MPI_Cart_(coords|get|map|rank|shift) MPI_Graph_(get|map|neighbors(_count)?)
MPI_Dist_graph_neighbors(_count)? MPI_(Comm|Win|File|Request|Session)_(c2f|f2c)
MPI_(Comm|Win|File|Session)_(get|create_(errhandler|keyval)|call|delete_attr|free_keyval).*
MPI_(Comm|Win|File|Session)_set_(attr|errhandler|name) MPI_Comm_idup(_with_info)?
MPI_Comm_(compare|group|rank|size|remote_group|remote_size|test_inter)
MPI_Win_(attach|detach|shared_query(_c)?|sync|test) MPI_(Parrived|Pready.*) MPI_File_delete
MPI_File_(i?(read|write)(_at)?|i(read|write)_shared|seek)(_c)?
MPIX_(Comm_failure|Comm_revoke|Delete_error|GPU|Grequest|Query).*
""".split()


def functions(library):
    """Names of MPI that it exports, without those of Fortran."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True)
    found = set()
    for line in done.stdout.splitlines():
        kind, name = line.split()[-2:]
        if kind in "TWi" and re.match(r"MPIX?_[A-Z]", name):
            found.add(name.split("@")[0])
    return found


@pytest.mark.parametrize("kind", LIBRARIES)
def test_every_function_is_known(build, kind):
    found = list(Path("/usr/lib").glob(f"*/{LIBRARIES[kind]}"))
    if not found:
        pytest.skip(f"no {kind}")
    ours = functions(build / "agents" / "libtwinrun_mpi.so")
    theirs = functions(found[0])
    assert len(theirs) > 300 and {"MPI_Send", "MPI_File_open"} <= ours & theirs
    local = re.compile("|".join(LOCAL))
    assert not [n for n in sorted(theirs - ours) if not local.fullmatch(n)]
    assert not [n for n in sorted(ours) if local.fullmatch(n) and not n.startswith("MPI_Get")]
