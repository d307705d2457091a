/* Where latents are kept: slots in RAM (store_ram.c) or in flash (store_flash.c); a firmware has one of the two. */
#ifndef INSITU_STORE_H
#define INSITU_STORE_H

#include "device/life.h"

/* Finds the records that are there, in the order of their ids. */
void store_mount(const life_model *m);

/* Keeps the latents at hand for this record; returns their slot, or -1 if the flash failed. */
int32_t store_add(const life_model *m, const rules_record *record);

/* Erases every page, or zeroes every slot: nothing is left to read. */
void store_clear(const life_model *m);

void store_drop(const life_model *m, const rules_record *record);

/* Brings a record's latents to m->latent. */
void store_bring(const life_model *m, const rules_record *record);

/* Is this record's sample the one at hand, whose CRC this is? */
int32_t store_equal(const life_model *m, const rules_record *record, uint32_t crc);

/* Puts a record in its place among the others. */
void store_insert(const life_model *m, const rules_record *record);

/* Takes one out. */
void store_remove(const life_model *m, int32_t number);

#endif
