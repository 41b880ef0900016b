# Wrong use is named; nothing is simulated.
for arguments in "--ranks 0" "--ranks 65537" "--algorithm rings" "--type i8" "--jitter soon" "--jitter normal:1us" "--alpha 5" "--beta fast" "--placement there" "--draw cards" \
    "--tensor w" "--data nosuch.npy --alpha 0 --beta 0" "extra" "--trials 1"; do
    twinrun simulate $arguments; echo "exit $?"
done
twinrun simulate --type i8 --json 2>/dev/null; echo "exit $?"
