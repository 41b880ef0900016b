# A job behind env, bash -c, cd and a pipe is still the job, and is watched.
mkdir x
twinrun record -q -- env A=b bash -c "cd x && echo \"A is \$A\" && $JOB | tee log"
ls x
twinrun show last | sed -n 's/.*\(20 steps.*records\).*/\1/p'
