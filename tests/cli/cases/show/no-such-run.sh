twinrun show last
echo "exit $?"
twinrun show nothing-like-it
echo "exit $?"
twinrun show /
