/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the golden accumulators of the current version into the folder named by the argument: see
 * check.py. */
#include <math.h>
#include <stdio.h>
#include <twin/exact.h>

static int keep(const char *folder, const char *name, const struct twin_acc *acc)
{
    char path[4096];
    unsigned char bytes[TWIN_ACC_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    twin_acc_write(acc, bytes);
    FILE *f = fopen(path, "wb");
    const int bad = !f || fwrite(bytes, 1, sizeof bytes, f) != sizeof bytes || fclose(f) != 0;
    if (bad)
        fprintf(stderr, "make: cannot write %s\n", path);
    return bad;
}

int main(int argc, char **argv)
{
    static const double mixed[] = {1e300, -1.5, 0x1p-1074, -1e300, 0.1, -0.0, 3e-200};
    static const double special[] = {1, INFINITY, -2};
    static const double minus_zero[] = {-0.0, -0.0, -0.0};
    struct twin_acc acc;
    if (argc != 2) {
        fprintf(stderr, "usage: exact_make_golden FOLDER\n");
        return 2;
    }
    twin_acc_init(&acc);
    int bad = keep(argv[1], "v1-empty.twac", &acc);
    bad |= twin_acc_add(&acc, TWIN_F64, mixed, 7, NULL) || keep(argv[1], "v1-mixed.twac", &acc);
    twin_acc_init(&acc);
    bad |= twin_acc_add_products(&acc, TWIN_F64, mixed, mixed + 1, 6, NULL) ||
           keep(argv[1], "v1-products.twac", &acc);
    twin_acc_init(&acc);
    bad |= twin_acc_add(&acc, TWIN_F64, special, 3, NULL) ||
           keep(argv[1], "v1-infinite.twac", &acc);
    twin_acc_init(&acc);
    bad |= twin_acc_add(&acc, TWIN_F64, minus_zero, 3, NULL) ||
           keep(argv[1], "v1-minus-zero.twac", &acc);
    return bad;
}
