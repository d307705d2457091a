/* Latents in RAM: see store.h. A slot is a CRC and the latents; a record knows its slot. Gone when the power is. */
#include "device/store.h"

#include "kernels.h"

enum { CRC = 4, AT_ONCE = 64 }; /* slots that are looked at in one pass over the records */

static unsigned char *slot_of(const life_model *m, int32_t slot)
{
    return m->slots + (uint32_t)slot * m->slot_bytes;
}

void store_mount(const life_model *m)
{
    m->now->count = 0;
}

/* The first free one of the slots from here on, `first + AT_ONCE` if all are taken. */
static int32_t free_from(const life_model *m, int32_t first)
{
    uint8_t taken[AT_ONCE] = {0};
    int32_t free = 0;
    for (int32_t i = 0; i < m->now->count; i++) {
        const int32_t slot = m->records[i].slot - first;
        if (slot >= 0 && slot < AT_ONCE) {
            taken[slot] = 1;
        }
    }
    while (free < AT_ONCE && taken[free]) {
        free++;
    }
    return first + free;
}

int32_t store_add(const life_model *m, const rules_record *record)
{
    int32_t first = 0, slot = free_from(m, 0);
    (void)record;
    while (slot == first + AT_ONCE) {
        first = slot;
        slot = free_from(m, first);
    }
    const uint32_t crc = crc32_bytes(m->latent, m->latent_bytes);
    copy_bytes(slot_of(m, slot), &crc, CRC);
    copy_bytes(slot_of(m, slot) + CRC, m->latent, (int32_t)m->latent_bytes);
    return slot;
}

void store_drop(const life_model *m, const rules_record *record)
{
    (void)m, (void)record;
}

void store_bring(const life_model *m, const rules_record *record)
{
    copy_bytes(m->latent, slot_of(m, record->slot) + CRC, (int32_t)m->latent_bytes);
}

int32_t store_equal(const life_model *m, const rules_record *record, uint32_t crc)
{
    uint32_t found;
    const unsigned char *slot = slot_of(m, record->slot);
    copy_bytes(&found, slot, CRC);
    for (uint32_t i = 0; found == crc && i < m->latent_bytes; i++) {
        if (slot[CRC + i] != m->latent[i]) {
            return 0;
        }
    }
    return found == crc;
}

void store_clear(const life_model *m)
{
    for (uint32_t i = 0; i < ((uint32_t)m->capacity + 1) * m->slot_bytes; i++) {
        m->slots[i] = 0;
    }
    for (uint32_t i = 0; i < m->state_bytes; i++) {
        m->before[i] = 0;
    }
    for (uint32_t i = 0; i < m->latent_bytes; i++) {
        m->latent[i] = 0;
    }
}
