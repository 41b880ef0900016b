# An answer that could not be written must not look like one that was.
[ -w /dev/full ] || { echo "no /dev/full"; exit 77; }
twinrun help >/dev/full
