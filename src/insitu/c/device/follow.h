/* What the network sees, followed over its life: worth of a sample, means of the classes, drift; see store/drift.py. */
#ifndef INSITU_FOLLOW_H
#define INSITU_FOLLOW_H

#include "device/life.h"

/* 255 - floor(255 (p1 - p2)) of the two largest probabilities; `confidence` is p1, `guess` its class. */
uint8_t follow_worth(const float *outputs, int32_t count, float *confidence, int32_t *guess);

/* floor(255 p) of this class's probability. */
uint8_t follow_sure(const float *outputs, int32_t count, int32_t label);

/* One more sample was seen: the sums of the groups of its latents, `count` values in all. */
void follow_drift(life_past *past, const float *sums, int32_t count, float confidence);

/* One more sample of a class: m += (f - m) / n. */
void follow_mean(float *mean, const float *features, int32_t count, uint32_t n);

/* The head's row of a new class, from the mean of its features: a nearest-mean row at the scale of the others'. */
void follow_row(const life_model *m, int32_t label);

/* What to add to the bias of this new row, so that a kept sample keeps its trained class: 0 or less. 0 also if the sample
 * is no witness, or would be wrong without the row. Of fewer witnesses, each must be further ahead. */
float follow_room(const life_model *m, const rules_record *r, int32_t label);

/* What its bias must fall by, after one more sample needs `room`; `least` before it. With a cost, `spared` has those that
 * need most, for each of the two that can go on at once (life_model.spared), and the row may take some of them. */
float follow_lower(const life_model *m, int32_t label, float *spared, float least, float room);

/* No sample has needed room yet. */
void follow_clear(const life_model *m, float *spared);

/* Is this a class whose row was trained, other than the one with this label? */
int32_t follow_trained(const life_model *m, int32_t k, int32_t label);

/* Begin to try this new row: its bias must fall until the row takes no kept sample from a class that was trained. Until
 * that is known, it leaves as much room as the row of before did. */
void follow_begin(const life_model *m, int32_t label);

/* Try it on one more record, or end. Recalls the record: the latents at hand are then another's. Returns 0 at the end. The
 * result is the same bytes in any number of slices: the record sees the bias of the beginning. */
int32_t follow_slice(const life_model *m);

/* All that is left of it. */
void follow_end(const life_model *m);

#endif
