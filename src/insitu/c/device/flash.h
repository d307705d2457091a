/* What a board must provide to keep samples and checkpoints in its flash: three functions.
 *
 * The flash is NOR: an erased page is all ones, programming clears bits, a page is erased as a whole. Here a word is
 * programmed at most once between two erases, so flash with error correction works too. An address is one of the
 * chip's address space; pages and words have the sizes of the board's profile.
 */
#ifndef INSITU_FLASH_H
#define INSITU_FLASH_H

#include <stdint.h>

enum { FLASH_MOST = 16 }; /* bytes: the largest word that a flash may have */

/* Erases the page at this address. Returns 0, or another number if that failed. */
int32_t flash_erase(uint32_t address);

/* Programs one word (4 to FLASH_MOST bytes, as the profile says) at this address. Returns 0, or another number. */
int32_t flash_program(uint32_t address, const uint8_t *word);

/* Copies bytes from the flash; in mapped memory that is all it does. */
void flash_read(uint32_t address, uint8_t *to, int32_t bytes);

#endif
