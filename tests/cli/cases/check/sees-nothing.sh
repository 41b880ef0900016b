# Nothing was captured: inconclusive, never same.
twinrun check -- sh -c 'echo hello'
