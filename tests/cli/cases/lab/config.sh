# A job with a configuration file: its hash, the checklist for CI, and the files that the hash was tried on.
printf 'lr: 0.1\nlayers: [8, 4]\nname: "x"   # a comment\n' >train.yaml
twinrun lab --quiet --step config -- "$BUILD/tests/cli/wanderer" --weights w.npy --config train.yaml | sed 's/for [3-6] areas/for N areas/' | grep -E '^   (hash|same|changed|PASS|FAIL)|yourself'
"$PYTHON" -c '
import json
areas = json.load(open(".twinrun/labs/1/checklist.json"))
print([a["name"] for a in areas], all(a["pass"] == (not a["missing"]) for a in areas))'
twinrun digest --config train.yaml .twinrun/labs/1/config-reordered.json | tail -1
# As wide as the terminal, but for commands, which are there to be copied.
COLUMNS=60 twinrun lab --quiet --step config -- "$BUILD/tests/cli/wanderer" --weights w.npy >narrow
grep -c 'run again with' narrow
grep -v 'command\|yourself' narrow | grep '.\{61\}' || echo 'no line is longer'
