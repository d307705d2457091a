/* Bouts of learning: see life.h and bout.c. Without flash there are no checkpoints, and bank.c is not needed. */
#ifndef INSITU_BOUT_H
#define INSITU_BOUT_H

#include "device/life.h"

/* The state of before the bout. Returns 0, or 1 if there is none. */
int32_t bout_undo(const life_model *m);

/* Ends a bout as if it had never begun, but for what it has counted; finishes a checkpoint that is being written. */
void bout_abandon(const life_model *m);

#endif
