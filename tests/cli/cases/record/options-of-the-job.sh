# Everything behind -- is the job's, also what looks like ours.
twinrun record -q -- sh -c 'echo "$@"' sh --level nonsense --help -- -q
