/* The life of a learner: see life.h. This file collects, and begins; bout.c learns. */
#include "device/life.h"

#include "device/bank.h"
#include "device/bout.h"
#include "device/follow.h"
#include "device/store.h"
#include "kernels.h"

enum { VERSION = 8 };            /* of a record's label, counted in its flags */
static const float UNUSED = -1e8f; /* a class whose bias is below has never been in use: it starts with -1e9 */

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

static int32_t find(const life_model *m, uint32_t id)
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

/* classes ----------------------------------------------------------------------------------- */

int32_t life_in_use(const life_model *m, int32_t label)
{
    return label >= 0 && label < m->class_count && (m->bias == 0 || m->bias[label] > UNUSED);
}

static int32_t is_known(const life_model *m, int32_t label)
{
    return life_in_use(m, label) || (label >= 0 && label < m->class_count && m->classes[label].name[0] != 0);
}

static void set_row(const life_model *m, int32_t label, const float *weight, float bias)
{
    for (int32_t i = 0; i < m->feature_count; i++) {
        m->weight[label * m->feature_count + i] = weight ? weight[i] : 0.0f;
    }
    m->bias[label] = bias;
}

static float *mean_of(const life_model *m, int32_t label)
{
    return m->means + label * m->feature_count;
}

/* One more sample has this label; its features are those of the last recall. */
static void learn_mean(const life_model *m, int32_t label)
{
    if (m->features) {
        follow_mean(mean_of(m, label), m->features, m->feature_count, ++m->classes[label].count);
    }
    if (m->classes[label].fresh == 1) {
        follow_row(m, label);
    }
}

/* A row that follows its mean leaves the samples of trained classes alone. */
static void leave_room(const life_model *m, int32_t label)
{
    if (label != RULES_NONE && m->classes[label].fresh == 1 && m->features) {
        follow_begin(m, label);
    }
}

/* samples ----------------------------------------------------------------------------------- */

static uint32_t arrival(const life_model *m, const rules_record *r)
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
    const uint32_t seen = arrival(m, r);
    const int32_t room = rules_room(m->capacity, r->flags & RULES_GUARD);
    if (was >= 0) {
        store_remove(m, was); /* it leaves before it arrives */
    }
    const int32_t victim = rules_victim((int32_t)m->past->rule, m->records, m->now->count, room, r, seen);
    const uint32_t found = victim < 0 ? 0 : victim == m->now->count ? r->id : m->records[victim].id;
    if (was >= 0) {
        store_insert(m, &old);
    }
    return found;
}

static void drop(const life_model *m, uint32_t id)
{
    const int32_t i = find(m, id);
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
    learn_mean(m, label);
    m->now->last_id = r.id;
    m->now->dropped = arrive(m, &r, i);
    leave_room(m, label);
}

int32_t life_observe(const life_model *m, int32_t label)
{
    life_now *now = m->now;
    if (label != RULES_NONE && !is_known(m, label)) {
        return 1;
    }
    float groups[LIFE_GROUPS] = {0};
    end_checkpoint(m);
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
        learn_mean(m, label);
    }
    now->last_id = r.id;
    now->dropped = arrive(m, &r, -1);
    leave_room(m, label);
    return 0;
}

int32_t life_label(const life_model *m, uint32_t id, int32_t label)
{
    const int32_t i = find(m, id);
    if (!is_known(m, label)) {
        return 1;
    }
    if (i < 0) {
        return 2;
    }
    m->now->last_id = id;
    m->now->dropped = 0;
    if (m->records[i].label != label) {
        life_settle(m);
        store_bring(m, m->records + i);
        life_recall();
        relabel(m, i, label);
    }
    return 0;
}

/* classes that come and go ------------------------------------------------------------------ */

/* The names and rows of classes are in checkpoints alone: without one, the next start would not know what changed. */
static void keep_now(const life_model *m)
{
    life_checkpoint(m);
    while (life_slice(m)) {
    }
}

static int32_t is_named(const rules_class *kind, const char *name, int32_t bytes)
{
    for (int32_t i = 0; i < bytes; i++) {
        if (kind->name[i] != name[i]) {
            return 0;
        }
    }
    return kind->name[bytes] == 0;
}

int32_t life_add_class(const life_model *m, const char *name, int32_t bytes)
{
    int32_t found = -1;
    if (!m->weight || !m->features || bytes < 1 || bytes >= RULES_NAME || m->now->phase != LIFE_IDLE) {
        return -1;
    }
    for (int32_t i = m->class_count - 1; i >= 0; i--) {
        if (is_named(m->classes + i, name, bytes)) {
            return -1;
        }
        found = is_known(m, i) ? found : i;
    }
    if (found >= 0) {
        life_settle(m);
        copy_bytes(m->classes[found].name, name, bytes);
        m->classes[found].fresh = 1;
        keep_now(m);
    }
    return found;
}

/* Drop the records of classes that are not known; from flash only if a checkpoint there does not know them either. */
static void sweep(const life_model *m, int32_t saved)
{
    for (int32_t i = m->now->count - 1; i >= 0; i--) {
        if (m->records[i].label != RULES_NONE && !is_known(m, m->records[i].label)) {
            if (saved) {
                store_drop(m, m->records + i);
            }
            store_remove(m, i);
        }
    }
}

static int32_t is_last(const life_model *m, int32_t label)
{
    int32_t others = 0;
    for (int32_t k = 0; k < m->class_count; k++) {
        others += k != label && life_in_use(m, k);
    }
    return life_in_use(m, label) && others == 0;
}

/* Samples without a label have no row and no mean: dropping them is all. */
static int32_t forget_unlabelled(const life_model *m)
{
    const uint32_t failures = m->now->failures;
    life_settle(m);
    for (int32_t i = m->now->count - 1; i >= 0; i--) {
        if (m->records[i].label == RULES_NONE) {
            store_drop(m, m->records + i);
            store_remove(m, i);
            m->now->cursor -= i < m->now->cursor; /* a bout goes on with the same record */
        }
    }
    m->past->unlabelled = 0;
    return failures == m->now->failures ? 0 : 3;
}

/* The first checkpoint decides: if the power goes before it, the class is whole; after it, the next start sweeps. */
int32_t life_forget(const life_model *m, int32_t label)
{
    static const rules_class nothing;
    if (label == RULES_NONE) {
        return forget_unlabelled(m);
    }
    if (!is_known(m, label) || !m->weight || is_last(m, label)) {
        return 1;
    }
    const uint32_t failures = m->now->failures;
    life_settle(m);
    bout_abandon(m);
    m->now->trial.label = RULES_NONE;
    m->classes[label] = nothing;
    for (int32_t i = 0; i < m->feature_count; i++) {
        mean_of(m, label)[i] = 0.0f;
    }
    set_row(m, label, 0, -1e9f);
    keep_now(m);
    sweep(m, failures == m->now->failures);
    keep_now(m); /* in both banks: neither has the class's row */
    return failures == m->now->failures ? 0 : 3;
}

/* start ------------------------------------------------------------------------------------- */

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
        copy_bytes(mean_of(m, m->first[k].label), m->first_means + k * m->feature_count, 4 * m->feature_count);
    }
}

/* The mean of a class, and the row of a new one, as they were before the power went. */
static void recall_mean(const life_model *m, int32_t number)
{
    store_bring(m, m->records + number);
    life_recall();
    learn_mean(m, m->records[number].label);
    leave_room(m, m->records[number].label);
    follow_end(m);
}

/* A record that a checkpoint knows: how often it was used. A label that came after the checkpoint is counted. */
static void recognise(const life_model *m, const rules_record *known)
{
    const int32_t i = find(m, known->id);
    if (i < 0) {
        return;
    }
    m->records[i].uses = known->uses;
    if (m->records[i].label != known->label && m->records[i].label != RULES_NONE) {
        m->classes[m->records[i].label].labelled += known->label == RULES_NONE;
        arrival(m, m->records + i);
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
    if (at + sizeof m->now->bank.wear == all) { /* older checkpoints end before it */
        bank_read(m, at, &m->now->bank.wear, sizeof m->now->bank.wear);
    }
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
            arrival(m, r);
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
    sweep(m, 1);
    catch_up(m);
}
