# Ranks that a launcher is told to start are a knob by themselves.
mkdir bin
cat >bin/torchrun <<'END'
#!/bin/sh
n=${1#*=}
shift
for rank in $(seq 0 $((n - 1))); do RANK=$rank WORLD_SIZE=$n LOCAL_RANK=$rank "$@" & done
wait
END
chmod +x bin/torchrun
PATH=$PWD/bin:$PATH twinrun shrink -q -- torchrun --nproc-per-node=3 "$JOB" --steps 12 --noise-at 2 >said
echo "exit $?"
grep -E '^(steps|ranks|command)' said
