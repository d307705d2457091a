/* The row of a class that was added, in a bout: it may learn alone, leaves room for the others at the end, and takes that
 * room back while it learns. store/bout.py does the same.
 *
 * A row that learns with the room that it leaves learns against it, then leaves more, and after some bouts its class would
 * be gone. A row that learned alone, and then recognises fewer of the samples that are kept of its class than before, stays
 * as it was.
 */
#include "device/pupil.h"

#include "device/bout.h"
#include "device/classes.h"
#include "device/follow.h"

static const float ALONE_RATE = 3.0f; /* times the rate, if a row of the head learns for the first time, alone */
static const float HANDICAP = 0.5f;   /* of its bias while it learns alone */
enum { LEARNING = 1, LEAVING_ROOM = 2, TOGETHER = 3 }; /* a new row: alone in its bout, at its end, or with all others */

static void shift_row(const life_model *m, float by)
{
    m->bias[m->now->pupil] += by;
}

/* The row of a new class learns alone in its first bout if only the head is trained: the others know their own; and if
 * those have too few guards to see harm, until there is news of them. */
void pupil_choose(const life_model *m)
{
    const int32_t k = m->now->pupil = classes_new(m, 0);
    const int32_t first = k >= 0 && m->classes[k].fresh == 1;
    const int32_t blind = k >= 0 && !classes_guarded(m, k) && (first || !classes_news(m, k));
    m->now->alone = blind || (first && m->head_alone) ? LEARNING : TOGETHER;
    m->now->lent = m->now->compares = m->now->fell = 0;
}

int32_t pupil_owns(const life_model *m, const rules_record *r)
{
    return (m->now->alone == LEARNING || m->now->compares) && r->label == m->now->pupil;
}

void pupil_compare(const life_model *m, const rules_record *r, int32_t right)
{
    if (pupil_owns(m, r)) {
        m->now->fell += ((r->flags & RULES_RIGHT) != 0) - right;
    }
}

/* The first time it learns faster, since nothing else moves; and always with a handicap: it must leave the samples of the
 * others more room. */
void pupil_begin(const life_model *m)
{
    const int32_t k = m->now->pupil;
    if (k >= 0 && m->classes[k].fresh == RULES_YOUNG) {
        m->now->lent = 1;
        shift_row(m, -m->now->late.room);
    }
    if (m->now->alone == LEARNING) {
        m->now->rate *= m->classes[k].fresh == 1 ? ALONE_RATE : 1.0f;
        m->classes[k].fresh += (uint32_t)(m->classes[k].fresh == 1);
        shift_row(m, HANDICAP);
    }
}

static void put_back(const life_model *m, uint32_t from, uint32_t to)
{
    bout_before(m, from, m->state + from, to - from);
}

static uint32_t offset_of(const life_model *m, const float *place)
{
    return (uint32_t)((const unsigned char *)place - m->state);
}

/* The rows of all other classes as they were; if not only the head is trained, all other layers too. */
static void put_back_others(const life_model *m)
{
    const uint32_t row = (uint32_t)m->feature_count * 4, k = (uint32_t)m->now->pupil, all = (uint32_t)m->class_count;
    const uint32_t weight = offset_of(m, m->weight), bias = offset_of(m, m->bias);
    const int32_t first = weight < bias;
    const uint32_t lower = (first ? weight : bias), upper = first ? bias : weight;
    if (m->head_alone) {
        put_back(m, weight, weight + k * row);
        put_back(m, weight + (k + 1) * row, weight + all * row);
        put_back(m, bias, bias + k * 4);
        put_back(m, bias + (k + 1) * 4, bias + all * 4);
    } else {
        const uint32_t low = first ? row : 4, high = first ? 4 : row;
        put_back(m, 0, lower + k * low);
        put_back(m, lower + (k + 1) * low, upper + k * high);
        put_back(m, upper + (k + 1) * high, m->state_bytes);
    }
}

static void put_back_own(const life_model *m)
{
    const uint32_t row = (uint32_t)m->feature_count * 4, k = (uint32_t)m->now->pupil;
    const uint32_t weight = offset_of(m, m->weight) + k * row, bias = offset_of(m, m->bias) + k * 4;
    put_back(m, weight, weight + row);
    put_back(m, bias, bias + 4);
}

int32_t pupil_stays(const life_model *m)
{
    const int32_t fades = m->now->compares && m->now->fell > 0;
    if (fades) {
        put_back_own(m);
        m->now->least = m->now->lent ? m->now->late.room : 0.0f;
    }
    return fades;
}

void pupil_follow(const life_model *m)
{
    if (m->now->alone == LEARNING) {
        put_back_others(m);
    }
}

/* Lessons are over: which row must leave room? One that had no lesson after all gets back what it had left. */
static void begin_room(const life_model *m)
{
    life_now *now = m->now;
    if (now->alone == LEARNING) {
        shift_row(m, -HANDICAP);
    } else {
        const int32_t k = classes_new(m, 1);
        if (now->lent && k != now->pupil) {
            shift_row(m, now->late.room);
        }
        now->pupil = k;
    }
    now->compares = now->alone == LEARNING;
    now->least = 0.0f;
    follow_clear(m, m->spared);
    now->alone = now->pupil >= 0 ? LEAVING_ROOM : 0;
}

int32_t pupil_end(const life_model *m)
{
    life_now *now = m->now;
    if (now->alone == LEARNING || now->alone == TOGETHER) {
        begin_room(m);
    } else if (now->alone && now->cursor < now->count) {
        const float room = follow_room(m, m->records + now->cursor++, now->pupil);
        now->least = follow_lower(m, now->pupil, m->spared, now->least, room);
    } else if (now->alone) {
        shift_row(m, now->least);
        now->alone = 0;
    }
    return now->alone != 0;
}

/* Classes that the bout has taught are new no more, unless it was rolled back; one of them is young from now on. */
void pupil_judged(const life_model *m, int32_t kept)
{
    int32_t taught = 0;
    if (kept && m->now->pupil >= 0) {
        m->now->late.room = m->now->least;
    }
    for (int32_t k = 0; k < m->class_count; k++) {
        taught |= kept && m->classes[k].fresh == 2;
    }
    for (int32_t k = 0; k < m->class_count; k++) {
        uint32_t *fresh = &m->classes[k].fresh;
        if (*fresh == 2) {
            *fresh = !kept ? 1 : k == m->now->pupil ? RULES_YOUNG : 0;
        } else if (*fresh == RULES_YOUNG && taught) {
            *fresh = 0;
        }
    }
    classes_mark_all(m);
}
