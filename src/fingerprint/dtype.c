/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of the element types. The names stand in reports and in JSON; the numbers (enum
 * twin_dtype) stand in traces. A number that this version does not know has size 0 and the name
 * "?". */
#include <twin/fingerprint.h>

/* Bytes of one element; of a complex number, of both parts. */
static const struct {
    const char *name;
    size_t size;
} dtypes[TWIN_DTYPE_COUNT] = {
    [TWIN_BYTES] = {"bytes", 1},
    [TWIN_U8] = {"u8", 1},
    [TWIN_I8] = {"i8", 1},
    [TWIN_BOOL] = {"bool", 1},
    [TWIN_U16] = {"u16", 2},
    [TWIN_I16] = {"i16", 2},
    [TWIN_F16] = {"f16", 2},
    [TWIN_BF16] = {"bf16", 2},
    [TWIN_U32] = {"u32", 4},
    [TWIN_I32] = {"i32", 4},
    [TWIN_F32] = {"f32", 4},
    [TWIN_U64] = {"u64", 8},
    [TWIN_I64] = {"i64", 8},
    [TWIN_F64] = {"f64", 8},
    [TWIN_C64] = {"c64", 8},
    [TWIN_C128] = {"c128", 16},
    [TWIN_F8_E4M3FN] = {"f8_e4m3fn", 1},
    [TWIN_F8_E5M2] = {"f8_e5m2", 1},
};

size_t twin_dtype_size(enum twin_dtype dtype)
{
    return (unsigned)dtype < TWIN_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *twin_dtype_name(enum twin_dtype dtype)
{
    return (unsigned)dtype < TWIN_DTYPE_COUNT ? dtypes[dtype].name : "?";
}
