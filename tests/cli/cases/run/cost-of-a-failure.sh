# A job that fails has no cost that could be compared.
twinrun run --cost -q --pin threads -- sh -c 'echo tried >>tries; exit 6' 2>&1
code=$?
cat tries
exit $code
