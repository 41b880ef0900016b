# The incident document of two runs that parted; what only people know stays open.
twinrun check -q -- "$JOB" --steps 12 --noise-at 7 >/dev/null
twinrun report --postmortem last~1 last | sed -e 's/x[0-9.]* per step/xN per step/' -e 's/| host |.*/| host |/' -e 's/^twinrun diff\(.*\) [0-9a-f]* [0-9a-f]*$/twinrun diff\1 A B/' | grep -v '^- WHEN\|^- 20'
twinrun report --postmortem last
echo "exit $?"
