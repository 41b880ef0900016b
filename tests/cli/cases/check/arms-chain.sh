# An arm of two trainers, one behind the other: each is compared from where its first weights stand in A.
twinrun check -q --fresh-dir --a "$JOB --steps 20" --b "$JOB --steps 8 --save-at 8 >/dev/null && $JOB --steps 20 --from 8" >out
code=$?
grep -v '^note\|^ ' out
echo "exit $code"
