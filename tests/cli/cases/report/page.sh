# Pages of a check, a diff and of recorded runs. What a browser makes of them: tests/agents/test_page.py.
twinrun check -q --html check.html -- "$JOB" --steps 12 --noise-at 7 >/dev/null
echo "exit $?"
twinrun diff --html diff.html last~1 last >/dev/null
echo "exit $?"
twinrun report --html report.html last~1 last
echo "exit $?"
for page in check diff report; do
    tr '\n' ' ' <$page.html | grep -o '<div class="word.*</h1>'
    grep -o '<h2>[^<]*</h2>' $page.html | grep -v 'How long' | tr '\n' ' '
    echo
done
# One run is shown as it is.
twinrun report --html one.html last
tr '\n' ' ' <one.html | grep -o '<div class="word.*</h1>'
# Into a folder: the comparison and a page of each run, which lead to each other.
mkdir pages
twinrun report --html pages last~1 last
ls pages
for page in index run-1 run-2; do
    grep -o '<nav.*</nav>' pages/$page.html
    grep -o '<tr><td class="n">.*</a></td>\|<tr><td class="n">[0-9]*</td>' pages/$page.html
done
twinrun lab --html pages -- "$JOB"
echo "exit $?"
# Nothing is fetched from anywhere.
grep -c '://' report.html
# Found out before the first run.
twinrun check -q --html no/such/folder/x.html -- "$JOB"
echo "exit $?"
twinrun diff --html no/such/folder/x.html last~1 last
echo "exit $?"
twinrun report --html x.html --postmortem last~1 last
echo "exit $?"
twinrun report --html x.html --json last
echo "exit $?"
twinrun report --postmortem last
echo "exit $?"
# A page is handed around: no secret of the command line is in it.
twinrun check -q --html secret.html -- "$JOB" --steps 2 --token hunter2secretvalue >/dev/null 2>&1
grep -c 'hunter2' secret.html
grep -o 'token.\{0,14\}' secret.html | head -1
