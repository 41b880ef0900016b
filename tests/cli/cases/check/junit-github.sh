# The other forms of a verdict; the text stays as it is.
twinrun check -q --junit verdict.xml --github -- "$JOB" --runs-file runs --part-at 5 >said
echo "exit $?"
grep '^::' said | cut -c1-40
"$PYTHON" -c '
import xml.dom.minidom
d = xml.dom.minidom.parse("verdict.xml")
print(d.documentElement.tagName, len(d.getElementsByTagName("failure")))'
