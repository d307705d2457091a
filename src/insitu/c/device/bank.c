/* Checkpoints in two banks of flash: see bank.h. */
#include "device/bank.h"

#include "device/flash.h"
#include "kernels.h"

enum { HEAD = 28, WORDS = HEAD / 4, MAGIC = 0x43534E49, FORMAT = 1, KIND = 1 }; /* "INSC"; version 1, kind 1: a life */
enum { PARTS = 5, AT_ONCE = 64 }; /* bytes that one step programs */

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

static uint32_t crc_more(uint32_t crc, const uint8_t *data, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int32_t bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        }
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

static void read_head(const life_model *m, int32_t bank, uint32_t *head)
{
    flash_read(bank_at(m, bank), (uint8_t *)head, HEAD);
}

void bank_read(const life_model *m, int32_t bank, uint32_t offset, void *to, uint32_t bytes)
{
    flash_read(bank_at(m, bank) + head_bytes(m) + offset, to, (int32_t)bytes);
}

uint32_t bank_payload(const life_model *m, int32_t bank)
{
    uint32_t head[WORDS];
    read_head(m, bank, head);
    return head[4];
}

static uint32_t crc_of(const life_model *m, int32_t bank, uint32_t bytes)
{
    uint8_t some[FLASH_MOST];
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t at = 0; at < bytes; at += FLASH_MOST) {
        const uint32_t n = bytes - at < FLASH_MOST ? bytes - at : FLASH_MOST;
        bank_read(m, bank, at, some, n);
        crc = crc_more(crc, some, n);
    }
    return ~crc;
}

static int32_t is_whole(const life_model *m, int32_t bank, uint32_t *sequence)
{
    uint32_t head[WORDS];
    read_head(m, bank, head);
    *sequence = head[3];
    return head[0] == MAGIC && head[6] == crc32_bytes((const uint8_t *)head, HEAD - 4) &&
           head[1] == (FORMAT | (uint32_t)KIND << 16) && head[2] == m->model &&
           head[4] <= m->bank_bytes - head_bytes(m) && head[5] == crc_of(m, bank, head[4]);
}

int32_t bank_newest(const life_model *m)
{
    uint32_t first, second;
    const int32_t a = is_whole(m, 0, &first), b = is_whole(m, 1, &second);
    if (a && b) {
        return (int32_t)(second - first) > 0;
    }
    return a ? 0 : b ? 1 : -1;
}

void bank_begin(const life_model *m)
{
    life_bank *bank = &m->now->bank;
    const int32_t newest = bank_newest(m);
    uint32_t last = 0;
    part parts[PARTS];
    if (newest >= 0) {
        is_whole(m, newest, &last);
    }
    parts_of(m, parts);
    bank->bytes = 0;
    bank->crc = 0xFFFFFFFFu;
    for (int32_t i = 0; i < PARTS; i++) {
        bank->bytes += parts[i].bytes;
        bank->crc = crc_more(bank->crc, parts[i].data, parts[i].bytes);
    }
    bank->crc = ~bank->crc;
    bank->sequence = last + 1;
    bank->bank = newest == 0;
    bank->at = 0;
    bank->erased = 0;
    bank->busy = 1;
}

static void write_head(const life_model *m, const life_bank *bank)
{
    uint32_t head[WORDS] = {MAGIC, FORMAT | (uint32_t)KIND << 16, m->model, bank->sequence, bank->bytes, bank->crc, 0};
    head[6] = crc32_bytes((const uint8_t *)head, HEAD - 4);
    bank_program(m, bank_at(m, bank->bank), (const uint8_t *)head, HEAD);
}

static void write_some(const life_model *m, const life_bank *bank)
{
    uint8_t some[AT_ONCE];
    part parts[PARTS];
    const uint32_t left = bank->bytes - bank->at, n = left < AT_ONCE ? left : AT_ONCE;
    parts_of(m, parts);
    payload_at(parts, bank->at, some, n);
    bank_program(m, bank_at(m, bank->bank) + head_bytes(m) + bank->at, some, n);
}

int32_t bank_step(const life_model *m)
{
    life_bank *bank = &m->now->bank;
    if (!bank->busy) {
        return 0;
    }
    if (!bank->erased) {
        bank_erase(m, bank_at(m, bank->bank) + bank->at);
        bank->at += m->page_bytes;
        bank->erased = bank->at >= m->bank_bytes || bank->at >= head_bytes(m) + bank->bytes;
        bank->at = bank->erased ? 0 : bank->at;
    } else if (bank->at < bank->bytes) {
        write_some(m, bank);
        bank->at += AT_ONCE;
    } else {
        write_head(m, bank);
        bank->busy = 0;
    }
    return bank->busy;
}
