/* The rules of a store: see rules.h. */
#include "device/rules.h"

#include "numbers/random.h"

enum { EVICTION = 1, RESERVOIR = 2, WITNESS = 3, EVERY = 5, AT = 3, MOST_USES = 0xFFFF, SURE = 255, LEAST_FALL = 10, SPARE = 1 };

uint32_t rules_draw(uint32_t counter, uint32_t stream)
{
    return random_at(random_key((int32_t)counter, (int32_t)stream), 0);
}

uint32_t rules_below(uint32_t counter, uint32_t stream, uint32_t n)
{
    return (uint32_t)((uint64_t)rules_draw(counter, stream) * n >> 32);
}

int32_t rules_room(int32_t capacity, int32_t guard)
{
    const int32_t guards = capacity / EVERY > 1 ? capacity / EVERY : 1;
    return guard ? guards : capacity - guards;
}

int32_t rules_is_witness(uint32_t id, uint32_t count)
{
    return rules_below(id, WITNESS, count) < RULES_WITNESSES;
}

int32_t rules_guards(rules_class *kind)
{
    return kind->labelled++ % EVERY == AT;
}

static int32_t same_group(const rules_record *a, const rules_record *b)
{
    return ((a->flags ^ b->flags) & RULES_GUARD) == 0;
}

/* The n-th record of the newcomer's group with this label, in the order of their ids. */
static int32_t nth(const rules_record *records, int32_t count, const rules_record *newcomer, int32_t label, int32_t n)
{
    for (int32_t i = 0; i < count; i++) {
        if (same_group(records + i, newcomer) && records[i].label == label && n-- == 0) {
            return i;
        }
    }
    return count;
}

/* The lowest label above this one in the newcomer's group, and how many records have it: 0 if there is none. */
static int32_t next_label(const rules_record *records, int32_t count, const rules_record *newcomer, int32_t above, int32_t *n)
{
    int32_t found = above;
    *n = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t label = records[i].label;
        if (label > above && same_group(records + i, newcomer) && (*n == 0 || label <= found)) {
            *n = label == found ? *n + 1 : 1;
            found = label;
        }
    }
    return found;
}

static int32_t balanced(const rules_record *records, int32_t count, const rules_record *newcomer, uint32_t seen)
{
    int32_t own = 0, most = 0, largest = RULES_NONE, n = 1;
    for (int32_t label = next_label(records, count, newcomer, RULES_NONE - 1, &n); n > 0;
         label = next_label(records, count, newcomer, label, &n)) { /* one pass per class, not per record */
        own = label == newcomer->label ? n : own;
        largest = n > most ? label : largest;
        most = n > most ? n : most;
    }
    if (own < most) {
        return nth(records, count, newcomer, largest, (int32_t)rules_below(newcomer->id, EVICTION, (uint32_t)most));
    }
    const uint32_t r = rules_below(newcomer->id, RESERVOIR, seen);
    return r < (uint32_t)own ? nth(records, count, newcomer, newcomer->label, (int32_t)r) : count;
}

static int32_t oldest(const rules_record *records, int32_t count, const rules_record *newcomer)
{
    int32_t i = 0;
    while (i < count && !same_group(records + i, newcomer)) {
        i++;
    }
    return i;
}

/* The least worth, the newcomer's included; of equal ones the oldest. */
static int32_t dullest(const rules_record *records, int32_t count, const rules_record *newcomer)
{
    int32_t found = count;
    const rules_record *least = newcomer;
    for (int32_t i = 0; i < count; i++) {
        const rules_record *r = records + i;
        if (same_group(r, newcomer) && (r->worth < least->worth || (r->worth == least->worth && r->id < least->id))) {
            found = i;
            least = r;
        }
    }
    return found;
}

int32_t rules_victim(int32_t rule, const rules_record *records, int32_t count, int32_t room,
                     const rules_record *newcomer, uint32_t seen)
{
    int32_t group = 0;
    for (int32_t i = 0; i < count; i++) {
        group += same_group(records + i, newcomer);
    }
    if (group < room) {
        return -1;
    }
    if (room < 1) {
        return count;
    }
    if (rule == RULES_OLDEST) {
        return oldest(records, count, newcomer);
    }
    return rule == RULES_INFORMATIVE ? dullest(records, count, newcomer) : balanced(records, count, newcomer, seen);
}

/* Is the lesson from record r better than that from `best`? Fewer steps of its class, then the lower class, then fewer
 * uses; of equal ones the newest, which comes last. */
static int32_t sooner(const rules_record *r, const rules_record *best, const rules_class *classes)
{
    const uint32_t steps = classes[r->label].steps, least = classes[best->label].steps;
    if (r->label != best->label) {
        return steps < least || (steps == least && r->label < best->label);
    }
    return r->uses <= best->uses;
}

/* Of the newest records of a class, the one with the fewest uses; of equal ones the newest. */
static int32_t newest(const rules_record *records, int32_t count, int32_t label)
{
    int32_t best = -1, left = RULES_NEWEST;
    for (int32_t i = count - 1; i >= 0 && left > 0; i--) {
        if (records[i].label == label && (records[i].flags & RULES_GUARD) == 0) {
            best = best < 0 || records[i].uses < records[best].uses ? i : best;
            left--;
        }
    }
    return best;
}

int32_t rules_lesson(rules_record *records, int32_t count, rules_class *classes, int32_t class_count)
{
    int32_t best = -1;
    for (int32_t i = 0; i < count; i++) {
        const rules_record *r = records + i;
        const int32_t can = r->label >= 0 && r->label < class_count && (r->flags & RULES_GUARD) == 0;
        if (can && (best < 0 || sooner(r, records + best, classes))) {
            best = i;
        }
    }
    if (best >= 0) {
        rules_class *own = classes + records[best].label;
        if (own->steps % RULES_NEWEST_EVERY == RULES_NEWEST_EVERY - 1) {
            best = newest(records, count, records[best].label);
        } else {
            own->level = records[best].uses;
        }
        rules_record *r = records + best;
        own->steps++;
        r->uses = (uint16_t)(r->uses < MOST_USES ? r->uses + 1 : MOST_USES);
    }
    return best;
}

/* What a class counts for a bout: its guards that went right, at most one more than went wrong. */
static int32_t paid(int32_t lost, int32_t won)
{
    return won < lost + SPARE ? won : lost + SPARE;
}

void rules_vote(rules_votes *votes, const rules_own *own, int32_t older, int32_t before, int32_t after, int32_t sure_before,
                int32_t sure_after)
{
    const int32_t lost = before && !after, won = after && !before, rose = sure_after > sure_before ? sure_after - sure_before : 0;
    votes->guards++;
    votes->older += older;
    votes->right += after;
    votes->lost += lost;
    votes->won += won;
    votes->paid += paid(own->lost + lost, own->won + won) - paid(own->lost, own->won);
    votes->paid_older += paid(own->lost + lost, own->won_older + (won && older)) - paid(own->lost, own->won_older);
    votes->fell += sure_before > sure_after ? sure_before - sure_after : 0;
    votes->rose += rose;
    votes->rose_older += older ? rose : 0;
}

int32_t rules_worse(const rules_votes *votes)
{
    const int32_t proven = votes->older >= RULES_FEWEST_GUARDS, asked = proven ? votes->older : votes->guards;
    const int64_t lost = votes->lost, won = proven ? votes->paid_older : votes->paid, net = lost - won;
    const int64_t fell = votes->fell, rose = proven ? votes->rose_older : votes->rose, fall = fell - rose;
    const int32_t unsure = LEAST_FALL * fall > SURE * (int64_t)asked && fall * fall > SURE * (fell + rose);
    return votes->guards >= RULES_FEWEST_GUARDS && net > 0 && (net * net > lost + won || unsure);
}

void rules_judged(rules_record *guard)
{
    guard->uses = (uint16_t)(guard->uses < MOST_USES ? guard->uses + 1 : MOST_USES);
}
