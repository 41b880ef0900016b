# What is no run folder stays.
twinrun record -q -- sh -c 'exit 0'
mkdir .twinrun/runs/precious
echo thesis >.twinrun/runs/precious/text
twinrun gc --keep 0
cat .twinrun/runs/precious/text
