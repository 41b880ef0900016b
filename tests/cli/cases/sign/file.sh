# A file is signed by two people; one of a third is unknown; a replaced file and another one are not what was signed.
K=$ROOT/tests/golden/keys
printf 'hello\n' >model.pt
twinrun sign model.pt --key "$K/ana.key" --key "$K/bob.key"
cat model.pt.dsse.json
twinrun verify model.pt.dsse.json --key "$K/ana.key.pub" model.pt
twinrun sign --add model.pt.dsse.json --key "$K/cho.key"
twinrun verify model.pt.dsse.json --key "$K/bob.key.pub" --key "$K/cho.key.pub" model.pt
mv model.pt renamed.pt
twinrun verify model.pt.dsse.json --key "$K/ana.key.pub" renamed.pt
printf 'other\n' >model.pt
twinrun verify model.pt.dsse.json --key "$K/ana.key.pub" model.pt
echo "exit $?"
twinrun verify model.pt.dsse.json --key "$K/ana.key.pub"
echo "exit $?"
twinrun verify model.pt.dsse.json --key "$K/ana.key.pub" --json model.pt
