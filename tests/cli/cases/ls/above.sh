# The home of a folder above is found from below; one here goes first, and one named before all.
mkdir -p project/deep/er project/own/.twinrun
cd project
twinrun record -q -- "$JOB" --steps 3 >/dev/null
cd deep/er
twinrun ls
twinrun show last | sed -n 's/^run .*/shown/p'
twinrun ls --json | "$PYTHON" -c 'import json, sys; print(len(json.load(sys.stdin)["runs"]))'
# who records here has a home here
twinrun record -q -- "$JOB" --steps 3 >/dev/null
twinrun ls --json | "$PYTHON" -c 'import json, sys; print(len(json.load(sys.stdin)["runs"]))'
cd ../../own
twinrun ls
cd ..
TWINRUN_HOME=deep/er/.twinrun twinrun ls | wc -l
TWINRUN_HOME=nowhere twinrun ls
