# The page of two runs says in what their worlds differ, and that this is no cause by itself; names
# and places do not count. Of a run without a record of its world nothing is said.
twinrun record -q -- "$JOB" --steps 3 >/dev/null
OMP_NUM_THREADS='7</td><b>' twinrun record -q -- "$JOB" --steps 3 >/dev/null
cat > text.py <<'EOF'
import html, re, sys
page = open(sys.argv[1]).read()
part = page[page.index("Were they made in the same world?"):]
part = part[:part.index("<details")]
for row in re.findall(r"<tr>(.*?)</tr>|<p class=\"?soft\"?>(.*?)</p>", part, re.S):
    said = [html.unescape(re.sub(r"<[^>]*>", "", c)) for c in re.split(r"</t[dh]>", row[0] or row[1])]
    said = " | ".join(c.strip() for c in said if c.strip())
    if sys.argv[2] in said:
        print(re.sub(r"\d+ differ", "N differ", said))
EOF
twinrun diff --html worlds.html last~1 last >/dev/null
grep -c "<b>" worlds.html
for what in OMP_NUM_THREADS "the cause" Names; do "$PYTHON" text.py worlds.html "$what"; done
twinrun diff --html self.html last last >/dev/null
"$PYTHON" text.py self.html ""
rm .twinrun/runs/*/provenance.json
twinrun diff --html none.html last~1 last >/dev/null
"$PYTHON" text.py none.html ""
