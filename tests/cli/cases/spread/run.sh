# A run stands for the file of tensors that it wrote, as long as that is still the same.
"$PYTHON" "$CASES/spread/npy.py" made f4 100 1
twinrun record -q -- cp made grad.npy
twinrun spread last --orders 5 | head -1 | sed 's,^.*/,,'
twinrun record -q -- sh -c 'cp made a.npy; cp made b.npy'
twinrun spread last; echo "exit $?"
twinrun record -q -- true
twinrun spread last; echo "exit $?"
twinrun record -q -- cp made later.npy
echo more >> later.npy
twinrun spread last; echo "exit $?"
