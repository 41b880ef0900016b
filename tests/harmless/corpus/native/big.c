/* SPDX-License-Identifier: Apache-2.0 */
/* Three megabytes on stdout in uneven pieces, a line on stderr now and then. */
#include "../seen.h"
int main(void)
{
    char block[7001];
    for (int i = 0; i < 430; i++) {
        memset(block, 'a' + i % 26, sizeof block);
        block[sizeof block - 1] = '\n';
        if (fwrite(block, 1, sizeof block, stdout) != sizeof block) {
            dprintf(2, "write failed: %d\n", errno);
            return 3;
        }
        if (i % 50 == 0) {
            fflush(stdout);
            dprintf(2, "block %d\n", i);
        }
    }
    return fflush(stdout) ? 4 : 0;
}
