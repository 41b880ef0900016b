/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_PROVENANCE_DOCTOR_INSIDE_H
#define TW_PROVENANCE_DOCTOR_INSIDE_H
/* How the checks tell what they found. */
#include "doctor.h"

/* As printf. */
void tw_doctor_tell(const struct tw_doctor *d, enum tw_doctor_state state, const char *id,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
