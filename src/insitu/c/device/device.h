/* The device's side of the protocol: requests in, answers out, over two functions that move bytes (port.h).
 *
 * A request and its answer have the same header of twelve bytes, little endian:
 *
 *     at  request                         answer
 *      0  kind                            kind + 128
 *      1  verb                            status
 *      2  index: which input or output    0
 *      3  0                               0
 *      4  sequence number, 16 bit         the same
 *      6  count: data bytes, 16 bit       count: data bytes
 *      8  offset of the data, 32 bit      calls, loads and resets done since the start, 32 bit
 *     12  data                            data
 *
 * docs/protocol.md says what each kind does. A request with the same bytes as the one before is a repetition: it is
 * answered again, but not executed again. Nothing here allocates; all memory of the protocol is one device_session.
 */
#ifndef INSITU_DEVICE_H
#define INSITU_DEVICE_H

#include <stdint.h>

#include "device/link.h"

enum { DEVICE_PROTOCOL = 1, DEVICE_HEAD = 12, DEVICE_DATA = LINK_BYTES - DEVICE_HEAD - LINK_CRC };
enum { DEVICE_INPUTS = 8, DEVICE_READ = 64 }; /* the most inputs of a verb; bytes read at a time */

enum {
    DEVICE_PING,
    DEVICE_INFO,
    DEVICE_WRITE,
    DEVICE_RUN,
    DEVICE_OUTPUT,
    DEVICE_STATE_OUT,
    DEVICE_STATE_IN,
    DEVICE_STATE_COMMIT,
    DEVICE_COUNTERS,
    DEVICE_RESET,
    DEVICE_KINDS,
    /* and those of a program that keeps its own samples: see life_requests.c */
    DEVICE_OBSERVE = DEVICE_KINDS,
    DEVICE_LABEL_LATER,
    DEVICE_REHEARSE,
    DEVICE_CHECKPOINT,
    DEVICE_ROLLBACK,
    DEVICE_ADD_CLASS,
    DEVICE_FORGET,
    DEVICE_STATISTICS,
    DEVICE_RECORDS,
    DEVICE_ERASE,
    DEVICE_LATENTS,
    DEVICE_LIVING_KINDS
};

enum {
    DEVICE_OK,
    DEVICE_DAMAGED,    /* a frame that is truncated or has a wrong CRC; its answer has sequence number 0 */
    DEVICE_TOO_LONG,   /* a frame over LINK_BYTES; likewise */
    DEVICE_UNKNOWN,    /* no such kind of request */
    DEVICE_NO_SUCH,    /* no such verb, input or output */
    DEVICE_OUTSIDE,    /* more bytes than exist */
    DEVICE_GAP,        /* a chunk that does not follow the one before */
    DEVICE_NOT_READY,  /* inputs are missing, or no verb with this output has run */
    DEVICE_LABEL,      /* a label that is not a class */
    DEVICE_NOT_FINITE, /* an input that is infinite or NaN */
    DEVICE_STATELESS,  /* a program that only predicts */
    DEVICE_STATE = 10, /* plus what is wrong with a state: 1 size, 2 not one, 3 another model's, 4 damaged */
    DEVICE_BETWEEN = 15, /* a new state overwrote the old one but is incomplete: there is no valid state */
    DEVICE_FAULTED = 16, /* the core has trapped: sent unasked, with sequence number 0; see boards/startup.c */
    DEVICE_NO_SAMPLE,    /* no sample with this id is kept */
    DEVICE_NO_ROOM,      /* for another class: none is left, the name is in use, or the head is not a float one */
    DEVICE_BUSY,         /* not while a bout is running */
    DEVICE_NOTHING,      /* no checkpoint to go back to */
    DEVICE_LACKS,        /* a class in use has no sample to learn from, and would be unlearned */
    DEVICE_FLASH         /* the flash could not be written */
};

enum { DEVICE_ANY, DEVICE_FLOAT, DEVICE_DOUBLE, DEVICE_CLASS }; /* how to check an input */

typedef struct {
    unsigned char *data;
    uint32_t bytes;
    uint32_t check;   /* DEVICE_ANY ... */
    uint32_t classes; /* of a DEVICE_CLASS: 32-bit integers from 0 up to here */
} device_input;

typedef struct {
    const unsigned char *data;
    uint32_t bytes;
} device_output;

/* An input that is processed as it arrives; `take` and `end` return 0, or another number if they refuse. */
typedef struct {
    void (*begin)(void);
    int32_t (*take)(const uint8_t *from, int32_t bytes);
    int32_t (*end)(void); /* runs the verb, instead of `run` below */
} device_rows;

typedef struct {
    void (*run)(void);
    const device_input *inputs; /* `data` is NULL for the one that is processed as it arrives */
    const device_output *outputs;
    int32_t input_count, output_count;
    const device_rows *rows; /* or NULL */
} device_verb;

/* A generated program as the protocol sees it. */
typedef struct {
    const device_verb *verbs;
    int32_t verb_count;
    const uint8_t *info; /* the answer to DEVICE_INFO */
    int32_t info_bytes;
    int32_t in_place;     /* an incoming state overwrites the old one: there is no room for two */
    unsigned char *arena; /* where it is kept otherwise: at least saved_bytes */
    unsigned char *state;
    uint32_t saved_bytes; /* the state with its head; 0 if there is no state */
    uint32_t head[3];     /* of a saved state: magic, model, bytes */
    const unsigned char *counters;
    int32_t counter_bytes;
    void (*init)(void);
} device_model;

typedef struct {
    uint8_t bytes[DEVICE_READ];      /* as they came from the port */
    uint32_t filled[DEVICE_INPUTS];  /* bytes of each input of `writing` that have arrived */
    uint32_t staged;                 /* bytes of an incoming state that have arrived */
    uint32_t wanted;                 /* and its CRC */
    uint32_t done, frames, rejected; /* calls, loads and resets; good frames; bad ones: since the start */
    uint32_t last;                   /* the CRC of the request before */
    int32_t writing;                 /* the verb whose inputs are in the arena, or -1 */
    int32_t ran;                     /* the verb whose outputs are there, or -1 */
    uint8_t status;                  /* of the request before */
    uint8_t answered;                /* has there been one? */
    uint8_t between;                 /* has a new state begun to overwrite the old one? */
    link_reader link;                /* last: see there */
} device_session;

/* Serves requests until the port reports that there will be no more. */
void device_run(const device_model *model);

/* The same, byte by byte, for a program with its own loop. */
void device_begin(device_session *session, const device_model *model);
void device_take(device_session *session, const device_model *model, uint8_t byte);

#endif
