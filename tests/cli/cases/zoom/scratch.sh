# A scratch copy is used up by its run: zoom does not take what is left of it for the job's folder.
twinrun check -q --fresh-dir --no-zoom --runs 2 -- "$JOB" --noise-at 5 >/dev/null
twinrun zoom -q last~1 last | sed -n '1p;/no zoom/p'
twinrun zoom -q --fresh-dir last~1 last
echo 1 >runs
twinrun zoom -q --fresh-dir --window 4:5 -- "$JOB" --runs-file runs --steps 8 | head -n 1
cat runs
