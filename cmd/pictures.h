/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CMD_PICTURES_H
#define TW_CMD_PICTURES_H
/* The pictures of some runs as data, for `twinrun serve` (pictures.c). The exit code. */
int tw_pictures(int argc, char **argv);
/* A postmortem of two runs, likewise. */
int tw_postmortem(int argc, char **argv);
#endif
