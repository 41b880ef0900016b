twinrun check -- sh -c 'kill -KILL $$'
