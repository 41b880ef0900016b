# What cannot be added up is said, and why.
"$PYTHON" "$CASES/spread/npy.py" good.npy f4 10 1
"$PYTHON" "$CASES/spread/npy.py" longer.npy f4 11 1
"$PYTHON" "$CASES/spread/npy.py" nan.npy f4 10 1 nan
"$PYTHON" "$CASES/spread/npy.py" large.npy f8 10 1 1e39
printf 'no tensors here' > text.pt
head -c 150 good.npy > cut.npy
for arguments in "" "nosuch.npy" "." "nan.npy" "large.npy --precision bf16" "large.npy --add-in f32" "text.pt" "cut.npy" "good.npy longer.npy" "good.npy good.npy --ranks 3" \
    "good.npy --tensor w" "good.npy --precision fp8" "good.npy --add-in i8" "good.npy --orders 1" "good.npy --ranks 0"; do
    twinrun spread $arguments; echo "exit $?"
done
twinrun spread nan.npy --json 2>/dev/null; echo "exit $?"
