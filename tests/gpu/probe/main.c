// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * Answers questions about a GPU and its driver that decide how ranks share a device: probe [QUESTION…]. Each question
 * has a process of its own, with a time limit, for a fault or a hang ends all that the process does with the device.
 * Each answer is a line with tabs: question, name, value, unit. The exit status is 1 if a question could not be
 * answered; the line "E1 cannot WHY" says why.
 */
#include "probe.h"

#include <errno.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *question;

enum { LIMIT = 60 }; /* seconds for each question */

static const struct {
	const char *name;
	void (*run)(void);
	const char *asks;
} questions[] = {
	{ "E1", protect, "memory that is mapped for reading only: accepted, does a write fault, what does a change cost" },
	{ "E2", mapping, "what map, access and unmap cost, by size, and for many handles by one call" },
	{ "E3", alias, "one memory at two addresses" },
	{ "E4", contexts, "two contexts of a process that take turns, against two streams of one context" },
	{ "E5", footprint, "memory of a further context, and of a module" },
	{ "E6", hashing, "speed of a keyed hash of 128 bits over device memory" },
	{ "E7", copies, "speed of copies, pinned and pageable, and in both directions at once" },
	{ "E8", collectives, "NCCL on memory of cuMemCreate, two communicators, what a wait of the host costs" },
	{ "E10", checkpoint, "the driver's own checkpoint of another process (E9 is asked of PyTorch)" },
};

enum { QUESTIONS = sizeof(questions) / sizeof(*questions) };

void answer(const char *name, double value, const char *unit)
{
	printf("%s\t%s\t%.4g\t%s\n", question, name, value, unit);
	fflush(stdout);
}

void answer_text(const char *name, const char *text)
{
	printf("%s\t%s\t%s\t\n", question, name, text);
	fflush(stdout);
}

void cannot(const char *why)
{
	answer_text("cannot", why);
	_exit(1);
}

const char *name_of(CUresult r)
{
	const char *name;

	return (cuGetErrorName(r, &name) == CUDA_SUCCESS ? name : "an unknown result");
}

void cannot_call(const char *call, CUresult r)
{
	char why[300];

	snprintf(why, sizeof(why), "%s: %s (%d)", call, name_of(r), (int)r);
	cannot(why);
}

double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3);
}

static void print_usage(FILE *to)
{
	fprintf(to, "usage: probe [QUESTION...]\n\nAnswers questions about the first GPU and its driver, each in a process of its own:\n\n");
	for (int i = 0; i < QUESTIONS; ++i)
		fprintf(to, "  %-4s %s\n", questions[i].name, questions[i].asks);
	fprintf(to, "\nLines are: question, name, value, unit. Exit status: 0, 1 if a question could not be answered, 2 for wrong use.\n");
}

static int ask_question(int i)
{
	const pid_t child = fork();
	int status;

	if (child < 0) {
		perror("probe: fork");
		return (1);
	}
	question = questions[i].name;
	if (child == 0) {
		alarm(LIMIT);
		questions[i].run();
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		answer_text("cannot", WTERMSIG(status) == SIGALRM ? "it did not end within 60 s" : strsignal(WTERMSIG(status)));
	return (status != 0);
}

int main(int argc, char **argv)
{
	const char *why;
	int bad = 0;

	for (int k = 1; k < argc; ++k) {
		int i = 0;

		if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0) {
			print_usage(stdout);
			return (0);
		}
		while (i < QUESTIONS && strcmp(argv[k], questions[i].name) != 0)
			++i;
		if (i == QUESTIONS) {
			fprintf(stderr, "probe: %s is no question\n", argv[k]);
			print_usage(stderr);
			return (2);
		}
	}
	why = load_driver();
	if (why) {
		fprintf(stderr, "probe: no driver: %s\n", why);
		return (1);
	}
	for (int i = 0; i < QUESTIONS; ++i) {
		bool wanted = argc == 1;

		for (int k = 1; k < argc; ++k)
			wanted |= strcmp(argv[k], questions[i].name) == 0;
		if (wanted)
			bad |= ask_question(i);
	}
	return (bad);
}
