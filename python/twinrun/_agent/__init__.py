# SPDX-License-Identifier: Apache-2.0
"""The part of twinrun that lives inside the user's Python process.

Loaded by location under the private name `_twinrun_agent`, never through sys.path, so that the
job's imports stay as they are. House rule: nothing here exits, prints, warns, raises into the job,
draws from its generators, or leaves a name or an attribute where the job can see it. On its first
internal error the agent switches itself off and notes why in the trace.
"""
