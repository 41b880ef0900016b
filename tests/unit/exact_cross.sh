#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exact_cross.sh NATIVE SOURCE_ROOT: exact sums on AArch64 (plain C and NEON, under qemu) leave the bits that the native
# program leaves. Exit 77 (skipped) when the cross compiler or the emulator is missing.
set -eu
native=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$2
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "SKIPPED: $tool is not installed (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)"
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # output, folder, sources...: -O1, for the time that it takes
    out=$1 folder=$2
    shift 2
    (cd "$root/src/$folder" && aarch64-linux-gnu-gcc -r -std=gnu17 -O1 -D_GNU_SOURCE -Wall -Wextra -Werror -ffp-contract=off \
        -fno-strict-aliasing -fno-math-errno -DTW_HAVE_NEON -I"$root/include" -I. -I../fingerprint -I../base "$@" -o "$work/$out")
}
compile fingerprint.o fingerprint digest.c dispatch.c dtype.c fingerprint.c kernel_scalar.c kernel_neon.c pass.c sketch.c
compile numerics.o numerics acc.c bins.c exact.c kernel_neon.c fixed.c fixed_block.c fixed_wire.c fixed_plain.c fixed_round.c
aarch64-linux-gnu-gcc -static -std=gnu17 -O1 -D_GNU_SOURCE -I"$root/include" "$root/tests/unit/exact_cross.c" \
    "$root/src/base/error.c" "$work/numerics.o" "$work/fingerprint.o" -o "$work/cross"
"$native" scalar >"$work/expected"
[ "$(wc -l <"$work/expected")" = 400 ]
for set in scalar neon; do
    qemu-aarch64 "$work/cross" "$set" >"$work/$set"
    cmp "$work/expected" "$work/$set"
    echo "aarch64 $set: $(wc -l <"$work/$set") sums, equal"
done
