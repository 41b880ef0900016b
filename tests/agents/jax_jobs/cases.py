"""One case a step: what may differ between two runs of a JAX job. `mutant` as argument: each does so.

Prints the name of each case, in order, and nothing that differs.
"""

import functools
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import twinrun

MUTANT = "mutant" in sys.argv
OTHER = 1.0 if MUTANT else 0.0
BASE = jnp.arange(4.0) + jnp.float32(0)
CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def leaf():
    jax.jit(lambda tree: tree["a"][1] * 2)({"a": (BASE, BASE + OTHER), "b": None})


@case
def unused_leaf():
    jax.jit(lambda x, unused: x)(BASE, BASE + OTHER)


@case
def constant_of_closure():
    held = np.arange(4.0, dtype=np.float32) * OTHER
    jax.jit(lambda x: x + held)(BASE)


@case
def number_of_closure():
    jax.jit(lambda x: x * (1.0 + OTHER))(BASE)


@case
def branch_that_changes_no_result():
    jax.jit(lambda x: x * 1.0 if MUTANT else x)(BASE)


@case
def static_argument():
    jax.jit(lambda x, n: x * n, static_argnums=1)(BASE, 3 if MUTANT else 2)


@case
def compiler_options():
    jax.jit(lambda x: x * 2, compiler_options={"xla_cpu_enable_fast_min_max": MUTANT})(BASE)


@case
def key():
    jax.jit(lambda k: jax.random.normal(k, (3,)))(jax.random.key(int(OTHER)))


@case
def old_key():
    jax.jit(lambda k: jax.random.normal(k, (3,)))(jax.random.PRNGKey(int(OTHER)))


class Model:
    def __init__(self, k):
        self.k = k

    @functools.partial(jax.jit, static_argnums=0)
    def forward(self, x):
        return x * self.k


@case
def method():
    Model(2.0 + OTHER).forward(BASE)


@case
def numpy_changed_in_place():
    double, x = jax.jit(lambda x: x * 2), np.zeros(4, np.float32)
    double(x)
    x[3] += OTHER
    double(x)


@case
def number():
    jax.jit(lambda x, n: x * n)(BASE, 1.0 + OTHER)


@case
def whole_number():
    jax.jit(lambda x, n: x * n)(BASE, 1 + int(OTHER))


@case
def donated():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = step(BASE + OTHER)
    assert not step(x).is_deleted() and x.is_deleted()


@case
def two_of_one_name():
    def make(n):
        @jax.jit
        def same(x):
            return x * n

        return same

    first, second = make(2.0), make(3.0)
    for function in (second, first) if MUTANT else (first, second):
        function(BASE)


@case
def callback():
    shape = jax.ShapeDtypeStruct((4,), jnp.float32)
    jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) + np.float32(OTHER), shape, x))(
        BASE
    )


@case
def hidden_in_scan():
    @jax.jit
    def inner(x):
        return x * (2.0 + OTHER)

    jax.jit(lambda x: jax.lax.scan(lambda c, _: (inner(c), c), x, None, length=3))(BASE)


@case
def scan_by_itself():
    jax.lax.scan(lambda c, x: (c * (1.0 + OTHER), c + x), jnp.float32(1), BASE)


@case
def gradient_of_jitted():
    jax.grad(jax.jit(lambda x: (x**2).sum() * (1 + OTHER)))(BASE)


@case
def vmap_of_jitted():
    jax.vmap(jax.jit(lambda x: x * (1 + OTHER)))(BASE)


@case
def pmap():
    jax.pmap(lambda x: x + OTHER)(jnp.ones((2, 3)))


@case
def sharded():
    mesh = jax.make_mesh((2,), ("x",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = np.arange(4.0, dtype=np.float32)
    x[3] += OTHER
    jax.jit(lambda x: x * 2)(jax.device_put(x, place))


@case
def shard_map():
    mesh = jax.make_mesh((2,), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    x = jax.device_put(BASE, jax.sharding.NamedSharding(mesh, spec))
    jax.jit(jax.shard_map(lambda x: x + OTHER, mesh=mesh, in_specs=spec, out_specs=spec))(x)


@case
def bfloat16():
    jax.jit(lambda x: x * 2)((BASE + OTHER).astype(jnp.bfloat16))


@case
def four_bits():
    jax.jit(lambda x: x)((BASE + OTHER).astype(jnp.int4))


@case
def ahead_of_time():
    jax.jit(lambda x: x * 2).lower(BASE).compile()(BASE + OTHER)


@case
def reference():
    held = jax.new_ref(BASE + OTHER)

    @jax.jit
    def add(ref):
        ref[...] = ref[...] * 2

    add(held)


@case
def in_a_thread():
    double = jax.jit(lambda x: x * 2)
    thread = threading.Thread(target=double, args=(BASE + OTHER,), name="doubling")
    thread.start()
    thread.join()


@case
def many_threads():
    """All call one function at once; each is known by its name."""
    double = jax.jit(lambda x: x * 2)
    threads = [
        threading.Thread(
            target=lambda i=i: [double(BASE * i + OTHER) for _ in range(20)], name="t%d" % i
        )
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


for function in CASES:
    function()
    twinrun.step()
    print(function.__name__)
