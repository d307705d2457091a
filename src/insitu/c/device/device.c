/* The device's side of the protocol: frames come in, each is served once and answered: see device.h. requests.c does what
 * they ask for. */
#include "device/device.h"

#include "device/port.h"
#include "device/requests.h"
#include "kernels.h"
#ifdef INSITU_LIVING /* set in kernels.h of a program that keeps its own samples */
#include "device/life_requests.h"
#endif

typedef char protocol_fits_2_kb[sizeof(device_session) <= 2048 ? 1 : -1];

static void answer(device_session *session, int32_t kind, int32_t status, uint32_t sequence, int32_t size)
{
    uint8_t *frame = session->link.frame;
    size = status == DEVICE_OK ? size : 0;
    frame[0] = (uint8_t)(kind | 0x80);
    frame[1] = (uint8_t)status;
    frame[2] = frame[3] = 0;
    frame[4] = (uint8_t)sequence;
    frame[5] = (uint8_t)(sequence >> 8);
    frame[6] = (uint8_t)size;
    frame[7] = (uint8_t)(size >> 8);
    link_put_word(frame + 8, session->done);
    link_send(frame, DEVICE_HEAD + size);
}

static void serve_frame(device_session *session, const device_model *model)
{
    uint8_t *frame = session->link.frame;
    const int32_t count = session->link.count, kind = frame[0];
    const uint32_t sequence = (uint32_t)(frame[4] | frame[5] << 8), crc = link_word(frame + count);
    request r = {frame[1], frame[2], (uint32_t)(frame[6] | frame[7] << 8), link_word(frame + 8), frame + DEVICE_HEAD,
                 count - DEVICE_HEAD};
    session->status = (uint8_t)requests_serve(session, model, kind, &r, crc);
    session->last = crc;
    session->answered = 1;
    session->frames++;
    answer(session, kind, session->status, sequence, r.size);
}

void device_begin(device_session *session, const device_model *model)
{
    link_begin(&session->link);
    requests_forget(session);
    session->done = session->frames = session->rejected = session->last = 0;
    session->status = DEVICE_OK;
    session->answered = session->between = 0;
    if (model->saved_bytes != 0) {
        model->init();
    }
#ifdef INSITU_LIVING
    life_start();
#endif
}

void device_take(device_session *session, const device_model *model, uint8_t byte)
{
    const int32_t found = link_take(&session->link, byte);
    if (found == LINK_FRAME && session->link.count >= DEVICE_HEAD) {
        serve_frame(session, model);
    } else if (found != LINK_MORE) {
        session->rejected++;
        answer(session, 0, found == LINK_TOO_LONG ? DEVICE_TOO_LONG : DEVICE_DAMAGED, 0, 0);
    }
}

void device_run(const device_model *model)
{
    static device_session session;
    device_begin(&session, model);
    for (;;) {
        const int32_t got = port_read(session.bytes, DEVICE_READ);
        if (got < 0) {
            return;
        }
        for (int32_t i = 0; i < got; i++) {
            device_take(&session, model, session.bytes[i]);
        }
    }
}
