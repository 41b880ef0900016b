# 100 MB per run are stored in part, hashed whole, and do not reach stdout.
twinrun check -q --runs 2 -- "$JOB" --print 100000000 >said
code=$?
wc -c <said | awk '{print ($1 < 4000) ? "short" : "long"}'
head -1 said
exit $code
