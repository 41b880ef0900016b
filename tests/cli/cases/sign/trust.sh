# Two of three; keys that are replaced by others in time; a revoked one.
K=$ROOT/tests/golden/keys
cp "$K"/*.pub .
printf 'hello\n' >f
twinrun sign f --key "$K/ana.key" --key "$K/bob.key" >signed
cat >team.toml <<'END'
[[trust]]
need = 2
ana = {file = "ana.key.pub"}
bob = {file = "bob.key.pub"}
cho = {file = "cho.key.pub"}
END
twinrun verify f.dsse.json --trust team.toml f
cat >rotated.toml <<'END'
# bob's key follows ana's
[[trust]]
need = 1
ana = {file = "ana.key.pub", until = "2026-06-01"}
bob = {file = "bob.key.pub", from = "2026-06-01", until = "2200-01-01"}
END
twinrun verify f.dsse.json --trust rotated.toml f
twinrun verify f.dsse.json --trust rotated.toml --at 2026-05-31T23:59:59Z f
sed 's/, until = "2200-01-01"/, revoked = "laptop stolen"/' rotated.toml >lost.toml
twinrun verify f.dsse.json --trust lost.toml f
echo "exit $?"
sed 's/need = 1/need = 3/' rotated.toml >never.toml
twinrun verify f.dsse.json --trust never.toml f
