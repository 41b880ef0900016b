try() { twinrun zoom "$@"; echo "exit $?"; }
try
try last
try -- true
try --window 3:4 --
try --window 3:4 last last
try --window 4:3 -- true
PATH=$(dirname "$(command -v twinrun)") twinrun zoom --window 3:4 -- no-such-program
