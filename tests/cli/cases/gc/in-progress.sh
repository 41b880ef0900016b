# A run that goes on is never deleted.
twinrun record -q -- sleep 3 &
sleep 1
twinrun ls | sed -n 's/.*\(running\).*/\1/p'
twinrun gc --keep 0
wait
twinrun gc --keep 0
