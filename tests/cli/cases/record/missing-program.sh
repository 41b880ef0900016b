PATH=$(dirname "$(command -v twinrun)") twinrun record -q -- no-such-program
