# Factors of the user's own: a variable and an argument.
cat >factors.toml <<'END'
[[factor]]
id = "user:greeting"
layer = "environment"
title = "what is said"
env = {GREETING = "hello"}
vary_env = {GREETING = "bye"}

[[factor]]
id = "user:steps"
layer = "data"
title = "how many steps"
replace = ["--steps=9", "--steps=3"]
END
twinrun run -q -f factors.toml -p user:greeting,user:steps -- sh -c 'echo "$GREETING $1"' sh --steps=9
twinrun run -q -f factors.toml -p user:greeting=vary -- sh -c 'echo "$GREETING $1"' sh --steps=9
twinrun run -q -f factors.toml -p user:steps -- echo --steps=8 2>&1
echo 'colour = "red"' >>factors.toml
twinrun run -q -f factors.toml -- echo started 2>&1
