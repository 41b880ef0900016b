# Trouble of ours never becomes the job's.
: >file
TWINRUN_HOME=$PWD/file/home twinrun run -q -- sh -c 'echo ran; exit 5'
