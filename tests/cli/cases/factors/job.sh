# What applies to a command: a C job, a shell, a Python without torch, a program that does not exist.
show() { sed -n 's/^  \(hash-seed\|entropy\|seed.torch\|threads\) .*  \([^ ].*\)/\1: \2/p'; }
echo "a C job"
twinrun factors -- "$JOB" | show
echo "a shell"
twinrun factors -- sh -c 'true' | show
echo "a Python of which nobody knows what it has"
printf '#!/bin/sh\nexit 1\n' >python-odd
chmod +x python-odd
twinrun factors -- ./python-odd train.py | show
echo "nothing"
twinrun factors -- no-such-program 2>&1
