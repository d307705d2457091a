/* The row of a class that was added, in a bout; see bout.c and pupil.c. */
#ifndef INSITU_PUPIL_H
#define INSITU_PUPIL_H

#include "device/life.h"

/* The bout begins: is there a new class, and does its row learn alone? */
void pupil_choose(const life_model *m);

/* Is this a sample of a class whose row learns alone? Those are asked as guards are. */
int32_t pupil_owns(const life_model *m, const rules_record *r);

/* After the bout: one more guard or such a sample was asked again. */
void pupil_compare(const life_model *m, const rules_record *r, int32_t right);

/* If its class recognises fewer of those than before, its row is put back: returns 1. */
int32_t pupil_stays(const life_model *m);

/* Lessons begin. */
void pupil_begin(const life_model *m);

/* After a lesson: whatever else has learned is put back, if the row learns alone. */
void pupil_follow(const life_model *m);

/* One slice of what follows the last lesson. Returns 0 when that is done. */
int32_t pupil_end(const life_model *m);

/* The bout was judged, and kept or not. */
void pupil_judged(const life_model *m, int32_t kept);

#endif
