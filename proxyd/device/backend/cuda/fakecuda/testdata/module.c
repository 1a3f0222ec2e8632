// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

#include "fake.h"

#include <ctype.h>
#include <sys/mman.h>

static int bytes_of(const char *type)
{
	while (*type && !isdigit((unsigned char)*type))
		++type;
	return (atoi(type) / 8);
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
	f->run = kernel_named(f->name);
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

/* A real driver puts variables into addresses that it has reserved for the context. */
static unsigned char *place_variables(CUcontext c)
{
	const size_t n = 4096;
	unsigned char *const at = c->code + c->used;

	c->used += n;
	if (!c->code || c->used > CONTEXT_SIZE || mprotect(at, n, PROT_READ | PROT_WRITE))
		abort();
	memset(at, 0, n);
	return (at);
}

void end_module(CUmodule m)
{
	free(fake_count(m, MODULES, -1));
}

CUresult cuModuleLoadDataEx(CUmodule *module, void *image, unsigned int n, void *options, void *values)
{
	char *log = NULL;
	size_t room = 0;
	CUmodule m;
	CUresult r;
	uint32_t magic, arch;
	bool machine;

	CALL(" %u options", n);
	CONTEXT(c);
	for (unsigned int i = 0; i < n; ++i) {
		if (((int *)options)[i] == 5)
			log = ((void **)values)[i];
		if (((int *)options)[i] == 6)
			room = ((size_t *)values)[i];
	}
	memcpy(&magic, image, 4);
	machine = magic == 0x464C457F;
	if (machine && ((unsigned char *)image)[18] != 190) /* e_machine of CUDA's code */
		return (INVALID_IMAGE);
	if (magic == 0xBA55ED50) {
		memcpy(&arch, (char *)image + 16 + 28, 4);
		if (arch > 80)
			return (NO_BINARY);
		image = (char *)image + 16 + 64;
	}
	m = fake_count(calloc(1, sizeof(*m)), MODULES, 1);
	m->id = fake_number(MODULES);
	m->ctx = c;
	pthread_mutex_lock(&big);
	m->bytes = place_variables(c);
	pthread_mutex_unlock(&big);
	r = machine ? OK : take_text(m, image, log, room); /* the functions of machine code cannot be found here */
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
		if (strcmp((*function)->name, name))
			continue;
		(*function)->loaded = true;
		return (OK);
	}
	return (NOT_FOUND);
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int n, CUmodule module)
{
	CALL(" %u of module %d", n, module->id);
	for (unsigned int i = 0; i < n && i < (unsigned int)module->nfunctions; ++i)
		functions[i] = &module->functions[i];
	return (OK);
}

CUresult cuFuncIsLoaded(int *state, CUfunction f)
{
	CALL(" of %s", f->name);
	*state = f->loaded || loads_whole();
	return (OK);
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
		*value = 80;
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

CUresult launch(CUfunction f, const unsigned int *grid, const unsigned int *block, CUstream stream, void *params)
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
