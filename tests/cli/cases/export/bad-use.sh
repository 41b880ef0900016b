twinrun export
twinrun export last
twinrun export last --parquet tables
echo >tables
twinrun record -q -- "$JOB" --steps 1 >/dev/null
twinrun export last --parquet tables
