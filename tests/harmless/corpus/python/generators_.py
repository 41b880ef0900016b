# SPDX-License-Identifier: Apache-2.0
"""Random streams: of the library, of numpy, of generators of one's own; before and after forks."""

import os
import random
import sys
import uuid

import numpy

sys.path.append(os.environ["CORPUS"])
import seen

random.seed(1)
numpy.random.seed(2)
own = numpy.random.default_rng(3)
print(random.random(), numpy.random.rand(), own.normal(), seen.generators())
sys.stdout.flush()
pid = os.fork()
if not pid:
    random.seed(5)  # the library seeds a child anew, from the system
    print("child", random.random(), numpy.random.rand(), seen.generators())
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
print(random.getrandbits(100), numpy.random.permutation(10), seen.generators())
print(uuid.uuid5(uuid.NAMESPACE_DNS, "name"), hash((1, 2.5)), len(os.urandom(8)))
print((own.normal(size=(100, 100)) @ own.normal(size=(100, 100))).sum().hex())
