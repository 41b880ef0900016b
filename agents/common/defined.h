/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_AGENT_DEFINED_H
#define TW_AGENT_DEFINED_H
/* Where a library is that may be linked statically: by a function that it defines. */
#include <stdbool.h>
#include <stddef.h>

/* Whether a file of code has a function of its own of this name, and this word among its constants.
 * It need not export the function: a table of symbols for debuggers will do. A file that was
 * stripped and does not export it cannot be told from one that lacks it. No memory is asked for. */
bool tw_defined_in(const char *path, const char *symbol, const char *word);

enum tw_linked { TW_LINKED_NOT, TW_LINKED_SHARED, TW_LINKED_STATIC };
struct tw_nccl_home {
    enum tw_linked linked;
    bool torch;     /* PyTorch for Python is there, too */
    char file[256]; /* what it is linked statically into, or its own library */
};
/* NCCL in this process. TW_LINKED_NOT also where no driver of a GPU is loaded, since it does
 * nothing without. No lock of the loader is waited for. */
void tw_nccl_home(struct tw_nccl_home *home);
#endif
