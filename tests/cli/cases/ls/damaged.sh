# One bad folder hides none of the others.
twinrun record -q -- sh -c 'exit 0'
mkdir .twinrun/runs/2020-01-01T00-00-00Z-run-00000000
echo '{"schema":"twinrun.run/9"}' >.twinrun/runs/2020-01-01T00-00-00Z-run-00000000/run.json
twinrun ls
