/* The beginning of a life: from the newest checkpoint and the samples in flash, or from nothing: see life.h.
 * samples.c collects, classes.c has the classes, bout.c learns. */
#include "device/life.h"

#include "device/bank.h"
#include "device/classes.h"
#include "device/follow.h"
#include "device/samples.h"
#include "device/store.h"
#include "kernels.h"

static void clear(void *p, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        ((uint8_t *)p)[i] = 0;
    }
}

void life_anew(const life_model *m)
{
    clear(m->now, sizeof *m->now);
    m->now->trial.label = RULES_NONE;
    clear(m->past, sizeof *m->past);
    clear(m->classes, (uint32_t)m->class_count * sizeof *m->classes);
    clear(m->means, (uint32_t)(m->class_count * m->feature_count) * 4);
    m->past->next_id = 1;
    m->past->pace = 1.0f;
    m->past->rule = (uint32_t)m->rule;
    for (int32_t k = 0; m->names && k < m->class_count; k++) {
        for (int32_t i = 0; i < RULES_NAME - 1 && m->names[k][i] != 0; i++) {
            m->classes[k].name[i] = m->names[k][i];
        }
    }
    for (int32_t k = 0; k < m->first_count; k++) {
        m->classes[m->first[k].label].count = m->first[k].count;
        copy_bytes(classes_mean(m, m->first[k].label), m->first_means + k * m->feature_count, 4 * m->feature_count);
    }
}

/* The mean of a class, and the row of a new one, as they were before the power went. */
static void recall_mean(const life_model *m, int32_t number)
{
    store_bring(m, m->records + number);
    life_recall();
    classes_learn(m, m->records[number].label);
    classes_leave_room(m, m->records[number].label);
    follow_end(m);
}

/* A record that a checkpoint knows: how often it was used. A label that came after the checkpoint is counted. */
static void recognise(const life_model *m, const rules_record *known)
{
    const int32_t i = samples_find(m, known->id);
    if (i < 0) {
        return;
    }
    m->records[i].uses = known->uses;
    if (m->records[i].label != known->label && m->records[i].label != RULES_NONE) {
        m->classes[m->records[i].label].labelled += known->label == RULES_NONE;
        samples_arrival(m, m->records + i);
        recall_mean(m, i);
    }
}

/* Everything that a checkpoint has, if it is of this life. */
static void load(const life_model *m)
{
    const uint32_t classes = (uint32_t)m->class_count;
    const uint32_t sizes[4] = {m->state_bytes, sizeof *m->past, classes * sizeof *m->classes,
                               classes * (uint32_t)m->feature_count * 4};
    void *const places[4] = {m->state, m->past, m->classes, m->means};
    const uint32_t fixed = sizes[0] + sizes[1] + sizes[2] + sizes[3], all = bank_payload(m);
    uint32_t at = 0;
    if (all < fixed) {
        return;
    }
    for (int32_t i = 0; i < 4; i++) {
        bank_read(m, at, places[i], sizes[i]);
        at += sizes[i];
    }
    for (rules_record known; at + sizeof known <= all; at += sizeof known) {
        bank_read(m, at, &known, sizeof known);
        recognise(m, &known);
    }
    const uint32_t late = all - at, most = sizeof m->now->late;
    bank_read(m, at, &m->now->late, late < most ? late : most); /* of older checkpoints, a part of it */
    m->now->started = 1;
}

/* Samples that were kept after the checkpoint count as arrivals now. */
static void catch_up(const life_model *m)
{
    for (int32_t i = 0; i < m->now->count; i++) {
        const rules_record *r = m->records + i;
        if (r->id >= m->past->next_id) {
            m->past->next_id = r->id + 1;
            m->past->observed++;
            samples_arrival(m, r);
            if (r->label != RULES_NONE) {
                m->classes[r->label].labelled++;
                recall_mean(m, i);
            }
        }
    }
}

/* The power may have gone after a newcomer was kept, and before another gave way: then the newest gives way. */
static void trim(const life_model *m)
{
    int32_t kept[2] = {0, 0};
    for (int32_t i = 0; i < m->now->count; i++) {
        const int32_t guard = m->records[i].flags & RULES_GUARD;
        if (++kept[guard] > rules_room(m->capacity, guard)) {
            store_drop(m, m->records + i);
            store_remove(m, i--);
        }
    }
}

void life_begin(const life_model *m)
{
    life_anew(m);
    store_mount(m);
    trim(m);
    bank_find(m);
    if (m->now->bank.newest >= 0) {
        load(m);
    }
    m->past->rule = (uint32_t)m->rule; /* a checkpoint of another build may have another */
    classes_sweep(m, 1);
    classes_mark_all(m);
    catch_up(m);
}
