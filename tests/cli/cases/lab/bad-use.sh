twinrun lab --step noise,noises
echo "exit $?"
twinrun lab --torch -- true
echo "exit $?"
twinrun lab --runs 1
echo "exit $?"
twinrun lab --pin no-such-thing -- true
echo "exit $?"
twinrun lab --home /proc/nowhere -- true
echo "exit $?"
twinrun lab --json --pin no-such-thing -- true
echo "exit $?"
twinrun lab --torch --python /bin/false
echo "exit $?"
