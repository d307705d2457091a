/* Inputs must be finite floats or labels that are classes. Read byte by byte, little endian, whatever the type. */
#include "device/check.h"

static int32_t finite_floats(const unsigned char *x, uint32_t bytes)
{
    for (uint32_t i = 0; i + 4 <= bytes; i += 4) {
        if ((x[i + 3] & 0x7F) == 0x7F && (x[i + 2] & 0x80) == 0x80) {
            return 0;
        }
    }
    return 1;
}

static int32_t finite_doubles(const unsigned char *x, uint32_t bytes)
{
    for (uint32_t i = 0; i + 8 <= bytes; i += 8) {
        if ((x[i + 7] & 0x7F) == 0x7F && (x[i + 6] & 0xF0) == 0xF0) {
            return 0;
        }
    }
    return 1;
}

static int32_t all_classes(const unsigned char *x, uint32_t bytes, uint32_t classes)
{
    for (uint32_t i = 0; i + 4 <= bytes; i += 4) {
        if (link_word(x + i) >= classes) { /* a negative label is a large one here */
            return 0;
        }
    }
    return 1;
}

int32_t device_check(const device_input *input)
{
    switch (input->check) {
    case DEVICE_FLOAT:
        return finite_floats(input->data, input->bytes) ? DEVICE_OK : DEVICE_NOT_FINITE;
    case DEVICE_DOUBLE:
        return finite_doubles(input->data, input->bytes) ? DEVICE_OK : DEVICE_NOT_FINITE;
    case DEVICE_CLASS:
        return all_classes(input->data, input->bytes, input->classes) ? DEVICE_OK : DEVICE_LABEL;
    default:
        return DEVICE_OK;
    }
}
