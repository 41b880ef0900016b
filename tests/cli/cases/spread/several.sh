# Several files: one gradient of each rank, element by element.
for r in 0 1 2; do "$PYTHON" "$CASES/spread/npy.py" grad-$r.npy f8 200 $r; done
twinrun spread grad-0.npy grad-1.npy grad-2.npy --orders 10
twinrun spread grad-0.npy grad-1.npy grad-2.npy --orders 10 --precision bf16 --json | "$PYTHON" -c "import json, sys; r = json.load(sys.stdin); print(r['schema'], r['outcome'], r['mode'], r['add_in'], r['ranks'], len(r['elementwise']['orders']))"
