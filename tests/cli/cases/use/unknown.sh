# Every wrong word gets the nearest right one, and exit code 2.
try() { twinrun "$@"; echo "exit $?"; }
try recrod
try shwo
try xyzzy
try --frobnicate
try help gcc
try ls --jsno
try show --verfiy last
try ls --zzzzzz
try ls -Z
try ls --json=yes
try show --s last
try ls --count
try ls --count many
try ls --count 0
try ls extra
try show
try show a b
try gc
try record
try record true
try record --level fine -- true
try --completion tcsh
