/* SPDX-License-Identifier: Apache-2.0 */
/* A library with nothing in it, for tests that need one of some name to be loaded. */
int twin_idle_library(void);
__attribute__((visibility("default"))) int twin_idle_library(void)
{
    return 0;
}
