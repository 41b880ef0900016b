#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts the job with a broken watcher beside the real one. usage: mutate.sh KIND LIBRARY COMMAND...
TWINRUN_MUTANT=$1
LD_PRELOAD=$LD_PRELOAD:$2
shift 2
export TWINRUN_MUTANT LD_PRELOAD
exec "$@"
