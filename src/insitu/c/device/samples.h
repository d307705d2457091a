/* The samples of a life, for the other files here: see samples.c. */
#ifndef INSITU_SAMPLES_H
#define INSITU_SAMPLES_H

#include "device/life.h"

/* The number of the record with this id; -1 if there is none. */
int32_t samples_find(const life_model *m, uint32_t id);

/* Counts one more arrival at the record's class and group; returns how many there were. */
uint32_t samples_arrival(const life_model *m, const rules_record *r);

#endif
