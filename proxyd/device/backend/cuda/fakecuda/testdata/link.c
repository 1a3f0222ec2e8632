// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <ctype.h>

void complain(char *log, size_t n, const char *form, const char *name)
{
	if (log && n)
		snprintf(log, n, form, name);
}

/* The name at p, up to the first byte that no name can have. */
void take_name(char *out, size_t n, const char *p)
{
	size_t k = 0;

	while (k + 1 < n && (isalnum((unsigned char)*p) || *p == '_' || *p == '$'))
		out[k++] = *p++;
	out[k] = 0;
}

/* The linker: texts one behind the other, without declarations of functions that other texts define. Like the driver's, the linker reads its options only at the end. */
struct CUlinkState_s {
	char text[65536];
	unsigned int n;
	const int *options;
	void **values;
};

CUresult cuLinkCreate_v2(unsigned int n, void *options, void *values, CUlinkState *state)
{
	CALL(" %u options", n);
	*state = calloc(1, sizeof(**state));
	(*state)->n = n;
	(*state)->options = options;
	(*state)->values = values;
	return (OK);
}

CUresult cuLinkAddData_v2(CUlinkState s, int type, void *data, size_t n, const char *name, unsigned int k, void *options, void *values)
{
	CALL(" type %d, %zu bytes", type, n);
	(void)name, (void)k, (void)options, (void)values;
	if (!strstr(data, ".version"))
		return (INVALID_IMAGE);
	strncat(s->text, data, sizeof(s->text) - strlen(s->text) - 1);
	return (OK);
}

CUresult cuLinkComplete(CUlinkState s, void **image, size_t *n)
{
	char name[48], want[80], *p, *q, *again, *log = NULL;
	size_t room = 0;

	CALL("");
	for (unsigned int i = 0; i < s->n; ++i) {
		if (s->options[i] == 5)
			log = s->values[i];
		if (s->options[i] == 6)
			room = (size_t)s->values[i];
	}
	for (p = s->text; (p = strstr(p, ".extern .global")); ++p) {
		take_name(name, sizeof(name), strchr(strstr(strstr(p, ".align") + 6, " .") + 2, ' ') + 1);
		snprintf(want, sizeof(want), ".u32 %s = ", name);
		if (!strstr(s->text, want)) {
			complain(log, room, "undefined variable %s\n", name);
			return (INVALID_PTX);
		}
		for (q = p; *q != ';'; ++q)
			*q = ' ';
		*q = ' ';
	}
	p = strstr(s->text, ".visible .global");
	again = p ? strstr(p + 1, strchr(p, '=') - 8 > p ? ".visible .global .align 4 .u32 answer" : "-") : NULL;
	if (again) {
		complain(log, room, "%s is defined twice\n", "answer");
		return (INVALID_PTX);
	}
	*image = s->text;
	*n = strlen(s->text);
	return (OK);
}

CUresult cuLinkDestroy(CUlinkState s)
{
	ENDING("");
	free(s);
	return (told);
}
