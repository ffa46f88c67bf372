/* The topic book, compiled: the twin of gossamer/routes/index/book.py. Part of kernel.c.

   Topics are numbers: places in the caller's list. For every shape that was asked for, each topic it fits is filed
   under the key of its levels at the shape's constant places, in one table for all shapes: (key, first entry),
   entries being (topic, next). Two topics may share a key by accident, once in four thousand million; then one
   leaves the cache without need, which costs a look-up and is never wrong. */

typedef struct {
    uint32_t topic;
    uint32_t next;
} Entry;

typedef struct {
    Shape *shape;
    Py_ssize_t filed; /* topics seen so far */
} Filed;

typedef struct {
    PyObject_HEAD
    Store table; /* slots alone; .at is the first entry */
    Entry *entries; /* 0 is none */
    uint32_t entry_count;
    uint32_t entry_room;
    uint32_t entry_free;
    Filed *shapes;
    uint32_t shape_count;
    uint32_t shape_limit;
    uint64_t filed;
    uint64_t filed_limit;
} Book;

static void
book_drop_shapes(Book *self)
{
    for (uint32_t i = 0; i < self->shape_count; i++)
        free(self->shapes[i].shape);
    self->shape_count = 0;
}

static void
book_dealloc(Book *self)
{
    PyTypeObject *type = Py_TYPE(self);
    book_drop_shapes(self);
    free(self->shapes);
    free(self->entries);
    free(self->table.slots);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *
book_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"shape_limit", "filed_limit", NULL};
    unsigned int shapes;
    unsigned long long filed;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "IK", names, &shapes, &filed))
        return NULL;
    Book *self = (Book *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->shape_limit = shapes;
    /* Entries are numbered by 32 bits. */
    self->filed_limit = filed < 1u << 30 ? filed : 1u << 30;
    if (store_open(&self->table) < 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

/* Forget what is filed; the shapes stay. */
static PyObject *
book_reset(Book *self, PyObject *Py_UNUSED(none))
{
    for (uint32_t i = 0; i < self->shape_count; i++)
        self->shapes[i].filed = 0;
    self->filed = 0;
    free(self->entries);
    self->entries = NULL;
    self->entry_count = self->entry_room = self->entry_free = 0;
    memset(self->table.slots, 0, sizeof(Slot) << self->table.bits);
    self->table.count = 0;
    if (self->table.bits > LEAST_BITS)
        (void)store_resize(&self->table, LEAST_BITS);
    Py_RETURN_NONE;
}

static PyObject *
book_clear(Book *self, PyObject *none)
{
    book_drop_shapes(self);
    return book_reset(self, none);
}

static int
book_file(Book *self, uint32_t key, uint32_t topic)
{
    uint32_t entry = self->entry_free;
    if (entry)
        self->entry_free = self->entries[entry].next;
    else {
        if (self->entry_count + 1 >= self->entry_room) {
            uint32_t room = self->entry_room ? self->entry_room * 2 : 64;
            Entry *entries = realloc(self->entries, room * sizeof *entries);
            if (!entries)
                return -1;
            self->entries = entries;
            self->entry_room = room;
        }
        entry = ++self->entry_count;
    }
    self->entries[entry].topic = topic;
    self->entries[entry].next = 0;
    uint32_t mask = slot_mask(&self->table), place = home_of(&self->table, key);
    for (; self->table.slots[place].at; place = (place + 1) & mask)
        if (self->table.slots[place].key == key) {
            self->entries[entry].next = self->table.slots[place].at;
            self->table.slots[place].at = entry;
            return 0;
        }
    if (store_reserve(&self->table) < 0) {
        self->entries[entry].next = self->entry_free;
        self->entry_free = entry;
        return -1;
    }
    store_insert(&self->table, key, entry);
    return 0;
}

/* File what came since the last time; 0, or -1 with an error set. */
static int
book_catch_up(Book *self, Filed *filed, PyObject *seen)
{
    for (; filed->filed < PyList_GET_SIZE(seen); filed->filed++) {
        PyObject *topic = PyList_GET_ITEM(seen, filed->filed);
        if (!PyBytes_Check(topic) || filed->filed >= (Py_ssize_t)UINT32_MAX) {
            PyErr_SetString(PyExc_TypeError, "expected a list of topics as bytes");
            return -1;
        }
        Name name;
        const char *text = PyBytes_AS_STRING(topic);
        Py_ssize_t size = PyBytes_GET_SIZE(topic);
        if (size >= (Py_ssize_t)UINT32_MAX)
            continue;
        if (name_open(&name, text, (size_t)size) < 0) {
            PyErr_NoMemory();
            return -1;
        }
        int done = 0;
        if (shape_fits(filed->shape, name.levels, size && text[0] == '$')) {
            done = book_file(self, name_key(&name, filed->shape), (uint32_t)filed->filed);
            self->filed += done == 0;
        }
        name_close(&name);
        if (done < 0) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

/* The shape of this filter, new or known: NULL without an error where there are too many. */
static Filed *
book_shape(Book *self, const Filter *filter)
{
    for (uint32_t i = 0; i < self->shape_count; i++)
        if (filter_has_shape(filter, self->shapes[i].shape))
            return &self->shapes[i];
    if (self->shape_count >= self->shape_limit)
        return NULL;
    Filed *shapes = realloc(self->shapes, (self->shape_count + 1) * sizeof *shapes);
    if (shapes)
        self->shapes = shapes;
    Shape *shape = shapes ? shape_of(filter) : NULL;
    if (!shape) {
        PyErr_NoMemory();
        return NULL;
    }
    shapes[self->shape_count] = (Filed){shape, 0};
    return &shapes[self->shape_count++];
}

/* Move the topics under a key to a new list. Nothing is half done when Python may run. */
static PyObject *
book_take_key(Book *self, uint32_t key, PyObject *seen)
{
    uint32_t mask = slot_mask(&self->table), place = home_of(&self->table, key), first = 0, last = 0;
    Py_ssize_t count = 0;
    while (self->table.slots[place].at && self->table.slots[place].key != key)
        place = (place + 1) & mask;
    first = self->table.slots[place].at;
    if (!first)
        return PyList_New(0);
    for (uint32_t entry = first; entry; entry = self->entries[entry].next, count++)
        last = entry;
    PyObject **topics = malloc((size_t)count * sizeof *topics);
    if (!topics)
        return PyErr_NoMemory();
    Py_ssize_t taken = 0;
    for (uint32_t entry = first; entry; entry = self->entries[entry].next)
        if (self->entries[entry].topic < PyList_GET_SIZE(seen))
            topics[taken++] = Py_NewRef(PyList_GET_ITEM(seen, self->entries[entry].topic));
    self->entries[last].next = self->entry_free;
    self->entry_free = first;
    self->filed -= (uint64_t)count;
    slots_delete(&self->table, place);
    PyObject *list = PyList_New(taken);
    for (Py_ssize_t i = 0; i < taken; i++) {
        if (list)
            PyList_SET_ITEM(list, i, topics[i]);
        else
            Py_DECREF(topics[i]);
    }
    free(topics);
    return list;
}

/* take(filter, seen): the topics that this wildcard filter concerns, no longer filed; None: too much is kept. */
static PyObject *
book_take(Book *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "take: expected a filter and a list");
        return NULL;
    }
    Py_ssize_t size;
    PyObject *owner, *topics = NULL;
    const char *utf8 = utf8_of(args[0], &size, &owner);
    if (!utf8)
        return NULL;
    Filter filter;
    if (filter_open(&filter, utf8, (size_t)size) < 0) {
        Py_XDECREF(owner);
        return PyErr_NoMemory();
    }
    Filed *filed = book_shape(self, &filter);
    if (filed && book_catch_up(self, filed, args[1]) == 0) {
        if (self->filed > self->filed_limit)
            topics = Py_NewRef(Py_None);
        else
            topics = book_take_key(self, key_of(filter.sum, filed->shape->seed), args[1]);
    } else if (!filed && !PyErr_Occurred())
        topics = Py_NewRef(Py_None);
    filter_close(&filter);
    Py_XDECREF(owner);
    return topics;
}

static PyObject *
book_stats(Book *self, PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("{s:n,s:K}", "shapes", (Py_ssize_t)self->shape_count, "filed",
                         (unsigned long long)self->filed);
}

static PyMethodDef book_methods[] = {
    {"take", (PyCFunction)(void (*)(void))book_take, METH_FASTCALL, "The topics that a wildcard filter concerns."},
    {"reset", (PyCFunction)book_reset, METH_NOARGS, "Forget what is filed."},
    {"clear", (PyCFunction)book_clear, METH_NOARGS, "Forget what is filed, and the shapes."},
    {"stats", (PyCFunction)book_stats, METH_NOARGS, "How much is kept."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot book_slots[] = {
    {Py_tp_doc, (void *)"Which cached topics a change of a wildcard filter concerns."},
    {Py_tp_new, (void *)book_new},
    {Py_tp_dealloc, (void *)book_dealloc},
    {Py_tp_methods, book_methods},
    {0, NULL},
};

static PyType_Spec book_spec = {
    "gossamer.routes._kernel.Book", sizeof(Book), 0, Py_TPFLAGS_DEFAULT, book_slots,
};
