# SPDX-License-Identifier: Apache-2.0
"""The order file of one rank, as src/trial/match_order.c writes it. Nothing in it is trusted."""

import os
import struct

# src/trace/order.h
HEAD = struct.Struct("=8sIIIII")
MATCH = struct.Struct("=HHii")
MAGIC, VERSION, NAME, TAGS = b"twinord\0", 1, 160, 1024
COMMS_MOST, MATCHES_MOST, WAIT_MOST_MS = 1024, 1 << 22, 3600000
ANY_SOURCE, NOBODY = 1, -1
FILE = "order.torch."  # and the rank
LOST_NOTE = "match-order-lost"  # of a recording: why its order is not known


def load(data):
    """(groups, matches, seconds to wait) of an order file; None where it is not sound."""
    if len(data) < HEAD.size:
        return None
    magic, version, comms, count, ends, wait_ms = HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION or ends or wait_ms > WAIT_MOST_MS:
        return None
    if comms > COMMS_MOST or count > MATCHES_MOST:
        return None
    if len(data) != HEAD.size + comms * NAME + count * MATCH.size:
        return None
    names = [data[HEAD.size + i * NAME : HEAD.size + (i + 1) * NAME] for i in range(comms)]
    if not all(b"\0" in name for name in names):
        return None
    names = [name.partition(b"\0")[0].decode("utf-8", "replace") for name in names]
    matches = list(MATCH.iter_unpack(data[HEAD.size + comms * NAME :]))
    for comm, left_open, source, tag in matches:
        if source == NOBODY:
            continue
        if comm >= comms or left_open != ANY_SOURCE or source < 0 or not -1 <= tag < TAGS:
            return None
    return names, matches, wait_ms / 1000


def receivers(folder):
    """Ranks that have one there."""
    try:
        names = [name[len(FILE) :] for name in os.listdir(folder) if name.startswith(FILE)]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdigit() and len(name) < 9)


def read(folder, rank):
    """What load() makes of it; None: there is none, or it is not sound."""
    limit = HEAD.size + COMMS_MOST * NAME + MATCHES_MOST * MATCH.size
    try:
        with open(os.path.join(folder, FILE + str(rank)), "rb") as file:
            return load(file.read(limit + 1))
    except OSError:
        return None
