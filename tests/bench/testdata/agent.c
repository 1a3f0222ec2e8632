// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * The program of the benchmark's jobs: it carries out each line of its standard input and
 * answers with a line. Two jobs have one each, with protection and without, and are told
 * to work in turns.
 *
 *   VERB COUNT       the work, COUNT times, in a process of its own: where its memory happens to
 *                    be differs from turn to turn. Answers nanoseconds by the clock and of the processor
 *   fill MIB SEED    its memory is MIB mebibytes that SEED decides, and one that its rank decides too; answers "filled"
 *   gap 0            until the next line comes, which it takes for nothing else, it looks at the
 *                    clock; answers the nanoseconds that it stood still for at most
 *   stream HOST MS   answers bytes a second to HOST, where an agent was started with "serve"
 *   trips HOST MS    answers round trips a second of a single byte
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT "7177"
#define FILE_NAME "bench.file"

static char block[128 << 10];

static long long nanoseconds_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (t.tv_sec * 1000000000ll + t.tv_nsec);
}

/* Processor time of this process and its ended children. */
static long long cpu_time(void)
{
	long long sum = 0;

	for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; ++who) {
		struct rusage r;

		getrusage(who, &r);
		sum += (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000ll + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
	}

	return (sum * 1000);
}

/* --- work --- */

static volatile uint64_t result;

static void do_cpu(long n)
{
	uint64_t x = 88172645463325252ull;
	double y = 1;

	while (n--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		y = y * 0.999 + (double)(x & 7);
	}
	result = x + (uint64_t)y;
}

static void do_memory(long n)
{
	const size_t size = 4 << 20;

	while (n--) {
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			err(1, "mmap");
		for (size_t i = 0; i < size; i += 4096)
			p[i] = 1;
		munmap(p, size);
	}
}

static void do_getppid(long n)
{
	while (n--)
		result += (uint64_t)getppid();
}

static void do_clock(long n)
{
	while (n--)
		result += (uint64_t)nanoseconds_now(CLOCK_MONOTONIC);
}

static void do_readwrite(long n)
{
	const int fd = open(FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		err(1, FILE_NAME);
	while (n--)
		if (pwrite(fd, block, 4096, 0) != 4096 || pread(fd, block, 4096, 0) != 4096)
			err(1, FILE_NAME);
	close(fd);
}

static void open_close(long n, int flags)
{
	while (n--) {
		const int fd = open(FILE_NAME, flags | O_CLOEXEC);

		if (fd < 0)
			err(1, FILE_NAME);
		close(fd);
	}
}

static void do_open(long n)
{
	do_readwrite(1); /* there is a line */
	open_close(n, O_RDONLY);
}

static void do_openwrite(long n)
{
	do_readwrite(1);
	open_close(n, O_WRONLY);
}

static void do_exec(long n)
{
	while (n--) {
		const pid_t pid = fork();
		int status;

		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			errx(1, "/bin/true");
	}
}

static const struct {
	const char *verb;
	void (*work)(long);
} works[] = {
	{ "cpu", do_cpu }, { "memory", do_memory }, { "getppid", do_getppid }, { "clock", do_clock },
	{ "readwrite", do_readwrite }, { "open", do_open }, { "openwrite", do_openwrite }, { "exec", do_exec },
};

/* Always on the same processor: two of them need not be equally fast. */
static void pin_processor(void)
{
	cpu_set_t set;
	int last = -1;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int i = 0; i < CPU_SETSIZE; ++i)
			if (CPU_ISSET(i, &set))
				last = i;
	CPU_ZERO(&set);
	CPU_SET(last, &set);
	if (last < 0 || sched_setaffinity(0, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

static bool run_work(const char *verb, long n)
{
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); ++i)
		if (strcmp(works[i].verb, verb) == 0) {
			long long wall, cpu;

			pin_processor();
			cpu = cpu_time();
			wall = nanoseconds_now(CLOCK_MONOTONIC);
			works[i].work(n);
			wall = nanoseconds_now(CLOCK_MONOTONIC) - wall;
			printf("%lld %lld\n", wall, cpu_time() - cpu);
			return (true);
		}

	return (false);
}

/* Have this program do the work, anew. */
static bool work_apart(char *verb, char *n)
{
	char *argv[] = { "agent", "work", verb, n, NULL };
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}

	return (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

/* --- memory --- */

struct region {
	char *at;
	size_t size;
};

static uint64_t state;

static uint64_t next_noise(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;

	return (state);
}

/* A page as programs have them, of the kinds that proxyd/store/storetest has, as many of each. */
static void fill_page(char *p)
{
	static const char *const words[] = { "torch.nn.functional", "\x48\x89\xe5\x48", "0x00000000", "def forward(self, ", "__pycache__/",
		"import ", "return ", "libstdc++.so.6", "weight", "bias", "optimizer.step()" };
	uint64_t *const w = (uint64_t *)p, kind = next_noise() % 100, base = next_noise() >> 28 << 12;

	memset(p, 0, 4096);
	if (kind < 15) /* zeros */
		return;
	if (kind < 50) /* structs: pointers into a single heap, small numbers, flags */
		for (int i = 0; i < 512; i += 4) {
			const uint64_t x = next_noise();

			w[i] = base + (x & 4095) * 16;
			w[i + 1] = x >> 12 & 63;
			w[i + 3] = x >> 20 & 3;
		}
	else if (kind < 80) /* text and code */
		for (int i = 0; i < 4096;) {
			const char *word = words[next_noise() % (sizeof(words) / sizeof(words[0]))];

			while (*word && i < 4096)
				p[i++] = *word++;
		}
	else /* weights, or a buffer that is used in part */
		for (uint64_t i = 0, n = kind < 92 ? next_noise() % 512 : 512; i < n; ++i)
			w[i] = next_noise();
}

static void fill_region(struct region *r, size_t size, uint64_t seed)
{
	if (r->at && r->size != size) {
		munmap(r->at, r->size);
		r->at = NULL;
	}
	if (!r->at)
		r->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->at == MAP_FAILED)
		err(1, "mmap");
	r->size = size;
	state = seed * 0x9E3779B97F4A7C15ull + 1;
	for (size_t i = 0; i < size; i += 4096)
		fill_page(r->at + i);
}

static void fill_memory(long mib, uint64_t seed)
{
	static struct region shared, own;
	const char *rank = getenv("SLURM_PROCID");

	fill_region(&shared, (size_t)mib << 20, seed);
	fill_region(&own, 1 << 20, (seed << 16) + 1 + strtoull(rank ? rank : "0", NULL, 10));
	printf("filled\n");
}

/* --- standing still --- */

static void measure_gap(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	long long last = nanoseconds_now(CLOCK_MONOTONIC), longest = 0;
	char line[64];

	while (poll(&input, 1, 1) <= 0) {
		const long long t = nanoseconds_now(CLOCK_MONOTONIC);

		if (t - last > longest)
			longest = t - last;
		last = t;
	}
	if (fgets(line, sizeof(line), stdin))
		printf("%lld\n", longest);
}

/* --- network --- */

static int connect_to(const char *host, char verb)
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	const int on = 1;
	struct addrinfo *a;
	int fd, rv;

	rv = getaddrinfo(host, PORT, &hints, &a);
	if (rv)
		errx(1, "%s: %s", host, gai_strerror(rv));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    write(fd, &verb, 1) != 1)
		err(1, "%s", host);
	freeaddrinfo(a);

	return (fd);
}

/* The end of the stream is when the other side has read everything. */
static void send_stream(const char *host, long ms)
{
	const int fd = connect_to(host, 's');
	const long long began = nanoseconds_now(CLOCK_MONOTONIC), end = began + ms * 1000000;
	uint64_t got;

	while (nanoseconds_now(CLOCK_MONOTONIC) < end)
		if (write(fd, block, sizeof(block)) <= 0)
			err(1, "%s", host);
	if (shutdown(fd, SHUT_WR) || read(fd, &got, sizeof(got)) != sizeof(got))
		err(1, "%s", host);
	printf("%.0f\n", (double)got * 1e9 / (double)(nanoseconds_now(CLOCK_MONOTONIC) - began));
	close(fd);
}

static void make_trips(const char *host, long ms)
{
	const int fd = connect_to(host, 't');
	const long long began = nanoseconds_now(CLOCK_MONOTONIC), end = began + ms * 1000000;
	long n = 0;

	for (; nanoseconds_now(CLOCK_MONOTONIC) < end; ++n)
		if (write(fd, block, 1) != 1 || read(fd, block, 1) != 1)
			err(1, "%s", host);
	printf("%.0f\n", (double)n * 1e9 / (double)(nanoseconds_now(CLOCK_MONOTONIC) - began));
	close(fd);
}

static void answer_peer(int fd)
{
	const int on = 1;
	uint64_t got = 0;
	ssize_t n;
	char verb;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (read(fd, &verb, 1) != 1)
		return;
	if (verb == 't')
		while (read(fd, block, 1) == 1 && write(fd, block, 1) == 1)
			;
	while ((n = read(fd, block, sizeof(block))) > 0)
		got += (uint64_t)n;
	if (write(fd, &got, sizeof(got)) < 0)
		return; /* of round trips the answer is not used */
}

static void serve_peers(void)
{
	const struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(PORT)) };
	const int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (l < 0 || setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(l, (const struct sockaddr *)&any, sizeof(any)) || listen(l, 1))
		err(1, "port " PORT);
	for (;;) {
		const int fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			err(1, "accept");
		answer_peer(fd);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	char line[256], verb[32], host[128];
	long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		serve_peers();
	if (argc == 4 && strcmp(argv[1], "work") == 0)
		return (run_work(argv[2], atol(argv[3])) ? 0 : 1);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "fill %ld %127s", &n, host) == 2)
			fill_memory(n, strtoull(host, NULL, 10));
		else if (strcmp(line, "gap 0\n") == 0)
			measure_gap();
		else if (sscanf(line, "stream %127s %ld", host, &n) == 2)
			send_stream(host, n);
		else if (sscanf(line, "trips %127s %ld", host, &n) == 2)
			make_trips(host, n);
		else if (sscanf(line, "%31s %127s", verb, host) != 2 || !work_apart(verb, host))
			errx(1, "no such work: %s", line);
	}

	return (0);
}
