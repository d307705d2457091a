/* The classes of a life: their means, those that come by name, and those that go: see life.h. */
#include "device/classes.h"

#include "device/bout.h"
#include "device/follow.h"
#include "device/store.h"
#include "kernels.h"

static const float UNUSED = -1e8f; /* a class whose bias is below has never been in use: it starts with -1e9 */

int32_t life_in_use(const life_model *m, int32_t label)
{
    return label >= 0 && label < m->class_count && (m->bias == 0 || m->bias[label] > UNUSED);
}

int32_t classes_known(const life_model *m, int32_t label)
{
    return life_in_use(m, label) || (label >= 0 && label < m->class_count && m->classes[label].name[0] != 0);
}

float *classes_mean(const life_model *m, int32_t label)
{
    return m->means + label * m->feature_count;
}

void classes_learn(const life_model *m, int32_t label)
{
    if (m->features) {
        follow_mean(classes_mean(m, label), m->features, m->feature_count, ++m->classes[label].count);
    }
    if (m->classes[label].fresh == 1) {
        follow_row(m, label);
    }
}

void classes_leave_room(const life_model *m, int32_t label)
{
    if (label != RULES_NONE && m->classes[label].fresh == 1 && m->features) {
        follow_begin(m, label);
    }
}

static uint32_t row_crc(const life_model *m, int32_t label)
{
    const uint32_t bytes = (uint32_t)m->feature_count * 4;
    return crc32_bytes((const uint8_t *)(m->weight + label * m->feature_count), bytes) ^
           crc32_bytes((const uint8_t *)(m->bias + label), 4);
}

void classes_mark(const life_model *m, int32_t label)
{
    m->rows[label] = row_crc(m, label);
}

void classes_mark_all(const life_model *m)
{
    for (int32_t k = 0; m->rows && k < m->class_count; k++) {
        if (m->classes[k].fresh) {
            classes_mark(m, k);
        }
    }
}

void classes_notice(const life_model *m)
{
    if (m->now->phase != LIFE_IDLE || m->now->trial.left) {
        return;
    }
    for (int32_t k = 0; m->rows && k < m->class_count; k++) {
        if (m->classes[k].fresh && life_in_use(m, k) && row_crc(m, k) != m->rows[k]) {
            m->classes[k].fresh = 0;
        }
    }
}

/* classes that learn ------------------------------------------------------------------------- */

int32_t classes_trainee(const life_model *m, int32_t label)
{
    int32_t found = 0;
    for (int32_t i = 0; i < m->now->count; i++) {
        found |= m->records[i].label == label && (m->records[i].flags & RULES_GUARD) == 0;
    }
    return found;
}

int32_t classes_new(const life_model *m, int32_t over)
{
    int32_t taught = 0, fresh = 0, last = -1, young = -1;
    for (int32_t k = 0; k < m->class_count; k++) {
        const rules_class *kind = m->classes + k;
        if (over ? kind->steps > 0 : classes_trainee(m, k)) {
            const int32_t added = kind->fresh == 1 || kind->fresh == 2;
            taught++;
            fresh += added;
            last = added ? k : last;
            young = kind->fresh == RULES_YOUNG && kind->labelled < RULES_YOUTH ? k : young;
        }
    }
    return taught < 2 || fresh > 1 || !m->weight ? -1 : fresh ? last : young;
}

int32_t classes_guarded(const life_model *m, int32_t label)
{
    for (int32_t k = 0; k < m->class_count; k++) {
        int32_t guards = 0;
        for (int32_t i = 0; i < m->now->count; i++) {
            guards += m->records[i].label == k && (m->records[i].flags & RULES_GUARD) != 0;
        }
        if (follow_trained(m, k, label) && guards < RULES_FEWEST_GUARDS) {
            return 0;
        }
    }
    return 1;
}

int32_t classes_news(const life_model *m, int32_t label)
{
    int32_t since = 0;
    while (since < m->now->count && m->records[since].label != label) {
        since++;
    }
    for (int32_t i = since; i < m->now->count; i++) {
        if (m->records[i].label != RULES_NONE && m->records[i].label != label) {
            return 1;
        }
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
        found = classes_known(m, i) ? found : i;
    }
    if (found >= 0) {
        life_settle(m);
        copy_bytes(m->classes[found].name, name, bytes);
        m->classes[found].fresh = 1;
        classes_mark(m, found);
        keep_now(m);
    }
    return found;
}

void classes_sweep(const life_model *m, int32_t saved)
{
    for (int32_t i = m->now->count - 1; i >= 0; i--) {
        if (m->records[i].label != RULES_NONE && !classes_known(m, m->records[i].label)) {
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
    if (!classes_known(m, label) || !m->weight || is_last(m, label)) {
        return 1;
    }
    const uint32_t failures = m->now->failures;
    life_settle(m);
    bout_abandon(m);
    m->now->trial.label = RULES_NONE;
    m->classes[label] = nothing;
    for (int32_t i = 0; i < m->feature_count; i++) {
        classes_mean(m, label)[i] = m->weight[label * m->feature_count + i] = 0.0f;
    }
    m->bias[label] = -1e9f;
    keep_now(m);
    classes_sweep(m, failures == m->now->failures);
    keep_now(m); /* in both banks: neither has the class's row */
    return failures == m->now->failures ? 0 : 3;
}
