// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

/*
 * A libnvrtc that treats options as NVRTC 12.4 does, and "compiles" to the name of the architecture that the caller
 * asked for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct nvrtc_program {
	char ptx[64], cubin[64];
};

static const int known[] = { 52, 80, 90, 89 };

EXPORT int nvrtcGetNumSupportedArchs(int *n)
{
	*n = sizeof(known) / sizeof(known[0]);
	return 0;
}

EXPORT int nvrtcGetSupportedArchs(int *to)
{
	memcpy(to, known, sizeof(known));
	return 0;
}

EXPORT int nvrtcCreateProgram(struct nvrtc_program **p)
{
	*p = calloc(1, sizeof(**p));
	return *p == NULL;
}

EXPORT int nvrtcCompileProgram(struct nvrtc_program *p, int n, const char *const *options)
{
	const char *value = "compute_52";
	int is_known = 0;

	p->ptx[0] = p->cubin[0] = 0;
	for (int i = 0; i < n; ++i) {
		if (strncmp(options[i], "--gpu-architecture=", 19) == 0)
			value = options[i] + 19;
		else if (strncmp(options[i], "-arch=", 6) == 0)
			value = options[i] + 6;
		else if (strcmp(options[i], "-arch") == 0 && i + 1 < n)
			value = options[++i];
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i)
		is_known |= atoi(strchr(value, '_') + 1) == known[i];
	if (!is_known)
		return 5;
	snprintf(p->ptx, sizeof(p->ptx), "PTX of %s", value);
	if (strncmp(value, "sm_", 3) == 0)
		snprintf(p->cubin, sizeof(p->cubin), "machine code of %s", value);
	return 0;
}

EXPORT int nvrtcGetPTXSize(struct nvrtc_program *p, size_t *n)
{
	*n = strlen(p->ptx) + 1;
	return 0;
}

EXPORT int nvrtcGetPTX(struct nvrtc_program *p, char *to)
{
	strcpy(to, p->ptx);
	return 0;
}

EXPORT int nvrtcGetCUBINSize(struct nvrtc_program *p, size_t *n)
{
	*n = p->cubin[0] == 0 ? 0 : strlen(p->cubin) + 1;
	return 0;
}

EXPORT int nvrtcGetCUBIN(struct nvrtc_program *p, char *to)
{
	if (p->cubin[0] != 0)
		strcpy(to, p->cubin);
	return 0;
}
