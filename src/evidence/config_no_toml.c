/* SPDX-License-Identifier: Apache-2.0 */
/* In place of config_toml.cpp in a build without toml++ or a C++ compiler. */
#include "internal.h"

struct json_t *tw_config_from_toml(const char *data, size_t n, const char *name, struct twin_error *err)
{
    (void)data, (void)n;
    twin_error_set(err, TWIN_EUNSUPPORTED, "%s: this twinrun was built without toml++ (Debian: libtomlplusplus-dev, g++); convert the file to JSON", name);
    return NULL;
}
