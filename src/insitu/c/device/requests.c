/* What each request does: see requests.h. One function per request.
 *
 * The arena is idle between calls. Inputs are written straight to their slots there, outputs are read from theirs,
 * and a state that comes in waits there until it is whole and checked: each of the three ends the other two. Where it
 * does not fit there, it is received in place (state.c).
 */
#include "device/requests.h"

#include <stddef.h>

#include "device/check.h"
#include "device/state.h"
#include "kernels.h"
#ifdef INSITU_LIVING /* set in kernels.h of a program that keeps its own samples */
#include "device/life_requests.h"
#define KINDS DEVICE_LIVING_KINDS
#define READS (1 << DEVICE_STATISTICS | 1 << DEVICE_RECORDS | 1 << DEVICE_LATENTS)
#define SETTLES (1 << DEVICE_WRITE | 1 << DEVICE_STATE_OUT | 1 << DEVICE_STATE_IN | 1 << DEVICE_RESET) /* see life_end */
#else
#define KINDS DEVICE_KINDS
#define READS 0
#endif

/* kinds of requests, one bit each: */
enum {
    /* doing these twice is the same as doing them once */
    REPEATABLE = 1 << DEVICE_PING | 1 << DEVICE_INFO | 1 << DEVICE_OUTPUT | 1 << DEVICE_STATE_OUT | 1 << DEVICE_COUNTERS |
                 READS,
    /* allowed between two states; all others read or change a state, or prepare for that */
    STATELESS = 1 << DEVICE_PING | 1 << DEVICE_INFO | 1 << DEVICE_STATE_IN | 1 << DEVICE_STATE_COMMIT | 1 << DEVICE_RESET
};

void requests_forget(device_session *session)
{
    session->writing = session->ran = -1;
    session->staged = 0;
}

static int32_t ping(device_session *session, const device_model *model, request *r)
{
    (void)session, (void)model;
    (void)r; /* the data are returned */
    return DEVICE_OK;
}

static int32_t info(device_session *session, const device_model *model, request *r)
{
    (void)session;
    if (r->offset > (uint32_t)model->info_bytes) {
        return DEVICE_OUTSIDE;
    }
    const int32_t left = model->info_bytes - (int32_t)r->offset;
    r->size = left < DEVICE_DATA ? left : DEVICE_DATA;
    copy_bytes(r->data, model->info + r->offset, r->size);
    return DEVICE_OK;
}

/* Are the bytes from `offset` on within something of this size? */
static int32_t inside(const request *r, uint32_t count, uint32_t bytes)
{
    return r->offset <= bytes && count <= bytes - r->offset;
}

/* Bytes of an input that is never held whole: they are processed immediately. Numbers are not split, so that they can
 * be checked. */
static int32_t take_rows(device_session *session, const device_verb *verb, const device_input *input, const request *r)
{
    const uint32_t part = input->check == DEVICE_FLOAT ? 3 : input->check == DEVICE_DOUBLE ? 7 : 0;
    const device_input piece = {r->data, (uint32_t)r->size, input->check, input->classes};
    const int32_t found = device_check(&piece);
    if (((r->offset | (uint32_t)r->size) & part) != 0) {
        return DEVICE_GAP;
    }
    if (r->offset == 0) {
        verb->rows->begin();
    }
    if (found != DEVICE_OK || verb->rows->take(r->data, r->size) != 0) {
        requests_forget(session);
        return found != DEVICE_OK ? found : DEVICE_NOT_READY;
    }
    session->filled[r->index] = r->offset + (uint32_t)r->size;
    return DEVICE_OK;
}

static int32_t write_input(device_session *session, const device_model *model, request *r)
{
    if (r->verb >= model->verb_count || r->index >= model->verbs[r->verb].input_count) {
        return DEVICE_NO_SUCH;
    }
    const device_input *input = model->verbs[r->verb].inputs + r->index;
    if (!inside(r, (uint32_t)r->size, input->bytes)) {
        return DEVICE_OUTSIDE;
    }
    if (session->writing != r->verb) {
        requests_forget(session);
        session->writing = r->verb;
        for (int32_t i = 0; i < DEVICE_INPUTS; i++) {
            session->filled[i] = 0;
        }
    }
    if (r->offset != 0 && r->offset != session->filled[r->index]) {
        return DEVICE_GAP;
    }
    if (input->data == NULL) {
        return take_rows(session, model->verbs + r->verb, input, r);
    }
    copy_bytes(input->data + r->offset, r->data, r->size);
    session->filled[r->index] = r->offset + (uint32_t)r->size;
    return DEVICE_OK;
}

/* Have all inputs of this verb arrived, and are they valid? */
static int32_t ready(const device_session *session, const device_verb *verb, int32_t number)
{
    for (int32_t i = 0; i < verb->input_count; i++) {
        if (session->writing != number || session->filled[i] != verb->inputs[i].bytes) {
            return DEVICE_NOT_READY;
        }
    }
    for (int32_t i = 0; i < verb->input_count; i++) {
        const int32_t found = verb->inputs[i].data == NULL ? DEVICE_OK : device_check(verb->inputs + i);
        if (found != DEVICE_OK) {
            return found;
        }
    }
    return DEVICE_OK;
}

static int32_t call(const device_verb *verb)
{
    if (verb->rows != NULL) {
        return verb->rows->end() == 0 ? DEVICE_OK : DEVICE_NOT_READY;
    }
    verb->run();
    return DEVICE_OK;
}

static int32_t run(device_session *session, const device_model *model, request *r)
{
    if (r->verb >= model->verb_count) {
        return DEVICE_NO_SUCH;
    }
    const device_verb *verb = model->verbs + r->verb;
    int32_t found = ready(session, verb, r->verb);
    requests_forget(session);
    if (found == DEVICE_OK) {
        found = call(verb);
    }
    if (found == DEVICE_OK) {
        session->ran = r->verb;
        session->done++;
    }
    return found;
}

static int32_t read_output(device_session *session, const device_model *model, request *r)
{
    if (r->verb >= model->verb_count || r->index >= model->verbs[r->verb].output_count) {
        return DEVICE_NO_SUCH;
    }
    const device_output *output = model->verbs[r->verb].outputs + r->index;
    if (session->ran != r->verb) {
        return DEVICE_NOT_READY;
    }
    if (r->count > DEVICE_DATA || !inside(r, r->count, output->bytes)) {
        return DEVICE_OUTSIDE;
    }
    copy_bytes(r->data, output->data + r->offset, (int32_t)r->count);
    r->size = (int32_t)r->count;
    return DEVICE_OK;
}

static int32_t state_out(device_session *session, const device_model *model, request *r)
{
    (void)session;
    if (model->saved_bytes == 0) {
        return DEVICE_STATELESS;
    }
    if (r->count > DEVICE_DATA || !inside(r, r->count, model->saved_bytes)) {
        return DEVICE_OUTSIDE;
    }
    state_read(model, r->offset, r->data, r->count);
    r->size = (int32_t)r->count;
    return DEVICE_OK;
}

static int32_t state_in(device_session *session, const device_model *model, request *r)
{
    if (model->saved_bytes == 0) {
        return DEVICE_STATELESS;
    }
    if (!inside(r, (uint32_t)r->size, model->saved_bytes)) {
        return DEVICE_OUTSIDE;
    }
    if (r->offset != 0 && r->offset != session->staged) {
        return DEVICE_GAP;
    }
    if (r->offset == 0) {
        const int32_t found = state_head(model, r->data, r->size, &session->wanted);
        if (found != 0) {
            return DEVICE_STATE + found;
        }
    }
    requests_forget(session);
    session->staged = r->offset + (uint32_t)r->size;
    session->between |= state_take(model, r->offset, r->data, r->size);
    return DEVICE_OK;
}

static int32_t state_commit(device_session *session, const device_model *model, request *r)
{
    const uint32_t staged = session->staged;
    (void)r;
    if (model->saved_bytes == 0) {
        return DEVICE_STATELESS;
    }
    requests_forget(session);
    const int32_t found = state_end(session, model, staged);
    if (found != 0) {
        return DEVICE_STATE + found;
    }
    session->between = 0;
    session->done++;
    return DEVICE_OK;
}

static int32_t counters(device_session *session, const device_model *model, request *r)
{
    link_put_word(r->data, session->done);
    link_put_word(r->data + 4, session->frames);
    link_put_word(r->data + 8, session->rejected);
    copy_bytes(r->data + 12, model->counters, model->counter_bytes);
    r->size = 12 + model->counter_bytes;
    return DEVICE_OK;
}

static int32_t first_state(device_session *session, const device_model *model, request *r)
{
    (void)r;
    if (model->saved_bytes == 0) {
        return DEVICE_STATELESS;
    }
    requests_forget(session);
    model->init();
    session->between = 0;
    session->done++;
    return DEVICE_OK;
}

#ifdef INSITU_LIVING
static int32_t live(int32_t kind, device_session *session, const device_model *model, request *r)
{
    if (kind == DEVICE_OBSERVE) {
        const int32_t known = r->verb < model->verb_count;
        const int32_t found = known ? ready(session, model->verbs + r->verb, r->verb) : DEVICE_NO_SUCH;
        if (found != DEVICE_OK) {
            return found;
        }
    }
    const int32_t reads = READS >> kind & 1;
    if (!reads) {
        requests_forget(session);
    }
    if (kind == DEVICE_ERASE) {
        model->init();
    }
    const int32_t status = life_request(kind, r->verb, r->offset, r->count, r->data, &r->size);
    session->done += status == DEVICE_OK && !reads;
    return status;
}
#endif

/* calls, not a table of functions: the depth of the stack is computed from the code */
static int32_t perform(int32_t kind, device_session *session, const device_model *model, request *r)
{
    switch (kind) {
    case DEVICE_PING:
        return ping(session, model, r);
    case DEVICE_INFO:
        return info(session, model, r);
    case DEVICE_WRITE:
        return write_input(session, model, r);
    case DEVICE_RUN:
        return run(session, model, r);
    case DEVICE_OUTPUT:
        return read_output(session, model, r);
    case DEVICE_STATE_OUT:
        return state_out(session, model, r);
    case DEVICE_STATE_IN:
        return state_in(session, model, r);
    case DEVICE_STATE_COMMIT:
        return state_commit(session, model, r);
    case DEVICE_COUNTERS:
        return counters(session, model, r);
#ifdef INSITU_LIVING
    case DEVICE_RESET:
        return first_state(session, model, r);
    default:
        return live(kind, session, model, r);
#else
    default:
        return first_state(session, model, r);
#endif
    }
}

int32_t requests_serve(device_session *session, const device_model *model, int32_t kind, request *r, uint32_t crc)
{
    const int32_t again = session->answered && session->last == crc;
    if (kind >= KINDS) {
        return DEVICE_UNKNOWN;
    }
    const int32_t repeatable = REPEATABLE >> kind & 1, stateless = STATELESS >> kind & 1;
    if (again && !repeatable) {
        r->size = 0;
        return session->status;
    }
    if (session->between && !stateless) {
        return DEVICE_BETWEEN;
    }
#ifdef INSITU_LIVING
    if (SETTLES >> kind & 1) {
        life_end();
    }
#endif
    const int32_t status = perform(kind, session, model, r);
    if (!repeatable) {
        r->size = 0;
    }
    return status;
}
