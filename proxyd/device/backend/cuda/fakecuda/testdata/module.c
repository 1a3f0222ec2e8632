// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <ctype.h>
#include <unistd.h>

/* The suite's kernels. What they read and write must be reached by the device. */
static unsigned int *word(struct op *o, CUcontext c, uint64_t at, int *fault)
{
	CUmodule m = o->function->module;

	if (at % 4)
		*fault = MISALIGNED;
	else if (!(at >= (uint64_t)m->bytes && at < (uint64_t)m->bytes + m->nbytes) && !device_reaches(c->device, at, 4))
		*fault = ILLEGAL_ADDRESS;
	return ((unsigned int *)at);
}

static uint64_t address(struct op *o, int i)
{
	uint64_t v;

	memcpy(&v, o->params + o->function->offsets[i], sizeof(v));
	return (v);
}

static unsigned int value(struct op *o, int i)
{
	unsigned int v;

	memcpy(&v, o->params + o->function->offsets[i], sizeof(v));
	return (v);
}

static unsigned int *variable(struct op *o, const char *name)
{
	CUmodule m = o->function->module;

	for (int i = 0; i < m->nglobals; ++i)
		if (!strcmp(m->globals[i].name, name))
			return ((unsigned int *)(m->bytes + m->globals[i].at));
	abort();
}

static int k_add(struct op *o, CUcontext c)
{
	size_t n = (size_t)o->grid[0] * o->grid[1] * o->grid[2] * o->block[0] * o->block[1] * o->block[2];
	int fault = 0;

	for (size_t i = 0; i < n; i += 512) { /* a look at each page will do */
		word(o, c, address(o, 0) + 4 * i, &fault);
		if (fault)
			return (fault);
	}
	for (size_t i = 0; i < n; ++i)
		((unsigned int *)address(o, 0))[i] += value(o, 1);
	return (0);
}

static int k_poke(struct op *o, CUcontext c)
{
	int fault = 0;
	unsigned int *p = word(o, c, address(o, 0), &fault);

	if (!fault)
		*p = value(o, 1);
	return (fault);
}

static int k_bump(struct op *o, CUcontext c)
{
	int fault = 0;
	unsigned int *p = word(o, c, address(o, 0), &fault), *counter = variable(o, "counter");

	if (!fault)
		*p = (*counter)++;
	return (fault);
}

static int k_ask(struct op *o, CUcontext c)
{
	int fault = 0;
	unsigned int *p = word(o, c, address(o, 0), &fault);

	if (!fault)
		*p = *variable(o, "answer");
	return (fault);
}

static int k_spin(struct op *o, CUcontext c)
{
	int fault = 0;
	volatile unsigned int *p = word(o, c, address(o, 0), &fault);

	while (!fault && !*p && !__atomic_load_n(&c->dead, __ATOMIC_SEQ_CST))
		usleep(50);
	return (fault);
}

static int k_stop(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (LAUNCH_FAILED);
}

static int k_claim(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (ASSERT_FAILED);
}

static int k_none(struct op *o, CUcontext c)
{
	(void)o;
	(void)c;
	return (0);
}

static const struct { const char *name; int (*run)(struct op *, CUcontext); } kernels[] = {
	{ "add", k_add }, { "poke", k_poke }, { "bump", k_bump }, { "ask", k_ask }, { "spin", k_spin }, { "stop", k_stop }, { "claim", k_claim },
};

static void complain(char *log, size_t n, const char *form, const char *name)
{
	if (log && n)
		snprintf(log, n, form, name);
}

static int bytes_of(const char *type)
{
	while (*type && !isdigit((unsigned char)*type))
		++type;
	return (atoi(type) / 8);
}

/* NAME at p, up to what no name has. */
static void take_name(char *out, size_t n, const char *p)
{
	size_t k = 0;

	while (k + 1 < n && (isalnum((unsigned char)*p) || *p == '_' || *p == '$'))
		out[k++] = *p++;
	out[k] = 0;
}

static const char *next_entry(const char *p)
{
	p = strstr(p, ".entry ");
	return (p ? p + 7 : NULL);
}

static void take_kernel(CUmodule m, const char *p)
{
	CUfunction f = &m->functions[m->nfunctions++];
	const char *end = strchr(p, '{'), *stop = strchr(p, ')'), *next = next_entry(p), *x;
	int at = 0;

	f->module = m;
	take_name(f->name, sizeof(f->name), p);
	for (x = p; (x = strstr(x, ".param .")) && x < stop; x += 8) {
		f->sizes[f->n] = bytes_of(x + 8);
		at = (at + f->sizes[f->n] - 1) / f->sizes[f->n] * f->sizes[f->n];
		f->offsets[f->n] = at;
		at += f->sizes[f->n++];
	}
	f->threads = 1024;
	if ((x = strstr(p, ".maxntid")) && x < end)
		f->threads = atoi(x + 8);
	x = strstr(p, ".shared");
	if (x && (!next || x < next) && strchr(x, '['))
		f->shared = atoi(strchr(x, '[') + 1);
	f->dynamic = 49152 - f->shared;
	f->carve = -1;
	f->run = k_none;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); ++i)
		if (!strcmp(f->name, kernels[i].name))
			f->run = kernels[i].run;
}

/* ".global .align 4 .u32 counter = 7;" or "….b32 table[4] = {1, 2, 3, 4};" */
static void take_variable(CUmodule m, const char *p)
{
	struct global *g = &m->globals[m->nglobals++];
	const char *end = strchr(p, ';'), *type = strstr(strstr(p, ".align") + 6, " ."), *name = strchr(type + 2, ' ') + 1, *x;
	int one = bytes_of(type + 2), n = 1;

	take_name(g->name, sizeof(g->name), name);
	x = strchr(name, '[');
	if (x && x < end)
		n = atoi(x + 1);
	g->at = (m->nbytes + 15) / 16 * 16;
	g->n = (size_t)one * n;
	m->nbytes = g->at + g->n;
	x = strchr(name, '=');
	for (int i = 0; x && x < end && i < n; ++i) {
		unsigned int v;

		while (x < end && !isdigit((unsigned char)*x))
			++x;
		v = strtoul(x, (char **)&x, 10);
		memcpy(m->bytes + g->at + (size_t)one * i, &v, one);
	}
}

static CUresult take_text(CUmodule m, const char *text, char *log, size_t n)
{
	char name[48];
	const char *p;

	if (!strstr(text, ".version"))
		return (INVALID_IMAGE);
	if (strstr(text, "frobnicate")) {
		complain(log, n, "ptxas: unknown instruction %s\n", "frobnicate");
		return (INVALID_PTX);
	}
	for (p = text; (p = strstr(p, ".extern .global")); ++p) {
		take_name(name, sizeof(name), strchr(strstr(strstr(p, ".align") + 6, " .") + 2, ' ') + 1);
		complain(log, n, "undefined variable %s\n", name);
		return (INVALID_PTX);
	}
	for (p = text; (p = next_entry(p));)
		take_kernel(m, p);
	for (p = text; (p = strstr(p, ".global .align")); ++p)
		take_variable(m, p);
	for (p = text; (p = strstr(p, ".const .align")); ++p)
		take_variable(m, p);
	return (OK);
}

void end_module(CUmodule m)
{
	free(m->bytes);
	free(fake_count(m, MODULES, -1));
}

CUresult cuModuleLoadDataEx(CUmodule *module, void *image, unsigned int n, void *options, void *values)
{
	char *log = NULL;
	size_t room = 0;
	CUmodule m;
	CUresult r;
	uint32_t magic, arch;

	CALL(" %u options", n);
	CONTEXT(c);
	for (unsigned int i = 0; i < n; ++i) {
		if (((int *)options)[i] == 5)
			log = ((void **)values)[i];
		if (((int *)options)[i] == 6)
			room = ((size_t *)values)[i];
	}
	memcpy(&magic, image, 4);
	if (magic == 0x464C457F)
		return (NO_BINARY);
	if (magic == 0xBA55ED50) {
		memcpy(&arch, (char *)image + 16 + 28, 4);
		if (arch > 80)
			return (NO_BINARY);
		image = (char *)image + 16 + 64;
	}
	m = fake_count(calloc(1, sizeof(*m)), MODULES, 1);
	m->id = fake_number(MODULES);
	m->ctx = c;
	m->bytes = aligned_alloc(512, 4096);
	memset(m->bytes, 0, 4096);
	r = take_text(m, image, log, room);
	if (r) {
		end_module(m);
		return (r);
	}
	pthread_mutex_lock(&big);
	m->next = c->modules;
	c->modules = m;
	pthread_mutex_unlock(&big);
	*module = m;
	return (OK);
}

CUresult cuModuleUnload(CUmodule module)
{
	ENDING(" module %d", module->id);
	CONTEXT(c);
	pthread_mutex_lock(&big);
	for (CUmodule *at = &c->modules; *at; at = &(*at)->next) {
		if (*at != module)
			continue;
		*at = module->next;
		break;
	}
	pthread_mutex_unlock(&big);
	end_module(module);
	return (told);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CALL(" %s of module %d", name, module->id);
	for (int i = 0; i < module->nfunctions; ++i) {
		*function = &module->functions[i];
		if (!strcmp((*function)->name, name))
			return (OK);
	}
	return (NOT_FOUND);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *ptr, size_t *n, CUmodule module, const char *name)
{
	CALL(" %s of module %d", name, module->id);
	for (int i = 0; i < module->nglobals; ++i) {
		*ptr = (CUdeviceptr)(module->bytes + module->globals[i].at);
		*n = module->globals[i].n;
		if (!strcmp(module->globals[i].name, name))
			return (OK);
	}
	return (NOT_FOUND);
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction f)
{
	CALL(" %d of %s", attribute, f->name);
	CONTEXT(c);
	(void)c;
	switch (attribute) {
	case 0:
		*value = f->threads;
		break;
	case 1:
		*value = f->shared;
		break;
	case 4:
		*value = 16;
		break;
	case 5:
		*value = 70;
		break;
	case 6:
		*value = 80;
		break;
	case 8:
		*value = f->dynamic;
		break;
	case 9:
		*value = f->carve;
		break;
	default:
		*value = 0;
	}
	return (OK);
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
	CALL(" %d of %s to %d", attribute, f->name, value);
	CONTEXT(c);
	(void)c;
	if (attribute == 8 && value >= 0 && value <= 166912 - f->shared)
		f->dynamic = value;
	else if (attribute == 9 && value >= -1 && value <= 100)
		f->carve = value;
	else
		return (INVALID_VALUE);
	return (OK);
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *n)
{
	CALL(" %zu of %s", index, f->name);
	if (index >= (size_t)f->n)
		return (INVALID_VALUE);
	*offset = f->offsets[index];
	*n = f->sizes[index];
	return (OK);
}

int run_launch(struct op *o, CUcontext c)
{
	return (o->function->run(o, c));
}

static void take_params(struct op *o, CUfunction f, void **params)
{
	for (int i = 0; i < f->n; ++i)
		memcpy(o->params + f->offsets[i], params[i], f->sizes[i]);
}

static CUresult launch(CUfunction f, const unsigned int *grid, const unsigned int *block, CUstream stream, void *params)
{
	struct op *o;

	CONTEXT(c);
	(void)c;
	o = new_op(run_launch);
	o->function = f;
	memcpy(o->grid, grid, sizeof(o->grid));
	memcpy(o->block, block, sizeof(o->block));
	take_params(o, f, params);
	push(stream, o);
	return (OK);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
			unsigned int shared, CUstream stream, void *params, void *extra)
{
	CALL(" %s, grid %u %u %u, block %u %u %u, shared %u, in stream %d%s", f->name, gx, gy, gz, bx, by, bz, shared, stream->id, extra ? ", extra" : "");
	return (launch(f, (unsigned int[]){ gx, gy, gz }, (unsigned int[]){ bx, by, bz }, stream, params));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
				   unsigned int bz, unsigned int shared, CUstream stream, void *params)
{
	CALL(" %s, grid %u %u %u, block %u %u %u, shared %u, in stream %d", f->name, gx, gy, gz, bx, by, bz, shared, stream->id);
	return (launch(f, (unsigned int[]){ gx, gy, gz }, (unsigned int[]){ bx, by, bz }, stream, params));
}

/* The linker: texts one behind the other, without what others define. */
struct CUlinkState_s {
	char text[65536], *log;
	size_t room;
};

CUresult cuLinkCreate_v2(unsigned int n, void *options, void *values, CUlinkState *state)
{
	CALL(" %u options", n);
	*state = calloc(1, sizeof(**state));
	for (unsigned int i = 0; i < n; ++i) {
		if (((int *)options)[i] == 5)
			(*state)->log = ((void **)values)[i];
		if (((int *)options)[i] == 6)
			(*state)->room = ((size_t *)values)[i];
	}
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
	char name[48], want[80], *p, *q, *again;

	CALL("");
	for (p = s->text; (p = strstr(p, ".extern .global")); ++p) {
		take_name(name, sizeof(name), strchr(strstr(strstr(p, ".align") + 6, " .") + 2, ' ') + 1);
		snprintf(want, sizeof(want), ".u32 %s = ", name);
		if (!strstr(s->text, want)) {
			complain(s->log, s->room, "undefined variable %s\n", name);
			return (INVALID_PTX);
		}
		for (q = p; *q != ';'; ++q)
			*q = ' ';
		*q = ' ';
	}
	p = strstr(s->text, ".visible .global");
	again = p ? strstr(p + 1, strchr(p, '=') - 8 > p ? ".visible .global .align 4 .u32 answer" : "-") : NULL;
	if (again) {
		complain(s->log, s->room, "%s is defined twice\n", "answer");
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
