# Runs that differ and write the same file are told of --fresh-dir; with it the working folder stays
# as it was. Of runs that are the same nothing is said: what they read there changed nothing.
twinrun check -q --runs 2 -- "$JOB" --save-at 20 >said
grep -c 'every run wrote' said
counter=$(mktemp -u)
twinrun check -q --runs 2 -- "$JOB" --save-at 20 --runs-file "$counter" --part-at 5 >said
rm "$counter"
grep -o 'every run wrote weights' said
rm weights
twinrun check -q --runs 2 --fresh-dir -- "$JOB" --save-at 20 >said
grep -c 'every run wrote' said
ls
