# Each is refused with what was expected.
echo "1 2 3" > a
echo "1 two 3" > b
echo "-1 2 3" > minus
echo '{"x": 1}' > object.json
echo '[1, "2"]' > text.json
printf '1 nan' > nan
: > empty
printf 'x,y\n1,2\n3\n' > short.csv
for arguments in "a" "a b" "a nan" "a empty" "a nosuch" "a object.json" "a text.json" "a short.csv:y" "a short.csv:z" "a minus --question speed" "a a --question guess" "a a --question within" \
    "a a --within 0" "a a --floor -1" "a a --floor 5%" "a a --question speed --floor 1" "a a --alpha 0.7" "a a --metric wall" "a a --metric printed:x" "a a --metric printed:((" "a a --metric guess" "a a --within 5 --floor 1"; do
    twinrun significant $arguments; echo "exit $?"
done
