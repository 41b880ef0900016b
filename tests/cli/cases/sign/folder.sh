# Each file of a folder, and that there are no others. The envelope may lie in it.
K=$ROOT/tests/golden/keys
mkdir -p data/sub
printf 'a' >data/a
printf 'b' >data/sub/b
twinrun sign data/ --key "$K/ana.key" -o data/signed.json
twinrun verify data/signed.json --key "$K/ana.key.pub" data
printf 'x' >>data/a
rm data/sub/b
printf 'n' >data/new
twinrun verify data/signed.json --key "$K/ana.key.pub" data
echo "exit $?"
ln -s a data/link
twinrun verify data/signed.json --key "$K/ana.key.pub" data
echo "exit $?"
mkdir empty
twinrun sign empty --key "$K/ana.key"
