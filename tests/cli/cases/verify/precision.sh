# A precision policy held against a run: kept, broken with the first step, unknown where nothing was seen; bad policies are refused with line and key.
twinrun record -q -- "$JOB" --steps 3 > /dev/null
rule() { printf '[[precision]]\n%s\n' "$1"; }
rule 'dtypes = ["f32", "bf16"]' > kept.toml
{ rule 'pattern = "optimizer/weight/*"
dtypes = "bf16"
reason = "half the memory"'; rule 'dtypes = "f32"'; } > broken.toml
{ rule 'dtypes = "f32"'; rule 'pattern = "forward/activation/*"
dtypes = "bf16"'; rule 'tf32 = "off"'; rule 'autocast = "off"'; rule 'grad_scaler = "required"'; } > unknown.toml
for policy in kept broken unknown; do twinrun verify last --precision $policy.toml | grep -v '^run '; done
twinrun verify last --precision kept.toml > /dev/null; echo "exit $?"
twinrun verify last --precision broken.toml --json > found; echo "exit $?"
twinrun verify last --precision unknown.toml > /dev/null; echo "exit $?"
"$PYTHON" -c "
import json
j = json.load(open('found'))
print(j['schema'], j['kind'], j['outcome'], [(r['line'], r['outcome'], r['judged']) for r in j['rules']], j['rules'][0]['breaches'])"
bad() { printf '%b' "$1" > bad.toml; twinrun verify last --precision bad.toml; echo "exit $?"; }
bad ''
bad '[[precision]]\n'
bad '[[precision]]\ndtype = "f32"\n'
bad '[[precision]]\ndtypes = "float32"\n'
bad '[[precision]]\ndtypes = []\n'
bad '[[precision]]\ntf32 = false\n'
bad '[[precision]]\ntf32 = "no"\n'
bad '[[precision]]\ntf32 = ["off"]\n'
bad '[[precision]]\ntf32 = "off"\ndtypes = "f32"\n'
bad '[[precision]]\ntf32 = "off"\npattern = "*"\n'
bad '[[rules]]\n'
twinrun verify last --precision nowhere.toml; echo "exit $?"
twinrun verify last more --precision kept.toml; echo "exit $?"
twinrun verify nothing --precision kept.toml; echo "exit $?"
