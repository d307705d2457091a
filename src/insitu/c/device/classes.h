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

/* Drop the records of classes that are not known; from flash only if a checkpoint there does not know them either. */
void classes_sweep(const life_model *m, int32_t saved);

#endif
