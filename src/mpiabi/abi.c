/* SPDX-License-Identifier: Apache-2.0 */
#include "abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

static const struct tw_mpi_abi abis[] = {
    {.name = "Open MPI",
     .versions = {"Open MPI"},
     .handle_bytes = sizeof(void *),
     .status_bytes = 24,
     .source = 0,
     .tag = 4,
     .error = 8,
     .any_source = -1,
     .any_tag = -1,
     .proc_null = -2,
     .root = -4,
     .graph = 2,
     .cart = 1,
     .unsupported = 52,
     .in_place = 1,
     .ignore = 0},
    {.name = "MPICH",
     .versions = {"MPICH", "MVAPICH", "Intel(R) MPI"},
     .handle_bytes = sizeof(int),
     .status_bytes = 20,
     .source = 8,
     .tag = 12,
     .error = 16,
     .any_source = -2,
     .any_tag = -1,
     .proc_null = -1,
     .root = -3,
     .graph = 1,
     .cart = 2,
     .unsupported = 44,
     .in_place = UINTPTR_MAX,
     .ignore = 1},
};
enum { OPEN_MPI, MPICH, ABIS };

const struct tw_mpi_abi *_Atomic tw_mpi_in_use;
static void *_Atomic library; /* of MPI, as dlopen gave it */

/* Predefined handles: in MPICH a number, in Open MPI the address of a symbol. */
struct predefined {
    uint32_t mpich;
    const char *open_mpi;
    uint8_t dtype;
    void *address;
};
enum { BYTE = 3 }; /* the row of types[] that is MPI_BYTE */
static struct predefined types[] = {
    {0x4c000101, "ompi_mpi_char", TWIN_I8, NULL},
    {0x4c000118, "ompi_mpi_signed_char", TWIN_I8, NULL},
    {0x4c000102, "ompi_mpi_unsigned_char", TWIN_U8, NULL},
    [BYTE] = {0x4c00010d, "ompi_mpi_byte", TWIN_BYTES, NULL},
    {0x4c000203, "ompi_mpi_short", TWIN_I16, NULL},
    {0x4c000204, "ompi_mpi_unsigned_short", TWIN_U16, NULL},
    {0x4c000405, "ompi_mpi_int", TWIN_I32, NULL},
    {0x4c000406, "ompi_mpi_unsigned", TWIN_U32, NULL},
    {0x4c000807, "ompi_mpi_long", TWIN_I64, NULL},
    {0x4c000808, "ompi_mpi_unsigned_long", TWIN_U64, NULL},
    {0x4c000809, "ompi_mpi_long_long_int", TWIN_I64, NULL},
    {0x4c000819, "ompi_mpi_unsigned_long_long", TWIN_U64, NULL},
    {0x4c00040a, "ompi_mpi_float", TWIN_F32, NULL},
    {0x4c00080b, "ompi_mpi_double", TWIN_F64, NULL},
    {0x4c000137, "ompi_mpi_int8_t", TWIN_I8, NULL},
    {0x4c000238, "ompi_mpi_int16_t", TWIN_I16, NULL},
    {0x4c000439, "ompi_mpi_int32_t", TWIN_I32, NULL},
    {0x4c00083a, "ompi_mpi_int64_t", TWIN_I64, NULL},
    {0x4c00013b, "ompi_mpi_uint8_t", TWIN_U8, NULL},
    {0x4c00023c, "ompi_mpi_uint16_t", TWIN_U16, NULL},
    {0x4c00043d, "ompi_mpi_uint32_t", TWIN_U32, NULL},
    {0x4c00083e, "ompi_mpi_uint64_t", TWIN_U64, NULL},
    {0x4c000840, "ompi_mpi_c_float_complex", TWIN_C64, NULL},
    {0x4c001041, "ompi_mpi_c_double_complex", TWIN_C128, NULL},
    {0x4c00041c, "ompi_mpi_real", TWIN_F32, NULL},
    {0x4c00081f, "ompi_mpi_dblprec", TWIN_F64, NULL},
    {0x4c00041b, "ompi_mpi_integer", TWIN_I32, NULL},
    {0x4c000427, "ompi_mpi_real4", TWIN_F32, NULL},
    {0x4c000829, "ompi_mpi_real8", TWIN_F64, NULL},
    {0x4c000430, "ompi_mpi_integer4", TWIN_I32, NULL},
    {0x4c000831, "ompi_mpi_integer8", TWIN_I64, NULL},
    {0x4c00081e, "ompi_mpi_cplex", TWIN_C64, NULL},
    {0x4c001022, "ompi_mpi_dblcplex", TWIN_C128, NULL},
};
static struct {
    uint32_t mpich;
    const char *open_mpi, *name;
    void *address;
} operations[] = {
    {0x58000001, "ompi_mpi_op_max", "MPI_MAX", NULL},
    {0x58000002, "ompi_mpi_op_min", "MPI_MIN", NULL},
    {0x58000003, "ompi_mpi_op_sum", "MPI_SUM", NULL},
    {0x58000004, "ompi_mpi_op_prod", "MPI_PROD", NULL},
    {0x58000005, "ompi_mpi_op_land", "MPI_LAND", NULL},
    {0x58000006, "ompi_mpi_op_band", "MPI_BAND", NULL},
    {0x58000007, "ompi_mpi_op_lor", "MPI_LOR", NULL},
    {0x58000008, "ompi_mpi_op_bor", "MPI_BOR", NULL},
    {0x58000009, "ompi_mpi_op_lxor", "MPI_LXOR", NULL},
    {0x5800000a, "ompi_mpi_op_bxor", "MPI_BXOR", NULL},
    {0x5800000b, "ompi_mpi_op_minloc", "MPI_MINLOC", NULL},
    {0x5800000c, "ompi_mpi_op_maxloc", "MPI_MAXLOC", NULL},
};
static void *world, *self_comm, *packed;
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A symbol of the MPI library. A program that is not position independent has its own copy of an
 * object of the library's, which the library then uses, too: so the search order comes first. */
static void *symbol(const char *name)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    return p ? p : dlsym(atomic_load_explicit(&library, memory_order_relaxed), name);
}

/* Which of them a library says that it is, a call that MPI allows before its initialisation; NULL:
 * neither, and nothing of it is watched. */
static const struct tw_mpi_abi *told_by(void *found)
{
    static char version[8200]; /* the standard's longest is 8,192 */
    int bytes;
    int (*ask)(char *, int *) = (int (*)(char *, int *))dlsym(found, "PMPI_Get_library_version");
    if (!ask || ask(version, &bytes) != 0)
        return NULL;
    for (size_t i = 0; i < ABIS; i++)
        for (size_t k = 0; k < TW_MPI_VERSIONS && abis[i].versions[k]; k++)
            if (strstr(version, abis[i].versions[k]))
                return &abis[i];
    return NULL;
}

/* Is this object the MPI library? Its name has to say so before it is opened: looking into each
 * library of a large program takes long. */
static int look_into(struct dl_phdr_info *info, size_t size, void *user)
{
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    if (!name || strncmp(name, "/libmpi", 7) != 0)
        return 0;
    void *found = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!found)
        return 0;
    const struct tw_mpi_abi *a = told_by(found);
    if (a) {
        *(const struct tw_mpi_abi **)user = a;
        atomic_store_explicit(&library, found, memory_order_relaxed);
    } else {
        dlclose(found);
    }
    return a != NULL;
}

/* Fills the tables of predefined handles. Two threads that do it at once write the same. */
static void find_handles(bool numbers)
{
    for (size_t i = 0; i < COUNT(types); i++)
        types[i].address = numbers ? (void *)(uintptr_t)types[i].mpich : symbol(types[i].open_mpi);
    for (size_t i = 0; i < COUNT(operations); i++)
        operations[i].address = numbers ? (void *)(uintptr_t)operations[i].mpich
                                        : symbol(operations[i].open_mpi);
    world = numbers ? (void *)(uintptr_t)0x44000000 : symbol("ompi_mpi_comm_world");
    packed = numbers ? (void *)(uintptr_t)0x4c00010f : symbol("ompi_mpi_packed");
    self_comm = numbers ? (void *)(uintptr_t)0x44000001 : symbol("ompi_mpi_comm_self");
}

const struct tw_mpi_abi *tw_mpi_find_abi(void)
{
    const struct tw_mpi_abi *a = NULL;
    int before = errno;
    dl_iterate_phdr(look_into, &a);
    if (a) {
        find_handles(a == &abis[MPICH]);
        atomic_store_explicit(&tw_mpi_in_use, a, memory_order_release);
    }
    errno = before;
    return a;
}

const struct tw_mpi_abi *tw_mpi_abis(size_t *n)
{
    *n = ABIS;
    return abis;
}

tw_mpi_handle tw_mpi_at(const void *array, size_t i)
{
    const struct tw_mpi_abi *a = tw_mpi_abi();
    tw_mpi_handle h = NULL;
    if (a && array)
        memcpy(&h, (const char *)array + i * a->handle_bytes, a->handle_bytes);
    return h;
}

bool tw_mpi_is_world(tw_mpi_handle comm)
{
    return tw_mpi_id(comm) == (uintptr_t)world;
}

bool tw_mpi_is_self(tw_mpi_handle comm)
{
    return tw_mpi_id(comm) == (uintptr_t)self_comm;
}

tw_mpi_handle tw_mpi_world(void)
{
    return world;
}

tw_mpi_handle tw_mpi_byte(void)
{
    return types[BYTE].address;
}

tw_mpi_handle tw_mpi_packed(void)
{
    return packed;
}

bool tw_mpi_predefined(tw_mpi_handle type, enum twin_dtype *out)
{
    const uint64_t id = tw_mpi_id(type);
    for (size_t i = 0; id && i < COUNT(types); i++) {
        if ((uintptr_t)types[i].address == id) {
            *out = (enum twin_dtype)types[i].dtype;
            return true;
        }
    }
    return false;
}

const char *tw_mpi_operation(tw_mpi_handle op)
{
    const uint64_t id = tw_mpi_id(op);
    for (size_t i = 0; id && i < COUNT(operations); i++)
        if ((uintptr_t)operations[i].address == id)
            return operations[i].name;
    return "an operation of its own";
}

/* An address in one of our own functions is no answer. */
static bool is_ours(const void *f)
{
    Dl_info there, here;
    return !dladdr(f, &there) || !dladdr((const void *)abis, &here) ||
           there.dli_fbase == here.dli_fbase;
}

void *tw_mpi_real(struct tw_mpi_function *f, bool profiled)
{
    void *p = atomic_load_explicit(&f->found[profiled], memory_order_relaxed);
    if (__builtin_expect(p != NULL, 1))
        return p;
    if (atomic_load_explicit(&f->absent[profiled], memory_order_relaxed))
        return NULL;
    int before = errno;
    const char *name = profiled ? f->symbol : f->symbol + 1;
    p = dlsym(RTLD_NEXT, name);
    if (!p && tw_mpi_abi())
        p = dlsym(atomic_load_explicit(&library, memory_order_relaxed), name);
    if (p && is_ours(p))
        p = NULL;
    atomic_store_explicit(&f->found[profiled], p, memory_order_relaxed);
    if (!p && tw_mpi_abi()) /* else it is not loaded yet */
        atomic_store_explicit(&f->absent[profiled], true, memory_order_relaxed);
    errno = before;
    return p;
}
