/* No checkpoints: for a board whose flash insitu cannot write. See bank.h. */
#include "device/bank.h"

void bank_begin(const life_model *m)
{
    (void)m;
}

int32_t bank_step(const life_model *m)
{
    m->now->bank.busy = 0;
    return 0;
}

void bank_find(const life_model *m)
{
    m->now->bank.newest = -1;
}

void bank_clear(const life_model *m)
{
    (void)m;
}

void bank_read(const life_model *m, uint32_t offset, void *to, uint32_t bytes)
{
    (void)m, (void)offset, (void)to, (void)bytes;
}

uint32_t bank_payload(const life_model *m)
{
    (void)m;
    return 0;
}
