// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "record_change.h"

#include <errno.h>
#include <fcntl.h>

static const struct span none = { .n = 0 };

/* A record that a file was written also covers that the file was appended to. */
static bool is_known(enum act act, uint64_t key, struct span path, struct span other)
{
	switch (act) {
	case ACT_APPENDED:
		return (recorded_has(key) || recorded_has(recorded_key(ACT_WRITTEN, path, none)));
	case ACT_RENAMED:
		/*
		 * The same two names again (a file that is replaced by rename all the time) need no
		 * second record, but only for files: when a folder gets a name again, the folder
		 * may contain other files than before. A path that was written is a file.
		 */
		return (recorded_has(key) && recorded_has(recorded_key(ACT_WRITTEN, other, none)));
	case ACT_REMOVED:
		/*
		 * If this process has not written the path since, another process has made the file
		 * that is there now.
		 */
		return (recorded_has(key) && recorded_has(recorded_key(ACT_WRITTEN, path, none)));
	case ACT_LINKED:
	case ACT_FOLDER:
	case ACT_SYMLINKED:
	case ACT_WRITTEN:
		break;
	}
	return (recorded_has(key));
}

static void release_paths(struct note *n)
{
	absolute_path_give_back(&n->path);
	absolute_path_give_back(&n->other);
	n->on = false;
}

static void begin_note(struct note *n, enum act act)
{
	n->key = recorded_key(act, n->path.path, n->other.path);
	if (is_known(act, n->key, n->path.path, n->other.path)) {
		release_paths(n);
		return;
	}
	n->on = true;
	n->record = list_begin(SING_UNSURE, n->path.path, n->other.path);
}

/* Only for a relative path: to look for an absolute path itself is as fast. */
bool note_is_known(enum act act, int dirfd, const char *path)
{
	return (list_is_open() && dirfd == AT_FDCWD && path && path[0] && path[0] != '/' &&
		recorded_is_given(recorded_given(act, directory_moves(), path)));
}

void note_begin(struct note *n, enum act act, int dirfd, const char *path)
{
	const int e = errno;
	uint64_t moves;

	*n = (struct note){ .on = false };
	if (!list_is_open())
		return;
	if (absolute_path_find(&n->path, dirfd, path)) {
		moves = dirfd == AT_FDCWD ? directory_moves_of(&n->path) : 0;
		begin_note(n, act);
		if (!n->on && moves)
			recorded_note(recorded_given(act, moves, path), n->key);
	} else {
		release_paths(n);
	}
	errno = e;
}

void note_begin_pair(struct note *n, enum act act, int dirfd, const char *path, int otherfd, const char *other)
{
	const int e = errno;

	*n = (struct note){ .on = false };
	if (!list_is_open())
		return;
	if (!absolute_path_find(&n->other, otherfd, other)) {
		absolute_path_give_back(&n->other);
		n->other = (struct absolute_path){ .buffer = NULL };
	}
	if (absolute_path_find(&n->path, dirfd, path))
		begin_note(n, act);
	else
		release_paths(n);
	errno = e;
}

/*
 * Forget a name that is gone. If the name is used again, that must be recorded again: by this
 * process, and by other processes, if another process wrote the file or the name was a folder's,
 * with files of many processes below.
 */
static void forget_name(struct span gone)
{
	const uint64_t key = recorded_key(ACT_WRITTEN, gone, none);

	if (recorded_has(key))
		recorded_drop(key);
	else
		list_forget();
}

void note_done(struct note *n, enum sing_kind kind, uint64_t number)
{
	if (!n->on)
		return;
	if (n->record)
		list_done(n->record, kind, number);
	if (kind == SING_REMOVED)
		forget_name(n->path.path);
	else if (kind == SING_RENAMED || kind == SING_REPLACED || kind == SING_EXCHANGED)
		forget_name(n->other.path);
	recorded_add(n->key);
	release_paths(n);
}

void note_failed(struct note *n)
{
	if (!n->on)
		return;
	if (n->record)
		list_failed(n->record);
	release_paths(n);
}

void note_done_behind(struct note *n, enum act act, enum sing_kind kind, uint64_t number, int fd)
{
	const uint64_t key = n->key;
	struct note behind = { .on = false };

	if (!n->on)
		return;
	note_failed(n);
	if (absolute_path_find_open(&behind.path, fd))
		begin_note(&behind, act);
	else
		release_paths(&behind);
	note_done(&behind, kind, number);
	recorded_add(key);
}

void note_now(enum act act, enum sing_kind kind, int dirfd, const char *path)
{
	struct note n;

	note_begin(&n, act, dirfd, path);
	note_done(&n, kind, 0);
}
