// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "capsule.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "root_changer.h"
#include "signals.h"

/*
 * The namespaces of a capsule: mount, network, UTS, IPC, PID, and time where the kernel
 * has time namespaces.
 */
enum { MIN_NAMESPACES = 5, MAX_NAMESPACES = 6 };

/*
 * A high number, so that it does not take the place of a descriptor of the task: the warden closes
 * the descriptor before it starts the program.
 */
enum { PROC_FD = 700 };

__attribute__((format(printf, 2, 3))) static void refuse_task(struct fate *fate, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(fate->why, sizeof(fate->why), format, args);
	va_end(args);
	fate->kind = REFUSED;
}

static bool is_name(const char *s)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
	const size_t n = strlen(s);

	return (n > 0 && n < NAME_SIZE && strspn(s, allowed) == n);
}

/*
 * A descriptor of the node's /proc: in the capsule's /proc, this process has no folder. Without the
 * descriptor the warden cannot open the task's files again.
 */
static int open_proc(void)
{
	const int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int high;

	if (fd < 0)
		return (-1);
	high = fcntl(fd, F_DUPFD, PROC_FD);
	close(fd);

	return (high);
}

/* Join the namespaces in the order in which proxyd sent them: mount first, PID last. */
static void join_namespaces(struct fate *fate)
{
	const struct reply *reply = &fate->reply;
	const char *root = message_get(&reply->message, SING_KEY_ROOT);
	char cwd[PATH_MAX];

	if (reply->n_fds < MIN_NAMESPACES || reply->n_fds > MAX_NAMESPACES) {
		refuse_task(fate, "proxyd sent %zu namespaces", reply->n_fds);
		return;
	}
	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = '\0';
	fate->proc_fd = open_proc();
	for (size_t i = 0; i < reply->n_fds; ++i) {
		if (setns(reply->fds[i], 0)) {
			refuse_task(fate, "the capsule's namespace %zu of %zu cannot be joined: %s", i + 1, reply->n_fds,
				    strerror(errno));
			return;
		}
	}
	/*
	 * Joining a mount namespace leads to its root. Slurm goes back to the working
	 * directory as the user, but not in steps without an allocation. If root may not enter that
	 * folder, Slurm goes there later.
	 */
	if (cwd[0] && chdir(cwd))
		cwd[0] = '\0';
	fate->root_fd = -1;
	if (root && *root) {
		fate->root_fd = root_changer_start(root);
		if (fate->root_fd < 0) {
			refuse_task(fate, "the root of the container cannot be opened: %s", strerror(errno));
			return;
		}
	}
	fate->kind = JOINED;
}

static void enter_capsule(struct fate *fate, const char *mode)
{
	const char *name = message_get(&fate->reply.message, SING_KEY_NAME);

	if (!name || !is_name(name)) {
		refuse_task(fate, "proxyd gave the task no name: %.100s", name ? name : "");
		return;
	}
	memcpy(fate->name, name, strlen(name) + 1);
	fate->restore = strcmp(mode, SING_MODE_RESTORE) == 0;
	join_namespaces(fate);
}

static void finish_task(struct fate *fate)
{
	const char *text = message_get(&fate->reply.message, SING_KEY_STATUS);
	char *end;
	long status;

	errno = 0;
	status = text ? strtol(text, &end, 10) : -1;
	if (errno || status < 0 || status > 0xffff || *end || !(WIFEXITED(status) || WIFSIGNALED(status))) {
		refuse_task(fate, "proxyd knows of no status with which this task ended: %.100s", text ? text : "");
		return;
	}
	fate->status = (int)status;
	fate->kind = FINISHED;
}

/* Carry out proxyd's answer. */
static void obey_reply(const struct config *c, struct fate *fate)
{
	const struct message *m = &fate->reply.message;
	const char *mode = message_get(m, SING_KEY_MODE);
	const char *reason = message_get(m, SING_KEY_REASON);

	if (strcmp(message_verb(m), SING_NO) == 0) {
		refuse_task(fate, "%s", reason ? reason : "proxyd refuses this task and gives no reason");
		return;
	}
	if (!mode)
		mode = "";
	if (strcmp(mode, SING_MODE_FRESH) == 0 || strcmp(mode, SING_MODE_RESTORE) == 0) {
		enter_capsule(fate, mode);
	} else if (strcmp(mode, SING_MODE_FINISHED) == 0) {
		finish_task(fate);
	} else if (strcmp(mode, SING_MODE_PLAIN) == 0) {
		snprintf(fate->why, sizeof(fate->why), "%s", reason ? reason : "");
	} else {
		refuse_task(fate, "proxyd is of another version than this plugin: mode %.100s", mode);
		if (c->run_unprotected)
			fate->kind = PLAIN;
	}
}

void capsule_enter(const struct config *c, const struct message *request, struct fate *fate)
{
	const char *step = message_get(request, SING_KEY_STEP);
	struct saved_signals saved;
	int sigterm;
	int rv;

	fate->kind = PLAIN;
	fate->proc_fd = -1;
	fate->root_fd = -1;
	fate->restore = false;
	fate->why[0] = '\0';
	sigterm = signals_accept_fatal(&saved, step && strcmp(step, SING_STEP_BATCH) != 0);
	rv = proxyd_ask(c->socket, c->retry, 0, sigterm, request, &fate->reply, fate->why);
	if (sigterm >= 0)
		close(sigterm);
	fate->terminated = signals_restore(&saved);
	if (rv)
		fate->kind = c->run_unprotected ? PLAIN : REFUSED;
	else
		obey_reply(c, fate);
	reply_close(&fate->reply);
}
