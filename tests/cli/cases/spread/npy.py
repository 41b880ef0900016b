# Writes .npy files without NumPy: npy.py FILE TYPE COUNT SEED [SPECIAL]: numbers of a small
# generator, TYPE f4 or f8.
import struct
import sys

path, kind, count, state = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
values = []
for _ in range(count):
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    values.append(((state >> 33) - 2**30) / 2**31 * (1 + state % 7) / 3)
if len(sys.argv) > 5:
    values[count // 2] = float(sys.argv[5])
header = repr({"descr": "<" + kind, "fortran_order": False, "shape": (count,)}).encode()
header += b" " * (-(len(header) + 11) % 64) + b"\n"
with open(path, "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
    f.write(struct.pack("<%d%s" % (count, "f" if kind == "f4" else "d"), *values))
