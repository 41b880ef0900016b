/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schemas of the API, once: a file of schemas/ each. Whoever includes this file says
 * before what SCHEMA makes of a row; so there is no include guard. src/serve/meson.build reads the
 * names, too. */
SCHEMA(compared)
SCHEMA(error)
SCHEMA(event)
SCHEMA(health)
SCHEMA(incidents)
SCHEMA(indicators)
SCHEMA(postmortem)
SCHEMA(run)
SCHEMA(runs)
SCHEMA(schemas)
SCHEMA(searches)
SCHEMA(timeline)
SCHEMA(verdicts)
