/* The protocol's requests for a program that keeps its own samples: see life_requests.h. Numbers are little endian. */
#include "device/life_requests.h"

#include "device/device.h"
#include "device/follow.h"
#include "device/life.h"
#include "device/store.h"
#include "kernels.h"

extern const life_model life_here;
int32_t life_encode(void); /* of the sample that the protocol has written; not 0 if it has not arrived whole */

typedef union {
    float f;
    uint32_t u;
} bits;

void life_start(void)
{
    life_begin(&life_here);
}

void life_end(void)
{
    follow_end(&life_here);
}

static uint32_t word_at(const uint8_t *data, int32_t size, int32_t i)
{
    return 4 * i + 4 <= size ? link_word(data + 4 * i) : 0;
}

static float real_at(const uint8_t *data, int32_t size, int32_t i)
{
    bits b;
    b.u = word_at(data, size, i);
    return b.f;
}

static uint32_t bits_of(float x)
{
    bits b;
    b.f = x;
    return b.u;
}

static int32_t as_status(int32_t found)
{
    static const uint8_t status[4] = {DEVICE_OK, DEVICE_LABEL, DEVICE_NO_SAMPLE, DEVICE_FLASH};
    return status[found];
}

static int32_t observe(int32_t label)
{
    return life_encode() != 0 ? DEVICE_NOT_READY : as_status(life_observe(&life_here, label));
}

/* Up to this many slices of a bout; if none is running, a new one of so many steps. */
static int32_t rehearse(uint32_t slices, uint32_t steps, float rate, int32_t partial)
{
    static const uint8_t status[3] = {DEVICE_OK, DEVICE_BUSY, DEVICE_LACKS};
    const int32_t found = steps > 0 ? life_bout(&life_here, steps, rate, partial) : 0;
    if (found != 0) {
        return status[found];
    }
    while (slices-- > 0 && life_slice(&life_here)) {
    }
    return DEVICE_OK;
}

static int32_t checkpoint(void)
{
    if (!life_here.bank_bytes) {
        return DEVICE_NOTHING;
    }
    if (life_here.now->phase != LIFE_IDLE) {
        return DEVICE_BUSY;
    }
    const uint32_t failures = life_here.now->failures;
    life_checkpoint(&life_here);
    while (life_slice(&life_here)) {
    }
    return failures == life_here.now->failures ? DEVICE_OK : DEVICE_FLASH;
}

static uint32_t kept(int32_t label, int32_t guard)
{
    uint32_t found = 0;
    for (int32_t i = 0; i < life_here.now->count; i++) {
        const rules_record *r = life_here.records + i;
        found += r->label == label && (r->flags & RULES_GUARD) == guard;
    }
    return found;
}

/* One class: in use, labelled, trainees, guards, samples in its mean, its name. */
static int32_t class_out(int32_t label, uint8_t *data)
{
    const rules_class *kind = life_here.classes + label;
    const uint32_t words[5] = {(uint32_t)life_in_use(&life_here, label), kind->labelled, kept(label, 0),
                               kept(label, RULES_GUARD), kind->count};
    for (int32_t i = 0; i < 5; i++) {
        link_put_word(data + 4 * i, words[i]);
    }
    copy_bytes(data + 20, kind->name, RULES_NAME);
    return 20 + RULES_NAME;
}

static uint32_t wear(int32_t all)
{
    uint32_t sum = 0, most = 0;
    for (int32_t i = 0; i < life_here.segment_count; i++) {
        const uint32_t own = life_here.segments[i].wear;
        sum += own;
        most = own > most ? own : most;
    }
    return all ? sum : most;
}

/* The order of the words is that of STATISTICS in devices/living.py. */
static int32_t all_out(uint8_t *data)
{
    const life_past *past = life_here.past;
    const life_now *now = life_here.now;
    const uint32_t words[] = {
        past->next_id, past->observed, past->steps, past->bouts, past->undone, past->guards, past->right, past->lost,
        past->won, past->usual, (uint32_t)now->count, (uint32_t)now->phase, now->left, now->last_id, now->dropped,
        now->failures, now->cuts, now->erases, now->started, (uint32_t)now->guess, wear(0), wear(1),
        kept(RULES_NONE, 0), (uint32_t)now->trial.left, now->bank.sequence,
        now->late.wear, bits_of(now->loss), bits_of(now->confidence), bits_of(life_drift(&life_here)),
        bits_of(past->recent[LIFE_GROUPS]),
    };
    const int32_t count = sizeof words / sizeof *words;
    for (int32_t i = 0; i < count; i++) {
        link_put_word(data + 4 * i, words[i]);
    }
    return 4 * count;
}

static int32_t statistics(int32_t part, uint8_t *data, int32_t *size)
{
    if (part > life_here.class_count) {
        return DEVICE_NO_SUCH;
    }
    *size = part ? class_out(part - 1, data) : all_out(data);
    return DEVICE_OK;
}

static int32_t records(uint32_t offset, uint32_t count, uint8_t *data, int32_t *size)
{
    const uint32_t all = (uint32_t)life_here.now->count * sizeof *life_here.records;
    if (offset > all || count > all - offset || count > DEVICE_DATA) {
        return DEVICE_OUTSIDE;
    }
    copy_bytes(data, (const uint8_t *)life_here.records + offset, (int32_t)count);
    *size = (int32_t)count;
    return DEVICE_OK;
}

/* Bytes of the latents of the records, one after the other; not from one into the next. */
static int32_t latents(uint32_t offset, uint32_t count, uint8_t *data, int32_t *size)
{
    const uint32_t each = life_here.latent_bytes, number = offset / each, at = offset % each;
    if (number >= (uint32_t)life_here.now->count || count > each - at || count > DEVICE_DATA) {
        return DEVICE_OUTSIDE;
    }
    store_bring(&life_here, life_here.records + number);
    copy_bytes(data, life_here.latent + at, (int32_t)count);
    *size = (int32_t)count;
    return DEVICE_OK;
}

int32_t life_request(int32_t kind, int32_t part, uint32_t offset, uint32_t count, uint8_t *data, int32_t *size)
{
    const uint32_t first = word_at(data, *size, 0), second = word_at(data, *size, 1);
    switch (kind) {
    case DEVICE_OBSERVE:
        return observe((int32_t)first);
    case DEVICE_LABEL_LATER:
        return as_status(life_label(&life_here, first, (int32_t)second));
    case DEVICE_REHEARSE:
        return rehearse(first, second, real_at(data, *size, 2), word_at(data, *size, 3) != 0);
    case DEVICE_CHECKPOINT:
        return checkpoint();
    case DEVICE_ROLLBACK:
        return life_rollback(&life_here) ? DEVICE_NOTHING : DEVICE_OK;
    case DEVICE_ADD_CLASS:
        return life_add_class(&life_here, (const char *)data, *size) < 0 ? DEVICE_NO_ROOM : DEVICE_OK;
    case DEVICE_FORGET:
        return as_status(life_forget(&life_here, (int32_t)first));
    case DEVICE_STATISTICS:
        return statistics(part, data, size);
    case DEVICE_ERASE:
        return as_status(life_erase(&life_here));
    case DEVICE_LATENTS:
        return latents(offset, count, data, size);
    default:
        return records(offset, count, data, size);
    }
}
