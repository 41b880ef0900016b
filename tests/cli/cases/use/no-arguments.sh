# Nothing asked: the help goes to stderr, since nothing was answered.
twinrun
