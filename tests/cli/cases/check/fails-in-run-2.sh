# A failure in one run only is a finding, with where its records stopped.
twinrun check -- "$JOB" --runs-file runs --die-at 7 --die-run 2
echo "--- what it said is made safe once"
cat >fails.sh <<'END'
[ -e there ] && printf 'no such file: C:\\data \033[31m\377\n' >&2 && exit 3
: >there
END
twinrun check -q -- sh fails.sh | grep 'last line'
