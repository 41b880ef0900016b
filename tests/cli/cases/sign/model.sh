# A model's signature, ours and that of the client model_signing.
K=$ROOT/tests/golden/keys
cp -r "$ROOT/tests/golden/model" model
twinrun verify "$ROOT/tests/golden/bundle/model-signing-1.1.1.sig" --key "$K/ecdsa.key.pub" model
twinrun sign --model model --key "$K/ecdsa.key" >signed
twinrun verify model.sig --key "$K/ecdsa.key.pub" model
printf 'x' >model/more
printf 'y' >model/config.json
twinrun verify model.sig --key "$K/ecdsa.key.pub" model
echo "exit $?"
twinrun sign --model model --key "$K/ana.key"
echo "exit $?"
ln -s more model/link
twinrun sign --model model --key "$K/ecdsa.key" -o other.sig
