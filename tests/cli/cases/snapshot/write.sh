mkdir -p data/sub data/empty
echo a >data/a.txt
echo b >data/sub/b
ln -s ../a.txt data/sub/link
twinrun snapshot data
cat data.snapshot
(cd data && sha256sum -c --strict ../data.snapshot)
echo c >>data/a.txt
rm data/sub/b
touch data/new
twinrun snapshot data
echo "exit $?"
