/* What the network sees: see follow.h. The operations and their order are part of the rules: store/drift.py gets the
 * same bits.
 */
#include "device/follow.h"

#include <float.h>
#include <stddef.h>

#include "device/classes.h"
#include "device/store.h"
#include "numbers/mathf.h"

static const float MARGIN = 32.0f; /* over their number, FEWEST at least: by which each witness must keep its class */
enum { FEWEST = 16 };

uint8_t follow_worth(const float *outputs, int32_t count, float *confidence, int32_t *guess)
{
    float top = outputs[0], total = 0.0f, first = 0.0f, second = 0.0f;
    *guess = 0;
    for (int32_t i = 1; i < count; i++) {
        if (outputs[i] > top) {
            top = outputs[i];
            *guess = i;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        const float e = insitu_expf(outputs[i] - top);
        total = i ? total + e : e;
        if (e > first) {
            second = first;
            first = e;
        } else if (e > second) {
            second = e;
        }
    }
    *confidence = first / total;
    return (uint8_t)(255 - (int32_t)(255.0f * (*confidence - second / total)));
}

uint8_t follow_sure(const float *outputs, int32_t count, int32_t label)
{
    float top = outputs[0], total = 0.0f, own = 0.0f;
    for (int32_t i = 1; i < count; i++) {
        top = outputs[i] > top ? outputs[i] : top;
    }
    for (int32_t i = 0; i < count; i++) {
        const float e = insitu_expf(outputs[i] - top);
        total = i ? total + e : e;
        own = i == label ? e : own;
    }
    return (uint8_t)(int32_t)(255.0f * (own / total));
}

static void see(life_past *past, int32_t i, float g)
{
    if (past->usual >= LIFE_REFERENCE) {
        past->recent[i] = past->recent[i] + (g - past->recent[i]) * (1.0f / 32.0f);
        return;
    }
    const float apart = g - past->mean[i];
    past->mean[i] = past->mean[i] + apart / (float)(past->usual + 1);
    past->square[i] = past->square[i] + apart * (g - past->mean[i]);
    past->recent[i] = past->mean[i];
}

/* The usual confidence rises with the recent one, and never falls. */
static void grow_surer(life_past *past)
{
    const float more = past->recent[LIFE_GROUPS] - past->mean[LIFE_GROUPS];
    if (more > 0.0f) {
        past->mean[LIFE_GROUPS] = past->mean[LIFE_GROUPS] + more * (1.0f / 128.0f);
    }
}

void follow_drift(life_past *past, const float *sums, int32_t count, float confidence)
{
    for (int32_t i = 0; i < LIFE_GROUPS && i < count; i++) {
        see(past, i, sums[i] / (float)((count - i + LIFE_GROUPS - 1) / LIFE_GROUPS));
    }
    see(past, LIFE_GROUPS, confidence);
    grow_surer(past);
    past->usual += past->usual < LIFE_REFERENCE;
}

void follow_mean(float *mean, const float *features, int32_t count, uint32_t n)
{
    for (int32_t i = 0; i < count; i++) {
        mean[i] = mean[i] + (features[i] - mean[i]) / (float)n;
    }
}

/* rows of new classes --------------------------------------------------------------------------- */

static const float *mean_at(const life_model *m, int32_t k)
{
    return m->means + k * m->feature_count;
}

static const float *row_at(const life_model *m, int32_t k)
{
    return m->weight + k * m->feature_count;
}

static int32_t is_old(const life_model *m, int32_t k, int32_t label)
{
    return k != label && life_in_use(m, k) && m->classes[k].count > 0;
}

/* The mean of feature i over the old classes: of their means, or of their rows. */
static float centre(const life_model *m, int32_t label, const float *of, int32_t i, int32_t n)
{
    float sum = 0.0f;
    for (int32_t k = 0; k < m->class_count; k++) {
        sum += is_old(m, k, label) ? of[k * m->feature_count + i] : 0.0f;
    }
    return n ? sum / (float)n : 0.0f;
}

static float square(const float *x, int32_t count)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < count; i++) {
        sum += x[i] * x[i];
    }
    return sum;
}

/* The scale of the head: the regression of the old rows on their means. */
static float scale_of(const life_model *m, int32_t label, int32_t n)
{
    float num = 0.0f, den = 0.0f;
    for (int32_t k = 0; k < m->class_count; k++) {
        for (int32_t i = 0; is_old(m, k, label) && i < m->feature_count; i++) {
            const float apart = mean_at(m, k)[i] - centre(m, label, m->means, i, n);
            num += (row_at(m, k)[i] - centre(m, label, m->weight, i, n)) * apart;
            den += apart * apart;
        }
    }
    if (n >= 2 && den > 0.0f && num > 0.0f) {
        return num / den;
    }
    return 4.0f / insitu_max(square(mean_at(m, label), m->feature_count), 1e-6f);
}

void follow_row(const life_model *m, int32_t label)
{
    int32_t n = 0;
    float sum = 0.0f;
    for (int32_t k = 0; k < m->class_count; k++) {
        n += is_old(m, k, label);
    }
    const float s = scale_of(m, label, n), h = s * 0.5f, *own = mean_at(m, label);
    for (int32_t k = 0; k < m->class_count; k++) {
        sum += is_old(m, k, label) ? m->bias[k] + h * square(mean_at(m, k), m->feature_count) : 0.0f;
    }
    for (int32_t i = 0; i < m->feature_count; i++) {
        const float v = centre(m, label, m->weight, i, n), c = centre(m, label, m->means, i, n);
        m->weight[label * m->feature_count + i] = v + s * (own[i] - c);
    }
    m->bias[label] = (n ? sum / (float)n : 0.0f) - h * square(own, m->feature_count);
}

int32_t follow_trained(const life_model *m, int32_t k, int32_t label)
{
    return k >= 0 && k != label && life_in_use(m, k) && (m->classes[k].fresh == 0 || m->classes[k].fresh == RULES_YOUNG);
}

/* The kept samples of trained classes. */
static uint32_t kept_of_others(const life_model *m, int32_t label)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < m->now->count; i++) {
        count += (uint32_t)follow_trained(m, m->records[i].label, label);
    }
    return count;
}

/* Is the trained class of record r the best of those, by the outputs at hand? */
static int32_t is_best(const life_model *m, const rules_record *r, int32_t label)
{
    const float own = m->outputs[r->label];
    for (int32_t k = 0; k < m->class_count; k++) {
        if (follow_trained(m, k, label) && (k < r->label ? m->outputs[k] >= own : m->outputs[k] > own)) {
            return 0;
        }
    }
    return 1;
}

float follow_room(const life_model *m, const rules_record *r, int32_t label)
{
    const uint32_t kept = kept_of_others(m, label);
    if (!follow_trained(m, r->label, label) || !rules_is_witness(r->id, kept)) {
        return 0.0f;
    }
    store_bring(m, r);
    life_recall();
    const float margin = MARGIN / (float)(kept < FEWEST ? FEWEST : kept < RULES_WITNESSES ? kept : RULES_WITNESSES);
    const float spare = m->outputs[r->label] - m->outputs[label] - margin;
    return is_best(m, r, label) && spare < 0.0f && spare >= -FLT_MAX ? spare : 0.0f;
}

/* How many kept samples of trained classes a new row may take. */
static int32_t may_take(const life_model *m, int32_t label)
{
    const uint32_t kept = kept_of_others(m, label);
    return (int32_t)(m->cost * (float)(kept < RULES_WITNESSES ? kept : RULES_WITNESSES));
}

/* One more value among the lowest, which are in order: those above it move up, the highest is lost. */
static void insert(float *lowest, int32_t count, float value)
{
    int32_t i = count;
    for (; i > 0 && lowest[i - 1] > value; i--) {
        if (i < count) {
            lowest[i] = lowest[i - 1];
        }
    }
    if (i < count) {
        lowest[i] = value;
    }
}

float follow_lower(const life_model *m, int32_t label, float *spared, float least, float room)
{
    const int32_t lost = spared ? may_take(m, label) : 0;
    if (lost == 0) {
        return room < least ? room : least;
    }
    insert(spared, lost + 1, room);
    return spared[lost];
}

void follow_clear(const life_model *m, float *spared)
{
    for (int32_t i = 0; spared && i < m->spared_count; i++) {
        spared[i] = 0.0f;
    }
}

static float *trial_spared(const life_model *m)
{
    return m->spared ? m->spared + m->spared_count : NULL;
}

static float lower(float a, float b)
{
    return a < b ? a : b;
}

void follow_begin(const life_model *m, int32_t label)
{
    life_trial *t = &m->now->trial;
    t->held = t->label == label ? t->least : 0.0f;
    t->label = label;
    t->left = m->now->count + 1;
    t->base = m->bias[label];
    t->least = 0.0f;
    follow_clear(m, trial_spared(m));
    m->bias[label] = t->base + t->held;
}

int32_t follow_slice(const life_model *m)
{
    life_trial *t = &m->now->trial;
    t->left--;
    if (t->left == 0) {
        m->bias[t->label] = t->base + t->least;
        classes_mark(m, t->label);
        return 0;
    }
    m->bias[t->label] = t->base;
    const float room = follow_room(m, m->records + (m->now->count - t->left), t->label);
    t->least = follow_lower(m, t->label, trial_spared(m), t->least, room);
    m->bias[t->label] = t->base + lower(t->least, t->held);
    return 1;
}

void follow_end(const life_model *m)
{
    while (m->now->trial.left) {
        follow_slice(m);
    }
}

/* How much less sure the network is than usual. */
static float doubt(const life_past *past)
{
    const float usual = past->mean[LIFE_GROUPS];
    const float fall = usual - past->recent[LIFE_GROUPS];
    return fall > 0.0f ? 2.5f * fall * fall / (usual * (1.0f - usual) + 0.01f) : 0.0f;
}

float life_drift(const life_model *m)
{
    const life_past *past = m->past;
    const int32_t groups = m->latent_count < LIFE_GROUPS ? m->latent_count : LIFE_GROUPS;
    float sum = 0.0f;
    if (past->usual < LIFE_REFERENCE) {
        return 0.0f;
    }
    for (int32_t i = 0; i < groups; i++) {
        const float apart = past->recent[i] - past->mean[i];
        const float each = apart * apart / (past->square[i] / (float)LIFE_REFERENCE + 1e-6f);
        sum = i ? sum + each : each;
    }
    const float apart = sum / (float)groups, unsure = doubt(past);
    return unsure > apart ? unsure : apart;
}
