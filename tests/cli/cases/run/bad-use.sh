# Refused before the job is started.
twinrun run -- 2>&1
echo "exit $?"
for list in hashseed threads=many noise match-order aslr=vary all,,clock; do
    twinrun run --pin "$list" -- touch started 2>&1
    echo "exit $?"
done
test -e started && echo "the job was started"
true
