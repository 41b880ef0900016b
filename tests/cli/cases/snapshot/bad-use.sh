mkdir data
mkfifo data/pipe
twinrun snapshot
echo "exit $?"
twinrun snapshot missing
echo "exit $?"
twinrun snapshot data
echo "exit $?"
echo precious >data.snapshot
twinrun snapshot data -x pipe
echo "exit $?"
cat data.snapshot
