# Run 1 fails, run 2 does not: a finding all the same.
twinrun check -q -- "$JOB" --runs-file runs --die-at 3 --die-run 1 | sed -n '1p;/^first/,/in step/p'
