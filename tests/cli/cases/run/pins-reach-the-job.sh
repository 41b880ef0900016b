# What is pinned arrives; the natural job has none of it.
cat >job.sh <<'END'
echo "threads ${OMP_NUM_THREADS:-unset}, salt ${PYTHONHASHSEED:-unset}, processors $(nproc)"
END
unset OMP_NUM_THREADS PYTHONHASHSEED
twinrun record -q -- sh job.sh | sed 's/processors .*/processors as ever/'
twinrun run -q --pin hash-seed=5,threads=3 -- sh job.sh | sed 's/processors .*/processors as ever/'
twinrun run -q --pin affinity -- sh job.sh
