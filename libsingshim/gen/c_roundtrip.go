// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// cRoundtrip is gen_roundtrip.c: a program that makes every call that goes to the server, with random arguments, and
// prints the arguments and the answers. Its other half is gen_echo_test.go.
func cRoundtrip(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("#include \"roundtrip.h\"")
	w.line("")
	w.line("#include \"gen_abi.h\"")
	w.line("#include \"transport.h\"")
	w.line("")
	w.line("#include <string.h>")
	for _, s := range t.Types {
		if s.Struct {
			w.line("")
			w.line("__attribute__((unused)) static void fill_%s(%s *s)", s.Word, s.C)
			w.line("{")
			w.line("\tmemset(s, 0, sizeof(*s));")
			for _, f := range s.Fields {
				if f.Type.Struct {
					w.line("\tfill_%s(&s->%s);", f.Type.Word, f.Name)
				} else {
					w.line("\tfill(&s->%s, sizeof(s->%s));", f.Name, f.Name)
				}
			}
			w.line("}")
		}
	}
	var calls []string
	for c := range t.Calls {
		if c.Kind == api.Same && t.Call(c.Via[0]).Generated() {
			calls = append(calls, writeAttempt(w, c, c.Symbol, "", ""))
			if c.PerThread != "" {
				calls = append(calls, writeAttempt(w, c, c.PerThreadSymbol(), "", "*"))
			}
		}
		if !c.Shipped() {
			continue
		}
		sender := "sing_send_" + c.Symbol
		if c.Kind == api.Aware || c.Message {
			calls = append(calls, writeAttempt(w, c, sender, "0", ""))
			continue
		}
		calls = append(calls, writeAttempt(w, c, c.Symbol, "", ""))
		if c.PerThread != "" {
			calls = append(calls, writeAttempt(w, c, c.PerThreadSymbol(), "", "*"))
		}
	}
	w.line("")
	w.line("void roundtrip(void)")
	w.line("{")
	for _, name := range calls {
		w.line("\t%s();", name)
	}
	w.line("}")
	return w.Bytes()
}

// countsElements tells whether a counts elements, and the word of their type.
func countsElements(c *api.Call, a api.Arg) (is bool, word string) {
	for _, other := range c.Args {
		if other.Count.Arg == a.Name {
			is, word = true, other.Type.Word
		}
	}
	return is, word
}

// arrivingSymbol is the symbol that the server sees.
func arrivingSymbol(c *api.Call) string {
	if c.Kind == api.Same {
		return c.Via[0]
	}
	return c.Symbol
}

func writeAttempt(w *text, c *api.Call, function, first, mark string) string {
	name := "try_" + function
	w.line("")
	w.line("static void %s(void)", name)
	w.line("{")
	passed := []string{}
	if first != "" {
		passed = append(passed, first)
	}
	for _, a := range c.Args {
		declareArgument(w, c, a)
		passed = append(passed, passArgument(a))
	}
	w.line("\tint r_;")
	w.line("")
	w.line("\tsay_begin(%q, %t);", arrivingSymbol(c), mark != "")
	for _, a := range c.Args {
		printInput(w, a, mark)
	}
	w.line("\tr_ = %s(%s);", function, strings.Join(passed, ", "))
	w.line("\tsay_result(r_);")
	if !c.Always {
		w.line("\tif (%s) {", successCondition(c, "r_"))
	} else {
		w.line("\t{")
	}
	for _, a := range c.Args {
		printOutput(w, a)
	}
	w.line("\t}")
	w.line("\tsay_end();")
	w.line("}")
	return name
}

func declareArgument(w *text, c *api.Call, a api.Arg) {
	t := a.Type
	switch {
	case t.Word == "string":
		w.line("\tchar %s[64];", a.Name)
		w.line("\tletters(%s, pick_length(60));", a.Name)
		if a.Opt {
			w.line("\tconst bool %s_ = often();", a.Name)
		}
		return
	case a.Count.IsArray():
		element := t.C
		if element == "void" {
			element = "unsigned char"
		}
		w.line("\tstatic %s%s[MOST];", spacedType(element), a.Name)
		if a.Dir == api.In {
			if t.Struct {
				w.line("\tfor (int i_ = 0; i_ < 8; ++i_)")
				w.line("\t\tfill_%s(&%s[i_]);", t.Word, a.Name)
			} else {
				w.line("\tfill(%s, sizeof(%s));", a.Name, a.Name)
			}
		} else {
			w.line("\tmemset(%s, 0, sizeof(%s));", a.Name, a.Name)
		}
	case t.Struct:
		w.line("\t%s%s;", spacedType(t.C), a.Name)
		if a.Dir == api.Out {
			w.line("\tmemset(&%s, 0, sizeof(%s));", a.Name, a.Name)
		} else {
			w.line("\tfill_%s(&%s);", t.Word, a.Name)
		}
	default:
		w.line("\t%s%s = 0;", spacedType(t.C), a.Name)
		if is, word := countsElements(c, a); is {
			switch {
			case word == "bytes" && a.Dir == api.In:
				w.line("\t%s = pick_length(MOST);", a.Name)
			case word == "text":
				w.line("\t%s = 1 + pick_length(40);", a.Name)
			default:
				w.line("\t%s = pick_length(6);", a.Name)
			}
		} else if a.Dir != api.Out {
			w.line("\tfill(&%s, sizeof(%s));", a.Name, a.Name)
			if a.Name == "peer" && a.Type.Word == "i32" {
				w.line("\tpeer &= 0xffff;")
			}
		}
		if a.Dir == api.InOut {
			w.line("\tconst %s%s_was_ = %s;", spacedType(t.C), a.Name, a.Name)
			w.line("\t(void)%s_was_;", a.Name)
		}
	}
	if a.Opt {
		w.line("\tconst bool %s_ = often();", a.Name)
	}
}

func passArgument(a api.Arg) string {
	name := a.Name
	if !a.Count.IsArray() && a.Type.Word != "string" && isPointer(a) {
		name = "&" + name
	}
	if a.Opt {
		return fmt.Sprintf("%s_ ? %s : NULL", a.Name, name)
	}
	return name
}

// lengthOf is the expression of a Count with the values of the arguments before the call.
func lengthOf(a api.Arg) string {
	if a.Count.Fixed > 0 {
		return fmt.Sprint(a.Count.Fixed)
	}
	if a.Count.Deref {
		return a.Count.Arg + "_was_"
	}
	return a.Count.Arg
}

func printInput(w *text, a api.Arg, mark string) {
	switch {
	case isShimHandle(a):
	case a.Dir == api.Out:
		if a.Opt {
			w.line("\tsay_wanted(%q, %s_);", a.Name, a.Name)
		}
	case a.Type.Word == "string":
		there := a.Name
		if a.Opt {
			there = fmt.Sprintf("%s_ && *%s != 0 ? %s : NULL", a.Name, a.Name, a.Name) // "" arrives as NULL
		}
		w.line("\tsay_array(%q, %s, strlen(%s), 1);", a.Name, there, a.Name)
	case a.Count.IsArray():
		w.line("\tsay_array(%q, %s, (uint64_t)%s, %d);", a.Name, passArgument(a), lengthOf(a), a.Type.ElementSize())
	case a.Type.Word == "stream" && mark != "":
		// Stream 0 is the thread's own, with the number 2.
		w.line("\tif (often())")
		w.line("\t\t%s = NULL;", a.Name)
		w.line("\tconst CUstream %s_own_ = %s == NULL ? (CUstream)2 : %s;", a.Name, a.Name, a.Name)
		w.line("\tsay_field(%q, &%s_own_, 8);", a.Name, a.Name)
	default:
		w.line("\tsay_field(%q, &%s, %d);", a.Name, a.Name, a.Type.ElementSize())
	}
}

func printOutput(w *text, a api.Arg) {
	if !isOutput(a) {
		return
	}
	indent := "\t\t"
	if a.Opt {
		w.line("\t\tif (%s_)", a.Name)
		indent = "\t\t\t"
	}
	switch {
	case a.Type.Word == "text":
		w.line("%ssay_array(%q, %s, strlen(%s), 1);", indent, a.Name, a.Name, a.Name)
	case a.Count.IsArray():
		w.line("%ssay_array(%q, %s, (uint64_t)%s, %d);", indent, a.Name, a.Name, lengthOf(a), a.Type.ElementSize())
	default:
		w.line("%ssay_field(%q, &%s, %d);", indent, a.Name, a.Name, a.Type.ElementSize())
	}
}
