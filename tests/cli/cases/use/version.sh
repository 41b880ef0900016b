twinrun --version | grep -Eq '^twinrun [0-9]+\.[0-9]+\.[0-9]+$'
