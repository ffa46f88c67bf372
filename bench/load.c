/* load: drives an MQTT broker from one thread and counts what becomes of every message.
 *
 * Arguments are key=value pairs, see `struct options`; the answer is one JSON object on stdout.
 * bench/load.py builds and runs it.
 *
 * Every payload begins with a stamp: run, publisher, sequence number, and the instant at which the message
 * left (or, with rate=, at which it was due, so that a broker which pushes back is charged for the wait).
 * Each pair of subscriber and publisher keeps one bit for every sequence number, so that lost, duplicated
 * and reordered deliveries are counted, not estimated.
 *
 * Publishers run in a closed loop: lag= messages not yet delivered to everybody, window= not acknowledged.
 * A publisher that makes no progress for a second because messages were lost is let go on ("stalls").
 *
 * topics=: each publisher takes one of so many of its own at random for each message, and its subscribers (of
 * pattern=pair) name them all. most=: payloads are of random sizes from payload= to that.
 *
 * kept=1: subscribers have sessions that outlive their connection. away=1: and disconnect once subscribed, so
 * that nothing is expected to come.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_PORTS 32
#define STAMP 20
#define BURST 256          /* messages a publisher assembles before others have their turn */
#define BUCKETS (64 * 40)

static struct options {
    char host[64], pattern[16], pids[256];
    int pub_ports[MAX_PORTS], sub_ports[MAX_PORTS], n_pub_ports, n_sub_ports;
    int pubs, subs, qos, payload, most, topics, window, lag, version, kept, away;
    uint64_t count;        /* messages a publisher; 0: until `seconds` have passed */
    double seconds, rate, drain;
} opt = { .host = "127.0.0.1", .pattern = "pair", .pubs = 10, .subs = 10, .payload = 100, .topics = 1, .window = 20,
          .version = 4, .seconds = 3, .drain = 2 };

struct stamp { uint32_t run, pub, seq; uint64_t at; } __attribute__((packed));

struct seen { uint8_t *bits; uint32_t room, highest; };

struct conn {
    int fd, index;
    bool is_pub, blocked, queued, dead;
    uint8_t *in, *out;
    uint32_t in_len, in_room, out_pos, out_len, out_room;
    /* publishers */
    uint8_t *packet;       /* assembled once, patched for each message */
    uint32_t packet_len, stamp_at, id_at;
    uint64_t random;
    uint32_t seq, unacked, fan;
    uint16_t next_id;
    uint8_t *ids;          /* packet identifiers in use */
    uint64_t delivered, forgiven, due_base;
};

static struct conn *conns;
static struct seen *seen;
static struct conn **work;         /* publishers that may go on */
static int n_work, epoll_fd;
static uint32_t run_id;
static bool publishing;
static uint64_t sent, acked, received, unique, duplicated, reordered, foreign, stalls, bad_acks;
static uint64_t first_at, last_sent_at, last_received_at, deadline;
static uint64_t histogram[BUCKETS], worst;

static void die(const char *what)
{
    fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(2);
}

static void *need(void *p) { if (!p) die("out of memory"); return p; }

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- latency: 64 buckets to each power of two ---- */

static void note_latency(uint64_t ns)
{
    if (ns > worst) worst = ns;
    int top = 63 - __builtin_clzll(ns | 64), shift = top - 6;
    int bucket = (shift + 1) * 64 + (int)((ns >> shift) & 63);
    if (ns < 64) bucket = (int)ns;
    histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static double quantile_us(double q)
{
    uint64_t total = 0, want;
    for (int i = 0; i < BUCKETS; i++) total += histogram[i];
    if (!total) return 0;
    want = (uint64_t)(q * (double)(total - 1)) + 1;
    for (int i = 0; i < BUCKETS; i++) {
        if (histogram[i] >= want) {
            if (i < 64) return i / 1e3;
            int shift = i / 64 - 1;
            return (double)(((uint64_t)(64 + i % 64)) << shift) / 1e3;
        }
        want -= histogram[i];
    }
    return (double)worst / 1e3;
}

/* ---- packets ---- */

static uint8_t *put_varint(uint8_t *p, uint32_t v)
{
    do { *p++ = (uint8_t)((v & 127) | (v > 127 ? 128 : 0)); v >>= 7; } while (v);
    return p;
}

static uint8_t *put_string(uint8_t *p, const char *s)
{
    size_t n = strlen(s);
    *p++ = (uint8_t)(n >> 8); *p++ = (uint8_t)n;
    memcpy(p, s, n);
    return p + n;
}

static void topic_of(char *to, int pub, int which)
{
    if (!strcmp(opt.pattern, "fanout")) sprintf(to, "load/%x/all", run_id);
    else if (opt.topics > 1) sprintf(to, "load/%x/p%d/%d", run_id, pub, which);
    else sprintf(to, "load/%x/p%d/v", run_id, pub);
}

/* xorshift: the same messages for every broker. */
static uint32_t draw(struct conn *c, uint32_t below)
{
    c->random ^= c->random << 13; c->random ^= c->random >> 7; c->random ^= c->random << 17;
    return (uint32_t)((c->random >> 32) % below);
}

static bool listens_to(int sub, int pub)
{
    return strcmp(opt.pattern, "pair") || sub % opt.pubs == pub;
}

static void assemble_publish(struct conn *c)
{
    char topic[64];
    bool varied = opt.most > opt.payload;
    int payload = opt.payload + (varied ? (int)draw(c, (uint32_t)(opt.most - opt.payload + 1)) : 0);
    topic_of(topic, c->index, opt.topics > 1 ? (int)draw(c, (uint32_t)opt.topics) : 0);
    uint32_t body = 2 + (uint32_t)strlen(topic) + (opt.qos ? 2 : 0) + (opt.version == 5) + (uint32_t)payload;
    if (!c->packet) c->packet = need(calloc(1, sizeof topic + (size_t)(varied ? opt.most : payload) + 16));
    uint8_t *p = c->packet;
    *p++ = (uint8_t)(0x30 | opt.qos << 1);
    p = put_varint(p, body);
    p = put_string(p, topic);
    if (opt.qos) { c->id_at = (uint32_t)(p - c->packet); p += 2; }
    if (opt.version == 5) *p++ = 0;
    c->stamp_at = (uint32_t)(p - c->packet);
    for (int i = STAMP; i < payload; i++) p[i] = (uint8_t)('a' + i % 26);
    c->packet_len = (uint32_t)(p - c->packet) + (uint32_t)payload;
}

static uint8_t *room(struct conn *c, uint32_t n)
{
    if (c->out_len + n > c->out_room) {
        c->out_room = (c->out_len + n) * 2;
        c->out = need(realloc(c->out, c->out_room));
    }
    uint8_t *p = c->out + c->out_len;
    c->out_len += n;
    return p;
}

static void watch(struct conn *c)
{
    struct epoll_event e = { .events = EPOLLIN | (c->blocked ? EPOLLOUT : 0), .data.ptr = c };
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void lost_connection(struct conn *c)
{
    if (!c->dead) { c->dead = true; close(c->fd); c->blocked = true; }
}

static void flush_out(struct conn *c)
{
    while (!c->dead && c->out_pos < c->out_len) {
        ssize_t n = write(c->fd, c->out + c->out_pos, c->out_len - c->out_pos);
        if (n > 0) { c->out_pos += (uint32_t)n; continue; }
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!c->blocked) { c->blocked = true; watch(c); }
            return;
        }
        lost_connection(c);
        return;
    }
    c->out_pos = c->out_len = 0;
    if (c->blocked && !c->dead) { c->blocked = false; watch(c); }
}

/* ---- publishing ---- */

static void may_go_on(struct conn *c)
{
    if (!c->queued && publishing) { c->queued = true; work[n_work++] = c; }
}

static bool window_open(const struct conn *c)
{
    if (c->blocked || c->dead) return false;
    if (opt.count && c->seq >= opt.count) return false;
    if (opt.qos && c->unacked >= (uint32_t)opt.window) return false;
    if (opt.lag) {
        uint64_t expected = (uint64_t)c->seq * c->fan;
        if (expected - c->delivered - c->forgiven >= (uint64_t)opt.lag * c->fan) return false;
    }
    return true;
}

/* When the next message of a publisher is due, with rate=; publishers take turns. */
static uint64_t due(const struct conn *c)
{
    return c->due_base + (uint64_t)((double)c->seq * opt.pubs * 1e9 / opt.rate);
}

static void publish(struct conn *c, uint64_t now)
{
    for (int burst = 0; burst < BURST && window_open(c); burst++) {
        struct stamp s = { run_id, (uint32_t)c->index, c->seq, now };
        if (opt.rate > 0) {
            s.at = due(c);
            if (s.at > now) break;
        }
        if (opt.topics > 1 || opt.most) assemble_publish(c);
        if (opt.qos) {
            do { if (!++c->next_id) c->next_id = 1; } while (c->ids[c->next_id]);
            c->ids[c->next_id] = 1;
            c->packet[c->id_at] = (uint8_t)(c->next_id >> 8);
            c->packet[c->id_at + 1] = (uint8_t)c->next_id;
            c->unacked++;
        }
        memcpy(c->packet + c->stamp_at, &s, sizeof s);
        memcpy(room(c, c->packet_len), c->packet, c->packet_len);
        c->seq++;
        sent++;
        last_sent_at = now;
    }
    flush_out(c);
}

static void run_work(void)
{
    uint64_t now = now_ns();
    int n = n_work;
    n_work = 0;
    for (int i = 0; i < n; i++) work[i]->queued = false;
    struct conn *again[n ? n : 1];
    memcpy(again, work, sizeof(struct conn *) * (size_t)n);
    for (int i = 0; i < n; i++) {
        publish(again[i], now);
        if (opt.rate <= 0 && window_open(again[i])) may_go_on(again[i]);
    }
}

/* ---- receiving ---- */

static void note_delivery(struct conn *sub, const uint8_t *payload, uint32_t len, uint64_t now)
{
    struct stamp s;
    if (len < STAMP) { foreign++; return; }
    memcpy(&s, payload, sizeof s);
    if (s.run != run_id || s.pub >= (uint32_t)opt.pubs || !listens_to(sub->index, (int)s.pub)) { foreign++; return; }
    received++;
    last_received_at = now;
    struct seen *pair = &seen[(size_t)sub->index * (size_t)opt.pubs + s.pub];
    if (s.seq >= pair->room) {
        uint32_t more = s.seq * 2 + 4096;
        pair->bits = need(realloc(pair->bits, more / 8 + 1));
        memset(pair->bits + (pair->room ? pair->room / 8 + 1 : 0), 0, more / 8 + 1 - (pair->room ? pair->room / 8 + 1 : 0));
        pair->room = more;
    }
    uint8_t bit = (uint8_t)(1 << (s.seq & 7));
    if (pair->bits[s.seq >> 3] & bit) { duplicated++; return; }
    pair->bits[s.seq >> 3] |= bit;
    unique++;
    if (s.seq + 1 < pair->highest) reordered++;
    else pair->highest = s.seq + 1;
    note_latency(now > s.at ? now - s.at : 0);
    struct conn *pub = &conns[opt.subs + (int)s.pub];
    pub->delivered++;
    if (opt.lag) may_go_on(pub);
}

/* Take one packet at p; 0 where it is not whole. */
static uint32_t take_packet(struct conn *c, const uint8_t *p, uint32_t have, uint64_t now)
{
    uint32_t len = 0, head = 1;
    for (int shift = 0;; shift += 7) {
        if (head >= have) return 0;
        len |= (uint32_t)(p[head] & 127) << shift;
        if (!(p[head++] & 128)) break;
    }
    if (have - head < len) {
        if (c->in_room < head + len) {
            c->in_room = head + len;
            c->in = need(realloc(c->in, c->in_room));
        }
        return 0;
    }
    const uint8_t *b = p + head, *end = b + len;
    switch (p[0] >> 4) {
    case 3: {
        int qos = p[0] >> 1 & 3;
        b += 2 + (b[0] << 8 | b[1]);
        if (qos) {
            uint8_t *ack = room(c, 4);
            ack[0] = 0x40; ack[1] = 2; ack[2] = b[0]; ack[3] = b[1];
            b += 2;
        }
        if (opt.version == 5) {
            uint32_t props = 0;
            for (int shift = 0;; shift += 7) { props |= (uint32_t)(*b & 127) << shift; if (!(*b++ & 128)) break; }
            b += props;
        }
        note_delivery(c, b, (uint32_t)(end - b), now);
        break;
    }
    case 4: {
        uint16_t id = (uint16_t)(b[0] << 8 | b[1]);
        if (c->is_pub && c->ids[id]) { c->ids[id] = 0; c->unacked--; acked++; may_go_on(c); }
        else bad_acks++;
        break;
    }
    default:
        break;
    }
    return head + len;
}

static void read_in(struct conn *c)
{
    ssize_t n = read(c->fd, c->in + c->in_len, c->in_room - c->in_len);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) lost_connection(c);
        return;
    }
    c->in_len += (uint32_t)n;
    uint64_t now = now_ns();
    uint32_t at = 0, used;
    while (at < c->in_len && (used = take_packet(c, c->in + at, c->in_len - at, now))) at += used;
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    if (c->out_len) flush_out(c);
}

/* ---- set-up, one client after the other ---- */

static void send_all(struct conn *c, const uint8_t *p, size_t n)
{
    if (write(c->fd, p, n) != (ssize_t)n) die("set-up write failed");
}

static void await_packet(struct conn *c, int type, const char *what)
{
    uint8_t b[512];
    size_t have = 0;
    for (;;) {
        ssize_t n = read(c->fd, b + have, 1);
        if (n <= 0) die(what);
        have += (size_t)n;
        if (have >= 2 && have == 2u + b[1]) {
            if (b[0] >> 4 == type) {
                if (type == 2 && b[3]) { errno = 0; die("the broker refused a client"); }
                if (type == 9 && b[have - 1] >= 0x80) { errno = 0; die("the broker refused a filter"); }
                return;
            }
            have = 0;
        }
    }
}

static void open_client(struct conn *c, int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct timeval patience = { 10, 0 };
    int one = 1;
    if (inet_pton(AF_INET, opt.host, &a.sin_addr) != 1) die("host= takes an IPv4 address");
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a)) die("cannot connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char id[48];
    sprintf(id, "load-%x-%c%d", run_id, c->is_pub ? 'p' : 's', c->index);
    uint8_t b[256], *p = b + 2;
    p = put_string(p, "MQTT");
    bool kept = !c->is_pub && (opt.kept || opt.away);
    *p++ = (uint8_t)opt.version; *p++ = kept ? 0 : 2; *p++ = 0; *p++ = 0;
    if (opt.version == 5 && kept) { memcpy(p, "\5\x11\0\0\x0e\x10", 6); p += 6; }   /* expiry: an hour */
    else if (opt.version == 5) *p++ = 0;
    p = put_string(p, id);
    b[0] = 0x10; b[1] = (uint8_t)(p - b - 2);
    send_all(c, b, (size_t)(p - b));
    await_packet(c, 2, "no CONNACK");
}

static void subscribe_to(struct conn *c, const char *filter, int id)
{
    uint8_t b[256], *p = b + 2;
    *p++ = (uint8_t)(id >> 8); *p++ = (uint8_t)id;
    if (opt.version == 5) *p++ = 0;
    p = put_string(p, filter);
    *p++ = (uint8_t)opt.qos;
    b[0] = 0x82; b[1] = (uint8_t)(p - b - 2);
    send_all(c, b, (size_t)(p - b));
    await_packet(c, 9, "no SUBACK");
}

static void subscribe_client(struct conn *c)
{
    char filter[64];
    if (!strcmp(opt.pattern, "wildcard")) {
        sprintf(filter, c->index % 2 ? "load/%x/#" : "load/%x/+/v", run_id);
        subscribe_to(c, filter, 1);
        return;
    }
    for (int pub = 0; pub < opt.pubs; pub++) {
        if (!listens_to(c->index, pub)) continue;
        for (int which = 0; which < opt.topics; which++) {
            topic_of(filter, pub, which);
            subscribe_to(c, filter, which % 1000 + 1);
        }
        if (!strcmp(opt.pattern, "fanout")) break;
    }
}

static void begin_nonblocking(struct conn *c)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->in_room = 256 << 10;
    c->in = need(malloc(c->in_room));
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e)) die("epoll");
}

/* ---- the broker's use of the machine ---- */

static double broker_cpu_s(void)
{
    char copy[256], path[64], text[1024], *save, *part;
    unsigned long user, system;
    double sum = 0;
    snprintf(copy, sizeof copy, "%s", opt.pids);
    for (part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        snprintf(path, sizeof path, "/proc/%s/stat", part);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        size_t n = fread(text, 1, sizeof text - 1, f);
        text[n] = 0;
        fclose(f);
        char *p = strrchr(text, ')');
        if (p && sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2)
            sum += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    }
    return sum;
}

static double own_cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- options ---- */

static int ports(const char *text, int *to)
{
    int n = 0;
    char copy[256], *save, *part;
    snprintf(copy, sizeof copy, "%s", text);
    for (part = strtok_r(copy, ",", &save); part && n < MAX_PORTS; part = strtok_r(NULL, ",", &save)) to[n++] = atoi(part);
    return n;
}

static void parse(char *arg)
{
    char *value = strchr(arg, '=');
    errno = 0;
    if (!value) die("arguments are key=value");
    *value++ = 0;
    if (!strcmp(arg, "host")) snprintf(opt.host, sizeof opt.host, "%s", value);
    else if (!strcmp(arg, "pattern")) snprintf(opt.pattern, sizeof opt.pattern, "%s", value);
    else if (!strcmp(arg, "pub_ports")) opt.n_pub_ports = ports(value, opt.pub_ports);
    else if (!strcmp(arg, "sub_ports")) opt.n_sub_ports = ports(value, opt.sub_ports);
    else if (!strcmp(arg, "pubs")) opt.pubs = atoi(value);
    else if (!strcmp(arg, "subs")) opt.subs = atoi(value);
    else if (!strcmp(arg, "qos")) opt.qos = atoi(value);
    else if (!strcmp(arg, "payload")) opt.payload = atoi(value);
    else if (!strcmp(arg, "most")) opt.most = atoi(value);
    else if (!strcmp(arg, "topics")) opt.topics = atoi(value);
    else if (!strcmp(arg, "window")) opt.window = atoi(value);
    else if (!strcmp(arg, "lag")) opt.lag = atoi(value);
    else if (!strcmp(arg, "version")) opt.version = atoi(value);
    else if (!strcmp(arg, "kept")) opt.kept = atoi(value);
    else if (!strcmp(arg, "away")) opt.away = atoi(value);
    else if (!strcmp(arg, "pids")) snprintf(opt.pids, sizeof opt.pids, "%s", value);
    else if (!strcmp(arg, "count")) opt.count = strtoull(value, NULL, 10);
    else if (!strcmp(arg, "seconds")) opt.seconds = atof(value);
    else if (!strcmp(arg, "rate")) opt.rate = atof(value);
    else if (!strcmp(arg, "drain")) opt.drain = atof(value);
    else die("unknown key; see struct options in load.c");
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) parse(argv[i]);
    errno = 0;
    if (!opt.n_pub_ports || !opt.n_sub_ports) die("pub_ports= and sub_ports= are needed");
    if (opt.pubs < 1 || opt.subs < 1 || opt.qos < 0 || opt.qos > 1 || opt.payload < STAMP || opt.window < 1 || opt.window > 60000)
        die("pubs, subs and window from 1, window to 60000, qos 0 or 1, payload from 20 bytes");
    if (opt.topics < 1 || (opt.topics > 1 && strcmp(opt.pattern, "pair"))) die("topics= from 1, more with pattern=pair only");
    if (!strcmp(opt.pattern, "pair") && opt.subs < opt.pubs) die("pattern=pair needs a subscriber for every publisher");
    if (strcmp(opt.pattern, "pair") && strcmp(opt.pattern, "fanout") && strcmp(opt.pattern, "fanin") && strcmp(opt.pattern, "wildcard"))
        die("pattern= takes pair, fanout, fanin or wildcard");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    prctl(PR_SET_TIMERSLACK, 1000);
    signal(SIGPIPE, SIG_IGN);
    run_id = (uint32_t)now_ns() ^ (uint32_t)getpid() << 16;
    epoll_fd = epoll_create1(0);

    int n = opt.subs + opt.pubs;
    conns = need(calloc((size_t)n, sizeof *conns));
    work = need(calloc((size_t)opt.pubs, sizeof *work));
    seen = need(calloc((size_t)opt.subs * (size_t)opt.pubs, sizeof *seen));
    for (int i = 0; i < n; i++) {
        struct conn *c = &conns[i];
        c->is_pub = i >= opt.subs;
        c->index = c->is_pub ? i - opt.subs : i;
        open_client(c, c->is_pub ? opt.pub_ports[c->index % opt.n_pub_ports] : opt.sub_ports[c->index % opt.n_sub_ports]);
        if (!c->is_pub) {
            subscribe_client(c);
            if (opt.away) { send_all(c, (const uint8_t[]){ 0xE0, 0 }, 2); lost_connection(c); }
        } else {
            c->random = 88172645463325252u + (uint64_t)c->index * 0x9E3779B97F4A7C15u;
            assemble_publish(c);
            c->ids = need(calloc(1, 65536));
            for (int s = 0; s < opt.subs && !opt.away; s++) c->fan += listens_to(s, c->index);
        }
    }
    for (int i = 0; i < n; i++) if (!conns[i].dead) begin_nonblocking(&conns[i]);
    usleep(300000);   /* routes settle between nodes */

    double cpu = own_cpu_s(), broker_cpu = broker_cpu_s();
    first_at = now_ns();
    deadline = first_at + (uint64_t)(opt.seconds * 1e9);
    publishing = true;
    for (int i = 0; i < opt.pubs; i++) {
        struct conn *c = &conns[opt.subs + i];
        c->due_base = first_at + (opt.rate > 0 ? (uint64_t)((double)i * 1e9 / opt.rate) : 0);
        may_go_on(c);
    }

    struct epoll_event events[256];
    uint64_t progress = 0, progress_at = first_at, idle_limit = (uint64_t)(opt.drain * 1e9);
    for (;;) {
        uint64_t now = now_ns(), wait = 50000000;
        if (publishing && opt.rate > 0) {
            for (int i = 0; i < opt.pubs; i++) {
                uint64_t at = due(&conns[opt.subs + i]);
                if (at <= now) { may_go_on(&conns[opt.subs + i]); wait = 0; }
                else if (at - now < wait) wait = at - now;
            }
        }
        if (n_work) { run_work(); wait = 0; }
        if (publishing && opt.rate > 0 && wait == 0) wait = 1000;
        struct timespec t = { .tv_nsec = (long)(n_work ? 0 : wait) };
        int got = epoll_pwait2(epoll_fd, events, 256, &t, NULL);
        for (int i = 0; i < got; i++) {
            struct conn *c = events[i].data.ptr;
            if (c->dead) continue;
            if (events[i].events & EPOLLOUT) { flush_out(c); if (c->is_pub && !c->blocked) may_go_on(c); }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_in(c);
            /* At once, not after the whole batch: publishers that all wait for each other would idle the broker. */
            if (n_work && opt.rate <= 0) run_work();
        }
        now = now_ns();
        uint64_t expected = 0;
        bool all_sent = opt.count > 0;
        for (int i = 0; i < opt.pubs; i++) {
            struct conn *c = &conns[opt.subs + i];
            expected += (uint64_t)c->seq * c->fan;
            if (c->seq < opt.count) all_sent = false;
        }
        if (publishing && (opt.count ? all_sent : now >= deadline)) publishing = false;
        if (sent + acked + received != progress) { progress = sent + acked + received; progress_at = now; }
        if (publishing && now - progress_at > 1000000000) {
            for (int i = 0; i < opt.pubs; i++) {
                struct conn *c = &conns[opt.subs + i];
                c->forgiven = (uint64_t)c->seq * c->fan - c->delivered;
                may_go_on(c);
            }
            stalls++;
            if (stalls > 10) publishing = false;
            progress_at = now;
        }
        bool whole = unique >= expected && (!opt.qos || acked >= sent);
        if (!publishing && (whole || now - progress_at > idle_limit)) break;
    }

    uint64_t expected = 0, dead = 0;
    for (int i = 0; i < n; i++) {
        dead += conns[i].dead && (conns[i].is_pub || !opt.away);
        if (conns[i].is_pub) expected += (uint64_t)conns[i].seq * conns[i].fan;
    }
    uint64_t end = last_received_at > last_sent_at ? last_received_at : last_sent_at;
    double wall = (double)(end - first_at) / 1e9, whole_run = (double)(now_ns() - first_at) / 1e9;
    printf("{\"pattern\": \"%s\", \"qos\": %d, \"pubs\": %d, \"subs\": %d, \"sent\": %lu, \"expected\": %lu, "
           "\"received\": %lu, \"lost\": %lu, \"duplicated\": %lu, \"reordered\": %lu, \"unacked\": %lu, "
           "\"foreign\": %lu, \"bad_acks\": %lu, \"dropped_connections\": %lu, \"stalls\": %lu, \"seconds\": %.3f, "
           "\"per_second\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"p999_us\": %.0f, \"max_us\": %.0f, "
           "\"load_cpu\": %.2f, \"broker_cpu\": %.2f}\n",
           opt.pattern, opt.qos, opt.pubs, opt.subs, sent, expected, received, expected - unique, duplicated, reordered,
           opt.qos ? sent - acked : 0, foreign, bad_acks, dead, stalls, wall, wall > 0 ? (double)unique / wall : 0,
           quantile_us(.5), quantile_us(.99), quantile_us(.999), (double)worst / 1e3,
           (own_cpu_s() - cpu) / whole_run, (broker_cpu_s() - broker_cpu) / whole_run);
    uint8_t bye[2] = { 0xE0, 0 };
    for (int i = 0; i < n; i++) if (!conns[i].dead && write(conns[i].fd, bye, 2) < 0) continue;
    return 0;
}
