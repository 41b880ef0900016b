twinrun diff last
echo "exit $?"
twinrun diff last last~1
echo "exit $?"
twinrun diff --bisect /nowhere /nowhere
