/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands, once, in the order of the help: COMMAND(GROUP, NAME). Whoever includes this file
 * says before what COMMAND makes of a row: options.h declares tw_command_NAME, which the file of
 * the command defines; main.c makes the table; docs/man/meson.build reads the names for the man
 * pages. So there is no include guard. The groups are enum tw_command_group in options.h.
 */
COMMAND(FIND, check)
COMMAND(FIND, isolate)
COMMAND(FIND, diff)
COMMAND(FIND, zoom)
COMMAND(FIND, shrink)
COMMAND(FIND, show)
COMMAND(FIND, report)
COMMAND(FIX, run)
COMMAND(FIX, factors)
COMMAND(FIX, ops)
COMMAND(FIX, doctor)
COMMAND(PROVE, digest)
COMMAND(PROVE, snapshot)
COMMAND(PROVE, sign)
COMMAND(PROVE, verify)
COMMAND(PROVE, pack)
COMMAND(PROVE, replay)
COMMAND(PROVE, audit)
COMMAND(LEARN, significant)
COMMAND(LEARN, spread)
COMMAND(LEARN, simulate)
COMMAND(LEARN, scale)
COMMAND(LEARN, lab)
COMMAND(KEEP, record)
COMMAND(KEEP, ls)
COMMAND(KEEP, top)
COMMAND(KEEP, slo)
COMMAND(KEEP, serve)
COMMAND(KEEP, gather)
COMMAND(KEEP, gc)
COMMAND(KEEP, export)
COMMAND(KEEP, import)
