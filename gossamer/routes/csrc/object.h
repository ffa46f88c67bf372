/* The index as a Python type: its life, its iterators, the module. Part of kernel.c. */

typedef struct {
    PyObject_HEAD
    Index *index;
    uint64_t epoch;
    uint32_t chunk;
    uint32_t unit;
    int pairs; /* filters with values, or filters alone */
} Walk;

static PyTypeObject *walk_type;

static int
index_traverse(Index *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->trie);
    if (self->tracked) {
        uint32_t chunk = 0, unit = 0;
        Block *block;
        while ((block = store_walk(&self->store, &chunk, &unit)))
            if (block->size & TRACKED)
                Py_VISIT((PyObject *)block->value);
    }
    return 0;
}

static int
index_clear(Index *self)
{
    /* The index is empty before the first value goes. */
    Store old = self->store;
    size_t shapes = self->shape_count;
    self->shape_count = 0;
    self->literals = self->tracked = 0;
    self->crowded = 0;
    for (size_t i = 0; i < shapes; i++)
        free(self->shapes[i]);
    forget_probes(self);
    memset(&self->store, 0, sizeof self->store);
    self->store.epoch = old.epoch + 1;
    self->store.bits = LEAST_BITS;
    /* A clear must not fail: the first slots are kept for what comes after. */
    Slot *slots = realloc(old.slots, ((size_t)1 << LEAST_BITS) * sizeof *slots);
    self->store.slots = slots ? slots : old.slots;
    if (self->store.slots)
        memset(self->store.slots, 0, ((size_t)1 << LEAST_BITS) * sizeof *slots);
    uint32_t chunk = 0, unit = 0;
    Block *block;
    while ((block = store_walk(&old, &chunk, &unit)))
        Py_DECREF((PyObject *)block->value);
    store_free_blocks(&old);
    Py_CLEAR(self->trie);
    return 0;
}

static void
index_dealloc(Index *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    index_clear(self);
    for (int dollar = 0; dollar < 2; dollar++)
        for (size_t levels = 0; levels <= KNOWN_LEVELS; levels++)
            free(self->probes[dollar][levels].shapes);
    free(self->shapes);
    free(self->store.slots);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *
index_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"trie", "shape_limit", NULL};
    PyObject *trie;
    int limit;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Oi", names, &trie, &limit))
        return NULL;
    if (limit < 0 || limit > MOST_LIMIT) {
        PyErr_Format(PyExc_ValueError, "shape_limit: expected 0 to %d, got %d", MOST_LIMIT, limit);
        return NULL;
    }
    Index *self = (Index *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->shape_limit = (uint32_t)limit;
    self->trie = Py_NewRef(trie);
    if (store_open(&self->store) < 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static Py_ssize_t
index_length(Index *self)
{
    return (Py_ssize_t)self->store.count + self->crowded;
}

static PyObject *
index_stats(Index *self, PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("{s:n,s:n,s:n,s:n}", "literal", (Py_ssize_t)self->literals, "wildcard",
                         (Py_ssize_t)(self->store.count - self->literals), "shapes",
                         (Py_ssize_t)self->shape_count, "trie", self->crowded);
}

static PyObject *
index_sizeof(Index *self, PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(sizeof *self + store_bytes(&self->store));
}

static PyObject *
index_walk(Index *self, int pairs)
{
    Walk *walk = PyObject_GC_New(Walk, walk_type);
    if (!walk)
        return NULL;
    walk->index = (Index *)Py_NewRef(self);
    walk->epoch = self->store.epoch;
    walk->chunk = walk->unit = 0;
    walk->pairs = pairs;
    PyObject_GC_Track(walk);
    return (PyObject *)walk;
}

static PyObject *
index_walk_items(Index *self, PyObject *Py_UNUSED(none))
{
    return index_walk(self, 1);
}

static PyObject *
index_walk_filters(Index *self, PyObject *Py_UNUSED(none))
{
    return index_walk(self, 0);
}

static PyObject *
walk_next(Walk *self)
{
    const Index *index = self->index;
    /* Once all blocks were given back, all that was to come is gone. */
    if (!index || self->epoch != index->store.epoch)
        return NULL;
    Block *block = store_walk(&index->store, &self->chunk, &self->unit);
    if (!block)
        return NULL;
    PyObject *value = self->pairs ? Py_NewRef((PyObject *)block->value) : NULL;
    PyObject *text = PyUnicode_DecodeUTF8(block->text, block_size(block), NULL);
    if (!text || !self->pairs) {
        Py_XDECREF(value);
        return text;
    }
    PyObject *pair = PyTuple_Pack(2, text, value);
    Py_DECREF(text);
    Py_DECREF(value);
    return pair;
}

static int
walk_traverse(Walk *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->index);
    return 0;
}

static int
walk_clear(Walk *self)
{
    Py_CLEAR(self->index);
    return 0;
}

static void
walk_dealloc(Walk *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->index);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef index_methods[] = {
    {"get", (PyCFunction)index_get, METH_O, "The value of exactly this filter."},
    {"put", (PyCFunction)(void (*)(void))index_put, METH_FASTCALL, "Set the value of this filter."},
    {"remove", (PyCFunction)index_remove, METH_O, "Take this filter out; False if it was not in."},
    {"match", (PyCFunction)index_match, METH_O, "The values of all filters that match a valid topic name."},
    {"match_raw", (PyCFunction)(void (*)(void))index_match_raw, METH_FASTCALL, "The same for a plain name as bytes."},
    {"stats", (PyCFunction)index_stats, METH_NOARGS, "How many filters each part holds."},
    {"walk_items", (PyCFunction)index_walk_items, METH_NOARGS, "Filters with values, but for the trie."},
    {"walk_filters", (PyCFunction)index_walk_filters, METH_NOARGS, "Filters, but for the trie."},
    {"__sizeof__", (PyCFunction)index_sizeof, METH_NOARGS, "Bytes, without the values."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot index_slots[] = {
    {Py_tp_doc, (void *)"Maps filters to values and finds all values whose filter matches a name."},
    {Py_tp_new, (void *)index_new},
    {Py_tp_dealloc, (void *)index_dealloc},
    {Py_tp_traverse, (void *)index_traverse},
    {Py_tp_clear, (void *)index_clear},
    {Py_tp_methods, index_methods},
    {Py_sq_length, (void *)index_length},
    {0, NULL},
};

static PyType_Spec index_spec = {
    "gossamer.routes._kernel.Index",
    sizeof(Index),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    index_slots,
};

static PyType_Slot walk_slots[] = {
    {Py_tp_dealloc, (void *)walk_dealloc},
    {Py_tp_traverse, (void *)walk_traverse},
    {Py_tp_clear, (void *)walk_clear},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)walk_next},
    {0, NULL},
};

static PyType_Spec walk_spec = {
    "gossamer.routes._kernel.Walk",
    sizeof(Walk),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    walk_slots,
};

static PyMethodDef module_methods[] = {
    {"bind", (PyCFunction)(void (*)(void))lone_bind, METH_FASTCALL, "Name the classes whose slots the others use."},
    {"flush", (PyCFunction)(void (*)(void))lone_flush, METH_FASTCALL, "Write the output of sessions."},
    {"is_filter", (PyCFunction)(void (*)(void))is_filter, METH_FASTCALL, "Whether a text is plainly a filter."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "gossamer.routes._kernel", "The compiled filter index.", -1, module_methods, NULL, NULL, NULL, NULL,
};

static int
draw_secret(void)
{
    PyObject *os = PyImport_ImportModule("os");
    PyObject *bytes = os ? PyObject_CallMethod(os, "urandom", "i", (int)sizeof secret) : NULL;
    Py_XDECREF(os);
    if (!bytes || !PyBytes_Check(bytes) || PyBytes_GET_SIZE(bytes) != (Py_ssize_t)sizeof secret) {
        Py_XDECREF(bytes);
        return -1;
    }
    memcpy(secret, PyBytes_AS_STRING(bytes), sizeof secret);
    Py_DECREF(bytes);
    return 0;
}

PyMODINIT_FUNC
PyInit__kernel(void)
{
    /* One secret and one iterator type a process: a second interpreter in it is refused by CPython. */
    PyObject *made = PyModule_Create(&module);
    if (!made || draw_secret() < 0)
        goto failed;
    walk_type = (PyTypeObject *)PyType_FromSpec(&walk_spec);
    if (!walk_type)
        goto failed;
    PyObject *index_type = PyType_FromSpec(&index_spec);
    if (!index_type || PyModule_AddObjectRef(made, "Index", index_type) < 0) {
        Py_XDECREF(index_type);
        goto failed;
    }
    Py_DECREF(index_type);
    PyObject *book_type = PyType_FromSpec(&book_spec);
    if (!book_type || PyModule_AddObjectRef(made, "Book", book_type) < 0) {
        Py_XDECREF(book_type);
        goto failed;
    }
    Py_DECREF(book_type);
    if (PyModule_AddIntConstant(made, "VERSION", KERNEL_VERSION) < 0 ||
        PyModule_AddIntConstant(made, "LONE_VERSION", LONE_VERSION) < 0)
        goto failed;
    return made;
failed:
    Py_XDECREF(made);
    return NULL;
}
