# SPDX-License-Identifier: Apache-2.0
"""PyTorch jobs that compute the same bits: seeds and data order, sums without an order, training on
any number of ranks.

    from twinrun.torch import DeterministicSampler, SeededSamples, seed_all      # docs/python.md
    from twinrun.torch import exact_sum, index_add, Embedding, exact_allreduce   # docs/exact-training.md
    from twinrun.torch import ExactDDP                                           # docs/exact-training.md

Seeds and order are Python alone. Exact sums need twinrun's library libtwinnumerics, which is looked
for at the first call. Works with and without twinrun around the job.
"""

from ._data import DeterministicSampler, SeededSamples, check_loader, seed_all
from ._elastic import ExactDDP
from ._index import Embedding, bincount, embedding, index_add, scatter_add
from ._reduce import exact_allreduce
from ._sums import exact_dot, exact_norm2, exact_sum

__all__ = [
    "seed_all",
    "DeterministicSampler",
    "SeededSamples",
    "check_loader",
    "exact_sum",
    "exact_dot",
    "exact_norm2",
    "scatter_add",
    "index_add",
    "bincount",
    "embedding",
    "Embedding",
    "exact_allreduce",
    "ExactDDP",
]
