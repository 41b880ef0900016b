# 128 + the number of the signal.
twinrun record -q -- sh -c 'kill -TERM $$'
