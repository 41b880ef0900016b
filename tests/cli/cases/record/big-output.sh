# 100 MB pass through unchanged.
twinrun record -q -- "$JOB" --print 100000000 >out
code=$?
head -c 100000000 out | wc -c
tail -c +100000001 out
exit $code
