# What is readable is written, what is not is said. The second trace is no trace at all.
twinrun record -q -- "$JOB" --steps 3 >/dev/null
for trace in .twinrun/runs/*/ranks/*.twt; do :; done
head -c 1000 "$trace" >cut
cat cut >"$trace"
echo nonsense >"${trace%/*}/1.1.twt"
twinrun export last --parquet tables
