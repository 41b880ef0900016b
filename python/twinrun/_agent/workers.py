# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers: each has a trace of its own, in which every fetch is a step: its indices and
the generator states after it.

The worker's entry function is replaced by one of the same qualified name, so that spawn and
forkserver find it by pickle in the child, where it is ours again when the agent is armed there, and
torch's own when it is not.
"""

import functools

from . import core, data, rng, tensors
from .core import S, hook, trim
from .native import TENSORS


@hook
def _entered(number):
    """The first workers of a process go by their number; those of later loaders and epochs also by
    their process's, which counts the children of their parent and is the same in every run.
    """
    S.worker = "loader worker %d" % number
    process = core.child_number().rsplit(".", 1)[-1]
    if process and process != str(number + 1):
        S.worker += " (process %s)" % process


@hook
def _first_fetch():
    if S.level >= TENSORS and not S.begun:
        core.begin()


@hook
def _fetched(fetcher, indices):
    if S.level < TENSORS or not core.begin():
        return
    name = type(fetcher.dataset).__name__
    rng.check(name)
    pending = tensors.pending()
    data.record_indices(pending, indices, "DataLoader", "")
    pending.flush()
    rng.confirm()
    core.step_end()


@hook
def _left():
    if S.begun:
        S.lib.flush()


def arm(torch):
    worker = torch.utils.data._utils.worker
    original = worker._worker_loop

    def _worker_loop(
        dataset_kind,
        dataset,
        index_queue,
        data_queue,
        done_event,
        auto_collation,
        collate_fn,
        drop_last,
        base_seed,
        init_fn,
        worker_id,
        *rest,
        **named,
    ):
        _entered(worker_id)
        try:
            return original(
                dataset_kind,
                dataset,
                index_queue,
                data_queue,
                done_event,
                auto_collation,
                collate_fn,
                drop_last,
                base_seed,
                init_fn,
                worker_id,
                *rest,
                **named,
            )
        except BaseException as error:
            trim(error)
            raise
        finally:
            _left()

    worker._worker_loop = functools.update_wrapper(_worker_loop, original)
    del _worker_loop.__wrapped__
    return [_worker_loop] + _follow_fetches(torch)


def _follow_fetches(torch):
    replaced = []
    fetchers = torch.utils.data._utils.fetch
    for cls in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        cls.fetch = _fetch(cls.fetch)
        replaced.append(cls.fetch)
    S.armed.append("loader workers")
    return replaced


def _fetch(original):
    def fetch(self, possibly_batched_index):
        if S.worker is not None:
            _first_fetch()
        try:
            result = original(self, possibly_batched_index)
        except BaseException as error:
            trim(error)
            raise
        if S.worker is not None:
            _fetched(self, possibly_batched_index)
        return result

    return functools.update_wrapper(fetch, original)
