# SPDX-License-Identifier: Apache-2.0
"""Signal handlers, a wake-up descriptor, timers, masks of threads, faulthandler."""

import faulthandler
import os
import signal
import socket
import sys
import time

sys.path.append(os.environ["CORPUS"])
import seen

got = []
signal.signal(signal.SIGUSR1, lambda s, f: got.append((s, f.f_code.co_name)))
a, b = socket.socketpair()
a.setblocking(False)
signal.set_wakeup_fd(a.fileno())
os.kill(os.getpid(), signal.SIGUSR1)
print(got, b.recv(10), a.fileno(), b.fileno())
signal.set_wakeup_fd(-1)
signal.signal(signal.SIGALRM, lambda *_: got.append("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(0.2)
print(got[1:])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
print(signal.sigpending(), signal.sigwait([signal.SIGUSR2]))
faulthandler.register(signal.SIGHUP, chain=False)
sys.stdout.flush()
seen.look("end")
try:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
signal.signal(signal.SIGTERM, signal.SIG_DFL)
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGTERM)
