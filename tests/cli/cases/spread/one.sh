# One file: one sum, in random orders and in those of workers.
"$PYTHON" "$CASES/spread/npy.py" grad.npy f4 5000 1
twinrun spread grad.npy --ranks 6 --orders 20
