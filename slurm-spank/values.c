// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "values.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
enum { MIN_INTERVAL = 10, MAX_INTERVAL = 365 * DAY };
enum { MAX_GPUS = 65535, MAX_JOB = 0x7fffffff };
enum { MIN_PORT = 1024, MAX_PORT = 65535, MAX_PORTS = 16 };

/*
 * Read a number that begins at *text and move *text behind the number. Long numbers are
 * refused like texts that are no number; no value needs more than nine digits.
 */
static bool read_number(const char **text, long *n)
{
	size_t digits = 0;

	*n = 0;
	while (**text >= '0' && **text <= '9') {
		if (++digits > 9)
			return (false);
		*n = *n * 10 + (*(*text)++ - '0');
	}

	return (digits > 0);
}

static long seconds_of_unit(char c)
{
	switch (c) {
	case 's':
		return (1);
	case 'm':
		return (MINUTE);
	case 'h':
		return (HOUR);
	case 'd':
		return (DAY);
	default:
		return (0);
	}
}

/* Slurm's forms, and a number with its unit. Returns seconds, or -1. */
static long parse_time(const char *text)
{
	long parts[3] = { 0 };
	long days = 0;
	bool with_days = false;
	size_t n;

	if (!read_number(&text, &parts[0]))
		return (-1);
	if (seconds_of_unit(*text))
		return (text[1] ? -1 : parts[0] * seconds_of_unit(*text));
	if (*text == '-') {
		with_days = true;
		days = parts[0];
		++text;
		if (!read_number(&text, &parts[0]) || parts[0] > 23)
			return (-1);
	}
	for (n = 1; *text == ':' && n < 3; ++n) {
		++text;
		if (!read_number(&text, &parts[n]) || parts[n] > 59)
			return (-1);
	}
	if (*text)
		return (-1);
	if (with_days || n == 3)
		return (days * DAY + parts[0] * HOUR + parts[1] * MINUTE + parts[2]);

	return (parts[0] * MINUTE + parts[1]);
}

const char *value_time(const char *text, char out[VALUE_SIZE])
{
	const long seconds = parse_time(text);

	if (seconds < 0)
		return ("not a time");
	if (seconds < MIN_INTERVAL)
		return ("shorter than 10 seconds");
	if (seconds > MAX_INTERVAL)
		return ("longer than a year");
	snprintf(out, VALUE_SIZE, "%ld", seconds);

	return (NULL);
}

const char *value_gpus(const char *text, char out[VALUE_SIZE])
{
	long min, max;

	if (!read_number(&text, &min))
		return ("not a number of GPUs");
	max = min;
	if (*text == '-') {
		++text;
		if (!read_number(&text, &max))
			return ("not a range of numbers");
	}
	if (*text)
		return ("not a range of numbers");
	if (min < 1 || max > MAX_GPUS)
		return ("out of range");
	if (min > max)
		return ("the minimum is above the maximum");
	snprintf(out, VALUE_SIZE, "%ld-%ld", min, max);

	return (NULL);
}

const char *value_job(const char *text, char out[VALUE_SIZE])
{
	long job;

	if (!read_number(&text, &job) || *text || job < 1 || job > MAX_JOB)
		return ("not the number of a job");
	snprintf(out, VALUE_SIZE, "%ld", job);

	return (NULL);
}

const char *value_on_failure(const char *text, char out[VALUE_SIZE])
{
	if (strcmp(text, "hold") != 0 && strcmp(text, "restart") != 0)
		return ("neither of the two");
	snprintf(out, VALUE_SIZE, "%s", text);

	return (NULL);
}

const char *value_outside(const char *text, char out[VALUE_SIZE])
{
	if (strcmp(text, "reset") != 0 && strcmp(text, "relay") != 0 && strcmp(text, "refuse") != 0)
		return ("none of the three");
	snprintf(out, VALUE_SIZE, "%s", text);

	return (NULL);
}

const char *value_ports(const char *text, char out[VALUE_SIZE])
{
	const char *at = text;
	long ports[MAX_PORTS];
	size_t n = 0;

	for (;; ++at) {
		long port;

		if (!read_number(&at, &port) || (*at && *at != ','))
			return ("not a list of ports");
		if (port < MIN_PORT || port > MAX_PORT)
			return ("out of range");
		for (size_t i = 0; i < n; ++i) {
			if (ports[i] == port)
				return ("a port is given twice");
		}
		if (n == MAX_PORTS)
			return ("too many");
		ports[n++] = port;
		if (!*at)
			break;
	}
	out[0] = '\0';
	for (size_t i = 0; i < n; ++i)
		snprintf(out + strlen(out), VALUE_SIZE - strlen(out), "%s%ld", i ? "," : "", ports[i]);

	return (NULL);
}

const char *value_exact(const char *text, char out[VALUE_SIZE])
{
	if (*text && strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
		return ("neither yes nor no");
	snprintf(out, VALUE_SIZE, "%s", *text ? text : "yes");

	return (NULL);
}

const char *value_paths(const char *text, char out[VALUE_SIZE])
{
	const char *at = text;

	if (strlen(text) >= VALUE_SIZE)
		return ("longer than 4095 bytes");
	for (;;) {
		const size_t n = strcspn(at, ",");

		if (n == 0)
			return ("an empty path");
		if (*at != '/')
			return ("a relative path");
		if (strspn(at, "/") >= n)
			return ("the root holds everything");
		if (!at[n])
			break;
		at += n + 1;
	}
	memcpy(out, text, strlen(text) + 1);

	return (NULL);
}
