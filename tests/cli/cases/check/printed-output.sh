# The last resort: what the job printed.
twinrun check -- sh -c 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; echo "answer $n$n$n"'
