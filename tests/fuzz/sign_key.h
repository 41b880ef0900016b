/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_FUZZ_SIGN_KEY_H
#define TW_FUZZ_SIGN_KEY_H
/* Keys that were made for this process and signed nothing, in a folder that goes with it. */
#include "src/sign/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

static inline void must(int yes)
{
    if (!yes)
        abort();
}

static char key_path[128];

static inline void remove_keys(void)
{
    tw_remove_tree(key_path, NULL, NULL);
}

static inline const char *key_folder(void)
{
    static const char *const names[] = {"a", "b", "c"};
    if (key_path[0])
        return key_path;
    const char *temp = getenv("TMPDIR");
    snprintf(key_path, sizeof key_path, "%s/twinrun-fuzz-XXXXXX",
             temp && strlen(temp) < 90 ? temp : "/tmp");
    must(mkdtemp(key_path) != NULL);
    atexit(remove_keys);
    for (int i = 0; i < 3; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", key_path, names[i]);
        must(twin_key_new(path, i == 1 ? TWIN_KEY_P256 : TWIN_KEY_ED25519, NULL) == 0);
    }
    return key_path;
}

static inline const char *empty_folder(void)
{
    static char path[160];
    if (!path[0]) {
        snprintf(path, sizeof path, "%s/empty", key_folder());
        must(tw_mkdirs(path, NULL) == 0);
    }
    return path;
}

static inline const struct twin_trust *trust_of_nobody(void)
{
    static struct twin_trust *trust;
    if (!trust) {
        char a[160], b[160];
        char *list[] = {a, b};
        snprintf(a, sizeof a, "%s/a.pub", key_folder());
        snprintf(b, sizeof b, "%s/b.pub", key_folder());
        must(twin_trust_keys(list, 2, &trust, NULL) == 0);
    }
    return trust;
}
#endif
