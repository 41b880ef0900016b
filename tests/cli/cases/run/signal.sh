# 128 + the number of the signal.
twinrun run -q -- sh -c 'kill -TERM $$'
