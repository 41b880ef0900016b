twinrun verify
echo "exit $?"
twinrun verify missing.snapshot
echo "exit $?"
mkdir data
twinrun verify data
echo "exit $?"
echo "not this" >file
twinrun verify file
echo "exit $?"
twinrun snapshot data -o m >/dev/null
twinrun verify m
echo "exit $?"
head -c 100 m >torn.snapshot
twinrun verify torn.snapshot data
echo "exit $?"
