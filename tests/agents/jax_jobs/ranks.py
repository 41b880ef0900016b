"""Two processes that train one model together over jax.distributed, and say themselves which ranks
they are: no variable of the environment does.

`other`: rank 1 has another batch in step 2. Without a rank as its first word it starts the two. It
holds their port until they have ended: gRPC shares a port with another socket of the same user that
allows it, and nobody else gets it.
"""

import os
import socket
import subprocess
import sys

STEP = 2


def launch(words):
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        place = "127.0.0.1:%d" % held.getsockname()[1]
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "%d" % rank, place, *words],
                stdout=subprocess.DEVNULL,  # gloo's lines come in any order, or in each other
                stderr=subprocess.PIPE,
            )
            for rank in range(2)
        ]
        told = [process.communicate()[1] for process in ranks]
    if any(process.returncode for process in ranks):
        sys.exit(b"\n".join(told).decode("utf-8", "replace"))


def train(rank, place, words):
    import jax
    import jax.numpy as jnp
    import numpy as np
    import twinrun

    if rank == 1:  # a record before the rank is known
        twinrun.record("start", np.ones(2, np.float32))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        place,
        num_processes=2,
        process_id=rank,
        coordinator_bind_address=place,
        initialization_timeout=60,
    )
    assert (jax.process_index(), jax.device_count()) == (rank, 2)
    mesh = jax.make_mesh((2,), ("x",))
    cut, everywhere = (
        jax.sharding.NamedSharding(mesh, spec)
        for spec in (jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec())
    )

    @jax.jit
    def train_step(w, x):
        return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

    w = jax.device_put(np.ones(3, np.float32), everywhere)
    for step in range(4):
        part = np.random.default_rng(10 * step + rank).standard_normal((4, 3), dtype=np.float32)
        if "other" in words and rank == 1 and step == STEP:
            part[0, 0] += 1
        w = train_step(w, jax.make_array_from_process_local_data(cut, part))
    assert np.isfinite(np.asarray(w.addressable_data(0))).all()


if sys.argv[1:2] in (["0"], ["1"]):
    train(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
else:
    assert not any(name in os.environ for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"))
    launch(sys.argv[1:])
