# A failure in one run only is a finding, with where its records stopped.
twinrun check -- "$JOB" --runs-file runs --die-at 7 --die-run 2
