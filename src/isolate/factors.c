/* SPDX-License-Identifier: Apache-2.0 */
/* The table of factors. Rows are in the order of their layers, as design and report list them. */
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#define ENVIRONMENT "environment"
#define LIBC "libc agent"
#define PYTHON "python agent"
#define BOTH "environment, python agent"
#define LAUNCHER "launcher"
#define NOBODY "-"
#define SEED_MAX 4294967295u

static const struct tw_spec specs[] = {
    /* ---- data */
    {{"hash-seed", "data", "salt of Python's string hashes: order of sets", ENVIRONMENT, "PYTHONHASHSEED=0", "PYTHONHASHSEED from the seed",
      "sort before iterating over a set, or export PYTHONHASHSEED=0 before the interpreter starts", TWIN_UNIT_RUN, NULL, "python", NULL},
     TW_BY_ENVIRONMENT, false, NULL, TW_ALWAYS, true, SEED_MAX, 0},
    {{"dir-order", "data", "order in which folders list their files", LIBC, "entries sorted by name", "entries shuffled by the seed",
      "sort what os.listdir, glob, scandir or readdir return", TWIN_UNIT_RUN, NULL, NULL, NULL},
     TW_BY_LIBC, false, "directory", TW_ALWAYS, false, 0, 0},
    {{"loader-workers", "data", "worker processes of DataLoader", PYTHON, "DataLoader(num_workers=0)", "0 to 3 workers, by the seed",
      "give DataLoader a generator and a worker_init_fn that seeds from its worker's number", TWIN_UNIT_EXPOSURE, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, true, 256, 0},
    {{"executor-order", "data", "completion order of concurrent.futures and multiprocessing pools", PYTHON, "results in the order of submission",
      "results in an order drawn from the seed", "use map instead of as_completed or imap_unordered, or sort the results", TWIN_UNIT_EXPOSURE, NULL,
      "python", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, false, 0, 0},
    /* ---- rng */
    {{"seed.python", "rng", "start of Python's random", PYTHON, "random.seed(0)", "random.seed from the seed", "call random.seed at the start",
      TWIN_UNIT_RUN, NULL, "python", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, true, SEED_MAX, 0},
    {{"seed.numpy", "rng", "start of NumPy's global generator", PYTHON, "numpy.random.seed(0)", "numpy.random.seed from the seed",
      "give default_rng a seed; for numpy.random's own functions call numpy.random.seed at the start", TWIN_UNIT_RUN, NULL, "numpy", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, true, SEED_MAX, 0},
    {{"seed.torch", "rng", "start of PyTorch's CPU generator", PYTHON, "torch.manual_seed(0)", "torch.manual_seed from the seed",
      "call torch.manual_seed at the start", TWIN_UNIT_RUN, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, true, SEED_MAX, 0},
    {{"seed.cuda", "rng", "start of the GPUs' generators", PYTHON, "torch.cuda.manual_seed_all(0)", "torch.cuda.manual_seed_all from the seed",
      "call torch.cuda.manual_seed_all at the start", TWIN_UNIT_RUN, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_GPU, true, SEED_MAX, 0},
    {{"entropy", "rng", "random bytes of the system: getrandom, /dev/urandom, std::random_device", LIBC, "bytes of a stream of seed 0",
      "bytes of a stream of the seed", "seed every generator from a fixed number instead of the system", TWIN_UNIT_RUN, NULL, NULL, NULL},
     TW_BY_LIBC, false, "entropy", TW_ALWAYS, true, UINT64_MAX, 0},
    /* ---- init */
    {{"malloc-fill", "init", "what fresh memory holds", LIBC, "fresh memory is filled with byte 0", "fresh memory is filled with noise of the seed",
      "initialise memory before reading it (torch.empty, malloc)", TWIN_UNIT_RUN, NULL, NULL, NULL},
     TW_BY_LIBC, false, "malloc", TW_ALWAYS, true, 255, 0},
    /* ---- forward */
    {{"threads", "forward", "threads of OpenMP, MKL, OpenBLAS and PyTorch: how sums are split", BOTH,
      "OMP_, MKL_, OPENBLAS_NUM_THREADS=1, torch.set_num_threads(1)", "2, 3, 4 or 1 threads, by the seed",
      "fix the number of threads: torch.set_num_threads, OMP_NUM_THREADS", TWIN_UNIT_EXPOSURE, NULL, NULL, NULL},
     TW_BY_ENVIRONMENT, true, NULL, TW_ALWAYS, true, 1024, 1},
    {{"cudnn-benchmark", "forward", "cuDNN times its kernels and takes the fastest", PYTHON, "torch.backends.cudnn.benchmark=False", "on or off, by the seed",
      "torch.backends.cudnn.benchmark = False", TWIN_UNIT_RUN, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_GPU, false, 0, 0},
    {{"tf32", "forward", "TF32 and reduced-precision reductions in matrix products", BOTH, "NVIDIA_TF32_OVERRIDE=0, allow_tf32=False", "on or off, by the seed",
      "torch.backends.cuda.matmul.allow_tf32 = False", TWIN_UNIT_RUN, NULL, "torch", NULL},
     TW_BY_ENVIRONMENT, true, NULL, TW_GPU, false, 0, 0},
    {{"cublas-workspace", "forward", "workspaces of cuBLAS", ENVIRONMENT, "CUBLAS_WORKSPACE_CONFIG=:4096:8", NULL,
      "export CUBLAS_WORKSPACE_CONFIG=:4096:8", TWIN_UNIT_EXPOSURE, NULL, NULL, NULL},
     TW_BY_ENVIRONMENT, false, NULL, TW_GPU, false, 0, 0},
    {{"autotune", "forward", "torch.compile times its kernels and takes the fastest", BOTH,
      "TORCHINDUCTOR_MAX_AUTOTUNE=0, _COORDINATE_DESCENT_TUNING=0, _DETERMINISTIC=1", NULL, "export TORCHINDUCTOR_DETERMINISTIC=1; keep its caches",
      TWIN_UNIT_RUN, NULL, "torch", NULL},
     TW_BY_ENVIRONMENT, true, NULL, TW_ALWAYS, false, 0, 0},
    /* ---- backward */
    {{"torch-deterministic", "backward", "operations that add in the order of arrival", PYTHON, "torch.use_deterministic_algorithms(True, warn_only=True)", NULL,
      "torch.use_deterministic_algorithms(True)", TWIN_UNIT_EXPOSURE, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"cudnn-deterministic", "backward", "cuDNN kernels that add in the order of arrival", PYTHON, "torch.backends.cudnn.deterministic=True", "on or off, by the seed",
      "torch.backends.cudnn.deterministic = True", TWIN_UNIT_EXPOSURE, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_GPU, false, 0, 0},
    /* ---- collective */
    {{"ddp-buckets", "collective", "how DistributedDataParallel groups gradients", PYTHON, "the first layout of the buckets stays", "another size of buckets, by the seed",
      "DistributedDataParallel(static_graph=True), a fixed bucket_cap_mb", TWIN_UNIT_RUN, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"collective-algorithm", "collective", "algorithm and protocol of all-reduce", ENVIRONMENT,
      "NCCL_ALGO=Ring, NCCL_PROTO=Simple, OMPI_MCA_coll_tuned_allreduce_algorithm=4", NULL, "export NCCL_ALGO=Ring NCCL_PROTO=Simple", TWIN_UNIT_RUN, NULL,
      NULL, NULL},
     TW_BY_ENVIRONMENT, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"match-order", "collective", "which message an any-source receive takes", NOBODY, NULL, NULL, "receive from named sources", TWIN_UNIT_EXPOSURE,
      "not built yet", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"exact-allreduce", "collective", "sums that depend on the order of ranks", PYTHON, "all_reduce and DistributedDataParallel add integers", NULL,
      "twinrun.torch.exact_allreduce, ExactDDP", TWIN_UNIT_EXPOSURE, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, false, 0, 0},
    /* ---- checkpoint */
    {{"restore.rng", "checkpoint", "generator states after a resume", NOBODY, NULL, NULL, "save and load the generators' states", TWIN_UNIT_RUN,
      "the job's own code decides", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"restore.sampler", "checkpoint", "the sampler's place after a resume", NOBODY, NULL, NULL, "save and load the sampler's state", TWIN_UNIT_RUN,
      "the job's own code decides", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"restore.scaler", "checkpoint", "the loss scaler after a resume", NOBODY, NULL, NULL, "save and load GradScaler.state_dict()", TWIN_UNIT_RUN,
      "the job's own code decides", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"restore.optimizer", "checkpoint", "the optimizer's state after a resume", NOBODY, NULL, NULL, "save and load optimizer.state_dict()", TWIN_UNIT_RUN,
      "the job's own code decides", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"restore.scheduler", "checkpoint", "the learning-rate scheduler after a resume", NOBODY, NULL, NULL, "save and load scheduler.state_dict()", TWIN_UNIT_RUN,
      "the job's own code decides", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    /* ---- environment */
    {{"clock", "environment", "the time of day", LIBC, "1700000000, 1 ms further at each reading", "another start, uneven steps, by the seed",
      "take the time out of what is computed: seeds, file names, loop bounds", TWIN_UNIT_RUN, NULL, NULL, NULL},
     TW_BY_LIBC, false, "clock", TW_ALWAYS, true, 4000000000u, 1700000000},
    {{"aslr", "environment", "addresses of code, heap and stack", LAUNCHER, "personality(ADDR_NO_RANDOMIZE), as setarch -R", NULL,
      "do not let addresses (id(), hash of an object, pointer order) decide anything", TWIN_UNIT_RUN, NULL, NULL, NULL},
     TW_BY_LAYOUT, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"tensor-hash", "environment", "hashes of tensors and modules, which are addresses: order of sets of them", PYTHON,
      "hashes in the order of their first use", "hashes drawn by the seed", "use a list or dict.fromkeys in place of a set of tensors or modules",
      TWIN_UNIT_RUN, NULL, "torch", NULL},
     TW_BY_PYTHON, false, NULL, TW_ALWAYS, false, 0, 0},
    {{"version:NAME", "environment", "version of a library", NOBODY, NULL, NULL, "pin the version in the requirements", TWIN_UNIT_RUN,
      "not a setting of a run: change the installation or the machine, and compare", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    /* ---- hardware */
    {{"isa", "hardware", "instruction set that libraries choose", ENVIRONMENT, "ATEN_CPU_CAPABILITY=avx2 and those of oneDNN, MKL, OpenBLAS",
      "a narrower or wider one, by the seed", "export ATEN_CPU_CAPABILITY=avx2, DNNL_MAX_CPU_ISA=AVX2, MKL_CBWR=AVX2, OPENBLAS_CORETYPE=Haswell",
      TWIN_UNIT_RUN, NULL, NULL, NULL},
     TW_BY_ENVIRONMENT, false, NULL, TW_ALWAYS, true, 3, 0},
    {{"device", "hardware", "the processor or GPU itself", NOBODY, NULL, NULL, "run the operation on another core or GPU", TWIN_UNIT_EXPOSURE,
      "not a setting of a run: change the installation or the machine, and compare", NULL, NULL}, TW_BY_NOBODY, false, NULL, TW_ALWAYS, false, 0, 0},
    /* ---- schedule */
    {{"affinity", "schedule", "processors that the job runs on", LAUNCHER, "sched_setaffinity to one processor, as taskset", NULL,
      "remove the race: join threads in a fixed order, sum in a fixed order", TWIN_UNIT_EXPOSURE, NULL, NULL, NULL},
     TW_BY_PROCESSOR, false, NULL, TW_ALWAYS, true, CPU_SETSIZE - 1, 0},
    {{"noise", "schedule", "when threads get to run", LIBC, NULL, "delays at locks, barriers and starts, by the seed",
      "remove the race: join threads in a fixed order, sum in a fixed order", TWIN_UNIT_EXPOSURE, NULL, NULL, NULL},
     TW_BY_LIBC, false, "schedule", TW_ALWAYS, false, 0, 0},
};
enum { SPECS = sizeof specs / sizeof specs[0] };

const struct tw_spec *tw_spec_of(const struct twin_factor *f)
{
    for (size_t i = 0; i < SPECS; i++)
        if (strcmp(specs[i].factor.id, f->id) == 0)
            return &specs[i];
    return NULL;
}

enum tw_channel tw_factor_channel(const struct twin_factor *f)
{
    const struct tw_spec *spec = f->edits ? NULL : tw_spec_of(f);
    return spec ? spec->channel : f->edits ? TW_BY_EDITS : TW_BY_NOBODY;
}

/* ---- what is to be had here */

struct here { bool agent, hot, python, layout, gpu, wide; };

/* Tried on ourselves and taken back: a container's filter may refuse it. */
static bool layout_can_be_fixed(void)
{
    int old = personality(0xffffffff);
    if (old < 0 || personality((unsigned long)old | ADDR_NO_RANDOMIZE) < 0)
        return false;
    personality((unsigned long)old);
    return true;
}

static bool gpu_driver(void)
{
    static const char *const signs[] = {"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (access(signs[i], F_OK) == 0)
            return true;
    return false;
}

static int look_around(struct here *h, struct twin_error *err)
{
    struct twin_parts parts;
    int rc = twin_parts_find(&parts, err);
    if (rc != 0)
        return rc;
    *h = (struct here){parts.agent_library != NULL, parts.hot_library != NULL, parts.site_dir != NULL, layout_can_be_fixed(), gpu_driver(),
                       tw_isa_widest() > TW_ISA_DEFAULT};
    twin_parts_free(&parts);
    return 0;
}

static const char *why_not(const struct tw_spec *spec, const struct here *h)
{
    bool hot = spec->word && (strcmp(spec->word, "malloc") == 0 || strcmp(spec->word, "schedule") == 0);
    if (spec->factor.unavailable)
        return spec->factor.unavailable;
    if (spec->condition == TW_GPU && !h->gpu)
        return "no GPU driver here";
    if (spec->channel == TW_BY_LIBC && !h->agent)
        return "libtwinrun.so was not found";
    if (hot && !h->hot)
        return "libtwinrun_hot.so was not found";
    if (spec->channel == TW_BY_PYTHON && !h->python)
        return "the Python half of twinrun was not found";
    if (spec->channel == TW_BY_LAYOUT && !h->layout)
        return "the kernel refuses personality(ADDR_NO_RANDOMIZE) here";
    return NULL;
}

int twin_factors_load(const char *file, struct twin_factors *out, struct twin_error *err)
{
    struct here h;
    *out = (struct twin_factors){0};
    int rc = look_around(&h, err);
    if (rc != 0)
        return rc;
    out->factor = tw_calloc(SPECS, sizeof *out->factor);
    if (!out->factor)
        return twin_error_set(err, TWIN_ENOMEM, "out of memory for the table of factors");
    for (; out->count < SPECS; out->count++) {
        struct twin_factor *f = &out->factor[out->count];
        *f = specs[out->count].factor;
        f->unavailable = why_not(&specs[out->count], &h);
        if (strcmp(f->id, "isa") == 0 && !h.wide) { /* nothing to choose from */
            f->vary = NULL;
            f->pin = "ATEN_CPU_CAPABILITY=default and those of oneDNN, MKL, OpenBLAS";
        }
    }
    if (file)
        rc = tw_factor_file_load(file, out, err);
    if (rc != 0)
        twin_factors_free(out);
    return rc;
}

void twin_factors_free(struct twin_factors *f)
{
    for (size_t i = 0; i < f->count; i++)
        tw_factor_edits_free((struct tw_factor_edits *)(uintptr_t)f->factor[i].edits);
    tw_free(f->factor);
    *f = (struct twin_factors){0};
}

const struct twin_factor *twin_factor_find(const struct twin_factors *f, const char *id)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->factor[i].id, id) == 0)
            return &f->factor[i];
    return NULL;
}
