# Three pairs, in turn; output and exit code of the first pinned run.
printf 'first\nsecond\n' | twinrun run --cost -q --pin threads -- sh -c 'read -r line; echo "$line"; sleep 0.05' 2>said
code=$?
sed 's/[0-9][0-9.]* times/N times/; s/interval [0-9.]* to [0-9.]*/interval A to B/' said
twinrun ls | grep -c 'pinned'
exit $code
