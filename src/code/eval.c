/* The machine-independent half of eval.h. */
#include <code/eval.h>

#include <string.h>

static eval_value fresh(eval_state *s, eval_kind kind)
{
    return (eval_value){.kind = (uint8_t)kind, .id = ++s->last_id};
}

void eval_start(eval_state *s)
{
    memset(s, 0, sizeof(*s));
    for (size_t i = 0; i < EVAL_REGISTERS; i++)
        s->registers[i] = fresh(s, EVAL_UNKNOWN);
    for (size_t i = 0; i < EVAL_SLOTS; i++)
        s->slots[i].base = EVAL_NO_REGISTER;
}

eval_value eval_unknown(eval_state *s)
{
    return fresh(s, EVAL_UNKNOWN);
}

eval_value eval_loaded(eval_state *s)
{
    return fresh(s, EVAL_LOADED);
}

eval_value eval_const(eval_state *s, uint64_t value)
{
    eval_value v = fresh(s, EVAL_CONST);
    v.addend = value;
    return v;
}

/* Can it be the base of a table, or its index? */
static bool is_opaque(const eval_value *v)
{
    return v->kind == EVAL_UNKNOWN || v->kind == EVAL_LOADED || v->kind == EVAL_SUM;
}

static eval_value address_of_index(eval_state *s, const eval_value *index, unsigned scale)
{
    eval_value v = fresh(s, EVAL_ADDRESS);
    v.address.index_id = index->id;
    v.address.scale = (uint8_t)scale;
    return v;
}

static eval_value target_of_entry(eval_state *s, const eval_value *entry)
{
    eval_value v = *entry;
    v.kind = EVAL_TARGET;
    v.id = fresh(s, EVAL_TARGET).id;
    return v;
}

static eval_value add_const(eval_state *s, const eval_value *v, uint64_t addend)
{
    eval_value sum = *v;
    switch ((eval_kind)v->kind) {
    case EVAL_CONST:
    case EVAL_TARGET:
        sum.addend += addend;
        break;
    case EVAL_ENTRY:
        sum = target_of_entry(s, v);
        sum.addend = addend;
        break;
    case EVAL_ADDRESS:
        /* What has been compared with something is an index and not a part of an address. */
        if (eval_limit_of(s, v->id))
            sum = address_of_index(s, v, 0);
        sum.address.addend += addend;
        break;
    case EVAL_UNKNOWN:
    case EVAL_LOADED:
    case EVAL_SUM:
        sum = address_of_index(s, v, 0);
        sum.address.addend = addend;
        break;
    }
    sum.id = fresh(s, EVAL_SUM).id;
    return sum;
}

/* An address without a base, such as a scaled index, or an entry gets the base b. */
static eval_value add_base(eval_state *s, const eval_value *v, const eval_value *b)
{
    if (v->kind == EVAL_ADDRESS && v->address.base_id == EVAL_NO_ID) {
        eval_value sum = *v;
        sum.id = fresh(s, EVAL_ADDRESS).id;
        sum.address.base_id = b->id;
        return sum;
    }
    if (v->kind == EVAL_ENTRY) {
        eval_value sum = target_of_entry(s, v);
        sum.base_id = b->id;
        return sum;
    }
    return fresh(s, EVAL_SUM);
}

eval_value eval_add(eval_state *s, const eval_value *a, const eval_value *b)
{
    if (a->kind == EVAL_CONST)
        return a->addend == 0 ? *b : add_const(s, b, a->addend);
    if (b->kind == EVAL_CONST)
        return b->addend == 0 ? *a : add_const(s, a, b->addend);
    if (is_opaque(a) && is_opaque(b))
        return fresh(s, EVAL_SUM);
    return is_opaque(a) ? add_base(s, b, a) : add_base(s, a, b);
}

eval_value eval_scale(eval_state *s, const eval_value *v, unsigned shift)
{
    if (shift == 0)
        return *v;
    if (v->kind == EVAL_CONST)
        return eval_const(s, v->addend << (shift & 63));
    if (shift > 3)
        return fresh(s, EVAL_SUM);
    if (v->kind != EVAL_ENTRY)
        return address_of_index(s, v, shift);
    /* A distance in larger units, or the index into another table. */
    eval_value scaled = *v;
    scaled.id = fresh(s, EVAL_ENTRY).id;
    scaled.shift = (uint8_t)(scaled.shift + shift);
    return scaled;
}

/* On one path the index may be a constant too; addresses are larger. */
static bool is_rather_base(const eval_value *v, const eval_value *other)
{
    return v->kind == EVAL_CONST && (other->kind != EVAL_CONST || other->addend < v->addend);
}

eval_value eval_index(eval_state *s, const eval_value *base, const eval_value *index,
                      unsigned shift)
{
    if (shift == 0 && is_rather_base(index, base)) {
        const eval_value *swapped = base; /* [index + table] */
        base = index;
        index = swapped;
    }
    eval_value scaled =
        index->kind == EVAL_ENTRY ? eval_scale(s, index, shift) : address_of_index(s, index, shift);
    /* It may have been scaled before. */
    if (shift == 0 && index->kind == EVAL_ADDRESS && index->address.scale > 0)
        scaled = *index;
    return eval_add(s, base, &scaled);
}

eval_value eval_extend(eval_state *s, const eval_value *v, unsigned size_bytes, bool is_signed)
{
    unsigned unused_bits = 64 - 8 * size_bytes;
    if (unused_bits == 0)
        return *v;
    eval_value extended = *v;
    if (v->kind == EVAL_CONST) {
        uint64_t high = v->addend << unused_bits;
        extended.addend =
            is_signed ? (uint64_t)((int64_t)high >> unused_bits) : high >> unused_bits;
        return extended;
    }
    if (v->kind == EVAL_ENTRY && is_signed && v->entry_size == size_bytes)
        extended.is_signed = true;
    /* The rest may have been anything: unless it is limited, the value is a new one. */
    if (size_bytes < 4 && !eval_limit_of(s, v->id)) {
        if (v->kind != EVAL_ENTRY)
            extended = fresh(s, EVAL_UNKNOWN);
        if (!is_signed)
            eval_limit_to(s, extended.id, (UINT64_C(1) << (8 * size_bytes)) - 1, false);
    }
    return extended;
}

eval_value eval_load(eval_state *s, const eval_value *address, unsigned size_bytes, bool is_signed)
{
    eval_value v = fresh(s, EVAL_ENTRY);
    v.entry_id = v.id;
    v.entry_size = (uint8_t)size_bytes;
    v.is_signed = is_signed;
    if (address->kind == EVAL_ADDRESS && 1u << address->address.scale == size_bytes) {
        v.address = address->address;
    } else if (address->kind == EVAL_TARGET && 1u << address->shift == size_bytes) {
        v.address = (eval_address){.base_id = address->base_id,
                                   .index_id = address->entry_id,
                                   .addend = address->addend,
                                   .scale = address->shift};
        v.inner = address->address;
        v.inner_size = address->entry_size;
    } else {
        v.kind = EVAL_LOADED;
    }
    if (size_bytes < 4 && !is_signed)
        eval_limit_to(s, v.id, (UINT64_C(1) << (8 * size_bytes)) - 1, false);
    return v;
}

void eval_set(eval_state *s, unsigned reg, const eval_value *v)
{
    if (reg >= EVAL_NO_REGISTER)
        return;
    s->registers[reg] = *v;
    eval_lose_slots(s, reg);
}

void eval_lose(eval_state *s, unsigned reg)
{
    eval_value v = fresh(s, EVAL_UNKNOWN);
    eval_set(s, reg, &v);
}

void eval_lose_slots(eval_state *s, unsigned base)
{
    for (size_t i = 0; i < EVAL_SLOTS; i++) {
        if (s->slots[i].base == base)
            s->slots[i].base = EVAL_NO_REGISTER;
    }
}

eval_value *eval_slot_at(eval_state *s, unsigned base, int64_t offset)
{
    for (size_t i = 0; i < EVAL_SLOTS; i++) {
        eval_slot *slot = &s->slots[i];
        if (slot->base == base && slot->offset == offset)
            return &slot->value;
    }
    return NULL;
}

void eval_set_slot(eval_state *s, unsigned base, int64_t offset, const eval_value *v)
{
    eval_value *old = eval_slot_at(s, base, offset);
    if (old) {
        *old = *v;
        return;
    }
    eval_slot *slot = &s->slots[s->slots_used++ % EVAL_SLOTS];
    *slot = (eval_slot){.base = (uint8_t)base, .offset = offset, .value = *v};
}

const eval_limit *eval_limit_of(const eval_state *s, eval_id id)
{
    for (size_t i = 0; i < EVAL_LIMITS; i++) {
        if (s->limits[i].id == id && id != EVAL_NO_ID)
            return &s->limits[i];
    }
    return NULL;
}

void eval_limit_to(eval_state *s, eval_id id, uint64_t max, bool is_checked)
{
    eval_limit *limit = NULL;
    for (size_t i = 0; i < EVAL_LIMITS && !limit; i++) {
        if (s->limits[i].id == id)
            limit = &s->limits[i];
    }
    if (limit && limit->is_checked && (!is_checked || limit->max <= max))
        return;
    if (!limit)
        limit = &s->limits[s->limits_used++ % EVAL_LIMITS];
    *limit = (eval_limit){.id = id, .max = max, .is_checked = is_checked};
}

void eval_branch(eval_state *s, eval_condition condition, bool is_taken)
{
    static const uint8_t opposite[] = {[EVAL_OTHER] = EVAL_OTHER,
                                       [EVAL_BELOW] = EVAL_ABOVE_EQUAL,
                                       [EVAL_BELOW_EQUAL] = EVAL_ABOVE,
                                       [EVAL_ABOVE] = EVAL_BELOW_EQUAL,
                                       [EVAL_ABOVE_EQUAL] = EVAL_BELOW};
    if (!is_taken)
        condition = opposite[condition];
    if (s->compared == EVAL_NO_ID)
        return;
    if (condition == EVAL_BELOW_EQUAL)
        eval_limit_to(s, s->compared, s->compared_with, true);
    else if (condition == EVAL_BELOW && s->compared_with > 0)
        eval_limit_to(s, s->compared, s->compared_with - 1, true);
}
