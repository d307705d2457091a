/* The classes of a life, for the other files here: see classes.c. */
#ifndef INSITU_CLASSES_H
#define INSITU_CLASSES_H

#include "device/life.h"

/* Is this a class that is in use, or was added by name? */
int32_t classes_known(const life_model *m, int32_t label);

/* The mean of its features. */
float *classes_mean(const life_model *m, int32_t label);

/* One more sample has this label; its features are those of the last recall. */
void classes_learn(const life_model *m, int32_t label);

/* A row that follows its mean leaves the samples of trained classes alone. */
void classes_leave_room(const life_model *m, int32_t label);

/* The row of this class, or of every new one, is as this life has left it. */
void classes_mark(const life_model *m, int32_t label);
void classes_mark_all(const life_model *m);

/* A new class whose row somebody else has changed, a step outside of a bout or a state that came in, is new no more: its
 * row was taught, and must not follow its mean again. Between two bouts, with no row on trial. */
void classes_notice(const life_model *m);

/* Drop the records of classes that are not known; from flash only if a checkpoint there does not know them either. */
void classes_sweep(const life_model *m, int32_t saved);

/* Has this class a sample to learn from? */
int32_t classes_trainee(const life_model *m, int32_t label);

/* The only one of the taught classes that was added and has learned nothing yet, beside others; else the one that did so
 * last, while it is young; or -1. When a bout is over, those are taught that had lessons in it. */
int32_t classes_new(const life_model *m, int32_t over);

/* Has each class that was trained, but for this one, enough guards to see harm? */
int32_t classes_guarded(const life_model *m, int32_t label);

/* Was a sample of another class kept after the oldest of this one? */
int32_t classes_news(const life_model *m, int32_t label);

#endif
