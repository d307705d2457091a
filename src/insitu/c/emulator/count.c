/* Called by the emulator before every instruction: counts it for its address, and for the call that is under way.
 *
 * `owner` says, for the halfword at an address, which slot the time belongs to from there on; KEEP leaves it with the
 * caller. So an instruction of a kernel counts for the line of the model that called it. When `left` of them have run
 * the emulator is stopped: firmware that loops forever must not.
 */
#include <stdint.h>

enum { KEEP = 0xffff };

typedef struct {
    uint64_t base, halfwords; /* the counted code */
    const uint16_t *owner;
    uint64_t *slots, *at; /* instructions per slot, per address */
    uint64_t current, outside, left;
    int (*stop)(void *uc); /* the emulator's own */
} counts;

void count_instruction(void *uc, uint64_t address, uint32_t size, void *user)
{
    counts *c = user;
    const uint64_t i = (address - c->base) >> 1;
    (void)size;
    if (c->left == 0) {
        c->stop(uc);
        return;
    }
    c->left--;
    if (i >= c->halfwords) {
        c->outside++;
        return;
    }
    if (c->owner[i] != KEEP) {
        c->current = c->owner[i];
    }
    c->at[i]++;
    c->slots[c->current]++;
}
