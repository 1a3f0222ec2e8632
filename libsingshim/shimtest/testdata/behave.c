// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/* Programs that would notice an interposer: behave CASE, in a folder of their own. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

/* A call that fails leaves the errno of a program without the shim. */
#define FAILS(call, number) CHECK((errno = 0, (call) < 0) && errno == (number))

/* A call that succeeds leaves errno alone. */
#define QUIET(call) CHECK((errno = 77, (call) >= 0) && errno == 77)

static void check_errors(void)
{
	char longer[5000];
	const char *volatile null = NULL;
	int fd;

	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	QUIET(mkdir("dir", 0755));
	QUIET(fd = open("f", O_WRONLY | O_CREAT, 0600));
	QUIET(fd = open("f", O_WRONLY | O_CREAT, 0600));
	QUIET(fd = open("f", O_RDWR));
	QUIET(fd = open("f", O_WRONLY | O_APPEND));
	QUIET(fd = creat("g", 0600));
	QUIET(fd = creat("g", 0600));
	QUIET(symlink("missing", "dangling"));
	QUIET(fd = open("dangling", O_WRONLY | O_CREAT, 0600));
	CHECK(!access("missing", F_OK));
	QUIET(link("f", "h"));
	QUIET(rename("h", "i"));
	QUIET(truncate("i", 5));
	QUIET(unlink("i"));
	QUIET(open(".", O_RDWR | O_TMPFILE, 0600));
	FAILS(open("f", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
	FAILS(open("dir", O_WRONLY | O_CREAT, 0600), EISDIR);
	FAILS(open("dir", O_WRONLY), EISDIR);
	FAILS(open("none", O_WRONLY), ENOENT);
	FAILS(open("none/f", O_WRONLY | O_CREAT, 0600), ENOENT);
	FAILS(open("f/x", O_WRONLY | O_CREAT, 0600), ENOTDIR);
	FAILS(open("", O_WRONLY | O_CREAT, 0600), ENOENT);
	FAILS(open(null, O_WRONLY | O_CREAT, 0600), EFAULT);
	FAILS(open(longer, O_WRONLY | O_CREAT, 0600), ENAMETOOLONG);
	FAILS(openat(999, "f", O_WRONLY | O_CREAT, 0600), EBADF);
	FAILS(openat(fd, "f", O_WRONLY | O_CREAT, 0600), ENOTDIR);
	FAILS(open("/proc/version", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
	FAILS(mkdir("dir", 0755), EEXIST);
	FAILS(rmdir("f"), ENOTDIR);
	FAILS(unlink("none"), ENOENT);
	FAILS(unlink(null), EFAULT);
	FAILS(rename("none", "f"), ENOENT);
	FAILS(rename(null, "f"), EFAULT);
	FAILS(link("none", "x"), ENOENT);
	FAILS(symlink("x", "f"), EEXIST);
	FAILS(truncate("none", 0), ENOENT);
	FAILS(chdir("none"), ENOENT);
	CHECK(!fopen("none/f", "w") && errno == ENOENT);
	CHECK(!fopen("f", "nonsense") && errno == EINVAL);
	CHECK(!dlerror());
}

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);

	return (n);
}

/* The shim keeps no descriptor open, loses none, and goes on if a program closes all of them. */
static void check_descriptors(void)
{
	const int before = count_fds();
	char name[32];
	int fd, lowest;

	lowest = dup(0);
	close(lowest);
	for (int i = 0; i < 100; i++) {
		sprintf(name, "f%d", i);
		fd = open(name, O_WRONLY | O_CREAT, 0600);
		CHECK(fd == lowest);
		close(fd);
	}
	CHECK(count_fds() == before);
	fflush(stdout);
	CHECK(!close_range(0, ~0U, 0));
	CHECK(open("/dev/null", O_RDWR) == 0);
	CHECK(dup(0) == 1 && dup(0) == 2);
	fd = open("afterwards", O_WRONLY | O_CREAT, 0600);
	CHECK(fd == 3);
}

enum { THREADS = 8, FILES = 500 };

static void *write_files(void *arg)
{
	char name[64];

	for (int i = 0; i < FILES; i++) {
		sprintf(name, "t%ld-%d", (long)arg, i);
		int fd = open(name, O_WRONLY | O_CREAT, 0600);
		CHECK(fd >= 0);
		close(fd);
		if (i % 50 == 0) {
			const pid_t child = fork();

			if (!child) {
				sprintf(name, "c%ld-%d", (long)arg, i);
				_exit(open(name, O_WRONLY | O_CREAT, 0600) < 0);
			}
			int status;
			CHECK(waitpid(child, &status, 0) == child && !status);
		}
	}

	return (NULL);
}

static volatile sig_atomic_t ticks;

static void write_in_handler(int sig)
{
	const int e = errno;
	char name[] = "s0000";
	int n = ticks++;

	(void)sig;
	for (int i = 4; i > 0; i--, n /= 10)
		name[i] = (char)('0' + n % 10);
	int fd = open(name, O_WRONLY | O_CREAT, 0600);
	if (fd >= 0)
		close(fd);
	errno = e;
}

/* Threads that write and fork, interrupted by a handler that writes, on a small stack. */
static void run_storm(void)
{
	static char stack[8192];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction act = { .sa_handler = write_in_handler, .sa_flags = SA_RESTART | SA_ONSTACK };
	const struct itimerval every = { { 0, 2000 }, { 0, 2000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	pthread_t t[THREADS];
	sigset_t alarm_only;

	CHECK(!sigaltstack(&alternate, NULL));
	CHECK(!sigaction(SIGALRM, &act, NULL));
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, write_files, (void *)i));
	pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL); /* this thread is interrupted */
	CHECK(!setitimer(ITIMER_REAL, &every, NULL));
	write_files((void *)(long)THREADS);
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(t[i], NULL));
	printf("%d\n", (int)ticks);
}

/*
 * A file that a process opens again and again. After its removal, or in another folder, the same name is another
 * file.
 */
static void check_repeated(void)
{
	int status;

	CHECK(!mkdir("d", 0755) && !mkdir("e", 0755));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 10; i++)
			close(open("same", O_WRONLY | O_CREAT, 0600));
		CHECK(!chdir("d"));
		for (int i = 0; i < 10; i++)
			close(open("same", O_WRONLY | O_CREAT, 0600));
		const pid_t child = vfork();
		if (!child) {
			if (chdir("../e"))
				_exit(9);
			for (int i = 0; i < 10; i++)
				close(open("same", O_WRONLY | O_CREAT, 0600));
			_exit(unlink("same") != 0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status);
		CHECK(!unlink("same") && !chdir("..") && !unlink("same"));
	}
}

static void write_file(const char *path, int flags)
{
	const int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);

	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
	close(fd);
}

/*
 * Files with names that differ only as much as the acts upon them, or as the counts of moves of the directory:
 * their keys must differ.
 */
static void check_alike(void)
{
	for (int i = 0; i < 3; i++)
		write_file("a.log", O_TRUNC);
	for (int i = 0; i < 3; i++)
		write_file("b.log", O_APPEND);
	CHECK(!mkdir("d0", 0755) && !mkdir("d1", 0755) && !mkdir("d2", 0755) && !chdir("d0"));
	for (int i = 0; i < 3; i++)
		write_file("file0.txt", O_TRUNC);
	CHECK(!chdir("../d1"));
	write_file("file2.txt", O_TRUNC);
	CHECK(!chdir("../d2"));
	write_file("file4.txt", O_TRUNC);
}

/* The working directory has another name, given by the process itself. */
static void check_renamed(void)
{
	CHECK(!mkdir("d", 0755) && !chdir("d"));
	write_file("before", O_TRUNC);
	CHECK(!rename("../d", "../e"));
	write_file("after", O_TRUNC);
	CHECK(!chdir("..") && !mkdir("above", 0755) && !rename("e", "above/f") && !chdir("above/f"));
	write_file("last", O_TRUNC);
	CHECK(!renameat(AT_FDCWD, "../../above", AT_FDCWD, "../../over"));
	write_file("end", O_TRUNC);
}

/* A child of vfork that changes its directory does not move its parent. */
static void check_children(void)
{
	char *const argv[] = { "sh", "-c", ": >from-sh", NULL };
	pid_t child;
	int status;

	CHECK(!mkdir("d", 0755));
	close(open("first", O_WRONLY | O_CREAT, 0600));
	child = vfork();
	if (!child) {
		if (chdir("d"))
			_exit(9);
		close(open("in-child", O_WRONLY | O_CREAT, 0600));
		execv("/bin/sh", argv);
		_exit(9);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	close(open("second", O_WRONLY | O_CREAT, 0600));
	CHECK(!posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ));
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(!chdir("d"));
	close(open("third", O_WRONLY | O_CREAT, 0600));
	CHECK(!chdir(".."));
	int fd = open("d", O_RDONLY | O_DIRECTORY);
	CHECK(!fchdir(fd));
	close(open("fourth", O_WRONLY | O_CREAT, 0600));
	close(openat(fd, "fifth", O_WRONLY | O_CREAT, 0600));
}

/* A process with a working directory that was removed, and which is killed. */
static void check_ends(void)
{
	char name[] = "killed";

	close(open(name, O_WRONLY | O_CREAT, 0600));
	CHECK(!mkdir("gone", 0755) && !chdir("gone") && !rmdir("../gone"));
	FAILS(open("x", O_WRONLY | O_CREAT, 0600), ENOENT);
	kill(getpid(), SIGKILL);
}

/* Features of the kernel that cannot be captured are refused. */
static void check_refused(void)
{
	int ends[2];

	FAILS(pipe2(ends, O_CLOEXEC | O_DIRECT), EINVAL);
	FAILS(syscall(SYS_pipe2, ends, O_DIRECT), EINVAL);
	FAILS(syscall(SYS_io_uring_setup, 4, NULL), ENOSYS);
	static const char *const rings[] = { "io_uring_setup", "io_uring_queue_init", "io_uring_queue_init_params", "io_uring_queue_init_mem" };
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); ++i) { /* of liburing; the program is not linked with it */
		int (*make)(unsigned, void *, void *, void *, size_t) = (int (*)(unsigned, void *, void *, void *, size_t))dlsym(RTLD_DEFAULT, rings[i]);
		CHECK(make && make(4, NULL, NULL, NULL, 0) == -ENOSYS);
	}
	FAILS(syscall(SYS_landlock_create_ruleset, NULL, 0, 1), ENOSYS); /* asks for the version */
	FAILS(syscall(SYS_landlock_create_ruleset, &(unsigned long long){ 1 }, 8, 0), ENOSYS);
	FAILS(syscall(SYS_landlock_add_rule, -1, 1, NULL, 0), ENOSYS);
	FAILS(syscall(SYS_landlock_restrict_self, -1, 0), ENOSYS);
#ifdef SYS_arch_prctl
	unsigned long xfeatures = 0;
	FAILS(syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* AMX tiles */), EOPNOTSUPP);
	CHECK(syscall(SYS_arch_prctl, 0x1022 /* ARCH_GET_XCOMP_PERM */, &xfeatures) || !(xfeatures & 1UL << 18)); /* since 5.16 */
	FAILS(syscall(SYS_arch_prctl, 0x1023, 64), EINVAL); /* the kernel's own answer */
#endif
	QUIET(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	CHECK(fcntl(ends[0], F_GETFL) & O_NONBLOCK && fcntl(ends[1], F_GETFD) & FD_CLOEXEC);
	QUIET(syscall(SYS_pipe2, ends, 0));
	CHECK(write(ends[1], "x", 1) == 1 && read(ends[0], ends, 1) == 1);
}

int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstatat(int version, int dirfd, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *st, int flags);

/* The inodes of a socket and of a file, by every function of the stat family that takes a path. */
static void show_inodes(void)
{
#ifdef __x86_64__
	enum { VERSION = 1 };
#else
	enum { VERSION = 0 };
#endif
	static const char *const paths[] = { "socket", "file" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const char *const path = paths[i];
		struct stat st;
		struct stat64 st64;
		struct statx stx;

#define SHOW(call, inode) \
	QUIET(call); \
	printf("%s %llu %s\n", path, (unsigned long long)(inode), #call)
		SHOW(stat(path, &st), st.st_ino);
		SHOW(stat64(path, &st64), st64.st_ino);
		SHOW(lstat(path, &st), st.st_ino);
		SHOW(lstat64(path, &st64), st64.st_ino);
		SHOW(fstatat(AT_FDCWD, path, &st, 0), st.st_ino);
		SHOW(fstatat64(AT_FDCWD, path, &st64, AT_SYMLINK_NOFOLLOW), st64.st_ino);
		SHOW(__xstat(VERSION, path, &st), st.st_ino);
		SHOW(__xstat64(VERSION, path, &st64), st64.st_ino);
		SHOW(__lxstat(VERSION, path, &st), st.st_ino);
		SHOW(__lxstat64(VERSION, path, &st64), st64.st_ino);
		SHOW(__fxstatat(VERSION, AT_FDCWD, path, &st, 0), st.st_ino);
		SHOW(__fxstatat64(VERSION, AT_FDCWD, path, &st64, 0), st64.st_ino);
		SHOW(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &stx), stx.stx_ino);
	}
	struct stat st;
	FAILS(stat("missing", &st), ENOENT);
	FAILS(fstatat(-1, "socket", &st, 0), EBADF);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "errors", check_errors }, { "descriptors", check_descriptors }, { "storm", run_storm },
		{ "children", check_children }, { "repeated", check_repeated }, { "alike", check_alike }, { "renamed", check_renamed }, { "ends", check_ends }, { "refused", check_refused },
		{ "inodes", show_inodes },
	};

	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		cases[i].run();
		return (0);
	}

	return (2);
}
