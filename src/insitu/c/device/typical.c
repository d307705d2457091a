/* Which trainee a class can spare: without it, the mean of those kept is nearest to the mean of all its samples.
 *
 * Only where nothing but the head is trained: there, features cost little more than reading the sample. store/typical.py
 * has the same operations in the same order, and gets the same bits.
 */
#include "device/typical.h"

#include "device/classes.h"
#include "device/store.h"
#include "kernels.h"

static int32_t is_among(const rules_record *r, const rules_record *newcomer, int32_t label)
{
    return r->label == label && (r->flags & RULES_GUARD) == 0 && r->id != newcomer->id;
}

static const float *features_of(const life_model *m, const rules_record *r)
{
    store_bring(m, r);
    life_recall();
    return m->features;
}

static void add(const life_model *m, const float *features, int32_t first)
{
    for (int32_t i = 0; i < m->feature_count; i++) {
        m->total[i] = first ? features[i] : m->total[i] + features[i];
    }
}

/* How far the mean of the others is from that of all samples. */
static float missed(const life_model *m, const float *features, int32_t count, const float *mean)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < m->feature_count; i++) {
        const float apart = (m->total[i] - features[i]) / (float)(count - 1) - mean[i];
        sum = i ? sum + apart * apart : apart * apart;
    }
    return sum;
}

static uint32_t least_missed(const life_model *m, const rules_record *newcomer, int32_t label, int32_t count)
{
    const float *mean = classes_mean(m, label);
    uint32_t found = newcomer->id;
    float least = 0.0f;
    int32_t asked = 0;
    for (int32_t i = 0; i < m->now->count; i++) {
        const rules_record *r = m->records + i;
        if (is_among(r, newcomer, label)) {
            const float own = missed(m, features_of(m, r), count, mean);
            found = !asked || own < least ? r->id : found;
            least = !asked || own < least ? own : least;
            asked = 1;
        }
    }
    return newcomer->label == label && missed(m, m->arrived, count, mean) < least ? newcomer->id : found;
}

uint32_t typical_spared(const life_model *m, const rules_record *newcomer, int32_t label, uint32_t chosen)
{
    int32_t count = newcomer->label == label, first = 1;
    for (int32_t i = 0; i < m->now->count; i++) {
        count += is_among(m->records + i, newcomer, label);
    }
    if (!m->total || m->past->rule != RULES_TYPICAL || label == RULES_NONE || (newcomer->flags & RULES_GUARD) ||
        count < 2 || count > RULES_COMPARED) {
        return chosen;
    }
    copy_bytes(m->arrived, m->features, m->feature_count * 4);
    copy_bytes(m->held, m->latent, (int32_t)m->latent_bytes);
    for (int32_t i = 0; i < m->now->count; i++) {
        if (is_among(m->records + i, newcomer, label)) {
            add(m, features_of(m, m->records + i), first);
            first = 0;
        }
    }
    if (newcomer->label == label) {
        add(m, m->arrived, first);
    }
    const uint32_t found = least_missed(m, newcomer, label, count);
    copy_bytes(m->latent, m->held, (int32_t)m->latent_bytes);
    return found;
}
