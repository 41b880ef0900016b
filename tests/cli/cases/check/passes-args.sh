# Arguments with spaces, quotes, globs and newlines reach the job unchanged, and are echoed as one could type them.
twinrun check -q --runs 2 -- sh -c 'printf "<%s>\n" "$@" >args; exit 0' sh 'a b' "it's" '*' '$HOME' '' "$(printf 'x\ny')" >said
cat args
twinrun ls -n 1 | sed 's/.*sh -c/sh -c/'
