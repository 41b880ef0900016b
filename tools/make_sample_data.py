#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts a sample of Fashion-MNIST, equally many images of each class, in the order of the original
files.

    tools/make_sample_data.py [--source DIR] [--out DIR] [--train N] [--test N]

Reads the gzipped idx files of Debian's package dataset-fashion-mnist; writes plain idx files, as
the C trainer reads them. The files in workloads/data were made with the defaults; --train 60000
--test 10000 unpacks the whole set.
"""

import argparse
import gzip
import os
import struct
import sys

CLASSES = 10
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def read_set(source, images_name, labels_name):
    with gzip.open(os.path.join(source, images_name + ".gz")) as f:
        images = f.read()
    with gzip.open(os.path.join(source, labels_name + ".gz")) as f:
        labels = f.read()
    magic, count, rows, columns = struct.unpack(">4I", images[:16])
    label_magic, label_count = struct.unpack(">2I", labels[:8])
    if (magic, label_magic) != (0x803, 0x801) or count != label_count:
        raise SystemExit(
            f"{source}: expected idx files 0x803 and 0x801 of equal length, found {magic:#x} ({count}) and {label_magic:#x} ({label_count})"
        )
    return images[16:], labels[8:], count, rows, columns


def choose(labels, count, wanted):
    if wanted >= count:
        return list(range(count))
    room = [wanted // CLASSES + (c < wanted % CLASSES) for c in range(CLASSES)]
    chosen = []
    for i in range(count):
        if room[labels[i]]:
            room[labels[i]] -= 1
            chosen.append(i)
    return chosen


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument(
        "--out",
        default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads", "data"),
    )
    parser.add_argument("--train", type=int, default=600)
    parser.add_argument("--test", type=int, default=200)
    options = parser.parse_args()
    if not os.path.isdir(options.source):
        raise SystemExit(
            f"{options.source}: no such folder; install Debian's package dataset-fashion-mnist or give --source"
        )
    os.makedirs(options.out, exist_ok=True)
    for part, (images_name, labels_name) in FILES.items():
        images, labels, count, rows, columns = read_set(options.source, images_name, labels_name)
        chosen = choose(labels, count, getattr(options, part))
        size = rows * columns
        with open(os.path.join(options.out, images_name), "wb") as f:
            f.write(struct.pack(">4I", 0x803, len(chosen), rows, columns))
            f.write(b"".join(images[i * size : (i + 1) * size] for i in chosen))
        with open(os.path.join(options.out, labels_name), "wb") as f:
            f.write(struct.pack(">2I", 0x801, len(chosen)))
            f.write(bytes(labels[i] for i in chosen))
        print(f"{part}: {len(chosen)} of {count} images", file=sys.stderr)


if __name__ == "__main__":
    main()
