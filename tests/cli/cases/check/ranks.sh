# One command with several numbers of ranks: its twin, mutants, and what is said of each.
cat >launch <<'END'
#!/bin/sh
# launch N LAST COMMAND...: starts the command as ranks 0 to LAST - 1 of N
n=$1 last=$2 r=0 pids=
shift 2
while [ $r -lt $last ]; do
    RANK=$r WORLD_SIZE=$n "$@" >/dev/null &
    pids="$pids $!" r=$((r + 1))
done
for p in $pids; do wait $p || exit 1; done
END
chmod +x launch
# a sentence is one line, however long its figures are
said() { grep -v '^        at  ' | sed -z 's/\n \{8\}\([^ ]\)/ \1/g' | grep -v -E '^(watcher|next)'; }
check() { twinrun check -q --no-telemetry "$@" | said; }

echo "## the twin"
check --ranks 2,4 -- ./launch {ranks} {ranks} $JOB --steps 4
echo "## the twin, two runs each, and one rank alone"
check --ranks 1,2 --runs 2 -- sh -c "./launch {ranks} {ranks} $JOB --steps 4"

echo "## the result depends on the number of ranks"
check --ranks 2,4 -- ./launch {ranks} {ranks} $JOB --steps 4 --ranks-at 2
cat >policy.toml <<'END'
[[tolerance]]
pattern = "*"
rel_l2 = 1e-3
reason = "sums of other parts"
END
echo "## that, within a tolerance"
check --ranks 2,4 --runs 2 --tolerance policy.toml -- ./launch {ranks} {ranks} $JOB --steps 4 --ranks-at 2 | sed 's/uses [0-9.e-]* of/uses N of/'
sed -i 's/1e-3/1e-12/' policy.toml
echo "## and outside of it"
check --ranks 2,4 --runs 1 --tolerance policy.toml -- ./launch {ranks} {ranks} $JOB --steps 4 --ranks-at 2 | sed -n '/^note/!p; s/.*\(outside the tolerance: .*L2\) [^,]*\(, .*1e-12\).*/\1 N\2/p' | grep -E '^DIFFER|outside|exceeded'

echo "## runs with one number do not repeat themselves: no tolerance is for that"
sed -i 's/1e-12/1e3/' policy.toml
check --ranks 2,4 --runs 2 --all --tolerance policy.toml -- ./launch {ranks} {ranks} $JOB --steps 4 --noise-at 2 | sed -n 's/about [0-9.e-]*/about N/; /^DIFFER\|^first\|^role\|^allowed/p; s/.*\(outside the tolerance: .*differ\).*/\1/p'
check --ranks 2,4 -- ./launch {ranks} {ranks} $JOB --steps 4 --noise-at 2 | sed -n 's/about [0-9.e-]*/about N/; /^DIFFER\|^first/p; s/.*\(the job with.*repeatable\).*/\1/p'

echo "## a rank of the smaller run is missing, which the larger one has"
check --ranks 2,4 -- sh -c './launch {ranks} $((3 * {ranks} / 2 - 2)) '"$JOB --steps 4" | grep -E '^[A-Z]|^unseen|rank 1'
echo "## the command has as many ranks whatever is asked for"
check --ranks 2,4 -- ./launch 2 2 $JOB --steps {ranks} | grep -E '^[A-Z]|asked'
check --ranks 1,2 -- ./launch 2 2 sh -c "$JOB --steps 4 # {ranks}" | grep -E '^[A-Z]|asked'
