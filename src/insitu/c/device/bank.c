/* Checkpoints in two banks of flash: see bank.h. */
#include "device/bank.h"

#include "device/flash.h"
#include "kernels.h"

enum { HEAD = 28, WORDS = HEAD / 4, MAGIC = 0x43534E49, FORMAT = 1, KIND = 1 }; /* "INSC"; version 1, kind 1: a life */
enum { PARTS = 6, AT_ONCE = 64 }; /* bytes that one step programs */

typedef struct {
    unsigned char *data;
    uint32_t bytes;
} part;

void bank_program(const life_model *m, uint32_t at, const uint8_t *from, uint32_t bytes)
{
    uint8_t word[FLASH_MOST];
    for (uint32_t i = 0; i < bytes; i += m->word_bytes) {
        uint8_t blank = 0xFF;
        for (uint32_t k = 0; k < m->word_bytes; k++) {
            word[k] = i + k < bytes ? from[i + k] : 0xFF;
            blank &= word[k];
        }
        if (blank != 0xFF && flash_program(at + i, word) != 0) {
            m->now->failures++;
        }
    }
}

void bank_erase(const life_model *m, uint32_t page)
{
    m->now->erases++;
    if (flash_erase(page) != 0) {
        m->now->failures++;
    }
}

static void parts_of(const life_model *m, part *parts)
{
    const uint32_t classes = (uint32_t)m->class_count;
    const part all[PARTS] = {
        {m->state, m->state_bytes},
        {(unsigned char *)m->past, sizeof *m->past},
        {(unsigned char *)m->classes, classes * sizeof *m->classes},
        {(unsigned char *)m->means, classes * (uint32_t)m->feature_count * 4},
        {(unsigned char *)m->records, (uint32_t)m->now->count * sizeof *m->records},
        {(unsigned char *)&m->now->late, sizeof m->now->late}, /* all pages are erased before it is written */
    };
    for (int32_t i = 0; i < PARTS; i++) {
        parts[i] = all[i];
    }
}

/* Bytes of the payload as it is in RAM. */
static void payload_at(const part *parts, uint32_t offset, uint8_t *to, uint32_t bytes)
{
    for (int32_t i = 0; i < PARTS && bytes > 0; i++) {
        if (offset >= parts[i].bytes) {
            offset -= parts[i].bytes;
            continue;
        }
        const uint32_t left = parts[i].bytes - offset, n = left < bytes ? left : bytes;
        copy_bytes(to, parts[i].data + offset, (int32_t)n);
        to += n;
        bytes -= n;
        offset = 0;
    }
}

/* Four bits at a time: the table is 64 bytes. */
static uint32_t crc_more(uint32_t crc, const uint8_t *data, uint32_t n)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
    };
    for (uint32_t i = 0; i < n; i++) {
        crc = (crc >> 4) ^ table[(crc ^ data[i]) & 15];
        crc = (crc >> 4) ^ table[(crc ^ (uint32_t)(data[i] >> 4)) & 15];
    }
    return crc;
}

static uint32_t head_bytes(const life_model *m)
{
    return (HEAD + m->word_bytes - 1) / m->word_bytes * m->word_bytes;
}

static uint32_t bank_at(const life_model *m, int32_t bank)
{
    return m->bank_at + (uint32_t)bank * m->bank_bytes;
}

static uint32_t crc_of(const life_model *m, int32_t bank, uint32_t bytes)
{
    uint8_t some[AT_ONCE];
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t at = 0; at < bytes; at += AT_ONCE) {
        const uint32_t n = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        flash_read(bank_at(m, bank) + head_bytes(m) + at, some, (int32_t)n);
        crc = crc_more(crc, some, n);
    }
    return ~crc;
}

static int32_t is_whole(const life_model *m, int32_t bank, uint32_t *sequence)
{
    uint32_t head[WORDS];
    flash_read(bank_at(m, bank), (uint8_t *)head, HEAD);
    *sequence = head[3];
    return head[0] == MAGIC && head[6] == crc32_bytes((const uint8_t *)head, HEAD - 4) &&
           head[1] == (FORMAT | (uint32_t)KIND << 16) && head[2] == m->model &&
           head[4] <= m->bank_bytes - head_bytes(m) && head[5] == crc_of(m, bank, head[4]);
}

void bank_find(const life_model *m)
{
    uint32_t sequence[2];
    const int32_t first = is_whole(m, 0, sequence), second = is_whole(m, 1, sequence + 1);
    int32_t newest = second && (!first || (int32_t)(sequence[1] - sequence[0]) > 0);
    m->now->bank.sequence = first || second ? sequence[newest] : 0;
    m->now->bank.newest = (int8_t)(first || second ? newest : -1);
}

void bank_read(const life_model *m, uint32_t offset, void *to, uint32_t bytes)
{
    flash_read(bank_at(m, m->now->bank.newest) + head_bytes(m) + offset, to, (int32_t)bytes);
}

uint32_t bank_payload(const life_model *m)
{
    uint32_t head[WORDS];
    flash_read(bank_at(m, m->now->bank.newest), (uint8_t *)head, HEAD);
    return head[4];
}

void bank_begin(const life_model *m)
{
    life_bank *bank = &m->now->bank;
    part parts[PARTS];
    parts_of(m, parts);
    bank->bytes = 0;
    for (int32_t i = 0; i < PARTS; i++) {
        bank->bytes += parts[i].bytes;
    }
    bank->crc = 0xFFFFFFFFu;
    bank->failures = m->now->failures;
    bank->at = 0;
    bank->erased = 0;
    bank->busy = 1;
}

/* The bank that is being written: not the one that counts. */
static uint32_t written_at(const life_model *m)
{
    return bank_at(m, m->now->bank.newest == 0);
}

/* The header makes the checkpoint valid; if the flash has failed meanwhile, the old one stays the newest. */
static void write_head(const life_model *m, life_bank *bank)
{
    uint32_t head[WORDS] = {MAGIC, FORMAT | (uint32_t)KIND << 16, m->model, bank->sequence + 1, bank->bytes,
                            ~bank->crc, 0};
    if (bank->failures == m->now->failures) {
        head[6] = crc32_bytes((const uint8_t *)head, HEAD - 4);
        bank_program(m, written_at(m), (const uint8_t *)head, HEAD);
    }
    if (bank->failures == m->now->failures) {
        bank->newest = bank->newest == 0;
        bank->sequence++;
    }
    bank->busy = 0;
}

static void write_some(const life_model *m, life_bank *bank)
{
    uint8_t some[AT_ONCE];
    part parts[PARTS];
    const uint32_t left = bank->bytes - bank->at, n = left < AT_ONCE ? left : AT_ONCE;
    parts_of(m, parts);
    payload_at(parts, bank->at, some, n);
    bank->crc = crc_more(bank->crc, some, n);
    bank_program(m, written_at(m) + head_bytes(m) + bank->at, some, n);
    bank->at += AT_ONCE;
}

static void erase_one(const life_model *m, life_bank *bank)
{
    bank_erase(m, written_at(m) + bank->at);
    m->now->late.wear++;
    bank->at += m->page_bytes;
    bank->erased = bank->at >= head_bytes(m) + bank->bytes;
    bank->at = bank->erased ? 0 : bank->at;
}

int32_t bank_step(const life_model *m)
{
    life_bank *bank = &m->now->bank;
    if (bank->busy && !bank->erased) {
        erase_one(m, bank);
    } else if (bank->busy && bank->at < bank->bytes) {
        write_some(m, bank);
    } else if (bank->busy) {
        write_head(m, bank);
    }
    return bank->busy;
}

void bank_clear(const life_model *m)
{
    for (uint32_t at = 0; at < 2 * m->bank_bytes; at += m->page_bytes) {
        bank_erase(m, m->bank_at + at);
        m->now->late.wear++;
    }
}
