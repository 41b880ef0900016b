# Trouble of ours never becomes the job's: it runs unwatched, with its own exit code.
: >file
TWINRUN_HOME=$PWD/file/home twinrun record -- sh -c 'echo ran; exit 5'
