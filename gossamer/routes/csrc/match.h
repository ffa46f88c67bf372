/* Matching: the keys of a topic for all shapes, on their way through memory together. Part of kernel.c. */

/* A key of the topic under one shape, on its way through memory. */
typedef struct {
    const Shape *shape; /* NULL: the literal */
    uint32_t key;
    uint32_t place;
    const Block *block;
} Probe;

static inline int
is_match(const Name *name, const Probe *probe)
{
    const Block *block = probe->block;
    if (probe->shape)
        return filter_is(name, probe->shape, block->text, block_size(block));
    return block_size(block) == name->size && !memcmp(block->text, name->text, name->size);
}

/* The next slot with the probe's key, from its place on. */
static inline int
seek(const Store *store, Probe *probe, uint32_t mask)
{
    for (uint32_t place = probe->place;; place = (place + 1) & mask) {
        Slot slot = store->slots[place];
        if (!slot.at)
            return 0;
        if (slot.key == probe->key) {
            probe->place = (place + 1) & mask;
            probe->block = block_at(store, slot.at);
            return 1;
        }
    }
}

/* The values that match, in order, borrowed; how many. No Python runs in here. */
static uint32_t
match_name(Index *self, const Name *name, Shape **shapes, uint32_t shape_count, PyObject **found)
{
    const Store *store = &self->store;
    Probe probes[MOST_PROBES];
    uint32_t mask = slot_mask(store), count = 0, hits = 0;
    probes[0].shape = NULL;
    probes[0].key = key_of(name->sum[name->levels], literal_seed(name->levels));
    PREFETCH(&store->slots[home_of(store, probes[0].key)]);
    for (uint32_t i = 0; i < shape_count; i++) {
        Probe *probe = &probes[i + 1];
        probe->shape = shapes[i];
        probe->key = name_key(name, shapes[i]);
        PREFETCH(&store->slots[home_of(store, probe->key)]);
    }
    for (uint32_t i = 0; i <= shape_count; i++) {
        probes[i].place = home_of(store, probes[i].key);
        if (!seek(store, &probes[i], mask))
            continue;
        PREFETCH(probes[i].block);
        PREFETCH((const char *)probes[i].block + 63);
        probes[count++] = probes[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        int matches;
        while (!(matches = is_match(name, &probes[i])))
            if (!seek(store, &probes[i], mask))
                break;
        if (matches) {
            PREFETCH(probes[i].block->value);
            found[hits++] = probes[i].block->value;
        }
    }
    return hits;
}

/* A new list of what matches, or NULL with an error. The text must outlive the call. */
static PyObject *
match_text(Index *self, const char *text, size_t size, PyObject *topic)
{
    Name name;
    PyObject *found[MOST_PROBES];
    if (name_open(&name, text, size) < 0)
        return PyErr_NoMemory();
    int dollar = size && text[0] == '$';
    Probes once = {NULL, 0, 0};
    Probes *probes = name.levels <= KNOWN_LEVELS ? &self->probes[dollar][name.levels] : &once;
    if (!probes->known && learn_probes(self, probes, name.levels, dollar) < 0) {
        name_close(&name);
        return PyErr_NoMemory();
    }
    uint32_t hits = match_name(self, &name, probes->shapes, probes->count, found);
    free(once.shapes);
    name_close(&name);
    /* Making a list may run the collector, and that anything. */
    for (uint32_t i = 0; i < hits; i++)
        Py_INCREF(found[i]);
    PyObject *list = PyList_New(hits);
    for (uint32_t i = 0; i < hits; i++) {
        if (list)
            PyList_SET_ITEM(list, i, found[i]);
        else
            Py_DECREF(found[i]);
    }
    if (!list || !self->crowded)
        return list;
    PyObject *slash = PyUnicode_FromString("/");
    PyObject *whole = PyUnicode_Check(topic) ? Py_NewRef(topic) : PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, NULL);
    PyObject *words = slash && whole && self->trie ? PyUnicode_Split(whole, slash, -1) : NULL;
    PyObject *done = NULL;
    if (words)
        done = PyObject_CallMethod(self->trie, "match", "OOO", words, dollar ? Py_True : Py_False, list);
    Py_XDECREF(words);
    Py_XDECREF(whole);
    Py_XDECREF(slash);
    if (!done)
        Py_CLEAR(list);
    Py_XDECREF(done);
    return list;
}

static PyObject *
index_match(Index *self, PyObject *topic)
{
    Py_ssize_t size;
    PyObject *owner;
    const char *utf8 = utf8_of(topic, &size, &owner);
    if (!utf8)
        return NULL;
    PyObject *list = NULL;
    if (size >= (Py_ssize_t)UINT32_MAX)
        PyErr_SetString(PyExc_ValueError, "match: the topic is too long");
    else
        list = match_text(self, utf8, (size_t)size, topic);
    Py_XDECREF(owner);
    return list;
}

/* Limits as two arguments; 0, or -1 with an error. */
static int
limits_of(PyObject *const *args, size_t *most_bytes, size_t *most_levels)
{
    *most_bytes = PyLong_AsSize_t(args[0]);
    *most_levels = PyLong_AsSize_t(args[1]);
    return PyErr_Occurred() ? -1 : 0;
}

/* match_raw(topic, max_bytes, max_levels): the same for a name as it came in, if it is plainly one; None where it
   takes more than a look to tell (beyond ASCII, or wrong). */
static PyObject *
index_match_raw(Index *self, PyObject *const *args, Py_ssize_t count)
{
    size_t most_bytes, most_levels;
    if (count != 3 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "match_raw: expected bytes and two limits");
        return NULL;
    }
    if (limits_of(args + 1, &most_bytes, &most_levels) < 0)
        return NULL;
    const unsigned char *text = (const unsigned char *)PyBytes_AS_STRING(args[0]);
    size_t size = (size_t)PyBytes_GET_SIZE(args[0]), levels = 1;
    int wrong = size == 0 || size > most_bytes || size >= UINT32_MAX;
    for (size_t i = 0; !wrong && i < size; i++) {
        levels += text[i] == '/';
        wrong = text[i] == '+' || text[i] == '#' || text[i] == 0 || text[i] >= 0x80;
    }
    if (wrong || levels > most_levels)
        Py_RETURN_NONE;
    return match_text(self, (const char *)text, size, args[0]);
}

/* is_filter(text, max_bytes, max_levels): whether this is plainly a filter, and of no share group. */
static PyObject *
is_filter(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    size_t most_bytes, most_levels;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "is_filter: expected a text and two limits");
        return NULL;
    }
    if (limits_of(args + 1, &most_bytes, &most_levels) < 0)
        return NULL;
    if (!PyUnicode_Check(args[0]) || !PyUnicode_IS_COMPACT_ASCII(args[0]))
        Py_RETURN_FALSE;
    const char *text = (const char *)PyUnicode_1BYTE_DATA(args[0]);
    size_t size = (size_t)PyUnicode_GET_LENGTH(args[0]), levels = 1;
    if (!size || size > most_bytes || (text[0] == '$' && !strncmp(text, "$share/", 7)))
        Py_RETURN_FALSE;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '/')
            levels++;
        else if (text[i] == '+' || text[i] == '#') {
            int alone = (i == 0 || text[i - 1] == '/') && (i + 1 == size || (text[i + 1] == '/' && text[i] == '+'));
            if (!alone)
                Py_RETURN_FALSE;
        } else if (!text[i])
            Py_RETURN_FALSE;
    }
    return PyBool_FromLong(levels <= most_levels);
}
