# Constant values, one set without spread, too few, values that are no numbers: each is said, and no figure stands without an interval or its reason.
echo 5 5 5 5 5 > five
echo 5 5 5 5 6 > most
echo 7 7 7 7 7 > seven
echo 5 > one
echo 5 6 > two
echo '[1, NaN, 3]' > nan.json
echo '1 inf' > inf
for arguments in "five five" "five seven" "five most" "five seven --question speed" "five most --question variance" "most five --question variance" "five seven --question variance" "five five --within 5%" "five five --question bitwise" "five seven --within 5%" \
    "one two" "one two --within 5%" "one two --question variance" "one one --question bitwise" "one nan.json" "one inf"; do
    echo "== $arguments"; twinrun significant $arguments > said; echo "exit $?"
    grep -E '^[A-Z ]{11} |^needed|MAD = 0|^twinrun' said | sed 's/^ *//'
done
