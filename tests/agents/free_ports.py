# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that cannot choose one themselves.

A port that the system chose (bind to 0, close, remember it) is free for the next one who asks the
system: before the server takes it, it may be some other test's. Worse, who then asks whether the
server listens yet may meet that other one, or himself: a connection gets a port of the same range,
and one that gets the port that it calls is connected with itself. So these lie below that range.

Each is given out once: as long as the process lives that asked for it, it holds a socket that is
named after the port. Names of this kind are the machine's, so that workers of pytest, and several
of them side by side, do not give out one port twice, and the kernel takes them back.
"""

import errno
import socket

FIRST = 20000  # Ray's workers have those below
_held = []


def _end():
    """The first port of those that the system itself gives out."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        low = int(f.read().split()[0])
    return low if low > FIRST + 1000 else 65536  # this machine gives out nearly all


def _hold(port):
    """A socket that stands for the port; None: somebody has it, or listens on it."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind("\0twinrun-tests-%d" % port)
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
        return name
    except OSError as e:
        name.close()
        if e.errno != errno.EADDRINUSE:
            raise
        return None


def free_ports(count):
    """A row of ports that nobody listens on, and that nobody else is given."""
    row = []
    for port in range(FIRST, _end()):
        held = _hold(port)
        if held is None:
            for before in row:
                before.close()
            row = []
            continue
        row.append(held)
        if len(row) == count:
            _held.extend(row)
            return list(range(port - count + 1, port + 1))
    raise OSError("%d ports in a row are not free from %d on" % (count, FIRST))


def free_port():
    return free_ports(1)[0]
