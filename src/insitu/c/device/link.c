/* Frames on a byte stream: see link.h. The frame is decoded as it arrives and encoded as it is sent: one buffer. */
#include "device/link.h"

#include "device/port.h"
#include "kernels.h"

enum { FULL = 255 }; /* the length byte of a block that is not followed by a zero */

uint32_t link_word(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

void link_put_word(uint8_t *to, uint32_t word)
{
    for (int32_t i = 0; i < 4; i++) {
        to[i] = (uint8_t)(word >> 8 * i);
    }
}

void link_begin(link_reader *reader)
{
    reader->count = 0;
    reader->code = FULL;
    reader->left = 0;
    reader->too_long = 0;
    reader->begun = 0;
}

static void append(link_reader *reader, uint8_t byte)
{
    if (reader->count < LINK_BYTES) {
        reader->frame[reader->count++] = byte;
    } else {
        reader->too_long = 1;
    }
}

/* A zero has arrived: what did it end? */
static int32_t finish(link_reader *reader)
{
    const int32_t body = reader->count - LINK_CRC;
    const int32_t cut = reader->left != 0;
    if (!reader->begun) {
        return LINK_MORE; /* zeros between frames mean nothing */
    }
    if (reader->too_long) {
        return LINK_TOO_LONG;
    }
    if (cut || body < 0 || link_word(reader->frame + body) != crc32_bytes(reader->frame, (uint32_t)body)) {
        return LINK_DAMAGED;
    }
    return LINK_FRAME;
}

int32_t link_take(link_reader *reader, uint8_t byte)
{
    if (byte == 0) {
        const int32_t found = finish(reader);
        const int32_t body = reader->count - LINK_CRC;
        link_begin(reader);
        reader->count = found == LINK_FRAME ? body : 0;
        return found;
    }
    if (!reader->begun) {
        link_begin(reader);
        reader->begun = 1;
    }
    if (reader->left > 0) {
        append(reader, byte);
        reader->left--;
        return LINK_MORE;
    }
    if (reader->code != FULL) {
        append(reader, 0); /* the zero that ended the previous block */
    }
    reader->code = byte;
    reader->left = (uint8_t)(byte - 1);
    return LINK_MORE;
}

void link_send(uint8_t *frame, int32_t count)
{
    static const uint8_t border[1] = {0};
    const int32_t end = count + LINK_CRC;
    int32_t at = 0, more = 1;
    link_put_word(frame + count, crc32_bytes(frame, (uint32_t)count));
    port_write(border, 1);
    while (more) {
        int32_t n = 0;
        while (n < FULL - 1 && at + n < end && frame[at + n] != 0) {
            n++;
        }
        const uint8_t code[1] = {(uint8_t)(n + 1)};
        port_write(code, 1);
        port_write(frame + at, n);
        more = at + n < end; /* a zero at the very end still needs an empty block after it */
        at += n + (n < FULL - 1);
    }
    port_write(border, 1);
}
