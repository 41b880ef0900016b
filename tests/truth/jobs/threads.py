"""Two threads record at once, each in a scope of its own; the main thread ends the steps."""

import array
import threading

import twinrun


def work(k, step):
    with twinrun.scope("worker%d" % k):
        for i in range(3):
            twinrun.record("batch:x", array.array("d", [step, k, i]))
            twinrun.record("activation:y", array.array("d", [step * k + i]))


for step in range(5):
    threads = [threading.Thread(target=work, args=(k, step)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    twinrun.record("weight:w", array.array("d", [step * 0.5]))
    twinrun.step()
