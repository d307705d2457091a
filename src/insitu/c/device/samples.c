/* The samples of a life: they arrive, get labels, and give way: see life.h. rules.c says which; store.h keeps them. */
#include "device/samples.h"

#include "device/bank.h"
#include "device/classes.h"
#include "device/follow.h"
#include "device/store.h"
#include "device/typical.h"
#include "kernels.h"

enum { VERSION = 8 }; /* of a record's label, counted in its flags */

/* the records at hand ----------------------------------------------------------------------- */

void store_insert(const life_model *m, const rules_record *record)
{
    int32_t at = m->now->count++;
    for (; at > 0 && m->records[at - 1].id > record->id; at--) {
        m->records[at] = m->records[at - 1];
        m->sure[at] = m->sure[at - 1];
    }
    m->records[at] = *record;
}

void store_remove(const life_model *m, int32_t number)
{
    m->now->count--;
    for (int32_t i = number; i < m->now->count; i++) {
        m->records[i] = m->records[i + 1];
        m->sure[i] = m->sure[i + 1];
    }
}

int32_t samples_find(const life_model *m, uint32_t id)
{
    for (int32_t i = 0; i < m->now->count; i++) {
        if (m->records[i].id == id) {
            return i;
        }
    }
    return -1;
}

/* A checkpoint being written is finished before anything that it holds changes. */
static void end_checkpoint(const life_model *m)
{
    while (m->now->bank.busy) {
        bank_step(m);
    }
}

void life_settle(const life_model *m)
{
    follow_end(m);
    end_checkpoint(m);
}

/* samples ----------------------------------------------------------------------------------- */

uint32_t samples_arrival(const life_model *m, const rules_record *r)
{
    if (r->label == RULES_NONE) {
        return ++m->past->unlabelled;
    }
    return ++m->classes[r->label].seen[r->flags & RULES_GUARD];
}

/* The id that gives way to a record: 0 for none, its own if it is not kept. `was` is its number so far, or -1. */
static uint32_t gives_way(const life_model *m, const rules_record *r, int32_t was)
{
    const rules_record old = m->records[was < 0 ? 0 : was];
    const uint32_t seen = samples_arrival(m, r);
    const int32_t room = rules_room(m->capacity, r->flags & RULES_GUARD);
    if (was >= 0) {
        store_remove(m, was); /* it leaves before it arrives */
    }
    const int32_t victim = rules_victim((int32_t)m->past->rule, m->records, m->now->count, room, r, seen);
    const uint32_t found = victim < 0 ? 0 : victim == m->now->count ? r->id : m->records[victim].id;
    if (was >= 0) {
        store_insert(m, &old);
    }
    if (found == 0) {
        return 0;
    }
    const int32_t label = found == r->id ? r->label : m->records[samples_find(m, found)].label;
    return typical_spared(m, r, label, found);
}

static void drop(const life_model *m, uint32_t id)
{
    const int32_t i = samples_find(m, id);
    if (i >= 0) {
        store_drop(m, m->records + i);
        store_remove(m, i);
    }
}

/* Keeps a record whose latents are at hand, if the rules do; returns the id that gave way. What it replaces stays until
 * it is written: the power may go at any word. */
static uint32_t arrive(const life_model *m, rules_record *r, int32_t was)
{
    const uint32_t victim = gives_way(m, r, was);
    if (victim == r->id) {
        drop(m, victim);
        return victim;
    }
    const int32_t slot = store_add(m, r);
    if (slot < 0) {
        return r->id;
    }
    drop(m, r->id); /* as it was before its label */
    drop(m, victim);
    r->slot = (uint16_t)slot;
    r->uses = (uint16_t)(r->flags & RULES_GUARD || r->label == RULES_NONE ? 0 : m->classes[r->label].level);
    store_insert(m, r);
    return victim;
}

/* The number of a record with the same sample and no other label than this; -1 if there is none. */
static int32_t same_sample(const life_model *m, int32_t label)
{
    const uint32_t crc = crc32_bytes(m->latent, m->latent_bytes);
    for (int32_t i = 0; i < m->now->count; i++) {
        const int32_t own = m->records[i].label;
        if ((own == label || own == RULES_NONE || label == RULES_NONE) && store_equal(m, m->records + i, crc)) {
            return i;
        }
    }
    return -1;
}

/* The label of record i, whose latents are at hand and were recalled. */
static void relabel(const life_model *m, int32_t i, int32_t label)
{
    rules_record r = m->records[i];
    r.flags = (uint8_t)((r.flags & ~(RULES_RIGHT | RULES_JUDGED)) + VERSION);
    if (r.label == RULES_NONE) {
        r.flags = (uint8_t)(r.flags | (rules_guards(m->classes + label) ? RULES_GUARD : 0));
    }
    r.label = (int16_t)label;
    classes_learn(m, label);
    m->now->last_id = r.id;
    m->now->dropped = arrive(m, &r, i);
    classes_leave_room(m, label);
}

int32_t life_observe(const life_model *m, int32_t label)
{
    life_now *now = m->now;
    if (label != RULES_NONE && !classes_known(m, label)) {
        return 1;
    }
    float groups[LIFE_GROUPS] = {0};
    end_checkpoint(m);
    classes_notice(m);
    life_recall();
    if (!finite_f32(m->outputs, m->class_count)) { /* one such sample would spoil the mean of its class for ever */
        return 2;
    }
    life_groups(groups);
    const uint8_t worth = follow_worth(m->outputs, m->class_count, &now->confidence, &now->guess);
    follow_drift(m->past, groups, m->latent_count, now->confidence);
    m->past->observed++;
    const int32_t same = same_sample(m, label);
    if (same >= 0) {
        now->last_id = m->records[same].id;
        now->dropped = 0;
        if (m->records[same].label != label && label != RULES_NONE) {
            relabel(m, same, label);
        }
        return 0;
    }
    rules_record r = {m->past->next_id++, (int16_t)label, 0, 0, worth, 0};
    if (label != RULES_NONE) {
        r.flags = (uint8_t)(rules_guards(m->classes + label) ? RULES_GUARD : 0);
        classes_learn(m, label);
    }
    now->last_id = r.id;
    now->dropped = arrive(m, &r, -1);
    classes_leave_room(m, label);
    return 0;
}

int32_t life_label(const life_model *m, uint32_t id, int32_t label)
{
    const int32_t i = samples_find(m, id);
    if (!classes_known(m, label)) {
        return 1;
    }
    if (i < 0) {
        return 2;
    }
    m->now->last_id = id;
    m->now->dropped = 0;
    if (m->records[i].label != label) {
        life_settle(m);
        classes_notice(m);
        store_bring(m, m->records + i);
        life_recall();
        relabel(m, i, label);
    }
    return 0;
}
