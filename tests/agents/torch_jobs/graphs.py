# SPDX-License-Identifier: Apache-2.0
"""Captures and replays a CUDA graph, as far as that goes where there is no GPU: the calls are made,
and are refused.
"""

import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(4, 3)).sum().backward()
optimizer.step()


class Stand:
    pass


for method in (
    torch.cuda.CUDAGraph.capture_begin,
    torch.cuda.CUDAGraph.replay,
    torch.cuda.CUDAGraph.replay,
):
    try:
        method(Stand())
    except Exception as error:
        print(type(error).__name__)
