"""What a job can notice of JAX: prints it. With and without twinrun the same must come."""

import functools
import gc
import hashlib
import pickle
import sys
import traceback
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import optax

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_a, **_k: compiled.append(name) if "backend_compile" in name else None
)


def loss(params, x):
    return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"]) ** 2)


traced = []
optimizer = optax.adam(1e-2)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, state, x):
    """Its words."""
    traced.append(1)
    gradients = jax.grad(loss)(params, x)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(params, updates), state


key = jax.random.key(3)
params = {"w": jax.random.normal(key, (16, 32)), "v": jax.random.normal(key, (32, 1))}
state = optimizer.init(params)
x = np.random.default_rng(0).standard_normal((64, 16), dtype=np.float32)
for _ in range(4):
    given = params
    params, state = train_step(params, state, x)
    print(given["w"].is_deleted())
print(hashlib.sha256(b"".join(np.asarray(v).tobytes() for v in params.values())).hexdigest())
print(len(traced), len(compiled), train_step._cache_size())
print(type(train_step), train_step.__name__, train_step.__doc__, train_step.__wrapped__.__name__)
print(isinstance(train_step, jax.stages.Wrapped), callable(train_step), dir(train_step))
try:
    pickle.dumps(train_step)
except pickle.PicklingError:
    print("JAX does not pickle what a decorator has replaced")
print(
    train_step.lower(params, state, x).as_text()[:40],
    train_step.trace(params, state, x).jaxpr.in_avals,
)
print(
    train_step.eval_shape(params, state, x)[0]["w"].shape, weakref.ref(train_step)() is train_step
)
train_step.clear_cache()
params, state = train_step(params, state, x)
print(len(traced), train_step._cache_size())


class Model:
    @jax.jit
    def forward(x):
        return x * 2

    @functools.partial(jax.jit, static_argnums=0)
    def method(self, x, *, n=1):
        return x * n


model = Model()
print(Model.forward(x).sum(), model.method(x, n=2).sum(), type(model.method))
print(type(Model.__dict__["method"]), model.method.__func__ is Model.__dict__["method"])
print(functools.wraps(train_step)(lambda: 0).__dict__.keys())

# who holds results and arguments when the call is over
gc.disable()
double = jax.jit(lambda x: x * 2)
given, result = jnp.ones(1000) + 1, None
result = double(given)
kept = [weakref.ref(given), weakref.ref(result)]
del given, result
print([reference() for reference in kept], len(jax.live_arrays()))
gc.enable()


def failing(x):
    raise KeyError("theirs")


for call in (
    lambda: jax.jit(failing)(1.0),
    lambda: double("text"),
    lambda: train_step(params),
    lambda: jax.jit(lambda x: jax.pure_callback(failing, x, x))(jnp.ones(2)).block_until_ready(),
    lambda: double(given_away),
):
    given_away = jnp.ones(2)
    given_away.delete()
    try:
        call()
    except Exception as error:
        frames = [f.name for f in traceback.extract_tb(error.__traceback__)]
        print(type(error).__name__, str(error).splitlines()[0][:40], frames)
print("twinrun" in sys.modules, len(compiled))
