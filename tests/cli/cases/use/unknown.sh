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
# Every command there is can be what was meant, whichever place it has in the list.
twinrun help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | sort -u >commands
while read -r name; do
    said=$(twinrun "${name}q" 2>&1)
    case "$said" in *"did you mean $name?"*) ;; *) echo "${name}q: $said" ;; esac
done <commands
[ "$(wc -l <commands)" -gt 20 ] && echo "every command is suggested"
