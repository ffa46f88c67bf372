/* A packet alone in its read, and the writes at the end of a turn: what a message costs where messages come one
   at a time, as from devices. The general way is in Python (mqtt/connection/publish_reader.py,
   mqtt/publish/fanout.py) and does the same; here only what is plain is taken, all else is left to it.

   Rules: 1. Whether a packet is taken is decided before anything is changed.  2. Fields are those of Python's
   own classes, found by their slots when these are bound: nothing is copied, no second state is kept.  3. What a
   socket does not take goes through the transport, which keeps the order and the limits. */

#include <errno.h>
#include <structmember.h>
#ifndef _WIN32
#include <sys/socket.h>
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#define LONE_VERSION 1 /* as gossamer/mqtt/publish/lone.py expects it */
#define LONE_UP 3      /* connection/pipe.py */
#define MOST_RECEIVERS 64

/* Classes, and the slots of each in the order of LONE_FIELDS. */
enum { CHANNEL, SESSION, PLAN, AUDIENCE, FANOUT, ROUTE, LONE_CLASSES };

enum {
    C_PHASE, C_PARTS, C_TRACER, C_FANOUT, C_SESSION, C_VERSION, C_SEEN, C_CACHE_GET, C_PENDING, C_CONSUMERS,
    C_MAX_PACKET, C_TENANT, C_EARLY, C_WRITE_FULL, C_TRANSPORT, C_DESCRIPTOR,
    S_OUT, S_CHANNEL, S_INFLIGHT, S_MESSAGE_IDS, S_WINDOW, S_LAST_ID, S_QUEUE, S_RESEND, S_INCOMING,
    S_WRITTEN,
    P_V4, P_V5, P_GROUPS,
    A_EVERYONE, A_QOS1, A_PURE, A_ALONE,
    F_NOW, F_SCHEDULED, F_FENCE, F_TOUCHED, F_RECORDER, F_PRESSURE, F_WIDE, F_RECEIVED, F_RECEIVED1, F_SENT, F_SENT1,
    F_BYTES_RECEIVED, F_BYTES_SENT,
    R_PLAN,
    LONE_FIELDS
};

static const struct { int class; const char *name; } fields[LONE_FIELDS] = {
    {CHANNEL, "phase"}, {CHANNEL, "_parts"}, {CHANNEL, "tracer"}, {CHANNEL, "fanout"}, {CHANNEL, "session"},
    {CHANNEL, "version"}, {CHANNEL, "seen"}, {CHANNEL, "cache_get"}, {CHANNEL, "_pending"}, {CHANNEL, "consumers"},
    {CHANNEL, "max_packet"}, {CHANNEL, "tenant"}, {CHANNEL, "early"}, {CHANNEL, "write_full"}, {CHANNEL, "transport"},
    {CHANNEL, "descriptor"},
    {SESSION, "out"}, {SESSION, "channel"}, {SESSION, "inflight"}, {SESSION, "message_ids"}, {SESSION, "window"},
    {SESSION, "last_id"}, {SESSION, "queue"}, {SESSION, "resend"}, {SESSION, "incoming"},
    {SESSION, "written"},
    {PLAN, "v4"}, {PLAN, "v5"}, {PLAN, "groups"},
    {AUDIENCE, "everyone"}, {AUDIENCE, "qos1"}, {AUDIENCE, "pure"}, {AUDIENCE, "alone"},
    {FANOUT, "now"}, {FANOUT, "_scheduled"}, {FANOUT, "fence"}, {FANOUT, "touched"}, {FANOUT, "recorder"},
    {FANOUT, "pressure"}, {FANOUT, "wide"}, {FANOUT, "received"}, {FANOUT, "received1"}, {FANOUT, "sent"},
    {FANOUT, "sent1"}, {FANOUT, "bytes_received"},
    {FANOUT, "bytes_sent"},
    {ROUTE, "plan"},
};

static PyTypeObject *classes[LONE_CLASSES]; /* all or none */
static Py_ssize_t offsets[LONE_FIELDS];
static PyObject *general; /* data_received, in Python */
static PyObject *n_crash, *n_jobs, *n_behind, *n_peers, *n_fine_until, *n_schedule, *n_unwritten, *n_write;

#define SLOT(object, field) (*(PyObject **)((char *)(object) + offsets[field]))
#define IS(object, class) ((object) && PyObject_TypeCheck((object), classes[class]))

/* Add to a counter that is a slot. */
static int
lone_count(PyObject *object, int field, Py_ssize_t more)
{
    Py_ssize_t before = SLOT(object, field) ? PyLong_AsSsize_t(SLOT(object, field)) : 0;
    if (before == -1 && PyErr_Occurred())
        return -1;
    PyObject *after = PyLong_FromSsize_t(before + more);
    if (!after)
        return -1;
    Py_XSETREF(SLOT(object, field), after);
    return 0;
}

/* 1, 0, or -1 with an error: whether an attribute is true. */
static int
lone_has(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (!value)
        return -1;
    int yes = PyObject_IsTrue(value);
    Py_DECREF(value);
    return yes;
}

static int
lone_is_empty(PyObject *value)
{
    if (!value || value == Py_None)
        return 1;
    Py_ssize_t size = PyObject_Size(value);
    if (size < 0)
        PyErr_Clear();
    return size == 0;
}

/* Whether a channel's socket may be written to: it is in service, and nothing is before it. */
static int
lone_is_free(PyObject *channel)
{
#ifdef _WIN32
    return 0;
#else
    /* In service the descriptor is open: it is closed behind connection_lost, which ends that. */
    PyObject *descriptor = SLOT(channel, C_DESCRIPTOR);
    if (!descriptor || !PyLong_CheckExact(descriptor) || SLOT(channel, C_EARLY) != Py_None ||
        SLOT(channel, C_WRITE_FULL) != Py_False || SLOT(channel, C_TRACER) != Py_None ||
        PyLong_AsLong(SLOT(channel, C_PHASE)) != LONE_UP)
        return 0;
    PyObject *unwritten = PyObject_CallMethodNoArgs(SLOT(channel, C_TRANSPORT), n_unwritten);
    int yes = unwritten && PyLong_Check(unwritten) && PyLong_AsSsize_t(unwritten) == 0;
    Py_XDECREF(unwritten);
    /* Whatever is wrong is found again where it is handled. */
    PyErr_Clear();
    return yes;
#endif
}

/* Bytes that the socket takes now, of one that is free; 0 also for an error, which the transport finds too. */
static Py_ssize_t
lone_send(PyObject *channel, PyObject *data)
{
#ifdef _WIN32
    return 0;
#else
    Py_ssize_t sent;
    do
        sent = send((int)PyLong_AsLong(SLOT(channel, C_DESCRIPTOR)), PyBytes_AS_STRING(data),
                    (size_t)PyBytes_GET_SIZE(data), MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? 0 : sent;
#endif
}

/* The output of a session in one piece; NULL without an error: not here. */
static PyObject *
lone_joined(PyObject *out)
{
    Py_ssize_t count = PyList_GET_SIZE(out), size = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *piece = PyList_GET_ITEM(out, i);
        if (!PyBytes_CheckExact(piece))
            return NULL;
        size += PyBytes_GET_SIZE(piece);
    }
    if (count == 1)
        return Py_NewRef(PyList_GET_ITEM(out, 0));
    PyObject *all = PyBytes_FromStringAndSize(NULL, size);
    char *at = all ? PyBytes_AS_STRING(all) : NULL;
    for (Py_ssize_t i = 0; all && i < count; i++) {
        PyObject *piece = PyList_GET_ITEM(out, i);
        memcpy(at, PyBytes_AS_STRING(piece), (size_t)PyBytes_GET_SIZE(piece));
        at += PyBytes_GET_SIZE(piece);
    }
    return all;
}

/* Write the output of a session: all, nothing, or some, and then the rest is in the list. The number of bytes
   that are written; -1: an error. */
static Py_ssize_t
lone_write(PyObject *channel, PyObject *out)
{
    if (!lone_is_free(channel))
        return 0;
    PyObject *data = lone_joined(out);
    if (!data)
        return PyErr_Occurred() ? -1 : 0;
    Py_ssize_t size = PyBytes_GET_SIZE(data), sent = lone_send(channel, data);
    int failed = 0;
    if (sent == size)
        failed = PyList_SetSlice(out, 0, PyList_GET_SIZE(out), NULL);
    else if (sent) {
        PyObject *rest = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + sent, size - sent);
        failed = !rest || PyList_SetSlice(out, 1, PyList_GET_SIZE(out), NULL) < 0 ? -1 : PyList_SetItem(out, 0, rest);
    }
    Py_DECREF(data);
    return failed ? -1 : sent;
}

/* Whatever is wrong with a connection ends its channel, nothing more. */
static PyObject *
lone_crash(PyObject *channel)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *done = PyObject_CallMethodOneArg(channel, n_crash, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return done;
}

/* Have the transport write the rest of a packet, before anything comes behind it. */
static int
lone_rest(PyObject *fanout, PyObject *channel, PyObject *out, PyObject *packet, Py_ssize_t sent)
{
    PyObject *rest = PyBytes_FromStringAndSize(PyBytes_AS_STRING(packet) + sent, PyBytes_GET_SIZE(packet) - sent);
    PyObject *done = NULL;
    Py_INCREF(channel);
    Py_INCREF(out);
    if (rest && PyList_Append(out, rest) == 0)
        done = PyObject_CallMethodOneArg(channel, n_write, out);
    Py_ssize_t more = done ? PyLong_AsSsize_t(done) : -1;
    if (more < 0) {
        Py_XDECREF(done);
        done = lone_crash(channel);
        more = 0;
    }
    int failed = done ? lone_count(fanout, F_BYTES_SENT, sent + more) : -1;
    Py_XDECREF(done);
    Py_XDECREF(rest);
    Py_DECREF(out);
    Py_DECREF(channel);
    return failed;
}

/* Write a packet for a session at once, or else at the end of the turn with what comes behind it.

   At once is less work, and soonest; but of a session that gets many packets in a turn each would cost a call of
   the kernel. So it is for sessions that were not written to in this turn (`now` is the loop's time, which stays
   for a turn, and has milliseconds). */
static int
lone_push(PyObject *fanout, PyObject *session, PyObject *packet, PyObject *now)
{
    PyObject *out = SLOT(session, S_OUT), *channel = SLOT(session, S_CHANNEL), *before = SLOT(session, S_WRITTEN);
    if (!PyList_GET_SIZE(out)) {
        int soon = !before || !PyFloat_CheckExact(before) || !PyFloat_CheckExact(now) ||
                   PyFloat_AS_DOUBLE(before) != PyFloat_AS_DOUBLE(now);
        Py_XSETREF(SLOT(session, S_WRITTEN), Py_NewRef(now));
        if (soon && IS(channel, CHANNEL) && lone_is_free(channel)) {
            Py_ssize_t sent = lone_send(channel, packet);
            if (sent == PyBytes_GET_SIZE(packet))
                return lone_count(fanout, F_BYTES_SENT, sent);
            if (sent)
                return lone_rest(fanout, channel, out, packet, sent);
        }
        if (PyList_Append(SLOT(fanout, F_TOUCHED), session) < 0)
            return -1;
        if (SLOT(fanout, F_SCHEDULED) != Py_True) {
            PyObject *done = PyObject_CallMethodNoArgs(fanout, n_schedule);
            if (!done)
                return -1;
            Py_DECREF(done);
        }
    }
    return PyList_Append(out, packet);
}

/* Whether a receiver takes QoS 1 now, and under which packet identifier; 0: not here. */
static long
lone_identifier(PyObject *session)
{
    PyObject *inflight = SLOT(session, S_INFLIGHT), *last = SLOT(session, S_LAST_ID), *window = SLOT(session, S_WINDOW);
    if (!Py_IS_TYPE(session, classes[SESSION]) || !inflight || !PyDict_CheckExact(inflight) || !last || !window ||
        !PyList_CheckExact(SLOT(session, S_OUT)))
        return 0;
    if (PyDict_GET_SIZE(inflight) >= PyLong_AsSsize_t(window))
        return 0;
    long next = PyLong_AsLong(last) + 1;
    if (next < 1 || next > 65535)
        next = 1;
    PyObject *key = PyLong_FromLong(next);
    int taken = key ? PyDict_Contains(inflight, key) : -1;
    Py_XDECREF(key);
    return taken == 0 ? next : 0;
}

/* Deliver QoS 1 with an identifier of the receiver's. */
static int
lone_send1(PyObject *fanout, PyObject *session, PyObject *data, Py_ssize_t at, long identifier, PyObject *now)
{
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    PyObject *packet = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data), size);
    PyObject *key = packet ? PyLong_FromLong(identifier) : NULL;
    int failed = -1;
    if (key) {
        PyBytes_AS_STRING(packet)[at] = (char)(identifier >> 8);
        PyBytes_AS_STRING(packet)[at + 1] = (char)identifier;
        failed = PyDict_SetItem(SLOT(session, S_INFLIGHT), key, packet);
        if (!failed)
            failed = lone_push(fanout, session, packet, now);
        if (!failed)
            Py_XSETREF(SLOT(session, S_LAST_ID), Py_NewRef(key));
    }
    Py_XDECREF(key);
    Py_XDECREF(packet);
    return failed;
}

/* A PUBLISH whose topic length is at `at`: 1 taken, 0 not, -1 error. */
static int
lone_publish(PyObject *channel, PyObject *fanout, PyObject *session, PyObject *data, Py_ssize_t at, PyObject *now)
{
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(data);
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    int qos = bytes[0] >> 1 & 1, v5 = PyLong_AsLong(SLOT(channel, C_VERSION)) == 5;
    if (size - at < 3)
        return 0;
    Py_ssize_t topic = at + 2, length = bytes[at] << 8 | bytes[at + 1], body = topic + length;
    if (!length || bytes[topic] == '$' || body + 2 * qos + v5 > size || (v5 && bytes[body + 2 * qos]))
        return 0;
    if (qos && !(bytes[body] | bytes[body + 1]))
        return 0;
    int busy = lone_has(SLOT(fanout, F_WIDE), n_jobs);
    if (!busy)
        busy = lone_has(SLOT(fanout, F_PRESSURE), n_behind);
    if (!busy)
        busy = lone_has(SLOT(fanout, F_PRESSURE), n_peers);
    if (busy)
        return busy < 0 ? -1 : 0;
    PyObject *name = PyBytes_FromStringAndSize((const char *)bytes + topic, length);
    PyObject *route = name ? PyObject_CallOneArg(SLOT(channel, C_CACHE_GET), name) : NULL;
    Py_XDECREF(name);
    if (!route)
        return -1;
    PyObject *plan = IS(route, ROUTE) ? SLOT(route, R_PLAN) : NULL;
    int taken = 0;
    /* Held until the end: a flush that is scheduled runs later, but a route may go with its topic. */
    plan = IS(plan, PLAN) ? Py_NewRef(plan) : NULL;
    Py_DECREF(route);
    if (!plan)
        return 0;
    PyObject *audience = SLOT(plan, v5 ? P_V5 : P_V4), *receivers = NULL;
    if (!lone_is_empty(SLOT(plan, P_GROUPS)) || !IS(audience, AUDIENCE) ||
        SLOT(audience, qos ? A_PURE : A_ALONE) != Py_True)
        goto done;
    receivers = SLOT(audience, qos ? A_QOS1 : A_EVERYONE);
    if (!receivers || !PyTuple_CheckExact(receivers))
        goto done;
    Py_ssize_t count = PyTuple_GET_SIZE(receivers);
    if (!count || count > MOST_RECEIVERS)
        goto done;
    if (!qos) {
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *one = PyTuple_GET_ITEM(receivers, i);
            if (!IS(one, SESSION) || !SLOT(one, S_OUT) || !PyList_CheckExact(SLOT(one, S_OUT)))
                goto done;
        }
        taken = -1;
        for (Py_ssize_t i = 0; i < count; i++)
            if (lone_push(fanout, PyTuple_GET_ITEM(receivers, i), data, now) < 0)
                goto done;
    } else {
        long identifiers[MOST_RECEIVERS];
        if (!Py_IS_TYPE(session, classes[SESSION]) || !lone_is_empty(SLOT(channel, C_PENDING)) ||
            !lone_is_empty(SLOT(session, S_INCOMING)) || !PyList_CheckExact(SLOT(session, S_OUT)))
            goto done;
        for (Py_ssize_t i = 0; i < count; i++)
            if (!(identifiers[i] = lone_identifier(PyTuple_GET_ITEM(receivers, i)))) {
                taken = PyErr_Occurred() ? -1 : 0;
                goto done;
            }
        taken = -1;
        for (Py_ssize_t i = 0; i < count; i++)
            if (lone_send1(fanout, PyTuple_GET_ITEM(receivers, i), data, body, identifiers[i], now) < 0)
                goto done;
        const char answer[] = {0x40, 2, (char)bytes[body], (char)bytes[body + 1]};
        PyObject *ack = PyBytes_FromStringAndSize(answer, sizeof answer);
        int failed = !ack || lone_push(fanout, session, ack, now) < 0 || lone_count(fanout, F_RECEIVED1, 1) < 0 ||
                     lone_count(fanout, F_SENT1, count) < 0;
        Py_XDECREF(ack);
        if (failed)
            goto done;
    }
    if (lone_count(fanout, F_RECEIVED, 1) == 0 && lone_count(fanout, F_SENT, count) == 0)
        taken = 1;
done:
    Py_DECREF(plan);
    return taken;
}

/* A PUBACK of a message in flight, where nothing waits behind it. */
static int
lone_puback(PyObject *channel, PyObject *session, const unsigned char *bytes)
{
    PyObject *inflight = SLOT(session, S_INFLIGHT);
    if (!Py_IS_TYPE(session, classes[SESSION]) || !inflight || !PyDict_CheckExact(inflight) ||
        SLOT(channel, C_CONSUMERS) != Py_None || !lone_is_empty(SLOT(session, S_MESSAGE_IDS)) ||
        !lone_is_empty(SLOT(session, S_QUEUE)) || !lone_is_empty(SLOT(session, S_RESEND)))
        return 0;
    PyObject *key = PyLong_FromLong(bytes[2] << 8 | bytes[3]);
    if (!key)
        return -1;
    PyObject *packet = PyDict_GetItemWithError(inflight, key);
    int taken = PyErr_Occurred() ? -1 : 0;
    if (packet && PyBytes_Check(packet) && PyBytes_GET_SIZE(packet) && (PyBytes_AS_STRING(packet)[0] & 0xF6) == 0x32)
        taken = PyDict_DelItem(inflight, key) < 0 ? -1 : 1;
    Py_DECREF(key);
    return taken;
}

/* Whether the read was one plain packet, and is done; -1: an error. */
static int
lone_take(PyObject *channel, PyObject *data)
{
    if (!PyBytes_CheckExact(data))
        return 0;
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(data);
    Py_ssize_t size = PyBytes_GET_SIZE(data), at = 2;
    if (size < 4 || ((bytes[0] & 0xFD) != 0x30 && bytes[0] != 0x40))
        return 0;
    Py_ssize_t length = bytes[1];
    if (length & 0x80) {
        /* Two bytes at most: what is longer is the copying's. A second byte of 0 is for the codec. */
        if (bytes[2] & 0x80 || !bytes[2])
            return 0;
        length = (length & 0x7F) | bytes[2] << 7;
        at = 3;
    }
    if (at + length != size || (bytes[0] == 0x40 && length != 2))
        return 0;
    PyObject *fanout = SLOT(channel, C_FANOUT), *session = SLOT(channel, C_SESSION);
    if (!IS(fanout, FANOUT) || !IS(session, SESSION) || PyLong_AsLong(SLOT(channel, C_PHASE)) != LONE_UP ||
        SLOT(channel, C_PARTS) != Py_None || SLOT(channel, C_TRACER) != Py_None ||
        SLOT(channel, C_TENANT) != Py_None ||
        SLOT(fanout, F_RECORDER) != Py_None || size > PyLong_AsSsize_t(SLOT(channel, C_MAX_PACKET))) {
        return PyErr_Occurred() ? -1 : 0;
    }
    PyObject *now = PyObject_CallNoArgs(SLOT(fanout, F_NOW)), *fence = SLOT(fanout, F_FENCE);
    if (!now)
        return -1;
    if (fence != Py_None) {
        PyObject *until = PyObject_GetAttr(fence, n_fine_until);
        int late = until ? PyObject_RichCompareBool(now, until, Py_GT) : -1;
        Py_XDECREF(until);
        if (late) {
            Py_DECREF(now);
            return late < 0 ? -1 : 0;
        }
    }
    Py_INCREF(fanout);
    Py_INCREF(session);
    int taken = bytes[0] == 0x40 ? lone_puback(channel, session, bytes) : lone_publish(channel, fanout, session, data, at, now);
    if (taken > 0) {
        Py_XSETREF(SLOT(channel, C_SEEN), Py_NewRef(now));
        if (lone_count(fanout, F_BYTES_RECEIVED, size) < 0)
            taken = -1;
    }
    Py_DECREF(session);
    Py_DECREF(fanout);
    Py_DECREF(now);
    return taken;
}

/* data_received(channel, data), as uvloop calls it. */
static PyObject *
lone_received(PyObject *channel, PyObject *data)
{
    int taken = lone_take(channel, data);
    if (taken > 0)
        Py_RETURN_NONE;
    if (!taken) {
        PyObject *args[] = {channel, data};
        return PyObject_Vectorcall(general, args, 2, NULL);
    }
    return lone_crash(channel);
}

static PyMethodDef lone_receiver = {"data_received", lone_received, METH_O, "Take what a connection has read."};

/* bind(data_received, Channel, Session, Plan, Audience, Fanout, Route): data_received, by which lone packets are
   taken before that one. */
static PyObject *
lone_bind(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count-- != LONE_CLASSES + 1)
        return PyErr_Format(PyExc_TypeError, "bind: expected a function and %d classes", LONE_CLASSES);
    PyObject *function = *args++;
    Py_ssize_t found[LONE_FIELDS];
    for (int i = 0; i < LONE_CLASSES; i++)
        if (!PyType_Check(args[i]))
            return PyErr_Format(PyExc_TypeError, "bind: expected classes, got %R", args[i]);
    for (int i = 0; i < LONE_FIELDS; i++) {
        PyObject *slot = PyObject_GetAttrString(args[fields[i].class], fields[i].name);
        if (!slot)
            return NULL;
        PyMemberDef *member = Py_IS_TYPE(slot, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)slot)->d_member : NULL;
        int good = member && member->type == T_OBJECT_EX;
        found[i] = good ? member->offset : 0;
        Py_DECREF(slot);
        if (!good)
            return PyErr_Format(PyExc_TypeError, "bind: %R has no slot %s", args[fields[i].class], fields[i].name);
    }
    const struct { PyObject **name; const char *text; } names[] = {
        {&n_crash, "crash"}, {&n_jobs, "jobs"}, {&n_behind, "behind"}, {&n_peers, "peers"}, {&n_fine_until, "fine_until"},
        {&n_schedule, "schedule"}, {&n_unwritten, "get_write_buffer_size"}, {&n_write, "write_out"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].name && !(*names[i].name = PyUnicode_InternFromString(names[i].text)))
            return NULL;
    memcpy(offsets, found, sizeof offsets);
    for (int i = 0; i < LONE_CLASSES; i++)
        Py_XSETREF(classes[i], (PyTypeObject *)Py_NewRef(args[i]));
    Py_XSETREF(general, Py_NewRef(function));
    return PyDescr_NewMethod(classes[CHANNEL], &lone_receiver);
}

/* flush(fanout, touched): write the output of sessions to their sockets; those that have any left. */
static PyObject *
lone_flush(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyList_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "flush: expected a fan-out and a list");
    if (!IS(args[0], FANOUT))
        return Py_NewRef(args[1]);
    PyObject *rest = PyList_New(0);
    Py_ssize_t total = 0;
    int failed = !rest;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(args[1]); i++) {
        PyObject *session = PyList_GET_ITEM(args[1], i);
        PyObject *out = IS(session, SESSION) ? SLOT(session, S_OUT) : NULL;
        if (out && PyList_CheckExact(out)) {
            PyObject *channel = SLOT(session, S_CHANNEL);
            Py_ssize_t sent = PyList_GET_SIZE(out) && IS(channel, CHANNEL) ? lone_write(channel, out) : 0;
            total += sent > 0 ? sent : 0;
            failed = sent < 0;
            if (!PyList_GET_SIZE(out))
                continue;
        }
        failed = failed || PyList_Append(rest, session) < 0;
    }
    if (!failed && (!total || lone_count(args[0], F_BYTES_SENT, total) == 0))
        return rest;
    Py_XDECREF(rest);
    return NULL;
}
