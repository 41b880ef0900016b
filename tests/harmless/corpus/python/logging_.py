# SPDX-License-Identifier: Apache-2.0
"""Logging to a file and both streams, a progress bar, locale, text in many alphabets."""

import locale
import logging
import sys

logging.basicConfig(
    level=logging.DEBUG,
    format="%(levelname)s %(name)s %(funcName)s %(lineno)d %(message)s",
    handlers=[
        logging.FileHandler("job.log"),
        logging.StreamHandler(),
        logging.StreamHandler(sys.stdout),
    ],
)
log = logging.getLogger("job")
for step in range(20):
    log.info("step %d", step)
    print("\r%3d%%" % (step * 5), end="", file=sys.stderr, flush=step % 7 == 0)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
logging.captureWarnings(True)
import warnings

warnings.warn("captured")
print(
    locale.setlocale(locale.LC_ALL, ""),
    "äöü 漢字 \u202e \ud800".encode("utf-8", "surrogateescape" if False else "replace"),
)
print("no newline", end="")
