PATH=$(dirname "$(command -v twinrun)") twinrun check -- no-such-program --flag
