/* port.c of a WebAssembly module: whoever holds its memory writes there, calls, and reads there.
 *
 * There are two ways in. A page calls verbs itself: it writes each input where page_input says, calls page_call, and
 * reads each output where page_output says; a saved state goes through page_saved. The other end of the protocol puts
 * up to PAGE_LINE bytes where page_line says and calls page_take; answers are given to the function that the module
 * imports.
 */
#include "device/check.h"
#include "device/device.h"
#include "device/port.h"
#include "device/state.h"
#include "kernels.h"

enum { PAGE_LINE = 4096, HEAD = 16 };

#define EXPORTED(name) __attribute__((export_name(#name))) name

const device_model *page_model(void); /* generated: the program */
__attribute__((import_module("page"), import_name("answer"))) void page_answer(const uint8_t *from, int32_t count);

static device_session session;
static uint8_t line[PAGE_LINE];

int32_t port_read(uint8_t *to, int32_t most)
{
    (void)to, (void)most;
    return -1; /* bytes come by page_take */
}

void port_write(const uint8_t *from, int32_t count)
{
    page_answer(from, count);
}

/* Once, before anything else. */
void EXPORTED(page_begin)(void)
{
    device_begin(&session, page_model());
}

uint8_t *EXPORTED(page_line)(void)
{
    return line;
}

void EXPORTED(page_take)(int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        device_take(&session, page_model(), line[i]);
    }
}

unsigned char *EXPORTED(page_input)(int32_t verb, int32_t index)
{
    return page_model()->verbs[verb].inputs[index].data;
}

const unsigned char *EXPORTED(page_output)(int32_t verb, int32_t index)
{
    return page_model()->verbs[verb].outputs[index].data;
}

/* Runs a verb whose inputs are in place: DEVICE_OK, or what is wrong with one of them. */
int32_t EXPORTED(page_call)(int32_t verb)
{
    const device_verb *v = page_model()->verbs + verb;
    for (int32_t i = 0; i < v->input_count; i++) {
        const int32_t found = device_check(v->inputs + i);
        if (found != DEVICE_OK) {
            return found;
        }
    }
    v->run();
    return DEVICE_OK;
}

/* Where a saved state is after page_save, and before page_load: in the arena, which is idle between calls. */
unsigned char *EXPORTED(page_saved)(void)
{
    return page_model()->arena;
}

void EXPORTED(page_save)(void)
{
    state_read(page_model(), 0, page_model()->arena, page_model()->saved_bytes);
}

/* DEVICE_OK; or DEVICE_STATE and what is wrong: then nothing has changed. */
int32_t EXPORTED(page_load)(int32_t bytes)
{
    const device_model *model = page_model();
    uint32_t crc = 0;
    const int32_t found = (uint32_t)bytes == model->saved_bytes ? state_head(model, model->arena, bytes, &crc) : 1;
    if (found != 0) {
        return DEVICE_STATE + found;
    }
    if (crc32_bytes(model->arena + HEAD, bytes - HEAD) != crc) {
        return DEVICE_STATE + 4;
    }
    copy_bytes(model->state, model->arena + HEAD, bytes - HEAD);
    return DEVICE_OK;
}

void EXPORTED(page_reset)(void)
{
    page_model()->init();
}
