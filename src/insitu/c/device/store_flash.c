/* Latents in flash: see store.h. Append only: a slot is written once, and dropped by one more word.
 *
 *   segment   magic, wear, sequence, check | closed | slots
 *   slot      latents | id, label + worth + flags, CRC of the latents, check | dropped
 *
 * A slot counts when its check is right: that word is programmed last. A segment counts when its check is right and it
 * is not closed. When every slot of the open segments is used, the live ones of a segment with the fewest erases are copied
 * to a fresh one, and the old one is closed: wear never differs by more than 1. One segment is always fresh or closed; a cut while copying leaves none: then
 * the segment opened last has only copies, and is given up. Every word is programmed once between two erases.
 */
#include "device/store.h"

#include "device/bank.h"
#include "device/flash.h"
#include "kernels.h"

enum { HEAD = 16, MAGIC = 0x534C4E49, VERSIONS = 0xF8 }; /* "INLS"; flags: how often it was labelled */

static uint32_t up(const life_model *m, uint32_t bytes)
{
    return (bytes + m->word_bytes - 1) / m->word_bytes * m->word_bytes;
}

static uint32_t segment_at(const life_model *m, int32_t segment)
{
    return m->store_at + (uint32_t)segment * m->segment_bytes;
}

static uint32_t slot_at(const life_model *m, int32_t slot)
{
    const int32_t segment = slot / m->segment_slots;
    return segment_at(m, segment) + HEAD + m->word_bytes + (uint32_t)(slot % m->segment_slots) * m->slot_bytes;
}

static uint32_t head_at(const life_model *m, int32_t slot)
{
    return slot_at(m, slot) + up(m, m->latent_bytes);
}

static int32_t is_blank(uint32_t at, uint32_t bytes)
{
    uint8_t part[FLASH_MOST];
    for (uint32_t i = 0; i < bytes; i += FLASH_MOST) {
        const int32_t n = (int32_t)(bytes - i < FLASH_MOST ? bytes - i : FLASH_MOST);
        flash_read(at + i, part, n);
        for (int32_t k = 0; k < n; k++) {
            if (part[k] != 0xFF) {
                return 0;
            }
        }
    }
    return 1;
}

/* Any word that is not blank: even one that was cut off says it. */
static void mark(const life_model *m, uint32_t at)
{
    const uint32_t zeros[FLASH_MOST / 4] = {0};
    bank_program(m, at, (const uint8_t *)zeros, m->word_bytes);
}

/* segments ---------------------------------------------------------------------------------- */

static uint32_t segment_check(const life_model *m, const uint32_t *head)
{
    const uint32_t words[4] = {head[0], head[1], head[2], m->model};
    return crc32_bytes((const uint8_t *)words, sizeof words);
}

static void read_segment(const life_model *m, int32_t number)
{
    uint32_t head[HEAD / 4];
    life_segment *s = m->segments + number;
    flash_read(segment_at(m, number), (uint8_t *)head, HEAD);
    const int32_t whole = head[0] == MAGIC && head[3] == segment_check(m, head);
    s->open = whole && is_blank(segment_at(m, number) + HEAD, m->word_bytes);
    s->wear = whole ? head[1] : 0;
    s->sequence = whole ? head[2] : 0;
    s->used = 0;
}

static uint32_t last_sequence(const life_model *m)
{
    uint32_t last = 0;
    for (int32_t i = 0; i < m->segment_count; i++) {
        last = m->segments[i].sequence > last ? m->segments[i].sequence : last;
    }
    return last;
}

/* Erases it and gives it a head. It is open if the flash did not fail; its wear counts either way. */
static void open_segment(const life_model *m, int32_t number)
{
    life_segment *s = m->segments + number;
    const uint32_t failures = m->now->failures;
    uint32_t head[HEAD / 4] = {MAGIC, s->wear + 1, last_sequence(m) + 1, 0};
    head[3] = segment_check(m, head);
    for (uint32_t at = 0; at < m->segment_bytes; at += m->page_bytes) {
        bank_erase(m, segment_at(m, number) + at);
    }
    bank_program(m, segment_at(m, number), (const uint8_t *)head, HEAD);
    s->wear = head[1];
    s->sequence = head[2];
    s->used = 0;
    s->open = failures == m->now->failures;
}

void store_clear(const life_model *m)
{
    for (int32_t i = 0; i < m->segment_count; i++) {
        for (uint32_t at = 0; at < m->segment_bytes; at += m->page_bytes) {
            bank_erase(m, segment_at(m, i) + at);
        }
        m->segments[i] = (life_segment){m->segments[i].wear + 1, 0, 0, 0};
    }
    for (uint32_t i = 0; i < m->latent_bytes; i++) {
        m->latent[i] = 0;
    }
}

static void close_segment(const life_model *m, int32_t number)
{
    mark(m, segment_at(m, number) + HEAD);
    m->segments[number].open = 0;
}

/* The fresh or closed segment with the fewest erases; -1 if there is none. `count` is how many there are. */
static int32_t unused(const life_model *m, int32_t *count)
{
    int32_t found = -1;
    *count = 0;
    for (int32_t i = 0; i < m->segment_count; i++) {
        if (!m->segments[i].open) {
            ++*count;
            found = found < 0 || m->segments[i].wear < m->segments[found].wear ? i : found;
        }
    }
    return found;
}

static int32_t live_in(const life_model *m, int32_t segment)
{
    int32_t live = 0;
    for (int32_t i = 0; i < m->now->count; i++) {
        live += m->records[i].slot / m->segment_slots == segment;
    }
    return live;
}

/* Of the open segments with the fewest erases, the one with the fewest live records. It is the next to be erased, so that
 * no segment is ever erased twice more often than another, however long its records stay. */
static int32_t emptiest(const life_model *m)
{
    int32_t found = -1, least = 0;
    for (int32_t i = 0; i < m->segment_count; i++) {
        const life_segment *s = m->segments + i;
        const int32_t live = s->open ? live_in(m, i) : 0;
        if (s->open && (found < 0 || s->wear < m->segments[found].wear ||
                        (s->wear == m->segments[found].wear && live < least))) {
            found = i;
            least = live;
        }
    }
    return found;
}

/* slots ------------------------------------------------------------------------------------- */

static uint32_t slot_check(const uint32_t *head)
{
    return crc32_bytes((const uint8_t *)head, 12);
}

static int32_t write_slot(const life_model *m, int32_t segment, const uint8_t *latent, const rules_record *r,
                          uint32_t crc)
{
    const int32_t slot = segment * m->segment_slots + m->segments[segment].used++;
    uint32_t head[HEAD / 4] = {r->id, (uint16_t)r->label | (uint32_t)r->worth << 16, crc, 0};
    head[1] |= (uint32_t)(r->flags & (RULES_GUARD | VERSIONS)) << 24;
    head[3] = slot_check(head);
    bank_program(m, slot_at(m, slot), latent, m->latent_bytes);
    bank_program(m, head_at(m, slot), (const uint8_t *)head, HEAD);
    return slot;
}

/* Copies a slot as it is, word by word, so that the latents at hand stay. */
static void copy_slot(const life_model *m, int32_t from, int32_t slot)
{
    const uint32_t bytes = up(m, m->latent_bytes) + HEAD;
    uint8_t word[FLASH_MOST];
    for (uint32_t at = 0; at < bytes; at += m->word_bytes) {
        flash_read(slot_at(m, from) + at, word, (int32_t)m->word_bytes);
        bank_program(m, slot_at(m, slot) + at, word, m->word_bytes);
    }
}

/* The records of a segment in the slots of another one: copied there, or only found there. */
static void move_slots(const life_model *m, int32_t from, int32_t fresh, int32_t copied)
{
    m->segments[fresh].used = 0;
    for (int32_t i = 0; i < m->now->count; i++) {
        if (m->records[i].slot / m->segment_slots == from) {
            const int32_t slot = fresh * m->segment_slots + m->segments[fresh].used++;
            if (copied) {
                m->records[i].slot = (uint16_t)slot;
            } else {
                copy_slot(m, m->records[i].slot, slot);
            }
        }
    }
}

/* Makes room: what lives in the emptiest segment moves to this one. If the flash fails, it stays where it is. */
static void move_to(const life_model *m, int32_t fresh)
{
    const int32_t from = emptiest(m);
    const uint32_t failures = m->now->failures;
    open_segment(m, fresh);
    if (m->segments[fresh].open) {
        move_slots(m, from, fresh, 0);
    }
    m->segments[fresh].open = failures == m->now->failures;
    if (m->segments[fresh].open) {
        move_slots(m, from, fresh, 1);
        close_segment(m, from);
    }
}

static int32_t with_room(const life_model *m)
{
    for (int32_t i = 0; i < m->segment_count; i++) {
        if (m->segments[i].open && m->segments[i].used < m->segment_slots) {
            return i;
        }
    }
    return -1;
}

int32_t store_add(const life_model *m, const rules_record *record)
{
    int32_t count, found = with_room(m);
    const uint32_t failures = m->now->failures;
    for (int32_t i = 0; found < 0 && i < m->segment_count; i++) { /* one whose records all live gives no room, and moves */
        const int32_t fresh = unused(m, &count);
        if (count > 1) {
            open_segment(m, fresh);
        } else {
            move_to(m, fresh);
        }
        if (!m->segments[fresh].open) {
            return -1;
        }
        found = with_room(m);
    }
    if (found < 0) {
        return -1;
    }
    const int32_t slot = write_slot(m, found, m->latent, record, crc32_bytes(m->latent, m->latent_bytes));
    return failures == m->now->failures ? slot : -1;
}

void store_drop(const life_model *m, const rules_record *record)
{
    mark(m, head_at(m, record->slot) + HEAD);
}

void store_bring(const life_model *m, const rules_record *record)
{
    flash_read(slot_at(m, record->slot), m->latent, (int32_t)m->latent_bytes);
}

int32_t store_equal(const life_model *m, const rules_record *record, uint32_t crc)
{
    uint32_t head[HEAD / 4];
    uint8_t part[FLASH_MOST];
    flash_read(head_at(m, record->slot), (uint8_t *)head, HEAD);
    for (uint32_t i = 0; head[2] == crc && i < m->latent_bytes; i += FLASH_MOST) {
        const int32_t n = (int32_t)(m->latent_bytes - i < FLASH_MOST ? m->latent_bytes - i : FLASH_MOST);
        flash_read(slot_at(m, record->slot) + i, part, n);
        for (int32_t k = 0; k < n; k++) {
            if (part[k] != m->latent[i + (uint32_t)k]) {
                return 0;
            }
        }
    }
    return head[2] == crc;
}

/* start ------------------------------------------------------------------------------------- */

/* Is there a whole record in this slot that was not dropped? */
static int32_t read_slot(const life_model *m, int32_t slot, rules_record *r)
{
    uint32_t head[HEAD / 4];
    flash_read(head_at(m, slot), (uint8_t *)head, HEAD);
    if (head[3] != slot_check(head) || !is_blank(head_at(m, slot) + HEAD, m->word_bytes)) {
        return 0;
    }
    r->id = head[0];
    r->label = (int16_t)(head[1] & 0xFFFF);
    r->worth = (uint8_t)(head[1] >> 16);
    r->flags = (uint8_t)(head[1] >> 24);
    r->uses = 0;
    r->slot = (uint16_t)slot;
    store_bring(m, r);
    return crc32_bytes(m->latent, m->latent_bytes) == head[2] && r->label < m->class_count && r->id != 0;
}

/* Two records with the same id: a label was arriving when the power went. The older one stays. */
static void take(const life_model *m, const rules_record *r)
{
    for (int32_t i = 0; i < m->now->count; i++) {
        rules_record *other = m->records + i;
        if (other->id == r->id) {
            const int32_t newer = ((r->flags - other->flags) & VERSIONS) < VERSIONS / 2;
            store_drop(m, newer ? r : other);
            *other = newer ? *other : *r;
            return;
        }
    }
    if (m->now->count <= m->capacity) {
        store_insert(m, r);
    } else {
        store_drop(m, r);
    }
}

static void read_slots(const life_model *m, int32_t segment)
{
    for (int32_t i = 0; i < m->segment_slots; i++) {
        const int32_t slot = segment * m->segment_slots + i;
        rules_record found;
        if (is_blank(slot_at(m, slot), m->slot_bytes)) {
            continue;
        }
        m->segments[segment].used = (uint16_t)(i + 1);
        if (read_slot(m, slot, &found)) {
            take(m, &found);
        } else {
            m->now->cuts += is_blank(head_at(m, slot) + HEAD, m->word_bytes);
        }
    }
}

/* Sets the wear of segments that have lost their own: a cut while erasing takes it. */
static void guess_wear(const life_model *m)
{
    uint32_t most = 0;
    for (int32_t i = 0; i < m->segment_count; i++) {
        most = m->segments[i].wear > most ? m->segments[i].wear : most;
    }
    for (int32_t i = 0; i < m->segment_count; i++) {
        if (m->segments[i].wear == 0 && !is_blank(segment_at(m, i), HEAD)) {
            m->segments[i].wear = most;
        }
    }
}

/* All segments are open: the power went while one was copied. The one opened last has only copies. */
static void give_up_copies(const life_model *m)
{
    int32_t count;
    if (unused(m, &count) >= 0) {
        return;
    }
    for (int32_t i = 0; i < m->segment_count; i++) {
        if (m->segments[i].sequence == last_sequence(m)) {
            close_segment(m, i);
        }
    }
}

void store_mount(const life_model *m)
{
    m->now->count = 0;
    for (int32_t i = 0; i < m->segment_count; i++) {
        read_segment(m, i);
    }
    give_up_copies(m);
    guess_wear(m);
    for (int32_t i = 0; i < m->segment_count; i++) {
        if (m->segments[i].open) {
            read_slots(m, i);
        }
    }
}
