# A flipped byte is found.
twinrun record -q -- "$JOB" --steps 50
twinrun show last --verify >/dev/null && echo intact
trace=$(echo .twinrun/runs/*/ranks/*.twt)
"$PYTHON" - "$trace" <<'END'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[len(data) // 2] ^= 1
open(sys.argv[1], "wb").write(data)
END
twinrun show last --verify >said
echo "exit $?"
grep -c intact said
