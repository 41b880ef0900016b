echo hello >text
twinrun record -q -- ./text 2>said
code=$?
grep -c 'text' said
exit $code
