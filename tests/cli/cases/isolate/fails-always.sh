# A job that never ends well: isolate shows, as check does, what it said last, and how to see more.
echo 'import sys; sys.exit("no data in /data")' >job.py
twinrun isolate -q -- "$PYTHON" job.py >said
echo "exit $?"
grep -vE '^page' said | sed 's/[0-9.]* s$/T s/'
