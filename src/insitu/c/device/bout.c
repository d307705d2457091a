/* A bout of learning, in slices: checkpoint, ask the guards, learn, ask the guards again, keep or roll back, checkpoint.
 *
 * A guard that was right before and is wrong after counts against the bout, one that became right for it (rules_worse),
 * but no class for others by more than one; so do probabilities of their labels that fall and rise.
 * Guards that arrive during a bout are not asked.
 */
#include "device/bout.h"

#include "device/bank.h"
#include "device/classes.h"
#include "device/follow.h"
#include "device/store.h"
#include "kernels.h"

static const float FIRST_RATE = 2.0f; /* times the rate, at the first lesson: it falls to zero, so its mean is the rate */
static const float ALONE_RATE = 3.0f; /* times that, if a row of the head learns for the first time, alone */
enum { SAME, LOST, WON };             /* a guard's answer after the bout; it takes the place of its probability before */
enum { LEARNING = 1, LEAVING_ROOM = 2, TOGETHER = 3 }; /* a new row: alone in its bout, at its end, or with all others */
static const float HANDICAP = 0.5f;   /* of its bias while it learns */

static int32_t next_guard(const life_model *m, int32_t judged)
{
    for (; m->now->cursor < m->now->count; m->now->cursor++) {
        const int32_t flags = m->records[m->now->cursor].flags;
        if ((flags & RULES_GUARD) && (!judged || (flags & RULES_JUDGED))) {
            return 1;
        }
    }
    return 0;
}

/* Is the network right about the record whose turn it is, and how sure is it of the label? */
static int32_t is_right(const life_model *m, const rules_record *r, uint8_t *sure)
{
    int32_t best = 0;
    store_bring(m, r);
    life_recall();
    for (int32_t i = 1; i < m->class_count; i++) {
        best = m->outputs[i] > m->outputs[best] ? i : best;
    }
    const int32_t fine = finite_f32(m->outputs, m->class_count);
    *sure = (uint8_t)(fine ? follow_sure(m->outputs, m->class_count, r->label) : 0);
    return best == r->label && fine;
}

/* Does every class in use have a sample to learn from? */
static int32_t has_all(const life_model *m)
{
    for (int32_t k = 0; k < m->class_count; k++) {
        if (life_in_use(m, k) && !classes_trainee(m, k)) {
            return 0;
        }
    }
    return 1;
}

static void shift_row(const life_model *m, float by)
{
    m->bias[m->now->pupil] += by;
}

/* The row of a new class learns alone in its first bout if only the head is trained: the others know their own; and if
 * those have too few guards to see harm, until there is news of them. The first time it learns faster, since nothing else
 * moves; and always with a handicap: it must leave the samples of the others more room. */
static void choose_rows(const life_model *m)
{
    const int32_t k = m->now->pupil = classes_new(m, 0);
    const int32_t first = k >= 0 && m->classes[k].fresh == 1;
    const int32_t blind = k >= 0 && !classes_guarded(m, k) && (first || !classes_news(m, k));
    m->now->alone = blind || (first && m->head_alone) ? LEARNING : TOGETHER;
    if (m->now->alone == LEARNING) {
        m->classes[k].fresh += (uint32_t)first;
        m->now->rate *= first ? ALONE_RATE : 1.0f;
        shift_row(m, HANDICAP);
    }
}

/* Lessons are over: the row of a new class takes no kept sample from the others, one recall per slice. Returns 0 when
 * that is done. */
static int32_t make_room(const life_model *m)
{
    life_now *now = m->now;
    if (now->alone == LEARNING) {
        shift_row(m, -HANDICAP);
    }
    if (now->alone == TOGETHER) {
        now->pupil = classes_new(m, 1);
    }
    if (now->alone == LEARNING || now->alone == TOGETHER) {
        now->least = 0.0f;
        follow_clear(m, m->spared);
        now->alone = now->pupil >= 0 ? LEAVING_ROOM : 0;
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
static void end_rows(const life_model *m, int32_t kept)
{
    int32_t taught = 0;
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

/* Bytes of the state as it was before the bout. */
static void bring_before(const life_model *m, uint32_t offset, void *to, uint32_t bytes)
{
    if (m->now->bank.newest >= 0) {
        bank_read(m, offset, to, bytes);
    } else if (m->before) {
        copy_bytes(to, m->before + offset, (int32_t)bytes);
    }
}

static void put_back(const life_model *m, uint32_t from, uint32_t to)
{
    bring_before(m, from, m->state + from, to - from);
}

/* The rows of all other classes as they were; if not only the head is trained, all other layers too. */
static void put_back_others(const life_model *m)
{
    const uint32_t row = (uint32_t)m->feature_count * 4, k = (uint32_t)m->now->pupil, all = (uint32_t)m->class_count;
    const uint32_t weight = (uint32_t)((unsigned char *)m->weight - m->state);
    const uint32_t bias = (uint32_t)((unsigned char *)m->bias - m->state);
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

static void enter(const life_model *m, int32_t phase)
{
    m->now->phase = phase;
    m->now->cursor = 0;
    if (phase == LIFE_LEARN) {
        choose_rows(m);
    }
    if ((phase == LIFE_SAVE_BEFORE || phase == LIFE_SAVE_AFTER) && m->bank_bytes) {
        bank_begin(m);
    }
}

int32_t life_bout(const life_model *m, uint32_t steps, float rate, int32_t partial)
{
    if (m->now->phase != LIFE_IDLE) {
        return 1;
    }
    if (!partial && !has_all(m)) {
        return 2;
    }
    if (steps == 0 || !(rate > 0.0f)) {
        return 0;
    }
    classes_notice(m);
    m->now->left = steps;
    m->now->rate = rate * (m->past->pace * FIRST_RATE);
    m->now->votes = (rules_votes){0};
    for (int32_t i = 0; i < m->class_count; i++) {
        m->classes[i].steps = 0;
    }
    enter(m, LIFE_SAVE_BEFORE);
    return 0;
}

void life_checkpoint(const life_model *m)
{
    if (m->now->phase == LIFE_IDLE && m->bank_bytes) {
        classes_notice(m);
        bank_begin(m);
        m->now->phase = LIFE_SAVE;
    }
}

static void ask_before(const life_model *m)
{
    if (!next_guard(m, 0)) {
        enter(m, LIFE_LEARN);
        return;
    }
    const int32_t i = m->now->cursor++;
    rules_record *r = m->records + i;
    const int32_t right = is_right(m, r, m->sure + i);
    r->flags = (uint8_t)((r->flags & ~RULES_RIGHT) | RULES_JUDGED | (right ? RULES_RIGHT : 0));
}

static void learn(const life_model *m)
{
    const int32_t i = m->now->left ? rules_lesson(m->records, m->now->count, m->classes, m->class_count) : -1;
    if (i < 0) {
        m->now->left = 0;
        if (!make_room(m)) {
            enter(m, LIFE_AFTER);
        }
        return;
    }
    store_bring(m, m->records + i);
    if (m->classes[m->records[i].label].fresh == 1) {
        m->classes[m->records[i].label].fresh = 2;
    }
    m->now->loss = life_learn(m->records[i].label, m->now->rate);
    if (m->now->alone == LEARNING) {
        put_back_others(m);
    }
    m->past->steps++;
    m->now->rate = m->now->rate * ((float)(m->now->left - 1) / (float)m->now->left); /* in a line, to zero */
    m->now->left--;
}

int32_t bout_undo(const life_model *m)
{
    bring_before(m, 0, m->state, m->state_bytes);
    return m->now->bank.newest < 0 && !m->before;
}

/* Has the head become something else than numbers? */
static int32_t is_broken(const life_model *m)
{
    const int32_t rows = m->class_count, weights = rows * m->feature_count;
    return m->weight && (!finite_f32(m->weight, weights) || !finite_f32(m->bias, rows));
}

static void forget_answers(const life_model *m)
{
    for (int32_t i = 0; i < m->now->count; i++) {
        m->records[i].flags = (uint8_t)(m->records[i].flags & ~(RULES_JUDGED | RULES_RIGHT));
    }
}

void bout_abandon(const life_model *m)
{
    const int32_t phase = m->now->phase;
    while (m->now->bank.busy) {
        bank_step(m);
    }
    if (phase == LIFE_BEFORE || phase == LIFE_LEARN || phase == LIFE_AFTER) {
        (void)bout_undo(m);
        forget_answers(m);
        end_rows(m, 0);
    }
    m->now->left = 0;
    m->now->phase = LIFE_IDLE;
}

static void judge(const life_model *m)
{
    life_now *now = m->now;
    life_past *past = m->past;
    past->bouts++;
    past->guards = (uint32_t)now->votes.guards;
    past->right = (uint32_t)now->votes.right;
    past->lost = (uint32_t)now->votes.lost;
    past->won = (uint32_t)now->votes.won;
    const int32_t worse = rules_worse(&now->votes) || is_broken(m);
    past->pace = worse ? past->pace * 0.5f : past->pace < 0.5f ? past->pace * 2.0f : 1.0f;
    const int32_t undone = worse && bout_undo(m) == 0;
    if (undone) {
        past->undone++;
        past->right = (uint32_t)(now->votes.right + now->votes.lost - now->votes.won);
    }
    end_rows(m, !undone);
    for (int32_t i = 0; i < now->count; i++) {
        if (m->records[i].flags & RULES_JUDGED) {
            rules_judged(m->records + i);
        }
    }
    forget_answers(m);
}

/* The guards of this class among those that were asked again. */
static rules_own counted(const life_model *m, int32_t label)
{
    rules_own own = {0};
    for (int32_t i = 0; i < m->now->cursor; i++) {
        if ((m->records[i].flags & RULES_JUDGED) && m->records[i].label == label) {
            own.lost += m->sure[i] == LOST;
            own.won += m->sure[i] == WON;
            own.won_older += m->sure[i] == WON && m->records[i].uses > 0;
        }
    }
    return own;
}

static void ask_after(const life_model *m)
{
    if (!next_guard(m, 1)) {
        judge(m);
        enter(m, LIFE_SAVE_AFTER);
        return;
    }
    uint8_t sure; /* a guard that has left meanwhile, or has another label, does not count */
    const int32_t i = m->now->cursor;
    const rules_record *r = m->records + i;
    const rules_own own = counted(m, r->label);
    const int32_t right = is_right(m, r, &sure), before = (r->flags & RULES_RIGHT) != 0;
    rules_vote(&m->now->votes, &own, r->uses > 0, before, right, m->sure[i], sure);
    m->sure[i] = (uint8_t)(right == before ? SAME : right ? WON : LOST);
    m->now->cursor++;
}

/* One step of a checkpoint; then the next phase. A bout that could not be undone does not begin. */
static void save(const life_model *m, int32_t next)
{
    if (next == LIFE_BEFORE && m->before) {
        copy_bytes(m->before, m->state, (int32_t)m->state_bytes); /* without flash */
    }
    if (!m->bank_bytes || !bank_step(m)) {
        const int32_t failed = m->bank_bytes && m->now->bank.failures != m->now->failures;
        enter(m, failed ? LIFE_IDLE : next);
    }
}

int32_t life_slice(const life_model *m)
{
    if (m->now->trial.left) { /* first: a bout and a checkpoint begin with its result */
        return follow_slice(m) || m->now->phase != LIFE_IDLE;
    }
    switch (m->now->phase) {
    case LIFE_SAVE_BEFORE:
        save(m, LIFE_BEFORE);
        break;
    case LIFE_BEFORE:
        ask_before(m);
        break;
    case LIFE_LEARN:
        learn(m);
        break;
    case LIFE_AFTER:
        ask_after(m);
        break;
    case LIFE_SAVE_AFTER:
    case LIFE_SAVE:
        save(m, LIFE_IDLE);
        break;
    default:
        break;
    }
    return m->now->phase != LIFE_IDLE;
}

int32_t life_rollback(const life_model *m)
{
    if (m->now->phase != LIFE_IDLE) {
        return 1;
    }
    follow_end(m);
    const int32_t found = bout_undo(m);
    classes_mark_all(m);
    return found;
}
