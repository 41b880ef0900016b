twinrun record -q -- "$JOB" --steps 3
twinrun export last --parquet tables
twinrun export last --parquet tables
echo "exit $?"
twinrun export last --parquet tables --force
ls tables
