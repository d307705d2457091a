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
#include "device/pupil.h"
#include "device/store.h"
#include "kernels.h"

static const float FIRST_RATE = 2.0f; /* times the rate, at the first lesson: it falls to zero, so its mean is the rate */
enum { SAME, LOST, WON };             /* a guard's answer after the bout; it takes the place of its probability before */

static int32_t is_judge(const rules_record *r)
{
    return (r->flags & RULES_GUARD) && (r->flags & RULES_JUDGED);
}

/* The next record to be asked: a guard, or a sample of a class whose row learns alone. */
static int32_t next_asked(const life_model *m, int32_t judged)
{
    for (; m->now->cursor < m->now->count; m->now->cursor++) {
        const rules_record *r = m->records + m->now->cursor;
        if (((r->flags & RULES_GUARD) || pupil_owns(m, r)) && (!judged || (r->flags & RULES_JUDGED))) {
            return 1;
        }
    }
    return 0;
}

int32_t bout_right(const life_model *m, const rules_record *r, uint8_t *sure)
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

void bout_before(const life_model *m, uint32_t offset, void *to, uint32_t bytes)
{
    if (m->now->bank.newest >= 0) {
        bank_read(m, offset, to, bytes);
    } else if (m->before) {
        copy_bytes(to, m->before + offset, (int32_t)bytes);
    }
}

static void enter(const life_model *m, int32_t phase)
{
    m->now->phase = phase;
    m->now->cursor = 0;
    if (phase == LIFE_LEARN) {
        pupil_begin(m);
    }
    if (phase == LIFE_BEFORE) {
        pupil_choose(m);
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
    if (!next_asked(m, 0)) {
        enter(m, LIFE_LEARN);
        return;
    }
    const int32_t i = m->now->cursor++;
    rules_record *r = m->records + i;
    const int32_t right = bout_right(m, r, m->sure + i);
    r->flags = (uint8_t)((r->flags & ~RULES_RIGHT) | RULES_JUDGED | (right ? RULES_RIGHT : 0));
}

static void learn(const life_model *m)
{
    const int32_t i = m->now->left ? rules_lesson(m->records, m->now->count, m->classes, m->class_count) : -1;
    if (i < 0) {
        m->now->left = 0;
        if (!pupil_end(m)) {
            enter(m, LIFE_AFTER);
        }
        return;
    }
    store_bring(m, m->records + i);
    if (m->classes[m->records[i].label].fresh == 1) {
        m->classes[m->records[i].label].fresh = 2;
    }
    m->now->loss = life_learn(m->records[i].label, m->now->rate);
    pupil_follow(m);
    m->past->steps++;
    m->now->rate = m->now->rate * ((float)(m->now->left - 1) / (float)m->now->left); /* in a line, to zero */
    m->now->left--;
}

int32_t bout_undo(const life_model *m)
{
    bout_before(m, 0, m->state, m->state_bytes);
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
        pupil_judged(m, 0);
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
    const int32_t worse = rules_worse(&now->votes) || is_broken(m), stays = !worse && pupil_stays(m);
    past->right = (uint32_t)(now->votes.right + (stays ? now->votes.lost - now->votes.won : 0));
    past->lost = stays ? 0 : (uint32_t)now->votes.lost;
    past->won = stays ? 0 : (uint32_t)now->votes.won;
    past->pace = worse ? past->pace * 0.5f : past->pace < 0.5f ? past->pace * 2.0f : 1.0f;
    const int32_t undone = worse && bout_undo(m) == 0;
    if (undone) {
        past->undone++;
        past->right = (uint32_t)(now->votes.right + now->votes.lost - now->votes.won);
    }
    pupil_judged(m, !undone);
    for (int32_t i = 0; i < now->count; i++) {
        if (is_judge(m->records + i)) {
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
        if (is_judge(m->records + i) && m->records[i].label == label) {
            own.lost += m->sure[i] == LOST;
            own.won += m->sure[i] == WON;
            own.won_older += m->sure[i] == WON && m->records[i].uses > 0;
        }
    }
    return own;
}

static void ask_after(const life_model *m)
{
    if (!next_asked(m, 1)) {
        judge(m);
        enter(m, LIFE_SAVE_AFTER);
        return;
    }
    uint8_t sure; /* a guard that has left meanwhile, or has another label, does not count */
    const int32_t i = m->now->cursor;
    const rules_record *r = m->records + i;
    const rules_own own = counted(m, r->label);
    const int32_t right = bout_right(m, r, &sure), before = (r->flags & RULES_RIGHT) != 0;
    if (is_judge(r)) {
        rules_vote(&m->now->votes, &own, r->uses > 0, before, right, m->sure[i], sure);
        m->sure[i] = (uint8_t)(right == before ? SAME : right ? WON : LOST);
    }
    pupil_compare(m, r, right);
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
    if (m->now->bank.newest < 0) {
        m->now->late.room = 0.0f; /* without flash, that is the state of before the last bout */
    }
    classes_mark_all(m);
    return found;
}
