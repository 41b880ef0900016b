# Each node has a home of its own. The second comes as a folder, as an archive, and on stdin.
node() { # NODE RANK
    TWINRUN_HOME=$1 MASTER_ADDR=node0 MASTER_PORT=4000 RANK=$2 WORLD_SIZE=2 \
        twinrun record -q -- "$JOB" --steps 3 >"$1.out"
}
node node0 0
node node1 1
first=$(echo node0/runs/*)
second=$(echo node1/runs/*)
twinrun gather "$first" "$second" --into folders
tar -C node1 -cf node1.tar runs
twinrun gather "$first" node1.tar --into archive
tar -cf - "$second" | twinrun gather - "$first" --into pipe
twinrun gather "$first" "$second"
(cd folders && find . -type f | sed 's/[0-9]*\.twt/N.twt/; s|/\([0-9]\)\.[0-9]*$|/\1.N|; s|-[^/]*/|-HOST/|' | sort)
twinrun show folders | sed -n '/^traces/,/^processes/p'
twinrun diff folders archive | head -1
twinrun diff folders pipe | head -1
cmp folders/nodes/1-*/run.json "$second/run.json"
ls -A | grep gather
