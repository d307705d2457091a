/* Everything that a life has kept is deleted: see life.h. What a class alone leaves behind is life_forget's. */
#include "device/bank.h"
#include "device/store.h"

int32_t life_erase(const life_model *m)
{
    const life_now was = *m->now; /* of the flash, wear and failures go on */
    bank_clear(m);
    store_clear(m);
    const uint32_t failures = m->now->failures, erases = m->now->erases, wear = m->now->late.wear;
    life_anew(m);
    m->now->failures = failures;
    m->now->erases = erases;
    m->now->late.wear = wear;
    m->now->bank.sequence = was.bank.sequence;
    m->now->bank.newest = -1;
    return failures == was.failures ? 0 : 3;
}
