/* The CRC-32 of zip and Ethernet over n bytes, a bit at a time: no table, because flash is scarcer than time here. */
#include "kernels.h"

uint32_t crc32_bytes(const uint8_t *data, uint32_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int32_t bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}
