# A run that goes on is never deleted.
mkfifo go
twinrun record -q -- sh -c 'touch began; read -r line <go' &
until [ -e began ]; do sleep 0.05; done
twinrun ls | sed -n 's/.*\(running\).*/\1/p'
twinrun gc --keep 0
echo >go
wait
twinrun gc --keep 0
