# An unobserved run prints and writes the same.
twinrun check --runs 2 --control -- "$JOB" --save-at 20 | grep -o 'control: .* bytes as run 1'
