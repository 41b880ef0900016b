# Each run reads the same bytes from standard input.
printf 'one\ntwo\n' | twinrun check -q --runs 2 -- sh -c 'wc -c >>read; cat read' >said
cat read
ls -A .twinrun
