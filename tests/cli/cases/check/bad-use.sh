# Each says what was expected and found; exit code 2, or 125 under --bisect.
try() { twinrun check "$@"; echo "exit $?"; }
try
try python train.py
try --runs 1 -- true
try --level fine -- true
try --a true
try --b true
try --a true --b true -- true
try --b-starts-at 3 -- true
try --max-time soon -- true
try --tolerance no-such-file -- true
try --rnus 3 -- true
try --bisect --runs 1 -- true
: >file
try --home file/home -- true
