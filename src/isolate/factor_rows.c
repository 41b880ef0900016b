/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of factors: everything that twinrun knows of one stands in its row (struct tw_spec in
 * internal.h names the columns). The rows are in the order of their layers, as the reports list
 * them.
 *
 * Who reads it: factors.c says which rows can be set on this machine, plan.c turns a setting into
 * variables and words for the agents, effects.c looks whether it worked, watch.c leaves out what
 * natural runs had in common. docs/factors.md shows the table; tools/factor_table.py writes it
 * there. Adding a factor takes one row here, the code that applies it in its agent, and a run of
 * that tool.
 */
#include "internal.h"

#include <sched.h>

/* What `how` says: who applies the factor. */
#define ENVIRONMENT "environment"
#define LIBC "libc agent"
#define PYTHON "python agent"
#define BOTH "environment, python agent"
#define LAUNCHER "launcher"
#define NOBODY "-"
/* the largest seed that PYTHONHASHSEED and NumPy take: 2^32 - 1 */
#define SEED_MAX 4294967295u

/* clang-format off: it would put the brace of .factor on a line of its own */
const struct tw_spec tw_specs[] = {
    /* ---- data */
    {
        .factor =
            {
                .id = "hash-seed",
                .layer = "data",
                .title = "salt of Python's string hashes: order of sets",
                .how = ENVIRONMENT,
                .pin = "PYTHONHASHSEED=0",
                .vary = "PYTHONHASHSEED from the seed",
                .fix = "sort before iterating over a set, or export PYTHONHASHSEED=0 before the "
                       "interpreter starts",
                .unit = TWIN_UNIT_RUN,
                .needs = "python",
            },
        .channel = TW_BY_ENVIRONMENT,
        .valued = true,
        .max = SEED_MAX,
        .number = tw_salt_number,
        .number_in = {"PYTHONHASHSEED"},
        .only_python_reads = true,
        .through = {"hash=random"},
    },
    {
        .factor =
            {
                .id = "dir-order",
                .layer = "data",
                .title = "order in which folders list their files",
                .how = LIBC,
                .pin = "entries sorted by name",
                .vary = "entries shuffled by the seed",
                .fix = "sort what os.listdir, glob, scandir or readdir return",
                .unit = TWIN_UNIT_RUN,
                .asked_as = "dir-order",
            },
        .channel = TW_BY_LIBC,
        .met_alike = tw_orders_alike,
    },
    {
        .factor =
            {
                .id = "loader-workers",
                .layer = "data",
                .title = "worker processes of DataLoader",
                .how = PYTHON,
                .pin = "DataLoader(num_workers=0)",
                .vary = "0 to 3 workers, by the seed",
                .fix =
                    "give DataLoader a generator and a worker_init_fn that seeds from its worker's "
                    "number",
                .unit = TWIN_UNIT_EXPOSURE,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        .valued = true,
        .max = 256,
        .through = {"loader"},
    },
    {
        .factor =
            {
                .id = "executor-order",
                .layer = "data",
                .title = "completion order of concurrent.futures and multiprocessing pools",
                .how = PYTHON,
                .pin = "results in the order of submission",
                .vary = "results in an order drawn from the seed",
                .fix = "use map instead of as_completed or imap_unordered, or sort the results",
                .unit = TWIN_UNIT_EXPOSURE,
                .needs = "python",
            },
        .channel = TW_BY_PYTHON,
        .through = {"executor", "loader"},
    },
    /* ---- rng */
    {
        .factor =
            {
                .id = "seed.python",
                .layer = "rng",
                .title = "start of Python's random",
                .how = PYTHON,
                .pin = "random.seed(0)",
                .vary = "random.seed from the seed",
                .fix = "call random.seed at the start",
                .unit = TWIN_UNIT_RUN,
                .needs = "python",
            },
        .channel = TW_BY_PYTHON,
        .valued = true,
        .max = SEED_MAX,
        .met_alike = tw_random_alike,
    },
    {
        .factor =
            {
                .id = "seed.numpy",
                .layer = "rng",
                .title = "start of NumPy's global generator",
                .how = PYTHON,
                .pin = "numpy.random.seed(0)",
                .vary = "numpy.random.seed from the seed",
                .fix = "give default_rng a seed; for numpy.random's own functions call "
                       "numpy.random.seed at the start",
                .unit = TWIN_UNIT_RUN,
                .needs = "numpy",
                .asked_as = "numpy-seeds",
            },
        .channel = TW_BY_PYTHON,
        .valued = true,
        .max = SEED_MAX,
        .through = {"numpy"}, /* the pin reaches generators that are made without a seed, too */
    },
    {
        .factor =
            {
                .id = "seed.torch",
                .layer = "rng",
                .title = "start of PyTorch's CPU generator",
                .how = PYTHON,
                .pin = "torch.manual_seed(0)",
                .vary = "torch.manual_seed from the seed",
                .fix = "call torch.manual_seed at the start",
                .unit = TWIN_UNIT_RUN,
                .needs = "torch",
                .asked_as = "torch-draws",
            },
        .channel = TW_BY_PYTHON,
        .valued = true,
        .max = SEED_MAX,
        .met_alike = tw_torch_alike,
    },
    {
        .factor =
            {
                .id = "seed.cuda",
                .layer = "rng",
                .title = "start of the GPUs' generators",
                .how = PYTHON,
                .pin = "torch.cuda.manual_seed_all(0)",
                .vary = "torch.cuda.manual_seed_all from the seed",
                .fix = "call torch.cuda.manual_seed_all at the start",
                .unit = TWIN_UNIT_RUN,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        .gpu_only = true,
        .valued = true,
        .max = SEED_MAX,
        .through = {"torch"},
    },
    {
        .factor =
            {
                .id = "seed.tensorflow",
                .layer = "rng",
                .title = "start of TensorFlow's generator",
                .how = PYTHON,
                .pin = "tf.random.set_seed(0)",
                .vary = "tf.random.set_seed from the seed",
                .fix = "call tf.random.set_seed at the start, or keras.utils.set_random_seed",
                .unit = TWIN_UNIT_RUN,
                .needs = "tensorflow",
                .asked_as = "tensorflow-draws",
            },
        .channel = TW_BY_PYTHON,
        .valued = true,
        .max = SEED_MAX,
        /* an operation that nobody seeded leaves no state behind, so it is not known who drew */
        .through = {"tensorflow"},
    },
    {
        .factor =
            {
                .id = "entropy",
                .layer = "rng",
                .title = "random bytes of the system: getrandom, /dev/urandom, std::random_device",
                .how = LIBC,
                .pin = "bytes of a stream of seed 0",
                .vary = "bytes of a stream of the seed",
                .fix = "seed every generator from a fixed number instead of the system",
                .unit = TWIN_UNIT_RUN,
                .asked_as = "entropy",
            },
        .channel = TW_BY_LIBC,
        .valued = true,
        .max = UINT64_MAX,
        .met_alike = tw_entropy_alike,
    },
    /* ---- init */
    {
        .factor =
            {
                .id = "malloc-fill",
                .layer = "init",
                .title = "what fresh memory holds",
                .how = LIBC,
                .pin = "fresh memory is filled with byte 0",
                .vary = "fresh memory is filled with noise of the seed",
                .fix = "initialise memory before reading it (torch.empty, malloc)",
                .unit = TWIN_UNIT_RUN,
            },
        .channel = TW_BY_LIBC,
        .valued = true,
        .max = 255,
        .hot = TW_HOT_NEEDED,
    },
    /* ---- forward */
    {
        .factor =
            {
                .id = "threads",
                .layer = "forward",
                .title = "threads of OpenMP, MKL, OpenBLAS, TensorFlow and PyTorch: how sums are "
                         "split",
                .how = BOTH,
                .pin = "OMP_, MKL_, OPENBLAS_NUM_THREADS=1, TF_NUM_INTRAOP_, "
                       "TF_NUM_INTEROP_THREADS=1, torch.set_num_threads(1)",
                .vary = "2, 3, 4 or 1 threads, by the seed",
                .fix = "fix the number of threads: torch.set_num_threads, OMP_NUM_THREADS",
                .unit = TWIN_UNIT_EXPOSURE,
            },
        .channel = TW_BY_ENVIRONMENT,
        .python_too = true,
        .valued = true,
        .max = 1024,
        .initial = 1,
        .number = tw_threads_number,
        .number_in = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                      "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"},
        .through = {"openmp", "blas", "torch", "tensorflow"},
    },
    {
        .factor =
            {
                .id = "onednn",
                .layer = "forward",
                .title = "TensorFlow takes oneDNN's kernels, which add in another order",
                .how = BOTH,
                .pin = "TF_ENABLE_ONEDNN_OPTS=0",
                .vary = "on or off, by the seed",
                .fix = "export TF_ENABLE_ONEDNN_OPTS=0 before TensorFlow is imported",
                .unit = TWIN_UNIT_RUN,
                .needs = "tensorflow",
            },
        .channel = TW_BY_ENVIRONMENT,
        .python_too = true,
        .valued = true,
        .max = 1,
        .number = tw_onednn_number,
        .number_in = {"TF_ENABLE_ONEDNN_OPTS"},
        .through = {"tensorflow"},
    },
    {
        .factor =
            {
                .id = "cudnn-benchmark",
                .layer = "forward",
                .title = "cuDNN times its kernels and takes the fastest",
                .how = PYTHON,
                .pin = "torch.backends.cudnn.benchmark=False",
                .vary = "on or off, by the seed",
                .fix = "torch.backends.cudnn.benchmark = False",
                .unit = TWIN_UNIT_RUN,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        .gpu_only = true,
        .through = {"torch"},
    },
    {
        .factor =
            {
                .id = "tf32",
                .layer = "forward",
                .title = "TF32 and reduced-precision reductions in matrix products",
                .how = BOTH,
                .pin = "NVIDIA_TF32_OVERRIDE=0, allow_tf32=False, no reduced-precision reductions",
                .vary = "on or off, by the seed",
                .fix = "torch.backends.cuda.matmul.allow_tf32 = False",
                .unit = TWIN_UNIT_RUN,
                .needs = "torch",
            },
        .channel = TW_BY_ENVIRONMENT,
        .python_too = true,
        .gpu_only = true,
        .pinned_by = {"NVIDIA_TF32_OVERRIDE=0"},
        .through = {"torch"},
    },
    {
        .factor =
            {
                .id = "cublas-workspace",
                .layer = "forward",
                .title = "workspaces of cuBLAS",
                .how = ENVIRONMENT,
                .pin = "CUBLAS_WORKSPACE_CONFIG=:4096:8",
                .fix = "export CUBLAS_WORKSPACE_CONFIG=:4096:8",
                .unit = TWIN_UNIT_EXPOSURE,
            },
        .channel = TW_BY_ENVIRONMENT,
        .gpu_only = true,
        .pinned_by = {"CUBLAS_WORKSPACE_CONFIG=:4096:8"},
        .through = {"torch"},
    },
    {
        .factor =
            {
                .id = "sdpa-backend",
                .layer = "forward",
                .title = "which kernel computes scaled_dot_product_attention",
                .how = PYTHON,
                .pin = "the plain one (math) alone",
                .vary = "which of the others may be taken, by the seed",
                .fix = "torch.nn.attention.sdpa_kernel(SDPBackend.MATH)",
                .unit = TWIN_UNIT_EXPOSURE,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        /* on a processor the choice hangs on shapes alone, and the plain one is slower */
        .gpu_only = true,
        .through = {"torch"},
    },
    {
        .factor =
            {
                .id = "autotune",
                .layer = "forward",
                .title = "torch.compile times its kernels and takes the fastest",
                .how = BOTH,
                .pin =
                    "TORCHINDUCTOR_MAX_AUTOTUNE=0, _COORDINATE_DESCENT_TUNING=0, _DETERMINISTIC=1",
                .fix = "export TORCHINDUCTOR_DETERMINISTIC=1; keep its caches",
                .unit = TWIN_UNIT_RUN,
                .needs = "torch",
            },
        .channel = TW_BY_ENVIRONMENT,
        .python_too = true,
        .pinned_by = {"TORCHINDUCTOR_MAX_AUTOTUNE=0", "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING=0",
                      "TORCHINDUCTOR_DETERMINISTIC=1"},
        .through = {"inductor"},
    },
    {
        .factor =
            {
                .id = "jax-cache",
                .layer = "forward",
                .title = "JAX takes programs that were compiled before, perhaps elsewhere",
                .how = BOTH,
                .pin = "JAX_ENABLE_COMPILATION_CACHE=false",
                .fix = "export JAX_ENABLE_COMPILATION_CACHE=false, or give each run a "
                       "JAX_COMPILATION_CACHE_DIR of its own",
                .unit = TWIN_UNIT_RUN,
                .needs = "jax",
            },
        .channel = TW_BY_ENVIRONMENT,
        .python_too = true,
        .pinned_by = {"JAX_ENABLE_COMPILATION_CACHE=false"},
        .through = {"jax"},
    },
    /* ---- backward */
    {
        .factor =
            {
                .id = "torch-deterministic",
                .layer = "backward",
                .title = "operations that add in the order of arrival",
                .how = PYTHON,
                .pin = "torch.use_deterministic_algorithms(True, warn_only=True)",
                .fix = "torch.use_deterministic_algorithms(True)",
                .unit = TWIN_UNIT_EXPOSURE,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        .through = {"torch"},
    },
    {
        .factor =
            {
                .id = "tensorflow-deterministic",
                .layer = "backward",
                .title = "operations and input pipelines of TensorFlow in the order of arrival",
                .how = PYTHON,
                .pin = "tf.config.experimental.enable_op_determinism()",
                .fix = "tf.config.experimental.enable_op_determinism(), or no deterministic=False "
                       "in tf.data",
                .unit = TWIN_UNIT_EXPOSURE,
                .needs = "tensorflow",
                .may_fail = "operations without a deterministic form end the job; has to be named",
            },
        .channel = TW_BY_PYTHON,
        .through = {"tensorflow"},
    },
    {
        .factor =
            {
                .id = "cudnn-deterministic",
                .layer = "backward",
                .title = "cuDNN kernels that add in the order of arrival",
                .how = PYTHON,
                .pin = "torch.backends.cudnn.deterministic=True",
                .vary = "on or off, by the seed",
                .fix = "torch.backends.cudnn.deterministic = True",
                .unit = TWIN_UNIT_EXPOSURE,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        .gpu_only = true,
        .through = {"torch"},
    },
    /* ---- collective */
    {
        .factor =
            {
                .id = "ddp-buckets",
                .layer = "collective",
                .title = "how DistributedDataParallel groups gradients",
                .how = PYTHON,
                .pin = "the first layout of the buckets stays",
                .vary = "another size of buckets, by the seed",
                .fix = "DistributedDataParallel(static_graph=True), a fixed bucket_cap_mb",
                .unit = TWIN_UNIT_RUN,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        .through = {"ddp"},
    },
    {
        .factor =
            {
                .id = "collective-algorithm",
                .layer = "collective",
                .title = "algorithm and protocol of all-reduce",
                .how = ENVIRONMENT,
                .pin =
                    "NCCL_ALGO=Ring, NCCL_PROTO=Simple, OMPI_MCA_coll_tuned_allreduce_algorithm=4",
                .fix = "export NCCL_ALGO=Ring NCCL_PROTO=Simple",
                .unit = TWIN_UNIT_RUN,
            },
        .channel = TW_BY_ENVIRONMENT,
        /* Open MPI: 4 is the ring; it is heard only with the dynamic rules. */
        .pinned_by = {"NCCL_ALGO=Ring", "NCCL_PROTO=Simple",
                      "OMPI_MCA_coll_tuned_use_dynamic_rules=1",
                      "OMPI_MCA_coll_tuned_allreduce_algorithm=4"},
        .through = {"nccl", "mpi"},
    },
    {
        .factor =
            {
                .id = "nccl-channels",
                .layer = "collective",
                .title = "how many channels NCCL cuts a collective into",
                .how = ENVIRONMENT,
                .pin = "NCCL_MIN_NCHANNELS=2, NCCL_MAX_NCHANNELS=2",
                .vary = "4, 8, 1 or 2 channels, by the seed",
                .fix = "export NCCL_MIN_NCHANNELS=2 NCCL_MAX_NCHANNELS=2",
                .unit = TWIN_UNIT_RUN,
            },
        .channel = TW_BY_ENVIRONMENT,
        .gpu_only = true,
        .valued = true,
        .max = 32,
        .initial = 2,
        .number = tw_channels_number,
        .number_in = {"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"},
        .through = {"nccl"},
    },
    {
        .factor =
            {
                .id = "match-order",
                .layer = "collective",
                .title = "which message an any-source receive takes",
                .how = "agents",
                .pin = "each takes the message that it took in a recorded run",
                .fix = "receive from named sources, or add up in the order of ranks",
                .unit = TWIN_UNIT_EXPOSURE,
            },
        .channel = TW_BY_RECORDING,
    },
    {
        .factor =
            {
                .id = "exact-allreduce",
                .layer = "collective",
                .title = "sums that depend on the order of ranks",
                .how = PYTHON,
                .pin = "all_reduce and DistributedDataParallel add integers",
                .fix = "twinrun.torch.exact_allreduce, ExactDDP",
                .unit = TWIN_UNIT_EXPOSURE,
                .needs = "torch",
            },
        .channel = TW_BY_PYTHON,
        .through = {"ranks"},
    },
    /* ---- checkpoint */
    {
        .factor =
            {
                .id = "restore.rng",
                .layer = "checkpoint",
                .title = "generator states after a resume",
                .how = NOBODY,
                .fix = "save and load the generators' states",
                .unit = TWIN_UNIT_RUN,
                .unavailable = "the job's own code decides",
            },
        .channel = TW_BY_NOBODY,
    },
    {
        .factor =
            {
                .id = "restore.sampler",
                .layer = "checkpoint",
                .title = "the sampler's place after a resume",
                .how = NOBODY,
                .fix = "save and load the sampler's state",
                .unit = TWIN_UNIT_RUN,
                .unavailable = "the job's own code decides",
            },
        .channel = TW_BY_NOBODY,
    },
    {
        .factor =
            {
                .id = "restore.scaler",
                .layer = "checkpoint",
                .title = "the loss scaler after a resume",
                .how = NOBODY,
                .fix = "save and load GradScaler.state_dict()",
                .unit = TWIN_UNIT_RUN,
                .unavailable = "the job's own code decides",
            },
        .channel = TW_BY_NOBODY,
    },
    {
        .factor =
            {
                .id = "restore.optimizer",
                .layer = "checkpoint",
                .title = "the optimizer's state after a resume",
                .how = NOBODY,
                .fix = "save and load optimizer.state_dict()",
                .unit = TWIN_UNIT_RUN,
                .unavailable = "the job's own code decides",
            },
        .channel = TW_BY_NOBODY,
    },
    {
        .factor =
            {
                .id = "restore.scheduler",
                .layer = "checkpoint",
                .title = "the learning-rate scheduler after a resume",
                .how = NOBODY,
                .fix = "save and load scheduler.state_dict()",
                .unit = TWIN_UNIT_RUN,
                .unavailable = "the job's own code decides",
            },
        .channel = TW_BY_NOBODY,
    },
    /* ---- environment */
    {
        .factor =
            {
                .id = "clock",
                .layer = "environment",
                .title = "the time of day",
                .how = LIBC,
                .pin = "1700000000, 1 ms further at each reading",
                .vary = "another start, uneven steps, by the seed",
                .fix = "take the time out of what is computed: seeds, file names, loop bounds",
                .unit = TWIN_UNIT_RUN,
                .asked_as = "clock",
            },
        .channel = TW_BY_LIBC,
        .valued = true,
        .max = 4000000000u,
        .initial = 1700000000,
        .met_alike = tw_clock_alike,
    },
    {
        .factor =
            {
                .id = "aslr",
                .layer = "environment",
                .title = "addresses of code, heap and stack",
                .how = LAUNCHER,
                .pin = "personality(ADDR_NO_RANDOMIZE), as setarch -R",
                .fix =
                    "do not let addresses (id(), hash of an object, pointer order) decide anything",
                .unit = TWIN_UNIT_RUN,
            },
        .channel = TW_BY_LAYOUT,
    },
    {
        .factor =
            {
                .id = "tensor-hash",
                .layer = "environment",
                .title =
                    "hashes of tensors and modules, which are addresses: order of sets of them",
                .how = PYTHON,
                .pin = "hashes in the order of their first use",
                .vary = "hashes drawn by the seed",
                .fix = "use a list or dict.fromkeys in place of a set of tensors or modules",
                .unit = TWIN_UNIT_RUN,
                .needs = "torch",
                .asked_as = "tensor-hash",
            },
        .channel = TW_BY_PYTHON,
        .through = {"hashes"},
    },
    {
        .factor =
            {
                .id = "version:NAME",
                .layer = "environment",
                .title = "version of a library",
                .how = NOBODY,
                .fix = "pin the version in the requirements",
                .unit = TWIN_UNIT_RUN,
                .unavailable =
                    "not a setting of a run: change the installation or the machine, and "
                    "compare",
            },
        .channel = TW_BY_NOBODY,
    },
    /* ---- hardware */
    {
        .factor =
            {
                .id = "isa",
                .layer = "hardware",
                .title = "instruction set that libraries choose",
                .how = ENVIRONMENT,
                .pin = "ATEN_CPU_CAPABILITY=avx2 and those of oneDNN, MKL, OpenBLAS",
                .vary = "a narrower or wider one, by the seed",
                .fix = "export ATEN_CPU_CAPABILITY=avx2, DNNL_MAX_CPU_ISA=AVX2, MKL_CBWR=AVX2, "
                       "OPENBLAS_CORETYPE=Haswell",
                .unit = TWIN_UNIT_RUN,
            },
        .channel = TW_BY_ENVIRONMENT,
        .valued = true,
        .max = 3,
        .read_value = tw_isa_value,
        .expected = "an instruction set of this processor (default, avx2, avx512)",
        .variables = tw_isa_variables,
        .adapt = tw_isa_adapt,
        .through = {"blas", "torch", "numpy"},
    },
    {
        .factor =
            {
                .id = "device",
                .layer = "hardware",
                .title = "the processor or GPU itself",
                .how = NOBODY,
                .fix = "run the operation on another core or GPU",
                .unit = TWIN_UNIT_EXPOSURE,
                .unavailable =
                    "not a setting of a run: change the installation or the machine, and "
                    "compare",
            },
        .channel = TW_BY_NOBODY,
    },
    {
        .factor =
            {
                .id = "node",
                .layer = "hardware",
                .title = "machine of an engine that makes the run",
                .how = "engine",
                .pin = "all runs on one node, as --place pin:NODE",
                .fix = "leave the node out (--place avoid:NODE), and look into what is wrong there",
                .unit = TWIN_UNIT_RUN,
                .last_resort = true,
            },
        .channel = TW_BY_ENGINE,
    },
    /* ---- schedule */
    {
        .factor =
            {
                .id = "affinity",
                .layer = "schedule",
                .title = "processors that the job runs on",
                .how = LAUNCHER,
                .pin = "sched_setaffinity to one processor, as taskset",
                .fix = "remove the race: join threads in a fixed order, sum in a fixed order",
                .unit = TWIN_UNIT_EXPOSURE,
                .last_resort = true,
            },
        .channel = TW_BY_PROCESSOR,
        .valued = true,
        .max = CPU_SETSIZE - 1,
    },
    {
        .factor =
            {
                .id = "noise",
                .layer = "schedule",
                .title = "when threads get to run",
                .how = LIBC,
                .vary = "delays at locks, barriers and starts, by the seed",
                .fix = "remove the race: join threads in a fixed order, sum in a fixed order",
                .unit = TWIN_UNIT_EXPOSURE,
            },
        .channel = TW_BY_LIBC,
        .hot = TW_HOT_HELPS,
    },
};
/* clang-format on */
const size_t tw_spec_count = sizeof tw_specs / sizeof tw_specs[0];
