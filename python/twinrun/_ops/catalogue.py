# SPDX-License-Identifier: Apache-2.0
"""The catalogue of operations: for each a name, a maker of inputs that returns the call to measure,
and what to use instead.

A row is a function of `x` (Inputs). It draws its inputs once and returns a callable without
arguments that computes, from those inputs, a tensor or a tuple of them: everything whose bits are
compared. Inputs are large enough that PyTorch splits the work between threads, and indices come
with many duplicates, since that is what makes additions race. A row that this PyTorch does not know
raises when it is made or called; that is reported, not hidden.

`instead`: a way to the same result whose bits repeat, as one would write it; None where the
operation needs none.
"""


class Inputs:
    """Inputs of a row, the same in every process: drawn on the CPU from one seed, then moved to the
    device.
    """

    def __init__(self, torch, device, seed=20):
        self.torch, self.device = torch, device
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return self.torch.randn(shape, generator=self._generator).to(self.device)

    def indices(self, high, *shape):
        return self.torch.randint(0, high, shape, generator=self._generator).to(self.device)

    def few(self, count, *shape):
        """Floats of which only `count` different ones exist: ties."""
        return self.indices(count, *shape).float()

    def zeros(self, *shape):
        return self.torch.zeros(*shape, device=self.device)

    def backward(self, function, *inputs):
        """The call that computes function(*inputs) and the gradients of its inputs from a fixed
        random upstream gradient.
        """
        leaves = tuple(t.requires_grad_() for t in inputs)
        upstream = self.normal(*function(*leaves).shape)
        return lambda: self.torch.autograd.grad(function(*leaves), leaves, upstream)


ROWS = []


class Row:
    def __init__(self, name, make, instead):
        self.name, self.make, self.instead = name, make, instead


def row(name, instead=None):
    def keep(make):
        ROWS.append(Row(name, make, instead))
        return make

    return keep


SORT_FIRST = "sort the indices, then add segments: segment_reduce or index_add_ on one thread"
ONE_HOT = "matmul with a one-hot matrix, or the deterministic flag"
UNIQUE = "make the indices unique first"
EXPLICIT_TIES = "sort(stable=True), then take by position"

# ---- indexing: additions at indices that repeat


@row("index_put accumulate", "index_add_ (CPU), or the deterministic flag")
def _(x):
    table, at, values = x.zeros(1024), x.indices(1024, 500_000), x.normal(500_000)
    return lambda: table.clone().index_put_((at,), values, accumulate=True)


@row("index_put", UNIQUE)
def _(x):
    table, at, values = x.zeros(1024), x.indices(1024, 500_000), x.normal(500_000)
    return lambda: table.clone().index_put_((at,), values)


@row("put accumulate", "index_add_ (CPU), or the deterministic flag")
def _(x):
    table, at, values = x.zeros(1024), x.indices(1024, 500_000), x.normal(500_000)
    return lambda: table.clone().put_(at, values, accumulate=True)


@row("put", UNIQUE)
def _(x):
    table, at, values = x.zeros(1024), x.indices(1024, 500_000), x.normal(500_000)
    return lambda: table.clone().put_(at, values)


@row("getitem backward", "index_select or F.embedding in place of x[i], or the deterministic flag")
def _(x):
    at = x.indices(1024, 500_000)
    return x.backward(lambda table: table[at], x.normal(1024))


@row("index_add", SORT_FIRST)
def _(x):
    table, at, values = x.zeros(512, 64), x.indices(512, 8_000), x.normal(8_000, 64)
    return lambda: table.index_add(0, at, values)


@row("index_select backward", ONE_HOT)
def _(x):
    at = x.indices(512, 8_000)
    return x.backward(lambda table: table.index_select(0, at), x.normal(512, 64))


@row("index_copy", UNIQUE)
def _(x):
    table, at, values = x.zeros(512, 64), x.indices(512, 8_000), x.normal(8_000, 64)
    return lambda: table.index_copy(0, at, values)


@row("index_reduce mean", SORT_FIRST)
def _(x):
    table, at, values = x.zeros(512, 64), x.indices(512, 8_000), x.normal(8_000, 64)
    return lambda: table.index_reduce(0, at, values, "mean")


@row("scatter", UNIQUE)
def _(x):
    table, at, values = x.zeros(512, 64), x.indices(512, 8_000, 64), x.normal(8_000, 64)
    return lambda: table.scatter(0, at, values)


@row("scatter_add", "index_add_ where the indices are one per row; " + SORT_FIRST)
def _(x):
    table, at, values = x.zeros(512, 64), x.indices(512, 8_000, 64), x.normal(8_000, 64)
    return lambda: table.scatter_add(0, at, values)


@row("scatter_add expanded", SORT_FIRST)
def _(x):
    table, at, values = (
        x.zeros(512, 64),
        x.indices(512, 8_000, 1).expand(8_000, 64),
        x.normal(8_000, 64),
    )
    return lambda: table.scatter_add(0, at, values)


@row("scatter_reduce sum", SORT_FIRST)
def _(x):
    table, at, values = x.zeros(512, 64), x.indices(512, 8_000, 64), x.normal(8_000, 64)
    return lambda: table.scatter_reduce(0, at, values, "sum")


@row("scatter_reduce prod", SORT_FIRST)
def _(x):
    table, at, values = x.zeros(512, 64) + 1, x.indices(512, 8_000, 64), x.normal(8_000, 64)
    return lambda: table.scatter_reduce(0, at, values, "prod")


@row("gather backward", ONE_HOT)
def _(x):
    at = x.indices(512, 8_000, 64)
    return x.backward(lambda table: table.gather(0, at), x.normal(512, 64))


@row("take backward", "index_select on the flattened tensor, or the deterministic flag")
def _(x):
    at = x.indices(1024, 500_000)
    return x.backward(lambda table: table.take(at), x.normal(1024))


@row("masked_scatter")
def _(x):
    table, mask, values = x.zeros(300_000), x.indices(2, 300_000).bool(), x.normal(300_000)
    return lambda: table.masked_scatter(mask, values)


@row("repeat_interleave backward", ONE_HOT)
def _(x):
    counts = x.indices(30, 20_000)
    return x.backward(lambda t: t.repeat_interleave(counts), x.normal(20_000))


@row("segment_reduce sum")
def _(x):
    lengths, values = x.torch.full((2_000,), 50, device=x.device), x.normal(100_000, 4)
    return lambda: x.torch.segment_reduce(values, "sum", lengths=lengths)


@row("embedding backward", ONE_HOT)
def _(x):
    at = x.indices(512, 8_000)
    return x.backward(lambda table: x.torch.nn.functional.embedding(at, table), x.normal(512, 64))


@row("embedding_bag sum backward", "F.embedding, then sum over the bag")
def _(x):
    at = x.indices(512, 2_000, 8)
    return x.backward(
        lambda table: x.torch.nn.functional.embedding_bag(at, table, mode="sum"), x.normal(512, 64)
    )


@row("embedding_bag max backward", "F.embedding, then amax over the bag")
def _(x):
    at = x.indices(512, 2_000, 8)
    return x.backward(
        lambda table: x.torch.nn.functional.embedding_bag(at, table, mode="max"), x.normal(512, 64)
    )


# ---- counting and searching


@row("bincount weights", "index_add_ into zeros, in float64 where the sum is exact")
def _(x):
    at, weights = x.indices(1024, 300_000), x.normal(300_000)
    return lambda: x.torch.bincount(at, weights, minlength=1024)


@row("histc", "bucketize, then bincount: counts of integers are exact")
def _(x):
    values = x.normal(300_000)
    return lambda: values.histc(100, -3, 3)


@row("histogram weight", "bucketize, then bincount with float64 weights")
def _(x):
    values, weights = x.normal(200_000), x.normal(200_000)
    return lambda: x.torch.histogram(values, 100, range=(-3.0, 3.0), weight=weights).hist


@row("cumsum", "on the CPU, or a block scan of one's own; the flag on CUDA")
def _(x):
    values = x.normal(64, 20_000)
    return lambda: values.cumsum(1)


@row("cumprod")
def _(x):
    values = x.normal(64, 20_000)
    return lambda: values.cumprod(1)


@row("logcumsumexp")
def _(x):
    values = x.normal(64, 4_000)
    return lambda: values.logcumsumexp(1)


@row("kthvalue with ties", EXPLICIT_TIES)
def _(x):
    values = x.few(50, 64, 4_000)
    return lambda: tuple(values.kthvalue(2_000, 1))


@row("median with ties", EXPLICIT_TIES)
def _(x):
    values = x.few(50, 64, 4_000)
    return lambda: tuple(values.median(1))


@row("mode with ties", EXPLICIT_TIES)
def _(x):
    values = x.few(50, 64, 1_000)
    return lambda: tuple(values.mode(1))


@row("topk with ties", EXPLICIT_TIES)
def _(x):
    values = x.few(50, 64, 8_000)
    return lambda: tuple(values.topk(500, 1))


@row("sort unstable with ties", "sort(stable=True)")
def _(x):
    values = x.few(50, 64, 4_000)
    return lambda: tuple(values.sort(1))


@row("argmax with ties", EXPLICIT_TIES)
def _(x):
    values = x.few(50, 64, 20_000)
    return lambda: values.argmax(1)


@row("unique")
def _(x):
    values = x.indices(5_000, 100_000)
    return lambda: values.unique(return_inverse=True, return_counts=True)


# ---- sums and norms

ONE_THREAD = "the same number of threads everywhere (pin threads)"


@row("sum", ONE_THREAD)
def _(x):
    values = x.normal(2_000_000)
    return lambda: values.sum()


@row("sum over rows")
def _(x):
    values = x.normal(2_000, 1_000)
    return lambda: values.sum(0)


@row("mean", ONE_THREAD)
def _(x):
    values = x.normal(2_000_000)
    return lambda: values.mean()


@row("norm", ONE_THREAD)
def _(x):
    values = x.normal(2_000_000)
    return lambda: values.norm()


@row("var", ONE_THREAD)
def _(x):
    values = x.normal(1_000_000)
    return lambda: values.var()


@row("prod")
def _(x):
    values = x.normal(1_000_000).mul(1e-3).add(1)
    return lambda: values.prod()


@row("logsumexp")
def _(x):
    values = x.normal(256, 4_000)
    return lambda: values.logsumexp(1)


# ---- elementwise


@row("relu")
def _(x):
    values = x.normal(1_000_000)
    return lambda: values.relu()


@row("gelu backward")
def _(x):
    return x.backward(lambda t: x.torch.nn.functional.gelu(t), x.normal(300_000))


@row("softmax backward")
def _(x):
    return x.backward(lambda t: t.softmax(1), x.normal(256, 2_000))


# ---- matrix products


@row("matmul", ONE_THREAD)
def _(x):
    a, b = x.normal(384, 512), x.normal(512, 384)
    return lambda: a @ b


@row("matmul with a long inner dimension", ONE_THREAD)
def _(x):
    a, b = x.normal(16, 200_000), x.normal(200_000, 16)
    return lambda: a @ b


@row("matrix times vector", ONE_THREAD)
def _(x):
    a, b = x.normal(1_000, 2_000), x.normal(2_000)
    return lambda: a @ b


@row("dot", ONE_THREAD)
def _(x):
    a, b = x.normal(2_000_000), x.normal(2_000_000)
    return lambda: a.dot(b)


@row("baddbmm", ONE_THREAD)
def _(x):
    c, a, b = x.normal(16, 96, 96), x.normal(16, 96, 128), x.normal(16, 128, 96)
    return lambda: x.torch.baddbmm(c, a, b)


@row("einsum", ONE_THREAD)
def _(x):
    a, b = x.normal(16, 64, 8, 32), x.normal(16, 64, 8, 32)
    return lambda: x.torch.einsum("bqhd,bkhd->bhqk", a, b)


@row("linear backward", ONE_THREAD)
def _(x):
    return x.backward(
        x.torch.nn.functional.linear, x.normal(1_024, 256), x.normal(128, 256), x.normal(128)
    )


@row("sparse matmul backward", "to_dense() first")
def _(x):
    at = x.torch.stack((x.indices(1_000, 40_000), x.indices(1_000, 40_000)))
    sparse = x.torch.sparse_coo_tensor(at, x.normal(40_000), (1_000, 1_000)).coalesce()
    return x.backward(lambda dense: x.torch.sparse.mm(sparse, dense), x.normal(1_000, 32))


@row("sparse coalesce", "index_add_ on the flattened indices")
def _(x):
    at, values = x.indices(500, 1, 60_000), x.normal(60_000)
    return lambda: x.torch.sparse_coo_tensor(at, values, (500,)).coalesce().values()


# ---- layers


@row("conv2d backward", "torch.backends.cudnn.deterministic = True (CUDA); " + ONE_THREAD)
def _(x):
    return x.backward(
        lambda t, w: x.torch.nn.functional.conv2d(t, w, padding=1),
        x.normal(8, 16, 24, 24),
        x.normal(16, 16, 3, 3),
    )


@row("conv1d backward", "torch.backends.cudnn.deterministic = True (CUDA); " + ONE_THREAD)
def _(x):
    return x.backward(
        lambda t, w: x.torch.nn.functional.conv1d(t, w, padding=2),
        x.normal(16, 16, 512),
        x.normal(16, 16, 5),
    )


@row("conv_transpose2d backward", "torch.backends.cudnn.deterministic = True (CUDA); " + ONE_THREAD)
def _(x):
    return x.backward(
        lambda t, w: x.torch.nn.functional.conv_transpose2d(t, w),
        x.normal(8, 16, 20, 20),
        x.normal(16, 8, 3, 3),
    )


@row("max_pool2d backward")
def _(x):
    return x.backward(lambda t: x.torch.nn.functional.max_pool2d(t, 3, 1), x.normal(8, 16, 32, 32))


@row("max_pool3d backward", "max_pool2d over two of the dimensions, then amax")
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.max_pool3d(t, 3, 1), x.normal(2, 8, 16, 16, 16)
    )


@row("avg_pool3d backward", "conv3d with constant weights")
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.avg_pool3d(t, 3, 1), x.normal(2, 8, 16, 16, 16)
    )


@row("adaptive_avg_pool2d backward", "mean over blocks by view")
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.adaptive_avg_pool2d(t, 7), x.normal(8, 16, 30, 30)
    )


@row("adaptive_max_pool2d backward", "amax over blocks by view")
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.adaptive_max_pool2d(t, 7), x.normal(8, 16, 30, 30)
    )


@row("max_unpool2d", "F.interpolate(mode='nearest') times a mask")
def _(x):
    pooled, at = x.torch.nn.functional.max_pool2d(x.normal(8, 16, 32, 32), 2, return_indices=True)
    return lambda: x.torch.nn.functional.max_unpool2d(pooled, at, 2)


@row("fold", "F.conv_transpose2d with constant weights")
def _(x):
    columns = x.normal(4, 16 * 9, 30 * 30)
    return lambda: x.torch.nn.functional.fold(columns, 32, 3)


@row("interpolate nearest backward", "repeat_interleave")
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.interpolate(t, scale_factor=2, mode="nearest"),
        x.normal(8, 8, 32, 32),
    )


@row(
    "interpolate bilinear backward",
    "matmul with the matrix of weights, one dimension after the other",
)
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.interpolate(t, scale_factor=2, mode="bilinear"),
        x.normal(8, 8, 32, 32),
    )


@row(
    "interpolate bicubic backward",
    "matmul with the matrix of weights, one dimension after the other",
)
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.interpolate(t, scale_factor=2, mode="bicubic"),
        x.normal(4, 8, 32, 32),
    )


@row(
    "interpolate trilinear backward",
    "matmul with the matrix of weights, one dimension after the other",
)
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.interpolate(t, scale_factor=2, mode="trilinear"),
        x.normal(2, 4, 12, 12, 12),
    )


@row("grid_sample backward", "gather the four neighbours; their index_put gradient under the flag")
def _(x):
    grid = x.normal(8, 48, 48, 2).mul(0.3)
    return x.backward(
        lambda t, g: x.torch.nn.functional.grid_sample(t, g, align_corners=False),
        x.normal(8, 8, 32, 32),
        grid,
    )


@row("reflection_pad2d backward", "cat of flipped slices")
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.pad(t, (3, 3, 3, 3), mode="reflect"),
        x.normal(8, 16, 32, 32),
    )


@row("replication_pad2d backward", "cat of expanded slices")
def _(x):
    return x.backward(
        lambda t: x.torch.nn.functional.pad(t, (3, 3, 3, 3), mode="replicate"),
        x.normal(8, 16, 32, 32),
    )


@row("batch_norm backward", ONE_THREAD)
def _(x):
    return x.backward(
        lambda t, w, b: x.torch.nn.functional.batch_norm(t, None, None, w, b, training=True),
        x.normal(16, 32, 24, 24),
        x.normal(32),
        x.normal(32),
    )


@row("layer_norm backward", ONE_THREAD)
def _(x):
    return x.backward(
        lambda t, w, b: x.torch.nn.functional.layer_norm(t, (256,), w, b),
        x.normal(2_000, 256),
        x.normal(256),
        x.normal(256),
    )


@row("group_norm backward", ONE_THREAD)
def _(x):
    return x.backward(
        lambda t, w, b: x.torch.nn.functional.group_norm(t, 8, w, b),
        x.normal(16, 32, 16, 16),
        x.normal(32),
        x.normal(32),
    )


@row("lstm backward", ONE_THREAD)
def _(x):
    cell = x.torch.nn.LSTM(32, 48).to(x.device)
    weights = [x.normal(*p.shape).mul(0.1) for p in cell.parameters()]
    first = (x.zeros(1, 32, 48), x.zeros(1, 32, 48))
    return x.backward(
        lambda t, *w: x.torch.lstm(t, first, w, True, 1, 0.0, True, False, False)[0],
        x.normal(20, 32, 32),
        *weights,
    )


@row("scaled_dot_product_attention backward", "torch.nn.attention.sdpa_kernel(SDPBackend.MATH)")
def _(x):
    return x.backward(
        x.torch.nn.functional.scaled_dot_product_attention,
        *(x.normal(4, 4, 128, 32) for _ in range(3)),
    )


@row("cdist backward", "the norm of broadcast differences")
def _(x):
    return x.backward(x.torch.cdist, x.normal(256, 32), x.normal(256, 32))


# ---- losses


@row("cross_entropy backward", ONE_THREAD)
def _(x):
    target = x.indices(1_000, 512)
    return x.backward(
        lambda t: x.torch.nn.functional.cross_entropy(t, target), x.normal(512, 1_000)
    )


@row("nll_loss backward", ONE_THREAD)
def _(x):
    target = x.indices(50, 20_000)
    return x.backward(lambda t: x.torch.nn.functional.nll_loss(t, target), x.normal(20_000, 50))


@row("nll_loss2d backward", "nll_loss on the flattened pixels")
def _(x):
    target = x.indices(20, 8, 48, 48)
    return x.backward(lambda t: x.torch.nn.functional.nll_loss(t, target), x.normal(8, 20, 48, 48))


@row("mse_loss backward", ONE_THREAD)
def _(x):
    target = x.normal(500_000)
    return x.backward(lambda t: x.torch.nn.functional.mse_loss(t, target), x.normal(500_000))


@row("ctc_loss backward", "on the CPU, or cuDNN's CTC with int32 targets on the CPU")
def _(x):
    target, inputs, targets = x.indices(39, 16, 20) + 1, (60,) * 16, (20,) * 16
    return x.backward(
        lambda t: x.torch.nn.functional.ctc_loss(t.log_softmax(2), target, inputs, targets),
        x.normal(60, 16, 40),
    )
