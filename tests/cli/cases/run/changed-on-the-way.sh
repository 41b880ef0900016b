# A shell that sets a variable again undoes the pin: said, also when quiet, and the job's exit code stays.
twinrun run -q --pin hash-seed,threads -- env OMP_NUM_THREADS=7 "$JOB" 2>said
code=$?
sed 's/process [0-9]*/process N/' said
exit $code
