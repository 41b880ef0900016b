# What cannot be signed or verified, and why.
K=$ROOT/tests/golden/keys
printf 'hello\n' >f
say() { echo "exit $?"; }
twinrun sign f; say
twinrun sign --key "$K/ana.key"; say
twinrun sign f --key "$K/ana.key.pub"; say
twinrun sign f --key none; say
twinrun sign none --key "$K/ana.key"; say
twinrun sign f --key f; say
twinrun sign f --key "$K/ana.key" --key "$K/ana.key"; say
twinrun sign f --key "$K/ana.key" >signed; say
twinrun sign f --key "$K/ana.key"; say
twinrun sign --add f.dsse.json --key "$K/ana.key"; say
twinrun sign --new-key f; say
twinrun sign --new-key new --type rsa; say
TWINRUN_KEY_PASSPHRASE=secret twinrun sign --new-key locked >made; say
twinrun sign f --key locked -o locked.json; say
TWINRUN_KEY_PASSPHRASE=guess twinrun sign f --key locked -o locked.json; say
TWINRUN_KEY_PASSPHRASE=secret twinrun sign f --key locked -o - >locked.json; say
twinrun verify locked.json --key locked.pub f >verified; say
twinrun verify f.dsse.json f; say
twinrun verify f.dsse.json --key "$K/ana.key.pub" --trust f f; say
twinrun verify f.dsse.json --key "$K/ana.key" f; say
twinrun verify f.dsse.json --key "$K/ana.key.pub" --at yesterday f; say
twinrun verify f.dsse.json --key "$K/bob.key.pub" f; say
twinrun verify --key "$K/ana.key.pub"; say
sed 's/,/, /' f.dsse.json >spaced.json
twinrun verify spaced.json --key "$K/ana.key.pub" f; say
twinrun verify spaced.json --foreign --key "$K/ana.key.pub" f; say
sed 's/"sig":"./"sig":"A/' f.dsse.json >wrong.json
twinrun verify wrong.json --key "$K/ana.key.pub" f; say
sed 's/"keyid":"./"keyid":"9/' f.dsse.json >id.json
twinrun verify id.json --key "$K/ana.key.pub" f; say
