"""Calls whose arguments have a role that their classes declare, or only look as if they had one.

`mutant`: in each function one array is another one, which is the one that must be named. Prints
the functions' names. Those whose names begin with `flax_` are left out where there is no flax.
"""

import collections
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

try:
    if "plain" in sys.argv:
        raise ImportError("without flax")
    from flax import nnx
    from flax.training.train_state import TrainState
except ImportError:
    nnx = None

MUTANT = "mutant" in sys.argv
WEIGHTS = {"w": jnp.arange(3.0), "b": jnp.ones(())}
X = np.ones((4, 3), np.float32)


def other(value):
    """The same, or in the mutant another one."""
    return value + 1 if MUTANT else value


def loss(params, x):
    return jnp.mean((x @ params["w"] + params["b"]) ** 2)


def stepped(optimizer):
    def step(params, state, x):
        updates, state = optimizer.update(jax.grad(loss)(params, x), state, params)
        return optax.apply_updates(params, updates), state

    return step


def call(name, function, *args):
    """Calls a jitted function of this name for one of the cases."""
    function.__name__ = function.__qualname__ = name
    print(name)
    return jax.jit(function)(*args)


adam = optax.adam(0.1)
state = adam.init(WEIGHTS)
lost = (state[0]._replace(mu={"w": other(state[0].mu["w"]), "b": state[0].mu["b"]}), *state[1:])
call("moment", stepped(adam), WEIGHTS, lost, X)
call("batch", stepped(adam), WEIGHTS, state, other(X))
# a plain dict is a plain dict, whatever it is called
call("initial", stepped(adam), {**WEIGHTS, "w": other(WEIGHTS["w"])}, state, X)

set_from_outside = optax.inject_hyperparams(optax.sgd)(learning_rate=other(0.1))
call("rate", stepped(set_from_outside), WEIGHTS, set_from_outside.init(WEIGHTS), X)


def draws(key, x):
    return jax.random.split(key, 1), x


call("key", draws, jax.random.key(other(3)), X)
# two words are two words: what made them is not seen
call("words", draws, jax.random.PRNGKey(other(3)), X)

# a class of the job, of the same name as optax's
ScaleByAdamState = collections.namedtuple("ScaleByAdamState", "count mu nu")


def looks(opt_state, x):
    return opt_state


call("own_class", looks, ScaleByAdamState(jnp.int32(0), other(jnp.ones(3)), jnp.ones(3)), X)
# weights that are averaged, by the same class with which optax averages gradients
call("average", looks, optax.EmaState(jnp.int32(0), other(jnp.ones(3))), X)


def norms(opt_state):
    return jax.tree.map(lambda leaf: jnp.sum(leaf * 2.0), opt_state)


call("norms", norms, lost)


if nnx:

    def created():
        return TrainState.create(apply_fn=None, params={"w": other(jnp.ones(3))}, tx=adam)

    one = created()
    call("flax_made", lambda w: one.replace(params={"w": w}), other(jnp.ones(3)))
    call("flax_state", lambda state, x: state.replace(step=1), one, X)

    def gradient(state):
        """What jax.grad gives back is of the state's classes."""
        return jax.grad(lambda s: loss({**s.params, "b": 1.0}, X), allow_int=True)(state)

    call("flax_gradient", gradient, one)

    class Net(nnx.Module):
        def __init__(self):
            self.layer = nnx.Linear(3, 1, rngs=nnx.Rngs(0))
            self.noise = nnx.Dropout(0.5, rngs=nnx.Rngs(other(0)))

    net = Net()
    gradients = jax.tree.map(lambda leaf: other(jnp.ones_like(leaf)), nnx.state(net, nnx.Param))
    # of the same classes as the weights
    call("flax_gradients", lambda params: params, gradients)
    call("flax_noise", lambda noise, x: x, net.noise, X)
    kept = nnx.Optimizer(net, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    kept.opt_state[0].trace["layer"]["kernel"][...] += other(0)
    call("flax_moment", lambda state, x: x, kept.opt_state, X)
