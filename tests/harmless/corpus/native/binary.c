/* SPDX-License-Identifier: Apache-2.0 */
/* Every byte there is, no newline at the end, and a stream without a buffer beside one with. */
#include "../seen.h"
int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 256; i++) {
        putchar(i);
        fprintf(stderr, "%c%d", i % 7 ? ' ' : '\n', i);
    }
    for (int i = 0; i < 3000; i++)
        putchar(i * i % 251);
    printf("\033[31mred\033[0m\r\xff\xfe no newline");
    return ferror(stdout) ? 6 : 0;
}
