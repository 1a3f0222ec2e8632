// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * How standard input comes to a task:
 *
 *	srun ─TCP─► slurmstepd ─pipe─► the warden ─pipe─► program
 *
 * A checkpoint captures the program and its pipe, but not the parts to the left of the pipe. So all bytes on their way
 * at a checkpoint have to come here: proxyd tells the warden to take all input, and the warden puts the bytes that do
 * not fit into the program's pipe into a queue. Usually it passes on only as much as the pipe has room for, and reads
 * no input while the queue has bytes: the program paces its source as without the warden.
 *
 * A program may close its input before the end. Then slurmstepd's pipe stays open and is not read, and its source waits,
 * as without the warden. If slurmstepd's pipe had no reader, slurmstepd would keep its bytes for that task for ever,
 * and read no more from srun. At a checkpoint the warden reads the input and drops it.
 *
 * The queue is a memfd, and its file offset is the place of the first byte. proxyd finds it by its name among the
 * descriptors of this process (proxyd/checkpoint/processes/input.go), saves its bytes, and at a restore puts them into
 * the queue of the new warden. This process has no bytes of input outside of the queue.
 *
 * If the input had ended at the checkpoint, proxyd seals the new queue: it is the end of the input, even if slurmstepd
 * sends more. An srun that reads a file itself (--input=FILE) begins it again in the new run.
 */
#define QUEUE_NAME "sing-input"

enum { PIECE = 64 * 1024 };

/*
 * How much input the queue may hold. Each checkpoint moves the bytes that Slurm has on their way, some 2 MB, into the
 * queue of a task that does not read its input.
 */
static const off_t MOST_QUEUED = 64 * 1024 * 1024;

/* Whether descriptor 0 is a pipe of slurmstepd's, not one in a file system. */
static bool has_pipe(void)
{
	struct statfs fs;

	return (fstatfs(0, &fs) == 0 && fs.f_type == PIPEFS_MAGIC && (fcntl(0, F_GETFL) & O_ACCMODE) != O_WRONLY);
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Stop: the program sees the end of its input. */
static void end_input(struct input *in)
{
	close_end(&in->from);
	close_end(&in->to);
	close_end(&in->queue);
	in->at = in->end = in->freed = 0;
}

void relay_input(struct input *in, bool held)
{
	int ends[2];

	*in = (struct input){ .from = -1, .to = -1, .queue = -1, .held = held };
	if (!has_pipe() || pipe2(ends, O_CLOEXEC))
		return;
	in->from = fcntl(0, F_DUPFD_CLOEXEC, 3);
	in->to = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
	in->queue = memfd_create(QUEUE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (in->from < 0 || in->to < 0 || in->queue < 0 || fcntl(in->to, F_SETFL, O_NONBLOCK) || dup2(ends[0], 0) < 0)
		end_input(in); /* the program reads from slurmstepd: a checkpoint reports that if need be */
	close(ends[0]);
	close(ends[1]);
}

void release_input(struct input *in)
{
	struct stat st;

	in->held = false;
	if (in->queue < 0)
		return;
	if (fstat(in->queue, &st) == 0)
		in->end = st.st_size;
	in->over = fcntl(in->queue, F_GET_SEALS) & F_SEAL_GROW;
	pass_input(in); /* also the end of the input, for which no event comes */
}

static off_t queued_bytes(const struct input *in)
{
	return (in->end - in->at);
}

/* How many bytes the queue may still take. */
static off_t queue_room(const struct input *in)
{
	return (MOST_QUEUED - (in->end - in->freed));
}

/*
 * Give back the memory of the bytes that have been passed on. The remaining bytes are not moved to the front: if a move
 * failed half way, bytes would be lost. If the memory cannot be given back, the queue takes less.
 */
static void free_passed(struct input *in)
{
	if (in->at > in->freed && fallocate(in->queue, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, in->at) == 0)
		in->freed = in->at;
}

void take_all_input(struct input *in, bool all)
{
	in->all = all;
	in->stuck = false;
	free_passed(in);
}

/* Whether there is room in the queue, and bytes are to be put there. */
static bool may_queue(const struct input *in)
{
	return (in->all && !in->stuck && in->from >= 0 && queue_room(in) > 0);
}

nfds_t input_events(const struct input *in, struct pollfd *p)
{
	nfds_t n = 0;

	if (in->held)
		return (0);
	/* Even with no events asked for, poll reports when the program has closed its end. */
	if (in->to >= 0)
		p[n++] = (struct pollfd){ .fd = in->to, .events = in->full || queued_bytes(in) > 0 ? POLLOUT : 0 };
	if (may_queue(in) || (in->from >= 0 && in->to >= 0 && !in->over && !in->full && queued_bytes(in) == 0))
		p[n++] = (struct pollfd){ .fd = in->from, .events = POLLIN };

	return (n);
}

static short events_at(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return (poll(&p, 1, 0) > 0 ? p.revents : 0);
}

/* Read a piece from slurmstepd. Returns its size, 0 if there is none. */
static size_t read_piece(struct input *in, char bytes[PIPE_BUF])
{
	ssize_t n;

	if (in->from < 0 || !events_at(in->from, POLLIN))
		return (0);
	n = read(in->from, bytes, PIPE_BUF);
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		close_end(&in->from);

	return (n > 0 ? (size_t)n : 0);
}

/* The program has closed its input. */
static void abandon_input(struct input *in)
{
	close_end(&in->to);
	in->at = in->end = in->freed = 0;
	if (ftruncate(in->queue, 0) || lseek(in->queue, 0, SEEK_SET) < 0)
		end_input(in);
}

/* Write a piece, for which the program's pipe has room: the piece is no more than a page. Returns whether it was written. */
static bool write_piece(struct input *in, const char *bytes, size_t n)
{
	if (write(in->to, bytes, n) == (ssize_t)n)
		return (true);
	if (errno == EAGAIN)
		in->full = true; /* the program has made its pipe smaller */
	else if (errno != EINTR)
		abandon_input(in);

	return (false);
}

/* Pass on the queue's first piece. Returns whether the queue had a piece. */
static bool pass_queued(struct input *in)
{
	char bytes[PIPE_BUF];
	const size_t want = queued_bytes(in) < PIPE_BUF ? (size_t)queued_bytes(in) : PIPE_BUF;
	const ssize_t n = want > 0 ? pread(in->queue, bytes, want, in->at) : 0;

	if (n <= 0 || !write_piece(in, bytes, (size_t)n))
		return (false);
	in->at += n;
	if (in->at == in->end && ftruncate(in->queue, 0) == 0)
		in->at = in->end = in->freed = 0;
	lseek(in->queue, in->at, SEEK_SET);

	return (true);
}

/*
 * Pass on input of slurmstepd. Returns whether there was any. splice moves bytes from pipe to pipe, so that none are
 * lost if this process is killed.
 */
static bool pass_new(struct input *in)
{
	ssize_t n;

	if (in->from < 0 || !events_at(in->from, POLLIN))
		return (false);
	n = splice(in->from, NULL, in->to, NULL, PIECE, SPLICE_F_NONBLOCK);
	if (n == 0)
		close_end(&in->from);
	else if (n < 0 && errno == EPIPE)
		abandon_input(in);
	else if (n < 0 && errno == EAGAIN)
		in->full = true; /* the program has made its pipe smaller */
	else if (n < 0 && errno != EINTR)
		close_end(&in->from);

	return (n > 0);
}

/*
 * Put input of slurmstepd into the queue, or drop it if the program has closed its input. Bytes that the queue does not
 * take stay in slurmstepd's pipe.
 */
static void queue_new(struct input *in)
{
	ssize_t n;

	if (!may_queue(in) || !events_at(in->from, POLLIN))
		return;
	if (in->to < 0 || in->over) {
		char bytes[PIPE_BUF];

		read_piece(in, bytes);
		return;
	}
	n = splice(in->from, NULL, in->queue, &in->end, (size_t)queue_room(in), SPLICE_F_NONBLOCK);
	if (n == 0)
		close_end(&in->from);
	else if (n < 0 && errno != EINTR && errno != EAGAIN)
		in->stuck = true; /* no memory, or a limit of the user: the checkpoint fails and names the pipe */
}

void pass_input(struct input *in)
{
	if (in->queue < 0 || in->held)
		return;
	/* Only a few pieces, so that this process reads init's messages in time. */
	for (int pieces = 0; pieces < 16 && in->to >= 0; ++pieces) {
		const short events = events_at(in->to, POLLOUT);

		if (events & POLLERR) {
			abandon_input(in);
			break;
		}
		in->full = !(events & POLLOUT);
		if (in->full || (queued_bytes(in) == 0 && in->over) || !(queued_bytes(in) > 0 ? pass_queued(in) : pass_new(in)))
			break;
	}
	queue_new(in);
	/* The program sees the end of its input. The queue stays open: by it, proxyd knows that the input has ended. */
	if ((in->from < 0 || in->over) && queued_bytes(in) == 0)
		close_end(&in->to);
}
