# A job behind env, bash -c, cd, a pipe.
mkdir x
twinrun check -q --runs 2 -- env A=b bash -c "cd x && $JOB | tee log" | head -1
cat x/log
