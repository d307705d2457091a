/* Latents in RAM: see store.h. A slot is a CRC and the latents; a record knows its slot. Gone when the power is. */
#include "device/store.h"

#include "kernels.h"

enum { CRC = 4 };

static unsigned char *slot_of(const life_model *m, int32_t slot)
{
    return m->slots + (uint32_t)slot * m->slot_bytes;
}

void store_mount(const life_model *m)
{
    m->now->count = 0;
}

static int32_t is_free(const life_model *m, int32_t slot)
{
    for (int32_t i = 0; i < m->now->count; i++) {
        if (m->records[i].slot == slot) {
            return 0;
        }
    }
    return 1;
}

int32_t store_add(const life_model *m, const rules_record *record)
{
    int32_t slot = 0;
    (void)record;
    while (!is_free(m, slot)) {
        slot++;
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
