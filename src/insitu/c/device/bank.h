/* Checkpoints in two banks of flash: the newer whole one counts, a new one overwrites the other, its header last.
 *
 *   header    "INSC", version + kind, model, sequence, bytes and CRC-32 of the payload, CRC-32 of these: 28 bytes
 *   payload   the state, then the life: life_past, classes, means of the features, records, wear of the banks
 *
 * docs/living.md describes the bytes. Also here: the two ways to change flash, which count what fails.
 */
#ifndef INSITU_BANK_H
#define INSITU_BANK_H

#include "device/life.h"

/* Programs these bytes from this word on; the last word is filled up with ones. */
void bank_program(const life_model *m, uint32_t at, const uint8_t *from, uint32_t bytes);
void bank_erase(const life_model *m, uint32_t page);

/* Begins a checkpoint of all that is there now. */
void bank_begin(const life_model *m);

/* Erases one page or programs a few words of it. Returns 0 when it is complete. */
int32_t bank_step(const life_model *m);

/* At the start: which bank has the newest whole checkpoint of this model? Sets now->bank.newest: 0, 1, or -1. */
void bank_find(const life_model *m);

/* Erases both banks. */
void bank_clear(const life_model *m);

/* Bytes of its payload, from this offset on; and how many it has. */
void bank_read(const life_model *m, uint32_t offset, void *to, uint32_t bytes);
uint32_t bank_payload(const life_model *m);

#endif
