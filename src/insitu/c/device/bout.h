/* Bouts of learning: see life.h and bout.c. Without flash there are no checkpoints, and bank.c is not needed. */
#ifndef INSITU_BOUT_H
#define INSITU_BOUT_H

#include "device/life.h"

/* Bytes of the state as it was before the bout. */
void bout_before(const life_model *m, uint32_t offset, void *to, uint32_t bytes);

/* Is the network right about this record, and how sure is it of the label? */
int32_t bout_right(const life_model *m, const rules_record *r, uint8_t *sure);

/* The state of before the bout. Returns 0, or 1 if there is none. */
int32_t bout_undo(const life_model *m);

/* Ends a bout as if it had never begun, but for what it has counted; finishes a checkpoint that is being written. */
void bout_abandon(const life_model *m);

#endif
