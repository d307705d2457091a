/* Frames on a byte stream: at most LINK_BYTES, the last four of them a CRC-32, COBS-encoded, between zero bytes.
 *
 * COBS (consistent overhead byte stuffing) removes the zeros from a frame, so that a zero byte is always a border:
 * after any damage the next zero is a fresh start. What a frame means is defined in device.h.
 */
#ifndef INSITU_DEVICE_LINK_H
#define INSITU_DEVICE_LINK_H

#include <stdint.h>

enum { LINK_BYTES = 512, LINK_CRC = 4 };

enum { LINK_MORE, LINK_FRAME, LINK_DAMAGED, LINK_TOO_LONG }; /* what a byte completed */

typedef struct {
    int32_t count; /* bytes in `frame` */
    uint8_t code;  /* the block that is being read: its length byte */
    uint8_t left;  /* and how many of its bytes are still to come */
    uint8_t too_long;
    uint8_t begun;
    uint8_t frame[LINK_BYTES]; /* the decoded bytes; last, so that a sanitizer detects an overrun */
} link_reader;

void link_begin(link_reader *reader);

/* One byte from the line. LINK_FRAME: `frame` holds a good frame of `count` bytes, the CRC taken off, until the next
 * call. LINK_DAMAGED, LINK_TOO_LONG: the frame is dropped, and the next byte begins a new one.
 */
int32_t link_take(link_reader *reader, uint8_t byte);

/* Sends a frame of `count` bytes; `frame` has room for the CRC after them. */
void link_send(uint8_t *frame, int32_t count);

uint32_t link_word(const uint8_t *from);
void link_put_word(uint8_t *to, uint32_t word);

#endif
