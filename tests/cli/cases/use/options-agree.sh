# Help, man page and both completions show the same options, and the parser takes each of them.
exec "$PYTHON" "$CASES/../options_agree.py"
