/* The life of a learner on a microcontroller: it collects samples, learns from them in short bouts, and survives power
 * cuts. docs/living.md says how to use it, store/rules.py has the rules in words.
 *
 * A generated program describes itself with one life_model and three functions (below); all memory is in there. One
 * firmware has one living program. Nothing here allocates or recurses, and nothing is called through a pointer.
 */
#ifndef INSITU_LIFE_H
#define INSITU_LIFE_H

#include <stdint.h>

#include "device/rules.h"

enum { LIFE_GROUPS = 16, LIFE_REFERENCE = 64 }; /* groups of latents; samples that show what is usual */

/* What happened over the whole life; part of a checkpoint. */
typedef struct {
    uint32_t next_id;
    uint32_t observed, steps, bouts, undone; /* samples, learning steps, bouts, bouts that were rolled back */
    uint32_t unlabelled;                     /* arrivals without a label */
    uint32_t rule;                           /* what gives way: RULES_BALANCED ... */
    uint32_t usual;                          /* samples in the reference of the drift, at most LIFE_REFERENCE */
    float mean[LIFE_GROUPS + 1];             /* of the groups, then of the confidence */
    float square[LIFE_GROUPS + 1];           /* sums of squares around it */
    float recent[LIFE_GROUPS + 1];
    uint32_t guards, right, lost, won;       /* of the last bout: guards, right after it, gone wrong, gone right */
    float pace;                              /* of the next bout: half as fast after one that did harm */
} life_past;

/* A part of the flash that is erased at once and filled from its start; RAM only. */
typedef struct {
    uint32_t wear;     /* erases */
    uint32_t sequence; /* the segment opened last has the highest */
    uint16_t used;     /* slots, live and dead */
    uint16_t open;     /* else it must be erased before it is used */
} life_segment;

/* The newest checkpoint, and one being written. */
typedef struct {
    uint32_t sequence;   /* of the newest */
    uint32_t bytes, crc; /* of the payload being written */
    uint32_t at;         /* bytes erased, then bytes programmed */
    uint32_t failures;   /* of the flash, when it began */
    int8_t newest;       /* its bank, or -1 */
    uint8_t busy, erased;
} life_bank;

/* The end of a checkpoint; those of older programs have only the first number, or none. */
typedef struct {
    uint32_t wear; /* pages of both banks erased, over the whole life */
    float room;    /* what the row of the class that was taught last left the others after its last bout: 0 or less */
} life_late;

/* The row of a class that was added, tried on the kept samples of the others: one per slice; RAM only. */
typedef struct {
    int32_t label;     /* whose row it is */
    int32_t left;      /* records still to try it on, and one slice to end; 0: nothing is tried */
    float base;        /* its bias without what it leaves to the others */
    float least, held; /* what its bias must fall by so far, 0 or less; by what the row of before had to */
} life_trial;

/* What happens now; lost with the power. */
typedef struct {
    int32_t count;       /* records kept */
    int32_t phase;       /* of the bout: LIFE_IDLE ... */
    uint32_t left;       /* learning steps of the bout still to do */
    float rate, loss;    /* of the bout; of its last step */
    int32_t alone;       /* of a new class's row: 1: it alone learns in the bout; 3: all do; 2: it has learned (pupil.c) */
    int32_t pupil;       /* whose row that is, or -1 */
    int32_t lent;        /* has it taken back, for this bout, the room that it left? */
    int32_t compares;    /* it has learned alone, and is compared with what it was */
    int32_t fell;        /* how many of its class's samples are recognised less than before */
    float least;         /* what its bias must fall by, 0 or less */
    int32_t cursor;      /* record whose turn it is to be recalled */
    rules_votes votes;   /* of its guards */
    uint32_t last_id;    /* of the sample observed last: its own, or that of an equal one */
    uint32_t dropped;    /* the id that gave way to it; 0: none, its own: it was not kept */
    uint32_t failures;   /* of the flash */
    uint32_t cuts;       /* records that a power cut left half-written, found at the start */
    float confidence;    /* of the sample observed last */
    int32_t guess;       /* and its likeliest class */
    life_bank bank;
    life_late late;
    life_trial trial;
    uint32_t erases;     /* since the start */
    uint8_t started;     /* 0 from the initial state, 1 from a checkpoint */
} life_now;

enum { LIFE_IDLE, LIFE_SAVE_BEFORE, LIFE_BEFORE, LIFE_LEARN, LIFE_AFTER, LIFE_SAVE_AFTER, LIFE_SAVE };

/* A class that was learned elsewhere: so many samples are in its mean. */
typedef struct {
    int32_t label;
    uint32_t count;
} life_first;

/* A living program: its memory and its sizes. */
typedef struct {
    life_past *past;
    life_now *now;
    rules_class *classes;
    float *means;          /* of the features, by class */
    uint32_t *rows;        /* of a class that was added: the CRC of its row, as this life last left it; or NULL */
    rules_record *records; /* capacity + 1 of them */
    uint8_t *sure;         /* beside each: of a guard, the probability of its label before the bout, of 255 */
    unsigned char *latent; /* one: of the sample at hand */
    float *total, *arrived; /* of features, to compare the trainees of a class (typical.c); NULL: they are not compared */
    unsigned char *held;    /* the latents at hand, meanwhile */
    float *spared;         /* what the kept samples that need most of a new row ask of it: of a bout, of a trial; or NULL */
    const float *outputs;  /* of life_recall */
    const float *features; /* or NULL */
    unsigned char *state;
    unsigned char *before; /* room for a second state, without flash: to roll back; or NULL */
    float *weight, *bias;  /* of the head, in the state; NULL if it is not a float one */
    int32_t head_alone;    /* is nothing else trained? */
    const char *const *names;
    const life_first *first; /* classes that were learned elsewhere, and the means of their features */
    const float *first_means;
    int32_t first_count;
    uint32_t state_bytes, model, latent_bytes;
    int32_t latent_count; /* values in the latents */
    int32_t class_count, feature_count, capacity;
    int32_t rule; /* what gives way when the store is full: RULES_BALANCED ... */
    float cost;   /* the share of the others' kept samples that a class that was added may take */
    int32_t spared_count;
    /* the store: slots in RAM, or segments in flash */
    unsigned char *slots;
    uint32_t slot_bytes;
    life_segment *segments;
    int32_t segment_count, segment_slots;
    uint32_t store_at, segment_bytes;
    /* the two banks of checkpoints, in flash */
    uint32_t bank_at, bank_bytes;
    uint32_t page_bytes, word_bytes;
} life_model;

/* What the generated program provides: latents -> outputs and features, and sums; one learning step from the latents. */
void life_recall(void);
void life_groups(float *sums); /* of the latents: value i is in group i % 16 */
float life_learn(int32_t label, float rate);

/* Once, after the initial state was set: continue from the newest checkpoint and the samples in flash. */
void life_begin(const life_model *m);

/* Finishes the trial of a row, which uses the memory of latents, and a checkpoint being written, which must not change
 * meanwhile. Call it before the latents of a new sample are computed. */
void life_settle(const life_model *m);

/* The sample whose latents are in m->latent; label -1: none yet. Returns 0, or 1 if there is no such class. The row of a
 * class that was added is then tried on the samples kept, by life_slice, or by life_settle. */
int32_t life_observe(const life_model *m, int32_t label);

/* A label that comes later, or another one. Returns 0, 1 for an unknown class, 2 for an unknown sample. Slices as above. */
int32_t life_label(const life_model *m, uint32_t id, int32_t label);

/* Begin a bout of this many steps. Returns 0; 1: a bout is running; 2: a class in use has no sample to learn from, and
 * would be unlearned (unless `partial`). */
int32_t life_bout(const life_model *m, uint32_t steps, float rate, int32_t partial);

/* Write a checkpoint, slice by slice. */
void life_checkpoint(const life_model *m);

/* One bounded slice of the trial of a new row, then of the bout or checkpoint: recall a sample, learn one step, or program
 * a few words or erase one page of flash. Returns 0 when nothing is left to do. */
int32_t life_slice(const life_model *m);

/* Back to the newest checkpoint's state; the samples stay. Returns 0, or 1 if there is none. */
int32_t life_rollback(const life_model *m);

/* Takes a new class with this name (bytes of it, not terminated), whose row is made from the mean of the samples that
 * get its label. Returns its number, or -1: no room, no float head, a bout is running, or the name is in use. */
int32_t life_add_class(const life_model *m, const char *name, int32_t bytes);

/* Drops a class, its samples and all that was counted of it; a bout that is running is given up. RULES_NONE: the samples
 * without a label. Returns 0, 1 for an
 * unknown class, 3 if the flash failed: then the class may be there again after the next start. */
int32_t life_forget(const life_model *m, int32_t label);

/* Deletes everything: every page of the store and of both banks is erased (slots in RAM are zeroed), and all that was
 * counted. The initial state must have been set. Returns 0, or 3 if the flash failed: then something may be left. */
int32_t life_erase(const life_model *m);

/* As if it had never been switched on, but for what is in flash. */
void life_anew(const life_model *m);

/* Has this class a row of the head that is in use? */
int32_t life_in_use(const life_model *m, int32_t label);

/* How far the samples of now are from the first ones; 0 before there are enough. */
float life_drift(const life_model *m);

#endif
