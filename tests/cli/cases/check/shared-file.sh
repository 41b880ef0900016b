# Runs that write the same file are told of --fresh-dir; with it the working folder stays as it was.
twinrun check -q --runs 2 -- "$JOB" --save-at 20 >said
grep -o 'every run wrote weights' said
rm weights
twinrun check -q --runs 2 --fresh-dir -- "$JOB" --save-at 20 >said
grep -c 'every run wrote' said
ls
