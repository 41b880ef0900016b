# Output and exit code are the job's own.
twinrun record -q -- sh -c 'echo out; echo err >&2; exit 3'
