/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PROVENANCE_DOCTOR_H
#define TW_PROVENANCE_DOCTOR_H
/*
 * What can be captured on this machine, and what cannot: each check tries the thing itself (writes
 * to the home, starts the interpreter, makes a run) and tells what came out of it as one line.
 * (doctor.c: machine and scripts; doctor_python.c: the job's Python)
 */
enum tw_doctor_state {
    TW_DOCTOR_OK,
    TW_DOCTOR_LIMITED, /* works, with the limit that the text names */
    TW_DOCTOR_NO,      /* must be put right before a job can be watched */
    TW_DOCTOR_ABSENT   /* not here, and not needed */
};
const char *tw_doctor_state_name(enum tw_doctor_state state);

/* Who is told. id: what was checked, a word or two; text: not yet made printable, since it holds
 * names and messages of others; both end with the call. */
struct tw_doctor {
    void *user;
    void (*tell)(void *user, enum tw_doctor_state state, const char *id, const char *text);
};

/* Our own parts: the agent, the hooks, the instruction set of fingerprints, LD_PRELOAD. */
void tw_doctor_parts(const struct tw_doctor *d);
/* Can runs be written there, and is there room? A home that is not there yet is made and taken away
 * again. */
void tw_doctor_home(const struct tw_doctor *d, const char *home);
/* What the kernel and its container allow: the address layout. */
void tw_doctor_kernel(const struct tw_doctor *d);
/* The interpreter that --python named, or the usual one (given NULL): its version, numpy, the hooks
 * of its PyTorch; and a run, since only that proves that the agent speaks from inside it. */
void tw_doctor_python(const struct tw_doctor *d, const char *given);
/* Programs and devices that limit what is seen: MPI, CUDA. */
void tw_doctor_machine(const struct tw_doctor *d);
/* A script, and its habits that only look like seeding (habits.h). */
void tw_doctor_script(const struct tw_doctor *d, const char *path);

#endif
