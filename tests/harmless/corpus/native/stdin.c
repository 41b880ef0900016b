/* SPDX-License-Identifier: Apache-2.0 */
/* Reads its input by parts, seeks in it where that can be done, and hands the rest to a child. */
#include "../seen.h"
int main(void)
{
    char line[100];
    off_t at = lseek(0, 0, SEEK_CUR);
    printf("at %lld\n", (long long)at);
    for (int i = 0; i < 3; i++) {
        char c = 0;
        int n = 0;
        while (n < 99 && read(0, &c, 1) == 1 && c != '\n')
            line[n++] = c;
        line[n] = 0;
        printf("line %d is %s\n", i, line);
    }
    fflush(stdout);
    seen("middle");
    int status = system("read x; echo the child has $x; wc -c");
    at = lseek(0, 0, SEEK_CUR);
    printf("status %d at %lld\n", status, (long long)at);
    return 0;
}
