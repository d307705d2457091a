/* The rules of a store: what is kept, what gives way, what guards, what is learned next. Integers only, no storage.
 *
 * store/rules.py says the same in Python and in words; a test compares the two over random histories. Records are
 * always in the order of their ids.
 */
#ifndef INSITU_RULES_H
#define INSITU_RULES_H

#include <stdint.h>

enum { RULES_NONE = -1 };                                       /* the label of a record that has none yet */
enum { RULES_GUARD = 1, RULES_RIGHT = 2, RULES_JUDGED = 4 };    /* flags: a guard; right, and asked, before the bout */
enum { RULES_BALANCED, RULES_OLDEST, RULES_INFORMATIVE, RULES_TYPICAL }; /* what gives way in a full group */
enum { RULES_FEWEST_GUARDS = 4, RULES_NAME = 32 };              /* with fewer, no bout is judged; bytes of a name */
enum { RULES_YOUNG = 3, RULES_YOUTH = 64 };                     /* a class that was added; labelled samples of such a class */
enum { RULES_WITNESSES = 512 };                                 /* kept samples that a new row is tried on, about, at most */
enum { RULES_COMPARED = 64 };                                   /* trainees of a class that are compared, at most */
enum { RULES_NEWEST = 8, RULES_NEWEST_EVERY = 3 };              /* records of a class that get a third of its lessons */

/* A kept sample; part of a checkpoint. */
typedef struct {
    uint32_t id;
    int16_t label;
    uint16_t uses; /* how often it was learned from; of a guard: bouts that it judged */
    uint16_t slot; /* where the store keeps it */
    uint8_t worth; /* how unsure the network was */
    uint8_t flags;
} rules_record;

/* A class; part of a checkpoint. */
typedef struct {
    uint32_t labelled; /* samples labelled, over the whole life */
    uint32_t seen[2];  /* arrivals at the trainees, at the guards */
    uint32_t level;    /* uses of its last replayed record: a newcomer starts there */
    uint32_t steps;    /* of the running bout */
    uint32_t count;    /* samples in its mean */
    uint32_t fresh;    /* 1: it was added, and no bout that was kept taught it: its row follows its mean; 2: this one does;
                          RULES_YOUNG: it was added last, and taught */
    char name[RULES_NAME];
} rules_class;

uint32_t rules_draw(uint32_t counter, uint32_t stream);
uint32_t rules_below(uint32_t counter, uint32_t stream, uint32_t n);

/* How many records of a group fit. */
int32_t rules_room(int32_t capacity, int32_t guard);

/* Is this one of the kept samples of trained classes, `count` in all, that a new row of the head must not take? */
int32_t rules_is_witness(uint32_t id, uint32_t count);

/* Counts one more labelled sample of this class: does it guard? */
int32_t rules_guards(rules_class *kind);

/* The number of the record that gives way to a newcomer: -1 if there is room, `count` if the newcomer is not kept.
 * `seen` is how many of its class ever arrived at its group, itself included. */
int32_t rules_victim(int32_t rule, const rules_record *records, int32_t count, int32_t room,
                     const rules_record *newcomer, uint32_t seen);

/* The number of the record to learn next, counted as used; -1 without labelled trainees. */
int32_t rules_lesson(rules_record *records, int32_t count, rules_class *classes, int32_t class_count);

/* What the guards say of a bout; those that are older had judged one before. */
typedef struct {
    int32_t guards, older;
    int32_t right, lost, won;   /* after it; gone wrong, gone right */
    int32_t fell, rose;         /* sums of what the probabilities of their labels lost and won, of 255 */
    int32_t rose_older;
    int32_t paid, paid_older;   /* gone right, of each class at most one more than gone wrong; of older ones */
} rules_votes;

/* Of the guards of one class that were counted so far. */
typedef struct {
    int32_t lost, won, won_older;
} rules_own;

/* Count one guard: right, and so sure, before the bout and after it. `own` are those of its class, itself not included. */
void rules_vote(rules_votes *votes, const rules_own *own, int32_t older, int32_t before, int32_t after, int32_t sure_before, int32_t sure_after);

/* Do the guards say that the bout did harm? */
int32_t rules_worse(const rules_votes *votes);

/* A bout is over that this guard has judged. */
void rules_judged(rules_record *guard);

#endif
