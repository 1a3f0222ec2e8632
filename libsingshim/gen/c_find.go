// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// pool is a C string of many texts; equal texts are there once.
type pool struct {
	at   map[string]int
	all  []string
	size int
}

func (p *pool) add(s string) int {
	if at, ok := p.at[s]; ok {
		return at
	}
	if p.at == nil {
		p.at = map[string]int{}
	}
	p.at[s] = p.size
	p.all = append(p.all, s)
	p.size += len(s) + 1
	return p.at[s]
}

func (p *pool) write(w *text, name string) {
	w.line("const char %s[] =", name)
	for _, s := range p.all {
		w.line("\t%q \"\\0\"", s)
	}
	w.line("\t\"\";")
}

// cFind is gen_find.c: the tables behind find.h.
func cFind(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("#include \"find.h\"")
	w.line("")
	symbols := t.Symbols()
	index := map[string]int{}
	var names pool
	for i, e := range symbols {
		index[e.Symbol] = i
		names.add(e.Symbol)
	}
	for _, e := range t.Entries() {
		names.add(e.Name)
	}
	names.write(w, "sing_names")
	w.line("")
	w.line("const unsigned sing_symbol_count = %d;", len(symbols))
	w.line("const uint32_t sing_symbols[] = {")
	for _, e := range symbols {
		w.line("\t%d, /* %s */", names.add(e.Symbol), e.Symbol)
	}
	w.line("};")
	w.line("")
	w.line("const unsigned sing_key_count = %d;", len(t.Entries()))
	w.line("const struct sing_key sing_keys[] = {")
	for _, e := range t.Entries() {
		thread := 0
		if e.PerThread {
			thread = 1
		}
		w.line("\t{ %d, %d, %d, %d }, /* %s */", index[e.Symbol], thread, names.add(e.Name), e.Version, e.Symbol)
	}
	w.line("};")
	w.line("")
	w.line("/* Differences, which the linker knows: pointers would be relocated in every process. */")
	w.line("__asm__(\".pushsection .rodata\\n.balign 4\\n.globl sing_offsets\\n.hidden sing_offsets\\nsing_offsets:\\n\"")
	for _, e := range symbols {
		w.line("\t\".long sing_%s - sing_offsets\\n\"", e.Symbol)
	}
	w.line("\t\".popsection\");")
	return w.Bytes()
}

// uncoveredReason says in the log why a call is not covered.
func uncoveredReason(t *api.Table, c *api.Call) string {
	switch c.Kind {
	case api.Same:
		return uncoveredReason(t, t.Call(c.Via[0]))
	case api.Refused:
		return c.Reason
	}
	return "not yet"
}

// cMissed is gen_missed.c: a function for each symbol that is not covered.
func cMissed(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("/* Arguments are never looked at, so these have none. */")
	w.line("#include \"missed.h\"")
	w.line("")
	w.line("#define EXPORT(name) extern __typeof__(sing_##name) name __attribute__((alias(\"sing_\" #name), visibility(\"default\")))")
	w.line("#define MISS(name, i)    int sing_##name(void); int sing_##name(void) { return sing_miss(i); } EXPORT(name)")
	w.line("#define MISS_TEXT(name, i) const char *sing_##name(void); const char *sing_##name(void) { (void)sing_miss(i); return \"not supported\"; } EXPORT(name)")
	w.line("#define MISS_VOID(name, i) void sing_##name(void); void sing_##name(void) { (void)sing_miss(i); } EXPORT(name)")
	w.line("")
	var texts pool
	var rows []string
	for _, e := range t.Symbols() {
		if !isMissed(t, e.Call) {
			continue
		}
		macro := map[string]string{"": "MISS", "string": "MISS_TEXT", "void": "MISS_VOID"}[e.Call.Returns]
		w.line("%s(%s, %d);", macro, e.Symbol, len(rows))
		rows = append(rows, fmt.Sprintf("\t{ %d, %d, %d },", texts.add(e.Symbol), texts.add(uncoveredReason(t, e.Call)), failing[e.Call.Area.Lib].unsupported))
	}
	w.line("")
	texts.write(w, "sing_misses_text")
	w.line("")
	w.line("const struct sing_miss sing_misses[] = {")
	for _, row := range rows {
		w.line("%s", row)
	}
	w.line("};")
	w.line("unsigned char sing_misses_said[%d];", len(rows))
	return w.Bytes()
}

// cResults is gen_results.c: the names and texts of results.
func cResults(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("#include \"results.h\"")
	w.line("")
	var texts pool
	var rows []string
	for _, r := range t.Results {
		rows = append(rows, fmt.Sprintf("\t{ %s, %d, %d, %d },", libraries[r.Lib], r.Number, texts.add(r.Name), texts.add(r.Text)))
	}
	texts.write(w, "sing_result_texts")
	w.line("")
	w.line("const unsigned sing_result_count = %d;", len(rows))
	w.line("const struct sing_result sing_results[] = {")
	for _, row := range rows {
		w.line("%s", row)
	}
	w.line("};")
	return w.Bytes()
}
