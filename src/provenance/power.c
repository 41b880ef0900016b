/* SPDX-License-Identifier: Apache-2.0 */
/* How much what differs may change a result's bits: by experience (docs/internals/provenance.md),
 * not by proof. Lists of names; who knows better adds a name here, and no code. */
#include "differences.h"

#include "base.h"

#include <string.h>

/* Does s begin with one of the texts? The list ends with NULL. */
static bool begins_with(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (tw_starts(s, *list))
            return true;
    return false;
}

static bool is_one_of(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(s, *list) == 0)
            return true;
    return false;
}

const char *twin_power_name(enum twin_power p)
{
    static const char *const names[] = {"high", "medium", "low", "noise"};
    return (unsigned)p < sizeof names / sizeof names[0] ? names[p] : "?";
}

/* Libraries that compute, by the beginning of a file's or a package's name. All others may do
 * so. */
enum twin_power tw_power_of_library(const char *file)
{
    static const char *const computes[] = {"torch",         "libtorch",    "libc10",
                                           "libmkl",        "libopenblas", "libscipy_openblas",
                                           "libblas",       "libcblas",    "liblapack",
                                           "libatlas",      "libcudnn",    "libcublas",
                                           "libcuda",       "libcusparse", "libcusolver",
                                           "libcufft",      "libcurand",   "libnccl",
                                           "librccl",       "libnvrtc",    "libnvidia-ptxjit",
                                           "libmpi",        "libmpich",    "libgomp",
                                           "libomp",        "libiomp",     "libm.so",
                                           "libm-",         "libmvec",     "libdnnl",
                                           "libonednn",     "libgloo",     "libucc",
                                           "libucp",        "libuct",      "libfftw",
                                           "libamdhip",     "librocblas",  "libMIOpen",
                                           "libhipblas",    "libXNNPACK",  "libgfortran",
                                           "libsleef",      "libtriton",   "triton",
                                           "_multiarray",   "numpy",       "scipy",
                                           "jax",           "xla",         "tensorflow",
                                           "libtensorflow", "nvidia",      "flash_attn",
                                           "xformers",      "apex",        "transformer_engine",
                                           "deepspeed",     NULL};
    return begins_with(file, computes) ? TWIN_POWER_HIGH : TWIN_POWER_MEDIUM;
}

/* By the whole name: versions are few and known. */
enum twin_power tw_power_of_version(const char *name)
{
    static const char *const high[] = {"torch",
                                       "torch.cuda",
                                       "torch.hip",
                                       "torch.git_version",
                                       "torch.built_with",
                                       "cudnn",
                                       "nccl",
                                       "mpi",
                                       "numpy",
                                       "jax",
                                       "tensorflow",
                                       "triton",
                                       "scipy",
                                       "torchvision",
                                       "nvidia_driver",
                                       "cuda_driver",
                                       "cpu",
                                       "cpu_capability",
                                       "instructions",
                                       "libc",
                                       "gpu",
                                       NULL};
    static const char *const low[] = {"kernel", NULL};
    if (is_one_of(name, high))
        return TWIN_POWER_HIGH;
    return is_one_of(name, low) ? TWIN_POWER_LOW : TWIN_POWER_MEDIUM;
}

/* Variables that ranks of one job have each for itself, with the reason. EACH: the launcher gives
 * it to each process, so it says nothing about the world. PLACE: it says where on its machine a
 * rank runs, so two runs may differ in it, and two ranks have to. */
enum { EACH, PLACE };
static const struct {
    const char *name;
    int kind;
    const char *why;
} expected[] = {
    {"RANK", EACH, "number of the rank"},
    {"LOCAL_RANK", EACH, "number of the rank on its node"},
    {"GROUP_RANK", EACH, "number of the node"},
    {"ROLE_RANK", EACH, "number of the rank in its role"},
    {"NODE_RANK", EACH, "number of the node"},
    {"HOSTNAME", EACH, "name of the node"},
    {"SLURM_PROCID", EACH, "number of the rank"},
    {"SLURM_LOCALID", EACH, "number of the rank on its node"},
    {"SLURM_NODEID", EACH, "number of the node"},
    {"JOB_COMPLETION_INDEX", EACH, "number of the pod"},
    {"PMI_RANK", EACH, "number of the rank"},
    {"PMIX_RANK", EACH, "number of the rank"},
    {"OMPI_COMM_WORLD_RANK", EACH, "number of the rank"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", EACH, "number of the rank on its node"},
    {"OMPI_COMM_WORLD_NODE_RANK", EACH, "number of the rank on its node"},
    {"OMPI_MCA_orte_ess_vpid", EACH, "number of the process"},
    {"OMPI_MCA_orte_ess_node_rank", EACH, "number of the rank on its node"},
    {"OMPI_MCA_ess_base_vpid", EACH, "number of the process"},
    {"PMI_FD", EACH, "descriptor of the launcher's connection"},
    {"PMI_ID", EACH, "number of the process"},
    {"PMI_PORT", EACH, "address of the launcher"},
    {"CUDA_VISIBLE_DEVICES", EACH, "the rank's own GPU"},
    {"HIP_VISIBLE_DEVICES", EACH, "the rank's own GPU"},
    {"ROCR_VISIBLE_DEVICES", EACH, "the rank's own GPU"},
    {"TORCHELASTIC_ERROR_FILE", EACH, "a file of the rank's own"},
    {"GOMP_CPU_AFFINITY", PLACE, "the rank's own processors"},
    {"KMP_AFFINITY", PLACE, "the rank's own processors"},
    {"OMP_PLACES", PLACE, "the rank's own processors"},
};

/* Is the name in the table, and of no later kind than `kind`? */
static bool is_expected(const char *name, int kind)
{
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (expected[i].kind <= kind && strcmp(name, expected[i].name) == 0)
            return true;
    return false;
}

bool tw_variable_is_per_rank(const char *name)
{
    return is_expected(name, EACH);
}

bool tw_variable_differs_among_ranks(const char *name)
{
    return is_expected(name, PLACE);
}

enum twin_power tw_power_medium(const char *name)
{
    (void)name;
    return TWIN_POWER_MEDIUM;
}

/* numbers: what libraries that compute read. may: what decides which libraries and kernels are
 * loaded. noise: addresses, ports and numbers of jobs, which differ in every run. noise goes first,
 * as its names begin like others ("TORCHELASTIC_" like "TORCH"). */
enum twin_power tw_power_of_variable(const char *name)
{
    static const char *const numbers[] = {"OMP_",
                                          "GOMP_",
                                          "KMP_",
                                          "MKL_",
                                          "OPENBLAS_",
                                          "BLIS_",
                                          "VECLIB_",
                                          "NUMEXPR_",
                                          "TBB_",
                                          "ONEDNN_",
                                          "DNNL_",
                                          "CUBLAS",
                                          "CUDNN_",
                                          "NVIDIA_TF32",
                                          "NCCL_",
                                          "GLOO_",
                                          "ATEN_",
                                          "TORCH_ALLOW",
                                          "TORCH_BLAS",
                                          "TF_DETERMINISTIC",
                                          "TF_CUDNN",
                                          "TF_ENABLE_ONEDNN",
                                          "TF_XLA_",
                                          "TF_NUM_",
                                          "KERAS_BACKEND",
                                          "XLA_",
                                          "JAX_",
                                          "MIOPEN_",
                                          "RCCL_",
                                          "GLIBC_TUNABLES",
                                          "PYTHONHASHSEED",
                                          "LD_PRELOAD",
                                          "LD_LIBRARY_PATH",
                                          "UCX_",
                                          "CUDA_LAUNCH",
                                          "CUDA_DEVICE",
                                          NULL};
    static const char *const may[] = {
        "CUDA_",      "TORCH",        "PYTORCH_",    "TRITON_",
        "HIP_",       "HSA_",         "OMPI_MCA",    "MPICH_",
        "I_MPI_",     "FI_",          "PYTHONPATH",  "PYTHONOPTIMIZE",
        "WORLD_SIZE", "CONDA_PREFIX", "VIRTUAL_ENV", "LC_",
        "LANG",       "MALLOC_",      "HOROVOD_",    "PYTHONNOUSERSITE",
        "PYTHONHOME", "TF_",          NULL};
    static const char *const noise[] = {"MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_",
                                        "TORCHINDUCTOR_CACHE",
                                        "SLURM_",
                                        "PMI",
                                        "OMPI_COMM_WORLD",
                                        "TWINRUN_",
                                        "TMPDIR",
                                        "PBS_",
                                        "LSB_",
                                        "SHLVL",
                                        "PWD",
                                        "OLDPWD",
                                        "_",
                                        NULL};
    if (tw_variable_is_per_rank(name) || is_one_of(name, noise) ||
        (begins_with(name, noise) && name[0] != '_'))
        return TWIN_POWER_NOISE;
    if (begins_with(name, numbers))
        return TWIN_POWER_HIGH;
    if (begins_with(name, may))
        return TWIN_POWER_MEDIUM;
    return strcmp(name, "PATH") == 0 ? TWIN_POWER_LOW : TWIN_POWER_NOISE;
}
