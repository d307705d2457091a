/* Sending and receiving the bytes of a saved state: see state.h.
 *
 * The header of an incoming state must come with its first bytes, and is checked before anything is changed. The rest
 * waits in the arena until it has been checked, or overwrites the old state if there is no room for two: then the
 * device is between two states from the first replaced byte until all bytes have been checked.
 */
#include "device/state.h"

#include "kernels.h"

enum { HEAD = 16 };

void state_read(const device_model *model, uint32_t offset, uint8_t *to, uint32_t bytes)
{
    uint8_t head[HEAD];
    if (offset < HEAD) {
        for (int32_t i = 0; i < 3; i++) {
            link_put_word(head + 4 * i, model->head[i]);
        }
        link_put_word(head + 12, crc32_bytes(model->state, model->head[2]));
    }
    for (uint32_t i = 0, at = offset; i < bytes; i++, at++) {
        to[i] = at < HEAD ? head[at] : model->state[at - HEAD];
    }
}

int32_t state_head(const device_model *model, const uint8_t *from, int32_t bytes, uint32_t *crc)
{
    static const uint8_t wrong[3] = {2, 3, 1}; /* kind, model, size */
    if (bytes < HEAD) {
        return 1;
    }
    for (int32_t i = 0; i < 3; i++) {
        if (link_word(from + 4 * i) != model->head[i]) {
            return wrong[i];
        }
    }
    *crc = link_word(from + 12);
    return 0;
}

static unsigned char *place(const device_model *model)
{
    return model->in_place ? model->state : model->arena;
}

uint8_t state_take(const device_model *model, uint32_t offset, const uint8_t *from, int32_t bytes)
{
    const int32_t skip = offset == 0 ? HEAD : 0;
    copy_bytes(place(model) + (offset + (uint32_t)skip - HEAD), from + skip, bytes - skip);
    return model->in_place && bytes != skip;
}

int32_t state_end(const device_session *session, const device_model *model, uint32_t bytes)
{
    if (bytes != model->saved_bytes) {
        return 1;
    }
    if (crc32_bytes(place(model), bytes - HEAD) != session->wanted) {
        return 4;
    }
    if (!model->in_place) {
        copy_bytes(model->state, model->arena, (int32_t)(bytes - HEAD));
    }
    return 0;
}
