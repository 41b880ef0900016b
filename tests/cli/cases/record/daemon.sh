# What outlives the job is left alone, and named.
twinrun record -q -- sh -c 'setsid sleep 300 >/dev/null 2>&1 </dev/null & echo $! >pid; sleep 0.3; echo done'
code=$?
kill -0 "$(cat pid)" && echo "it lives"
kill "$(cat pid)"
twinrun show last | grep -o 'outlived the job' | sort -u
exit $code
