# Output and exit code are the job's own; one line on stderr.
twinrun run -- sh -c 'echo out; echo err >&2; exit 3' 2>said
code=$?
grep -c . said
sed -n 's/^twinrun: pinned: .*; run in .*/one line of pins/p' said
exit $code
