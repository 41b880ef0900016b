# docs/factors.md shows the table that the program has.
twinrun factors --json | "$PYTHON" "$ROOT/tools/factor_table.py" --check && echo the same
