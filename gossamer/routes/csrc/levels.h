/* Levels of topics and filters: where they begin, what they hash to, and which shape a filter has.

   Every level hashes to 64 bits by its text, its length and its place. A filter's key is the sum of its
   constant levels and the seed of its shape, mixed once more to 32 bits; so the keys of a topic for all shapes
   are a few subtractions from one sum, however many levels there are. Keys only guide: a match is verified on
   the text. The secret is drawn for each process, so that nobody can prepare filters that collide. */

#ifndef GOSSAMER_LEVELS_H
#define GOSSAMER_LEVELS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
#endif

static uint64_t secret[4];

static inline uint64_t
fold(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#elif defined(_MSC_VER) && defined(_M_X64)
    uint64_t high, low = _umul128(a, b, &high);
    return low ^ high;
#else
    uint64_t ll = (a & 0xffffffffu) * (b & 0xffffffffu), hl = (a >> 32) * (b & 0xffffffffu);
    uint64_t lh = (a & 0xffffffffu) * (b >> 32), hh = (a >> 32) * (b >> 32);
    uint64_t middle = (ll >> 32) + (hl & 0xffffffffu) + lh;
    return ((middle << 32) | (ll & 0xffffffffu)) ^ (hh + (hl >> 32) + (middle >> 32));
#endif
}

static inline uint64_t
read64(const char *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static inline uint64_t
read32(const char *at)
{
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

static inline uint64_t
level_hash(const char *text, size_t size, size_t place)
{
    uint64_t word;
    if (size <= 8) {
        if (size >= 4)
            word = read32(text) | read32(text + size - 4) << 32;
        else if (size)
            word = (uint8_t)text[0] | (uint64_t)(uint8_t)text[size >> 1] << 8 | (uint64_t)(uint8_t)text[size - 1] << 16;
        else
            word = 0;
    } else {
        size_t at = 0;
        word = secret[3];
        for (; at + 8 < size; at += 8)
            word = fold(word ^ read64(text + at), secret[2]);
        word ^= read64(text + size - 8);
        word = fold(word, secret[3]);
    }
    return fold(word ^ secret[0], ((uint64_t)size << 32 | (uint64_t)place) ^ secret[1]);
}

#define STACK_LEVELS 64

/* A topic name taken apart: level i is text[start[i]] to text[start[i + 1] - 1], sum[i] the levels before it. */
typedef struct {
    const char *text;
    size_t size;
    size_t levels;
    uint32_t *start;
    uint64_t *sum;
    uint32_t few_starts[STACK_LEVELS + 1];
    uint64_t few_sums[STACK_LEVELS + 1];
} Name;

/* 0, or -1 where memory is lacking. */
static inline int
name_open(Name *name, const char *text, size_t size)
{
    size_t begin = 0, place = 0;
    name->text = text;
    name->size = size;
    name->start = name->few_starts;
    name->sum = name->few_sums;
    name->sum[0] = 0;
    for (;;) {
        size_t end = begin;
        while (end < size && text[end] != '/')
            end++;
        name->start[place] = (uint32_t)begin;
        name->sum[place + 1] = name->sum[place] + level_hash(text + begin, end - begin, place);
        place++;
        begin = end + 1;
        if (end >= size)
            break;
        if (place == STACK_LEVELS) {
            /* As many as there can be, counting each byte left as a separator. */
            size_t most = place + (size - end) + 2;
            uint32_t *starts = malloc(most * sizeof *starts);
            uint64_t *sums = malloc(most * sizeof *sums);
            if (!starts || !sums) {
                free(starts);
                free(sums);
                return -1;
            }
            memcpy(starts, name->few_starts, place * sizeof *starts);
            memcpy(sums, name->few_sums, (place + 1) * sizeof *sums);
            name->start = starts;
            name->sum = sums;
        }
    }
    name->start[place] = (uint32_t)(size + 1);
    name->levels = place;
    return 0;
}

static inline void
name_close(Name *name)
{
    if (name->start != name->few_starts) {
        free(name->start);
        free(name->sum);
    }
}

/* All filters with so many levels, + at these places, and # at the end or not. */
typedef struct {
    uint64_t seed;
    size_t count; /* filters of this shape */
    uint32_t levels;
    uint32_t pluses;
    int open;
    uint32_t plus[]; /* ascending */
} Shape;

static inline int
shape_leads(const Shape *shape)
{
    return shape->levels == 0 || (shape->pluses && shape->plus[0] == 0);
}

static inline int
shape_fits(const Shape *shape, size_t levels, int dollar)
{
    if (dollar && shape_leads(shape))
        return 0;
    return shape->open ? levels >= shape->levels : levels == shape->levels;
}

static inline uint64_t
literal_seed(size_t levels)
{
    return fold((uint64_t)levels ^ secret[3], secret[0]);
}

static inline uint32_t
key_of(uint64_t sum, uint64_t seed)
{
    return (uint32_t)(fold(sum ^ seed, secret[2]) >> 32);
}

static inline uint32_t
name_key(const Name *name, const Shape *shape)
{
    uint64_t sum = name->sum[shape->levels];
    for (uint32_t i = 0; i < shape->pluses; i++)
        sum -= name->sum[shape->plus[i] + 1] - name->sum[shape->plus[i]];
    return key_of(sum, shape->seed);
}

/* Whether this text is the filter of this shape that matches the name. */
static inline int
filter_is(const Name *name, const Shape *shape, const char *text, size_t size)
{
    size_t at = 0, from = 0; /* in the text; in the name */
    for (uint32_t i = 0; i < shape->pluses; i++) {
        size_t same = name->start[shape->plus[i]] - from;
        if (at + same + 1 > size || memcmp(text + at, name->text + from, same) || text[at + same] != '+')
            return 0;
        at += same + 1;
        /* The separator behind the + is compared with what follows, or is the end. */
        from = name->start[shape->plus[i] + 1] - 1;
    }
    size_t end = shape->levels ? name->start[shape->levels] - 1 : 0;
    if (at + (end - from) > size || memcmp(text + at, name->text + from, end - from))
        return 0;
    at += end - from;
    if (!shape->open)
        return at == size;
    if (!shape->levels)
        return size == 1 && text[0] == '#';
    return at + 2 == size && text[at] == '/' && text[at + 1] == '#';
}

/* A filter taken apart: what its shape is, and the sum of its constant levels. */
typedef struct {
    const char *text;
    size_t size;
    uint64_t sum;
    uint32_t levels;
    uint32_t pluses;
    int open;
    uint32_t *plus;
    uint32_t few[STACK_LEVELS];
} Filter;

static inline int
filter_open(Filter *filter, const char *text, size_t size)
{
    size_t begin = 0, place = 0;
    filter->text = text;
    filter->size = size;
    filter->sum = 0;
    filter->pluses = 0;
    filter->open = 0;
    filter->plus = filter->few;
    for (;;) {
        size_t end = begin;
        while (end < size && text[end] != '/')
            end++;
        if (end - begin == 1 && text[begin] == '+') {
            if (filter->pluses == STACK_LEVELS && filter->plus == filter->few) {
                filter->plus = malloc((size / 2 + 2) * sizeof *filter->plus);
                if (!filter->plus)
                    return -1;
                memcpy(filter->plus, filter->few, sizeof filter->few);
            }
            filter->plus[filter->pluses++] = (uint32_t)place;
        } else if (end == size && end - begin == 1 && text[begin] == '#') {
            filter->open = 1;
            break;
        } else
            filter->sum += level_hash(text + begin, end - begin, place);
        place++;
        begin = end + 1;
        if (end >= size)
            break;
    }
    filter->levels = (uint32_t)place;
    return 0;
}

static inline void
filter_close(Filter *filter)
{
    if (filter->plus != filter->few)
        free(filter->plus);
}

static inline int
filter_is_literal(const Filter *filter)
{
    return !filter->pluses && !filter->open;
}

static inline int
filter_has_shape(const Filter *filter, const Shape *shape)
{
    return shape->levels == filter->levels && shape->open == filter->open && shape->pluses == filter->pluses &&
           !memcmp(shape->plus, filter->plus, filter->pluses * sizeof *filter->plus);
}

static inline Shape *
shape_of(const Filter *filter)
{
    Shape *shape = malloc(sizeof *shape + filter->pluses * sizeof *shape->plus);
    if (!shape)
        return NULL;
    shape->count = 0;
    shape->levels = filter->levels;
    shape->pluses = filter->pluses;
    shape->open = filter->open;
    shape->seed = fold((uint64_t)filter->levels << 1 ^ (uint64_t)filter->open ^ secret[1], secret[2]);
    for (uint32_t i = 0; i < filter->pluses; i++) {
        shape->plus[i] = filter->plus[i];
        shape->seed = fold(shape->seed ^ filter->plus[i], secret[3]);
    }
    return shape;
}

#endif
