# The job reads our standard input, to its end.
printf 'one\ntwo\n' | twinrun record -q -- sh -c 'while read -r line; do echo "got $line"; done'
