// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkKernels links a module and compiles its kernels, all of which may fail with our errors only.
func checkKernels(t *testing.T, m *Module) {
	t.Helper()
	p, err := Link(m)
	if err != nil {
		failOnUnknown(t, err)
		return
	}
	if p.Size() > 1<<24 {
		return
	}
	if _, err := p.Place(testGlobals &^ (p.Align() - 1)); err != nil {
		failOnUnknown(t, err)
		return
	}
	for _, err := range p.Check() {
		failOnUnknown(t, err)
	}
}

// compareWithLater checks that parsing the bodies of a text later gives the same variables and kernels as whole, the
// module that Parse has made of the text.
func compareWithLater(t *testing.T, whole *Module, text string) {
	t.Helper()
	later, err := ParseDeclarations(whole.Name, text)
	if err != nil {
		t.Fatalf("Parse takes the text, ParseDeclarations does not: %v", err)
	}
	a, errA := Link(whole)
	b, errB := Link(later)
	if (errA == nil) != (errB == nil) {
		t.Fatalf("linked whole: %v; with bodies parsed later: %v", errA, errB)
	}
	if errA != nil {
		return
	}
	if a.Size() != b.Size() || a.Align() != b.Align() || !slices.Equal(a.Globals(), b.Globals()) || !slices.Equal(a.Kernels(), b.Kernels()) {
		t.Fatalf("other declarations: %v and %v, %v and %v", a.Globals(), b.Globals(), a.Kernels(), b.Kernels())
	}
	if a.Size() > 1<<24 {
		return
	}
	for _, p := range []*Program{a, b} {
		if _, err := p.Place(testGlobals &^ (p.Align() - 1)); err != nil {
			return
		}
	}
	for _, name := range a.Kernels() {
		k, errK := a.Kernel(name)
		l, errL := b.Kernel(name)
		switch {
		case (errK == nil) != (errL == nil) || errK != nil && errK.Error() != errL.Error():
			t.Errorf("%s: whole: %v; parsed later: %v", name, errK, errL)
		case errK == nil && (k.Registers != l.Registers || k.SharedSize != l.SharedSize || k.LocalSize != l.LocalSize ||
			k.Line != l.Line || k.Ordered != l.Ordered || len(k.main.insts) != len(l.main.insts)):
			t.Errorf("%s: whole: %+v; parsed later: %+v", name, k, l)
		}
	}
}

// TestLaterAsWhole: it makes no difference for a text without errors when bodies are parsed.
func TestLaterAsWhole(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.ptx")
	texts := map[string]string{
		"braces in comments": header + ".entry k() { // }\n /* } \n } */ { .reg .b32 %r<2>; mov.u32 %r1, 1; } ret; }\n.entry l() { ret; }",
		"braces in strings":  header + ".entry k() { .pragma \"}\"; ret; }\n.entry l() { ret; }",
		"variable in a body": header + ".entry k() { .global .align 8 .u64 hidden = 7; .reg .b64 %a; mov.u64 %a, hidden; ret; }\n.global .u32 seen = 3;",
		"function": header + ".func (.reg .b32 %o) f (.reg .b32 %i) { add.u32 %o, %i, 1; ret; }\n" +
			".entry k() { .reg .b32 %r<3>; mov.u32 %r1, 4; call (%r2), f, (%r1); ret; }",
		"declared first": header + ".entry k();\n.func f();\n.entry k() { call f; ret; }\n.func f() { ret; }",
		"vectors": header + ".entry k(.param .u64 p) { .reg .b64 %a; .reg .b32 %r<4>; ld.param.u64 %a, [p];" +
			" ld.global.v2.u32 {%r1, %r2}, [%a]; st.global.v2.u32 [%a], {%r2, %r1}; ret; }",
	}
	for _, name := range files {
		texts[name] = readFile(t, filepath.Base(name))
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			m, err := Parse("whole", text)
			if err != nil {
				t.Fatal(err)
			}
			compareWithLater(t, m, text)
		})
	}
}

// TestErrorOfOneBody: an error in a body is reported for the kernels that reach the body, with its line, each time that
// they are asked for, and leaves the other bodies alone.
func TestErrorOfOneBody(t *testing.T) {
	text := header + ".func f() {\n nonsense !;\n ret; }\n.entry bad() { call f; ret; }\n.entry good() { ret; }\n.entry worse() {\n ( ; }"
	lineOf := func(what string) int {
		before, _, _ := strings.Cut(text, what)
		return 1 + strings.Count(before, "\n")
	}
	m, err := ParseDeclarations("later", text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Link(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Place(testGlobals); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for name, line := range map[string]int{"bad": lineOf("nonsense"), "worse": lineOf("( ;")} {
			_, err := p.Kernel(name)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Line != line {
				t.Errorf("%s: %v, should be a syntax error of line %d", name, err, line)
			}
		}
		if _, err := p.Kernel("good"); err != nil {
			t.Errorf("good: %v", err)
		}
	}
}

// TestUnendedBody: an error of the braces is reported at once.
func TestUnendedBody(t *testing.T) {
	for _, text := range []string{".entry k() {", ".entry k() { /* }", ".entry k() { .pragma \"}", ".entry k() { { ret; }", ".entry k() { } }"} {
		if _, err := ParseDeclarations("later", header+text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
