/* Where filters are kept: blocks of text and value in an arena, found through a table of keys.

   A block is the value, the size of the text and the text, in units of 8 bytes; blocks never move, so that
   whoever walks them may do so while others come and go. A freed block waits in the list of its size. The
   table is open addressing with linear probing over (key, block), 8 bytes a slot, in the order of keys, so that
   it grows, shrinks and deletes without looking at a block; a topic that does not match costs one cache line.

   Rejected: pointers in the slots (twice the size, and malloc's own 8 bytes a block); tombstones. */

#ifndef GOSSAMER_STORE_H
#define GOSSAMER_STORE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)0)
#endif

typedef struct {
    void *value; /* NULL: free */
    uint32_t size; /* of the text; the top bit says that the collector must see the value */
    char text[];
} Block;

#define TRACKED 0x80000000u
#define BLOCK_HEAD offsetof(Block, text)

typedef struct {
    uint32_t key;
    uint32_t at; /* of the block; 0: the slot is empty */
} Slot;

#define CHUNK_BITS 17 /* units in a chunk: 1 MiB */
#define CHUNK_UNITS (1u << CHUNK_BITS)
#define EXACT_UNITS 64 /* larger blocks are of a power of two */
#define CLASSES (EXACT_UNITS + 11)
#define MOST_TEXT ((CHUNK_UNITS - 2) * 8)
#define LEAST_BITS 3

typedef struct {
    uint64_t **chunks;
    uint32_t *used; /* units, by chunk */
    uint32_t chunk_count;
    uint32_t free[CLASSES + 1]; /* first block by class, 0: none; the next one is in the first 4 bytes of text */
    Slot *slots;
    uint32_t bits;
    uint32_t count;
    uint64_t epoch; /* changes when all blocks were given back */
} Store;

static inline uint32_t
units_of(uint32_t size, uint32_t *class)
{
    uint32_t units = (uint32_t)((BLOCK_HEAD + size + 7) >> 3);
    if (units <= EXACT_UNITS) {
        *class = units;
        return units;
    }
    *class = EXACT_UNITS;
    uint32_t most = EXACT_UNITS;
    while (most < units) {
        most <<= 1;
        ++*class;
    }
    return most;
}

static inline Block *
block_at(const Store *store, uint32_t at)
{
    return (Block *)(store->chunks[at >> CHUNK_BITS] + (at & (CHUNK_UNITS - 1)));
}

static inline uint32_t
block_size(const Block *block)
{
    return block->size & ~TRACKED;
}

static inline uint32_t
slot_mask(const Store *store)
{
    return (uint32_t)(((uint64_t)1 << store->bits) - 1);
}

static inline uint32_t
home_of(const Store *store, uint32_t key)
{
    return key >> (32 - store->bits);
}

static inline int
store_open(Store *store)
{
    memset(store, 0, sizeof *store);
    store->bits = LEAST_BITS;
    store->slots = calloc((size_t)1 << store->bits, sizeof *store->slots);
    return store->slots ? 0 : -1;
}

static inline void
store_free_blocks(Store *store)
{
    for (uint32_t i = 0; i < store->chunk_count; i++)
        free(store->chunks[i]);
    free(store->chunks);
    free(store->used);
    store->chunks = NULL;
    store->used = NULL;
    store->chunk_count = 0;
    memset(store->free, 0, sizeof store->free);
    store->epoch++;
}

static inline uint32_t
store_new_block(Store *store, uint32_t size)
{
    uint32_t class, units = units_of(size, &class), at = store->free[class];
    if (at) {
        memcpy(&store->free[class], block_at(store, at)->text, 4);
        return at;
    }
    uint32_t last = store->chunk_count - 1;
    if (!store->chunk_count || store->used[last] + units > CHUNK_UNITS) {
        if (store->chunk_count == 1u << (32 - CHUNK_BITS))
            return 0;
        last = store->chunk_count;
        void *chunks = realloc(store->chunks, (last + 1) * sizeof *store->chunks);
        if (!chunks)
            return 0;
        store->chunks = chunks;
        void *used = realloc(store->used, (last + 1) * sizeof *store->used);
        if (!used)
            return 0;
        store->used = used;
        store->chunks[last] = malloc(CHUNK_UNITS * sizeof(uint64_t));
        if (!store->chunks[last])
            return 0;
        /* 0 stands for no block. */
        store->used[last] = last ? 0 : 1;
        store->chunk_count++;
    }
    at = last << CHUNK_BITS | store->used[last];
    store->used[last] += units;
    return at;
}

static inline void
store_give_block(Store *store, uint32_t at)
{
    Block *block = block_at(store, at);
    uint32_t class;
    units_of(block_size(block), &class);
    block->value = NULL;
    block->size &= ~TRACKED;
    memcpy(block->text, &store->free[class], 4);
    store->free[class] = at;
}

static inline int
store_resize(Store *store, uint32_t bits)
{
    Slot *old = store->slots;
    size_t size = (size_t)1 << store->bits;
    Slot *slots = calloc((size_t)1 << bits, sizeof *slots);
    if (!slots)
        return -1;
    store->slots = slots;
    store->bits = bits;
    uint32_t mask = slot_mask(store);
    for (size_t i = 0; i < size; i++) {
        if (!old[i].at)
            continue;
        uint32_t place = home_of(store, old[i].key);
        while (slots[place].at)
            place = (place + 1) & mask;
        slots[place] = old[i];
    }
    free(old);
    return 0;
}

/* Make room for one more; -1 where memory is lacking. */
static inline int
store_reserve(Store *store)
{
    uint64_t size = (uint64_t)1 << store->bits;
    if ((uint64_t)(store->count + 1) * 10 <= size * 7)
        return 0;
    if (store->bits >= 31)
        return -1;
    return store_resize(store, store->bits + 1);
}

static inline void
store_insert(Store *store, uint32_t key, uint32_t at)
{
    uint32_t mask = slot_mask(store), place = home_of(store, key);
    while (store->slots[place].at)
        place = (place + 1) & mask;
    store->slots[place].key = key;
    store->slots[place].at = at;
    store->count++;
}

/* The slot of exactly this text, or -1. */
static inline int64_t
store_find(const Store *store, uint32_t key, const char *text, size_t size)
{
    uint32_t mask = slot_mask(store), place = home_of(store, key);
    for (; store->slots[place].at; place = (place + 1) & mask) {
        if (store->slots[place].key != key)
            continue;
        const Block *block = block_at(store, store->slots[place].at);
        if (block_size(block) == size && !memcmp(block->text, text, size))
            return place;
    }
    return -1;
}

/* Empty a slot, and close the gap behind it. */
static inline void
slots_delete(Store *store, uint32_t hole)
{
    uint32_t mask = slot_mask(store), place = hole;
    for (;;) {
        place = (place + 1) & mask;
        if (!store->slots[place].at)
            break;
        /* It may move into the hole if that is not in front of its home. */
        uint32_t home = home_of(store, store->slots[place].key);
        if (((place - home) & mask) >= ((place - hole) & mask)) {
            store->slots[hole] = store->slots[place];
            hole = place;
        }
    }
    store->slots[hole].at = 0;
    store->count--;
    if (store->bits > LEAST_BITS && (uint64_t)store->count * 8 < (uint64_t)1 << store->bits)
        /* Without memory it stays as large as it is. */
        (void)store_resize(store, store->bits - 1);
}

static inline void
store_delete(Store *store, uint32_t slot)
{
    store_give_block(store, store->slots[slot].at);
    slots_delete(store, slot);
    if (!store->count)
        store_free_blocks(store);
}

/* The next block in use from this place on, or NULL; the place moves behind it. */
static inline Block *
store_walk(const Store *store, uint32_t *chunk, uint32_t *unit)
{
    for (; *chunk < store->chunk_count; ++*chunk, *unit = 0) {
        if (!*chunk && !*unit)
            *unit = 1;
        while (*unit < store->used[*chunk]) {
            Block *block = (Block *)(store->chunks[*chunk] + *unit);
            uint32_t class;
            *unit += units_of(block_size(block), &class);
            if (block->value)
                return block;
        }
    }
    return NULL;
}

static inline size_t
store_bytes(const Store *store)
{
    size_t bytes = ((size_t)1 << store->bits) * sizeof *store->slots;
    return bytes + (size_t)store->chunk_count * (CHUNK_UNITS * sizeof(uint64_t) + sizeof(void *) + 4);
}

#endif
