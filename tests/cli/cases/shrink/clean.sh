# A job that does not part cannot be shrunk; what that excludes is said.
twinrun shrink -q --runs 5 -- "$JOB" --steps 3
echo "exit $?"
