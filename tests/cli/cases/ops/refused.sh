# What cannot be measured is said, and why; with --json it is an object, too.
twinrun ops --device gpu; echo "exit $?"
for list in 0 1,1 1, a 2000; do twinrun ops --threads "$list" 2>/dev/null; echo "exit $?"; done
twinrun ops --python /nonexistent/python; echo "exit $?"
twinrun ops --python /bin/true 2>&1 | cut -d'(' -f1
"$PYTHON" -m venv --without-pip bare
twinrun ops --python bare/bin/python; echo "exit $?"
twinrun ops --python bare/bin/python --json 2>/dev/null | "$PYTHON" -c "import json, sys; r = json.load(sys.stdin); print(r['schema'], r['outcome'], r['devices'], 'torch' in r['message'])"
twinrun ops --python bare/bin/python --op nosuch 2>&1 | cut -d';' -f1
