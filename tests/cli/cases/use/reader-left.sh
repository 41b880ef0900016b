# A reader that has what it wants hears no complaint, whether SIGPIPE ends us or is ignored, as it
# is below some services. The exit code is not that of an answer that was read. A reader that is
# gone before the first byte: the fifo is closed when twinrun begins.
mkfifo pipe
left() { # a command whose stdout nobody reads
    "$PYTHON" - "$@" <<'EOF'
import os, signal, subprocess, sys
ignore = sys.argv[1] == "ignored"
def begin():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignore else signal.SIG_DFL)
reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
writer = os.open("pipe", os.O_WRONLY)
os.close(reader)
done = subprocess.run(sys.argv[2:], stdout=writer, preexec_fn=begin, restore_signals=False)
print(sys.argv[1], done.returncode)
EOF
}
left ignored twinrun factors
left kept twinrun factors
left ignored twinrun ls --json
