/* The compiled filter index: the twin of gossamer/routes/index/filters.py, with the same interface and results.

   What it is faster by: a topic's keys for all shapes come from one pass over its bytes; the slots of all of them
   are fetched from memory at once, then all the blocks, then all the values, so that a match waits for memory
   three times however many shapes there are. What it is smaller by: no Python object but the value, 8 bytes a
   slot, text without a header.

   Rules: 1. Whatever may run Python (allocating objects, dropping references) happens while the index is
   consistent and no pointer into it is held.  2. Filters of crowded shapes go to the FilterTrie given by the
   caller, as in the twin.  3. With the GIL, like everything that the loop's thread owns. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>

#include "levels.h"
#include "store.h"

#define KERNEL_VERSION 3 /* as gossamer/routes/kernel.py expects it */
#define MOST_LIMIT 100
#define MOST_PROBES (2 * MOST_LIMIT + 2)
#define KNOWN_LEVELS 16

typedef struct {
    Shape **shapes;
    uint32_t count;
    int known;
} Probes;

typedef struct {
    PyObject_HEAD
    Store store;
    Shape **shapes; /* by age */
    size_t shape_count;
    uint32_t shape_limit;
    size_t literals;
    size_t tracked; /* values the collector must see */
    PyObject *trie;
    Py_ssize_t crowded; /* filters in the trie */
    Probes probes[2][KNOWN_LEVELS + 1]; /* by whether the name starts with $, and its levels */
} Index;

/* UTF-8 of a str; where it is not the str's own, it belongs to *owner. */
static const char *
utf8_of(PyObject *text, Py_ssize_t *size, PyObject **owner)
{
    *owner = NULL;
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "expected a filter or topic as str, got %.100s", Py_TYPE(text)->tp_name);
        return NULL;
    }
    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        *size = PyUnicode_GET_LENGTH(text);
        return (const char *)PyUnicode_1BYTE_DATA(text);
    }
    *owner = PyUnicode_AsUTF8String(text);
    if (!*owner)
        return NULL;
    *size = PyBytes_GET_SIZE(*owner);
    return PyBytes_AS_STRING(*owner);
}

static void
forget_probes(Index *self)
{
    for (int dollar = 0; dollar < 2; dollar++)
        for (size_t levels = 0; levels <= KNOWN_LEVELS; levels++)
            self->probes[dollar][levels].known = 0;
}

/* The shapes to probe, of names with so many levels; -1 where memory is lacking. */
static int
learn_probes(Index *self, Probes *probes, size_t levels, int dollar)
{
    uint32_t count = 0;
    for (size_t i = 0; i < self->shape_count; i++)
        count += (uint32_t)shape_fits(self->shapes[i], levels, dollar);
    Shape **shapes = realloc(probes->shapes, (count + 1) * sizeof *shapes);
    if (!shapes)
        return -1;
    probes->shapes = shapes;
    probes->count = 0;
    for (size_t i = 0; i < self->shape_count; i++)
        if (shape_fits(self->shapes[i], levels, dollar))
            shapes[probes->count++] = self->shapes[i];
    probes->known = 1;
    return 0;
}

static Shape *
find_shape(const Index *self, const Filter *filter)
{
    for (size_t i = 0; i < self->shape_count; i++)
        if (filter_has_shape(filter, self->shapes[i]))
            return self->shapes[i];
    return NULL;
}

static int
is_crowded(const Index *self, const Filter *filter)
{
    uint32_t alike = 0;
    for (size_t i = 0; i < self->shape_count; i++) {
        const Shape *shape = self->shapes[i];
        alike += shape->open == filter->open && (shape->open || shape->levels == filter->levels);
    }
    return alike >= self->shape_limit;
}

static Shape *
add_shape(Index *self, const Filter *filter)
{
    Shape **shapes = realloc(self->shapes, (self->shape_count + 1) * sizeof *shapes);
    if (!shapes)
        return NULL;
    self->shapes = shapes;
    Shape *shape = shape_of(filter);
    if (!shape)
        return NULL;
    shapes[self->shape_count++] = shape;
    forget_probes(self);
    return shape;
}

static void
drop_shape(Index *self, Shape *shape)
{
    size_t at = 0;
    while (self->shapes[at] != shape)
        at++;
    self->shape_count--;
    memmove(self->shapes + at, self->shapes + at + 1, (self->shape_count - at) * sizeof *self->shapes);
    free(shape);
    forget_probes(self);
}

static PyObject *
trie_call(const Index *self, const char *method, PyObject *text, PyObject *more)
{
    if (!self->trie) {
        PyErr_SetString(PyExc_RuntimeError, "the index was collected");
        return NULL;
    }
    PyObject *slash = PyUnicode_FromString("/");
    PyObject *words = slash ? PyUnicode_Split(text, slash, -1) : NULL;
    PyObject *result = NULL;
    if (words)
        result = more ? PyObject_CallMethod(self->trie, method, "OO", words, more)
                      : PyObject_CallMethod(self->trie, method, "O", words);
    Py_XDECREF(words);
    Py_XDECREF(slash);
    return result;
}

/* The same for what changes the trie; it belongs to the index alone, so its size is known from here on. */
static PyObject *
trie_change(Index *self, const char *method, PyObject *text, PyObject *more)
{
    PyObject *result = trie_call(self, method, text, more);
    Py_ssize_t size = result ? PyObject_Size(self->trie) : 0;
    if (size < 0)
        Py_CLEAR(result);
    if (result)
        self->crowded = size;
    return result;
}

static inline uint32_t
filter_key(const Filter *filter, const Shape *shape)
{
    return key_of(filter->sum, shape ? shape->seed : literal_seed(filter->levels));
}

/* Where this filter is, and its shape; -1 if it is nowhere in the store. */
static int64_t
find_filter(const Index *self, const Filter *filter, Shape **shape)
{
    *shape = filter_is_literal(filter) ? NULL : find_shape(self, filter);
    if (!*shape && !filter_is_literal(filter))
        return -1;
    return store_find(&self->store, filter_key(filter, *shape), filter->text, filter->size);
}

static PyObject *
index_get(Index *self, PyObject *text)
{
    Py_ssize_t size;
    PyObject *owner, *value = NULL;
    const char *utf8 = utf8_of(text, &size, &owner);
    if (!utf8)
        return NULL;
    Filter filter;
    Shape *shape;
    if (filter_open(&filter, utf8, (size_t)size) < 0) {
        Py_XDECREF(owner);
        return PyErr_NoMemory();
    }
    int64_t slot = find_filter(self, &filter, &shape);
    if (slot >= 0)
        value = Py_NewRef(block_at(&self->store, self->store.slots[slot].at)->value);
    int literal = filter_is_literal(&filter);
    filter_close(&filter);
    Py_XDECREF(owner);
    if (value)
        return value;
    if (!literal && self->crowded)
        return trie_call(self, "get", text, NULL);
    Py_RETURN_NONE;
}

static void
set_value(Index *self, Block *block, PyObject *value)
{
    self->tracked -= block->size >> 31;
    block->value = Py_NewRef(value);
    block->size = block_size(block) | (PyObject_IS_GC(value) ? TRACKED : 0);
    self->tracked += block->size >> 31;
}

/* Put into the store; 1 where the shape is crowded instead, -1 where memory is lacking. */
static int
put_filter(Index *self, const Filter *filter, PyObject *value, PyObject **replaced)
{
    Shape *shape;
    int64_t slot = find_filter(self, filter, &shape);
    if (slot >= 0) {
        Block *block = block_at(&self->store, self->store.slots[slot].at);
        *replaced = block->value;
        set_value(self, block, value);
        return 0;
    }
    int literal = filter_is_literal(filter);
    if (!literal && !shape && is_crowded(self, filter))
        return 1;
    if (store_reserve(&self->store) < 0)
        return -1;
    uint32_t at = store_new_block(&self->store, (uint32_t)filter->size);
    if (!at)
        return -1;
    Block *block = block_at(&self->store, at);
    block->value = NULL;
    block->size = (uint32_t)filter->size;
    if (!literal && !shape) {
        shape = add_shape(self, filter);
        if (!shape) {
            store_give_block(&self->store, at);
            return -1;
        }
    }
    memcpy(block->text, filter->text, filter->size);
    set_value(self, block, value);
    store_insert(&self->store, filter_key(filter, shape), at);
    if (shape)
        shape->count++;
    else
        self->literals++;
    return 0;
}

static PyObject *
index_put(Index *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "put: expected a filter and a value, got %zd arguments", count);
        return NULL;
    }
    Py_ssize_t size;
    PyObject *owner, *replaced = NULL;
    const char *utf8 = utf8_of(args[0], &size, &owner);
    if (!utf8)
        return NULL;
    if (size > (Py_ssize_t)MOST_TEXT) {
        Py_XDECREF(owner);
        PyErr_Format(PyExc_ValueError, "put: expected a filter of at most %u bytes, got %zd", MOST_TEXT, size);
        return NULL;
    }
    Filter filter;
    int done = filter_open(&filter, utf8, (size_t)size);
    if (done == 0) {
        if (self->crowded && !filter_is_literal(&filter)) {
            /* It may have come while its shape had no room; a filter lives in one place. */
            PyObject *known = trie_call(self, "get", args[0], NULL);
            if (!known || known != Py_None)
                done = known ? 1 : -2;
            Py_XDECREF(known);
        }
        if (done == 0)
            done = put_filter(self, &filter, args[1], &replaced);
        filter_close(&filter);
    }
    Py_XDECREF(owner);
    Py_XDECREF(replaced);
    if (done == 1)
        return trie_change(self, "put", args[0], args[1]);
    if (done < 0)
        return done == -1 ? PyErr_NoMemory() : NULL;
    Py_RETURN_NONE;
}

static PyObject *
index_remove(Index *self, PyObject *text)
{
    Py_ssize_t size;
    PyObject *owner, *value = NULL;
    const char *utf8 = utf8_of(text, &size, &owner);
    if (!utf8)
        return NULL;
    Filter filter;
    Shape *shape;
    if (filter_open(&filter, utf8, (size_t)size) < 0) {
        Py_XDECREF(owner);
        return PyErr_NoMemory();
    }
    int64_t slot = find_filter(self, &filter, &shape);
    int literal = filter_is_literal(&filter);
    filter_close(&filter);
    Py_XDECREF(owner);
    if (slot >= 0) {
        Block *block = block_at(&self->store, self->store.slots[slot].at);
        value = block->value;
        self->tracked -= block->size >> 31;
        store_delete(&self->store, (uint32_t)slot);
        if (!shape)
            self->literals--;
        else if (!--shape->count)
            drop_shape(self, shape);
        Py_DECREF(value);
        Py_RETURN_TRUE;
    }
    if (!literal && self->crowded)
        return trie_change(self, "remove", text, NULL);
    Py_RETURN_FALSE;
}

#include "match.h"

#include "book.h"

#include "lone.h"

#include "object.h"
