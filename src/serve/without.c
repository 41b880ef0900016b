/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of the server where twinrun was built without libevent. */
#include "serve.h"

int tw_serve(const struct tw_serve_options *o, const struct tw_front *front, struct twin_error *err)
{
    (void)o;
    (void)front;
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "this twinrun was built without libevent (package libevent-dev): it "
                          "cannot listen; --textfile and --pushgateway work all the same");
}
