# Two arms that differ; A is run once more and repeats itself.
twinrun check --a "$JOB --steps 20" --b "echo 1 >runs; $JOB --steps 20 --runs-file runs --part-at 12"
