# A job that repeats itself and one that does not, one whose script changed, and one that failed.
export TWINRUN_PROJECT=vision
names() { sed -E 's/[0-9a-f]{8}  +[0-9.]+ s/ID  TIME/; s/20[0-9TZ-]+-[a-z]+(_[0-9a-f]{16})?-[0-9a-f]{8}/RUN/g; s#/[^ ]*/job#job#; /budget/d'; }
twinrun shadow
echo "exit $?"
twinrun record -q -- "$JOB" --steps 3 >/dev/null
twinrun record -q -- "$JOB" --steps 3 --noise-at 1 >/dev/null
twinrun record -q -- sh -c 'exit 3'
twinrun shadow --share 1 --dry-run --first '*noise*' | names
twinrun shadow --share 1 --first '*noise*' >shadow.txt
echo "exit $?"
names <shadow.txt
echo 'echo 1' >job.sh
twinrun record -q -- sh job.sh >/dev/null
echo 'echo 2' >job.sh
twinrun shadow --share 1 | names
twinrun shadow --share 1 >/dev/null
echo "exit $?"
twinrun slo --csv | cut -d, -f1-5,12-15 | grep '^M1,'
twinrun shadow --share 1 --again --json | "$PYTHON" -c 'import json, sys; r = json.load(sys.stdin); print(r["schema"], r["drawn"], r["answered_before"], r["not_repeated_before"], [x["why"] for x in r["rows"]])'
twinrun shadow --share 110%
