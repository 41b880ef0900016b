# Each is refused with what was expected.
echo '{"schema": "twinrun.scale/1", "counts": [2, 1]}' > order.json
echo '{"schema": "twinrun.check/1"}' > other.json
echo '{"schema": ' > torn.json
for arguments in "" "-- true" "-c 0 -- true {n}" "-c 2,2 -- true {n}" "-c 1,x -- true {n}" "-r 0 -- true {n}" "-w 0 -- true {n}" "-w 2*x -- true {n}" "-w 2, -- true {n}" "-w 2,a/b -- true {n}" \
    "-w 2 --work-per-run 3 -- true {n}" "--price -1 -- true {n}" "--from nowhere.json" "--from order.json" "--from other.json" "--from torn.json" "--from order.json -- true {n}" "--from order.json --resume"; do
    twinrun scale $arguments; echo "exit $?"
done
