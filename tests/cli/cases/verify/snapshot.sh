mkdir -p data/sub
echo a >data/a.txt
echo b >data/sub/b
twinrun snapshot data >/dev/null
twinrun verify data.snapshot
echo "exit $?"
cp -r data copy
echo c >copy/a.txt
rm copy/sub/b
touch "copy/$(printf 'new\nline')"
chmod 600 data/a.txt
twinrun verify data.snapshot copy
echo "exit $?"
twinrun verify data.snapshot --json
