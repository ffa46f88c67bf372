/* hold: what a broker is made to hold, and what that costs: idle connections, connections that say nothing,
 * subscriptions; and publishing while subscriptions are held.
 *
 * Arguments are key=value pairs, see `struct options`; the answer is one JSON object on stdout.
 * bench/load.py builds and runs it. load.c is its sibling for messages to few subscribers.
 *
 *   mode=idle    `count` clients connect, `at_once` under way at a time, and stay for `hold` seconds
 *   mode=silent  the same without CONNECT: connections only; one that the broker closes makes room for the next
 *   mode=subs    `clients` clients subscribe to `filters` each, `wild` percent of them wildcards, `batch` a
 *                packet, two packets under way; then `pubs` publishers send for `seconds` in a closed loop of
 *                `lag` undelivered messages each, to topics that match one filter each, drawn at random
 *
 * At most `room` connections are open at a time; mode=idle then opens no more. Memory is the resident memory of
 * the processes in pids=, now and before; in mode=silent the most of it that was seen. A publisher sends again when half
 * of its allowance is free, so that packets leave in batches. Each payload begins with publisher, sequence
 * number and the instant it left; each publisher keeps a bit for every message, so nothing is estimated.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STAMP 16
#define BUCKETS (64 * 40)
#define PER_ADDRESS 20000   /* connections from one source address */
#define MOST_MESSAGES (1u << 27)

static struct options {
    char mode[16], pids[256];
    int port, count, at_once, room, clients, filters, wild, batch, pubs, lag, payload;
    double hold, seconds, patience;
} opt = { .mode = "idle", .count = 5000, .at_once = 100, .room = 15000, .clients = 100, .filters = 2000, .wild = 20, .batch = 50,
          .pubs = 10, .lag = 50, .payload = 100, .hold = 1, .seconds = 2, .patience = 60 };

enum { NEW, DIALLING, ASKED, UP, GONE };

struct client {
    int fd, index;
    uint8_t state;
    bool pub, writable_wanted;
    uint8_t *in, *out;
    uint32_t in_len, in_room, out_pos, out_len, out_room;
    uint32_t next_filter, pending;             /* subscribers */
    uint64_t began, sent, delivered;           /* publishers */
    uint8_t *seen;
};

struct stamp { uint32_t pub, seq; uint64_t at; } __attribute__((packed));

static struct client *clients;
static int epoll_fd, total, dialled, dialling, up, most_up, failed, lost_connections;
static double most_memory;
static uint64_t acked_filters, refused_filters, received, duplicated, foreign, sent;
static uint64_t histogram[BUCKETS], last_received_at;
static uint8_t chunk[256 << 10];
static bool publishing;

static void die(const char *what)
{
    fprintf(stderr, "hold: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
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
    int shift = 63 - __builtin_clzll(ns | 64) - 6;
    int bucket = ns < 64 ? (int)ns : (shift + 1) * 64 + (int)((ns >> shift) & 63);
    histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static double quantile_us(double q)
{
    uint64_t all = 0, want;
    for (int i = 0; i < BUCKETS; i++) all += histogram[i];
    if (!all) return 0;
    want = (uint64_t)(q * (double)(all - 1)) + 1;
    for (int i = 0; i < BUCKETS; i++) {
        if (histogram[i] >= want) return i < 64 ? i / 1e3 : (double)((uint64_t)(64 + i % 64) << (i / 64 - 1)) / 1e3;
        want -= histogram[i];
    }
    return 0;
}

/* ---- the broker's processes ---- */

static double of_pids(bool memory)
{
    char copy[256], path[64], text[1024], *save, *part;
    double sum = 0;
    snprintf(copy, sizeof copy, "%s", opt.pids);
    for (part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        snprintf(path, sizeof path, "/proc/%s/%s", part, memory ? "statm" : "stat");
        FILE *f = fopen(path, "r");
        if (!f) continue;
        size_t n = fread(text, 1, sizeof text - 1, f);
        text[n] = 0;
        fclose(f);
        unsigned long a, b;
        char *p = strrchr(text, ')');
        if (memory) { if (sscanf(text, "%*u %lu", &a) == 1) sum += (double)a * (double)sysconf(_SC_PAGESIZE); }
        else if (p && sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &a, &b) == 2)
            sum += (double)(a + b) / (double)sysconf(_SC_CLK_TCK);
    }
    return sum;
}

static double own_cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- output ---- */

static uint8_t *room(struct client *c, uint32_t n)
{
    if (c->out_pos == c->out_len) c->out_pos = c->out_len = 0;
    if (c->out_len + n > c->out_room) {
        c->out_room = (c->out_len + n) * 2;
        c->out = need(realloc(c->out, c->out_room));
    }
    uint8_t *p = c->out + c->out_len;
    c->out_len += n;
    return p;
}

static uint8_t *put_head(uint8_t *p, uint8_t first, uint32_t length)
{
    *p++ = first;
    do { *p++ = (uint8_t)((length & 127) | (length > 127 ? 128 : 0)); length >>= 7; } while (length);
    return p;
}

static uint8_t *put_text(uint8_t *p, const char *text, uint32_t n)
{
    *p++ = (uint8_t)(n >> 8); *p++ = (uint8_t)n;
    memcpy(p, text, n);
    return p + n;
}

static void gone(struct client *c)
{
    if (c->state == GONE) return;
    if (c->state == UP) { up--; lost_connections++; }
    else { dialling--; failed++; }
    c->state = GONE;
    close(c->fd);
}

static void want_writable(struct client *c, bool wanted)
{
    if (c->writable_wanted == wanted) return;
    struct epoll_event e = { .events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c };
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    c->writable_wanted = wanted;
}

static void flush_out(struct client *c)
{
    while (c->out_pos < c->out_len) {
        ssize_t n = write(c->fd, c->out + c->out_pos, c->out_len - c->out_pos);
        if (n > 0) c->out_pos += (uint32_t)n;
        else if (errno == EAGAIN) { want_writable(c, true); return; }
        else if (errno != EINTR) { gone(c); return; }
    }
    want_writable(c, false);
}

/* ---- filters and topics: topic k matches filter k and no other ---- */

static bool is_wild(uint32_t k) { return (int)(k % 100) < opt.wild; }

static uint32_t topic_of(char *to, uint32_t k, uint32_t any)
{
    if (!is_wild(k)) return (uint32_t)sprintf(to, "site/%u/dev/%u/metric", k % 1000, k / 1000);
    return (uint32_t)sprintf(to, "site/%u/dev/w%u/metric", k % 2 ? k % 1000 : any % 1000, k);
}

static uint32_t filter_of(char *to, uint32_t k)
{
    if (!is_wild(k)) return topic_of(to, k, 0);
    if (k % 2) return (uint32_t)sprintf(to, "site/%u/dev/w%u/#", k % 1000, k);
    return (uint32_t)sprintf(to, "site/+/dev/w%u/metric", k);
}

static void subscribe(struct client *c)
{
    static uint8_t body[1 << 16];
    while (c->next_filter < (uint32_t)opt.filters && c->pending < 2) {
        uint8_t *p = body;
        uint32_t id = c->next_filter % 65535 + 1;
        *p++ = (uint8_t)(id >> 8); *p++ = (uint8_t)id;
        for (int i = 0; i < opt.batch && c->next_filter < (uint32_t)opt.filters; i++) {
            char text[64];
            uint32_t n = filter_of(text, (uint32_t)(c->index * opt.filters) + c->next_filter++);
            p = put_text(p, text, n);
            *p++ = 0;
        }
        uint8_t head[8];
        uint32_t n = (uint32_t)(p - body), h = (uint32_t)(put_head(head, 0x82, n) - head);
        p = room(c, h + n);
        memcpy(p, head, h); memcpy(p + h, body, n);
        c->pending++;
    }
    flush_out(c);
}

/* ---- publishing ---- */

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13; random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static void publish(struct client *c)
{
    uint64_t now = now_ns();
    if (c->state != UP || c->out_pos < c->out_len || (c->sent - c->delivered) * 2 > (uint64_t)opt.lag) return;
    while (c->sent - c->delivered < (uint64_t)opt.lag && c->sent < MOST_MESSAGES) {
        char topic[64];
        uint64_t r = random_next();
        uint32_t n = topic_of(topic, (uint32_t)(r % ((uint64_t)opt.clients * (uint64_t)opt.filters)), (uint32_t)(r >> 40));
        struct stamp s = { (uint32_t)c->index, (uint32_t)c->sent, now };
        uint8_t head[8];
        uint32_t length = 2 + n + (uint32_t)opt.payload, h = (uint32_t)(put_head(head, 0x30, length) - head);
        uint8_t *p = room(c, h + length);
        memcpy(p, head, h);
        p = put_text(p + h, topic, n);
        memcpy(p, &s, sizeof s);
        memset(p + STAMP, 'x', (size_t)opt.payload - STAMP);
        c->sent++;
        sent++;
    }
    flush_out(c);
}

static void note_delivery(const uint8_t *b, uint32_t length, uint64_t now)
{
    struct stamp s;
    uint32_t at = 2 + (uint32_t)(b[0] << 8 | b[1]);
    if (at + STAMP > length) { foreign++; return; }
    memcpy(&s, b + at, sizeof s);
    if (s.pub >= (uint32_t)opt.pubs || s.seq >= MOST_MESSAGES) { foreign++; return; }
    struct client *pub = &clients[opt.clients + (int)s.pub];
    uint8_t bit = (uint8_t)(1 << (s.seq & 7));
    if (pub->seen[s.seq >> 3] & bit) { duplicated++; return; }
    pub->seen[s.seq >> 3] |= bit;
    pub->delivered++;
    received++;
    last_received_at = now;
    note_latency(now - s.at);
}

/* ---- input ---- */

static void take_packet(struct client *c, uint8_t first, const uint8_t *b, uint32_t length, uint64_t now)
{
    switch (first >> 4) {
    case 2:
        if (length < 2 || b[1] || c->state != ASKED) { errno = 0; die("the broker refused a client"); }
        c->state = UP;
        up++;
        dialling--;
        if (!strcmp(opt.mode, "idle")) note_latency(now - c->began);
        break;
    case 3:
        note_delivery(b, length, now);
        break;
    case 9:
        for (uint32_t i = 2; i < length; i++) { if (b[i] >= 0x80) refused_filters++; acked_filters++; }
        c->pending--;
        subscribe(c);
        break;
    }
}

static void read_in(struct client *c)
{
    uint32_t have = c->in_len, at = 0;
    if (have) memcpy(chunk, c->in, have);
    ssize_t n = read(c->fd, chunk + have, sizeof chunk - have);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) gone(c);
        return;
    }
    have += (uint32_t)n;
    uint64_t now = now_ns();
    while (c->state != GONE) {
        uint32_t length = 0, head = at + 1;
        int shift = 0;
        bool whole = false;
        for (; head < have && !whole; shift += 7) { length |= (uint32_t)(chunk[head] & 127) << shift; whole = !(chunk[head++] & 128); }
        if (!whole || have - head < length) break;
        take_packet(c, chunk[at], chunk + head, length, now);
        at = head + length;
    }
    c->in_len = have - at;
    if (c->in_len > c->in_room) c->in = need(realloc(c->in, c->in_room = c->in_len));
    memcpy(c->in, chunk + at, c->in_len);
}

/* ---- connecting ---- */

static void dial(struct client *c)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port) }, from = { .sin_family = AF_INET };
    int one = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(dialled / PER_ADDRESS));
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) die("socket; are more open files allowed?");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(c->fd, (struct sockaddr *)&from, sizeof from)) die("bind");
    c->state = DIALLING;
    c->began = now_ns();
    c->writable_wanted = true;
    dialled++;
    dialling++;
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) { gone(c); return; }
    struct epoll_event e = { .events = EPOLLIN | EPOLLOUT, .data.ptr = c };
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e)) die("epoll");
}

static void ask(struct client *c)
{
    int error = 0;
    socklen_t size = sizeof error;
    char id[32];
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) { gone(c); return; }
    if (!strcmp(opt.mode, "silent")) { c->state = UP; up++; dialling--; want_writable(c, false); return; }
    uint32_t n = (uint32_t)sprintf(id, "hold-%x-%d", getpid(), (int)(c - clients));
    uint8_t *p = room(c, 2 + 10 + 2 + n);
    p = put_head(p, 0x10, 10 + 2 + n);
    p = put_text(p, "MQTT", 4);
    *p++ = 4; *p++ = 2; *p++ = 0xFF; *p++ = 0xFF;
    put_text(p, id, n);
    c->state = ASKED;
    flush_out(c);
}

/* ---- the loop ---- */

static bool connected(void) { return dialled == total && !dialling; }
static bool subscribed(void) { return acked_filters >= (uint64_t)opt.clients * (uint64_t)opt.filters || lost_connections; }
static bool delivered(void) { return received >= sent || lost_connections; }
static bool never(void) { return false; }

static bool run(bool (*done)(void), double seconds)
{
    struct epoll_event events[512];
    uint64_t until = now_ns() + (uint64_t)(seconds * 1e9), sampled = 0;
    bool silent = !strcmp(opt.mode, "silent");
    while (!done()) {
        if (now_ns() >= until) return false;
        while (dialled < total && dialling < opt.at_once && dialling + up < opt.room) dial(&clients[dialled]);
        if (up > most_up) most_up = up;
        if (silent && now_ns() > sampled + 200000000) {
            double memory = of_pids(true);
            if (memory > most_memory) most_memory = memory;
            sampled = now_ns();
        }
        if (publishing) for (int i = 0; i < opt.pubs; i++) publish(&clients[opt.clients + i]);
        int n = epoll_wait(epoll_fd, events, 512, 10);
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (c->state == DIALLING && events[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) ask(c);
            else if (c->state != GONE && events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) read_in(c);
            if (c->state != GONE && c->state != DIALLING && events[i].events & EPOLLOUT) flush_out(c);
        }
    }
    return true;
}

static void hold_connections(void)
{
    double before = of_pids(true), cpu = of_pids(false);
    uint64_t began = now_ns();
    run(connected, opt.patience);
    double took = (double)(now_ns() - began) / 1e9;
    int opened = dialled - failed;
    cpu = of_pids(false) - cpu;
    run(never, opt.hold);
    bool silent = !strcmp(opt.mode, "silent");
    double each = most_up ? ((silent ? most_memory : of_pids(true)) - before) / most_up : 0;
    printf("{\"asked\": %d, \"opened\": %d, \"most_open\": %d, \"failed\": %d, \"lost\": %d, \"seconds\": %.3f, \"per_second\": %.0f, "
           "\"p50_us\": %.0f, \"p99_us\": %.0f, \"bytes_each\": %.0f, \"broker_cpu\": %.2f}\n",
           total, opened, most_up, failed, silent ? failed : failed + lost_connections, took, opened / took, quantile_us(.5), quantile_us(.99), each, cpu / took);
}

static void hold_subscriptions(void)
{
    if (!run(connected, opt.patience) || failed) { errno = 0; die("not every client connected"); }
    run(never, opt.hold);
    double before = of_pids(true), cpu = of_pids(false);
    uint64_t began = now_ns();
    for (int i = 0; i < opt.clients; i++) subscribe(&clients[i]);
    if (!run(subscribed, opt.patience) || lost_connections) { errno = 0; die("not every filter was acknowledged"); }
    double took = (double)(now_ns() - began) / 1e9;
    double rate = (double)acked_filters / took, sub_cpu = (of_pids(false) - cpu) / took;
    run(never, opt.hold);
    double each = (of_pids(true) - before) / (double)acked_filters, own = own_cpu_s(), wall = 0;
    cpu = of_pids(false);
    if (opt.pubs && opt.seconds > 0) {
        began = now_ns();
        publishing = true;
        run(never, opt.seconds);
        publishing = false;
        run(delivered, 5);
        wall = (double)(last_received_at - began) / 1e9;
    }
    double whole = wall > 0 ? wall : 1;
    printf("{\"filters\": %lu, \"refused\": %lu, \"subscribed_per_second\": %.0f, \"bytes_each\": %.0f, \"subscribe_cpu\": %.2f, "
           "\"sent\": %lu, \"received\": %lu, \"lost\": %lu, \"duplicated\": %lu, \"foreign\": %lu, \"per_second\": %.0f, "
           "\"p50_us\": %.0f, \"p99_us\": %.0f, \"broker_cpu\": %.2f, \"load_cpu\": %.2f}\n",
           acked_filters, refused_filters, rate, each, sub_cpu, sent, received, sent - received, duplicated, foreign,
           (double)received / whole, quantile_us(.5), quantile_us(.99), (of_pids(false) - cpu) / whole, (own_cpu_s() - own) / whole);
}

static void parse(char *arg)
{
    char *value = strchr(arg, '=');
    struct { const char *name; int *to; } ints[] = {
        { "port", &opt.port }, { "count", &opt.count }, { "at_once", &opt.at_once }, { "room", &opt.room }, { "clients", &opt.clients },
        { "filters", &opt.filters }, { "wild", &opt.wild }, { "batch", &opt.batch }, { "pubs", &opt.pubs },
        { "lag", &opt.lag }, { "payload", &opt.payload } };
    struct { const char *name; double *to; } reals[] = {
        { "hold", &opt.hold }, { "seconds", &opt.seconds }, { "patience", &opt.patience } };
    errno = 0;
    if (!value) die("arguments are key=value");
    *value++ = 0;
    if (!strcmp(arg, "mode")) { snprintf(opt.mode, sizeof opt.mode, "%s", value); return; }
    if (!strcmp(arg, "pids")) { snprintf(opt.pids, sizeof opt.pids, "%s", value); return; }
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) if (!strcmp(arg, ints[i].name)) { *ints[i].to = atoi(value); return; }
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) if (!strcmp(arg, reals[i].name)) { *reals[i].to = atof(value); return; }
    die("unknown key; see struct options in hold.c");
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) parse(argv[i]);
    bool subs = !strcmp(opt.mode, "subs");
    errno = 0;
    if (!subs && strcmp(opt.mode, "idle") && strcmp(opt.mode, "silent")) die("mode= takes idle, silent or subs");
    if (!opt.port || opt.payload < STAMP || opt.batch < 1 || opt.batch > 1000 || opt.lag < 1 || opt.at_once < 1 || opt.count < 1)
        die("port= is needed; payload from 16 bytes, batch to 1000");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    epoll_fd = epoll_create1(0);
    total = subs ? opt.clients + opt.pubs : opt.count;
    if (!strcmp(opt.mode, "idle") && total > opt.room) total = opt.room;
    clients = need(calloc((size_t)total, sizeof *clients));
    for (int i = 0; i < total; i++) {
        struct client *c = &clients[i];
        c->pub = subs && i >= opt.clients;
        c->index = c->pub ? i - opt.clients : i;
        if (c->pub) c->seen = need(calloc(1, MOST_MESSAGES / 8));
    }
    if (subs) hold_subscriptions();
    else hold_connections();
    return 0;
}
