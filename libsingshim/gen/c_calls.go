// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// cCalls is gen_calls.c: a function for each message, and the exported functions that send them.
func cCalls(t *api.Table) []byte {
	w := newFile()
	w.line("")
	w.line("#include \"gen_abi.h\"")
	w.line("#include \"pack.h\"")
	w.line("#include \"transport.h\"")
	for c := range t.Calls {
		if c.Shipped() {
			(&sender{text: w, c: c, fail: failing[c.Area.Lib]}).writeSender()
		}
		if isMissed(t, c) || c.Message {
			continue
		}
		switch {
		case c.Generated():
			writeExported(w, c, "sing_send_"+c.Symbol)
		case c.Kind == api.Same:
			writeSame(w, c)
		}
		writeProfiled(w, c)
	}
	return w.Bytes()
}

// writeExported writes the public function, and the function for per-thread default streams.
func writeExported(w *text, c *api.Call, sends string) {
	w.line("")
	w.line("%s", cPrototype(c, "sing_"+c.Symbol))
	w.line("{")
	w.line("\treturn %s(%s);", sends, strings.Join(append([]string{"0"}, argumentNames(c, "")...), ", "))
	w.line("}")
	w.line("SING_PUBLIC(%s);", c.Symbol)
	if c.PerThread == "" {
		return
	}
	symbol := c.PerThreadSymbol()
	w.line("")
	w.line("%s", cPrototype(c, "sing_"+symbol))
	w.line("{")
	if c.PerThread == "ptds" {
		w.line("\treturn %s(%s);", sends, strings.Join(append([]string{"SING_PER_THREAD"}, argumentNames(c, "")...), ", "))
	} else {
		w.line("\treturn %s(%s);", sends, strings.Join(append([]string{"SING_PER_THREAD"}, argumentNames(c, "own")...), ", "))
	}
	w.line("}")
	w.line("SING_PUBLIC(%s);", symbol)
}

// writeProfiled writes the second name of an NCCL function.
func writeProfiled(w *text, c *api.Call) {
	symbol := c.ProfiledSymbol()
	if symbol == "" {
		return
	}
	w.line("")
	w.line("%s", cPrototype(c, "sing_"+symbol))
	w.line("{")
	if c.Returns == "void" {
		w.line("\tsing_%s(%s);", c.Symbol, strings.Join(argumentNames(c, ""), ", "))
	} else {
		w.line("\treturn sing_%s(%s);", c.Symbol, strings.Join(argumentNames(c, ""), ", "))
	}
	w.line("}")
	w.line("SING_PUBLIC(%s);", symbol)
}

func writeSame(w *text, c *api.Call) {
	suffixes := []string{""}
	if c.PerThread != "" {
		suffixes = append(suffixes, "_"+c.PerThread)
	}
	for _, suffix := range suffixes {
		w.line("")
		w.line("%s", cPrototype(c, "sing_"+c.Symbol+suffix))
		w.line("{")
		w.line("\treturn sing_%s(%s);", c.Via[0]+suffix, strings.Join(argumentNames(c, ""), ", "))
		w.line("}")
		w.line("SING_PUBLIC(%s);", c.Symbol+suffix)
	}
}

// argumentNames are the arguments. With "own", stream 0 becomes 2: the thread's.
func argumentNames(c *api.Call, stream string) []string {
	var all []string
	for _, a := range c.Args {
		if stream != "" && a.Type.Word == "stream" && a.Dir == api.In {
			all = append(all, fmt.Sprintf("%s == NULL ? (CUstream)2 : %s", a.Name, a.Name))
			continue
		}
		all = append(all, a.Name)
	}
	return all
}

// sender writes the function that sends a message. Names that end in _ are the sender's own: arguments have no
// such names.
type sender struct {
	*text
	c    *api.Call
	fail failures
}

// How an argument travels.

func isOutput(a api.Arg) bool { return a.Dir == api.Out || a.Dir == api.InOut }

// isShimHandle is a handle that the shim makes: handed out to the program, handed in to the server.
func isShimHandle(a api.Arg) bool {
	return a.Verb == api.Make && a.Dir == api.Out && a.Type.Maker == api.ByClient
}

func isAnswered(a api.Arg) bool { return isOutput(a) && !isShimHandle(a) }

func isPointer(a api.Arg) bool {
	return isOutput(a) || a.Count.IsArray() || a.Type.Struct && a.Dir == api.In || a.Type.Word == "string"
}

// countInC is the expression of a Count in C.
func countInC(c *api.Call, a api.Arg) string {
	switch {
	case a.Count.Fixed > 0:
		return fmt.Sprint(a.Count.Fixed)
	case a.Count.Deref:
		if n := c.Arg(a.Count.Arg); n.Opt {
			return fmt.Sprintf("(uint64_t)(%s == NULL ? 0 : *%s)", n.Name, n.Name)
		}
		return fmt.Sprintf("(uint64_t)*%s", a.Count.Arg)
	}
	return fmt.Sprintf("(uint64_t)%s", a.Count.Arg)
}

func (s *sender) writeSender() {
	fixedIn, variableIn := s.lengthIn()
	fixedOut, variableOut := s.lengthOut()
	answers := fixedOut > 0 || variableOut

	s.line("")
	s.line("%s", messagePrototype(s.c))
	s.line("{")
	if variableIn {
		s.line("\tunsigned char small_in_[%s], *in_ = NULL, *p_;", s.smallSize())
		s.line("\tsize_t n_ = %d, more_;", fixedIn)
	} else if fixedIn > 0 {
		s.line("\tunsigned char in_[%d], *p_ = in_;", fixedIn)
		s.line("\tconst size_t n_ = %d;", fixedIn)
	}
	if variableOut {
		s.line("\tunsigned char small_out_[SING_SMALL], *out_ = NULL;")
		s.line("\tsize_t room_ = %d, wide_;", fixedOut)
	} else if answers {
		s.line("\tunsigned char out_[%d];", fixedOut)
		s.line("\tconst size_t room_ = %d;", fixedOut)
	}
	s.line("\tint r_;")
	s.line("")
	s.writeChecks()
	s.writeLengths(variableIn, variableOut)
	for _, a := range s.c.Args {
		s.packArgument(a)
	}
	message := "NULL, 0"
	if fixedIn > 0 {
		s.line("\t(void)p_;")
		message = "in_, n_"
	}
	s.writeWayThere(message, answers)
	s.writeAnswer(variableIn, variableOut, answers)
	s.line("}")
}

// smallSize is the size up to which a message is put together on the stack.
func (s *sender) smallSize() string {
	if s.c.Kind == api.Async || s.c.Kind == api.Counted {
		return "SING_SMALL_POSTED"
	}
	return "SING_SMALL"
}

// lengthIn is the smallest length of the message, and whether the message may be longer.
func (s *sender) lengthIn() (n int, variable bool) {
	for _, a := range s.c.Args {
		switch {
		case isShimHandle(a):
			n += a.Type.WireSize()
		case a.Dir == api.Out:
			if a.Opt {
				n++
			}
		case a.Count.IsArray() || a.Type.Word == "string":
			n += 8
			variable = true
		default:
			n += a.Type.ElementSize()
			if a.Opt {
				n++
			}
		}
	}
	return n, variable
}

func (s *sender) lengthOut() (n int, variable bool) {
	for _, a := range s.c.Args {
		switch {
		case !isAnswered(a):
		case a.Count.IsArray():
			n += 8
			variable = true
		default:
			n += a.Type.ElementSize()
		}
	}
	return n, variable
}

// writeChecks writes the code that refuses NULL for arguments that need a pointer.
func (s *sender) writeChecks() {
	for _, a := range s.c.Args {
		if !isPointer(a) || a.Opt {
			continue
		}
		if a.Count.IsArray() && a.Count.Fixed == 0 {
			s.line("\tif (%s == NULL && %s != 0)", a.Name, countInC(s.c, a))
		} else {
			s.line("\tif (%s == NULL)", a.Name)
		}
		s.line("\t\treturn %d;", s.fail.invalid)
	}
}

func (s *sender) writeLengths(in, out bool) {
	for _, a := range s.c.Args {
		switch {
		case a.Type.Word == "string":
			s.line("\tif (%s != NULL) {", a.Name)
			s.line("\t\tmore_ = strlen(%s);", a.Name)
			s.addLength("n_", "more_", "SING_LONGEST")
			s.line("\t}")
		case a.Dir == api.In && a.Count.IsArray():
			s.line("\tif (%s != NULL) {", a.Name)
			s.line("\t\tif (!sing_bytes(%s, %d, SING_LONGEST, &more_))", countInC(s.c, a), a.Type.ElementSize())
			s.line("\t\t\treturn %d;", s.fail.invalid)
			s.addLength("n_", "more_", "SING_LONGEST")
			s.line("\t}")
		case isAnswered(a) && a.Count.IsArray():
			s.line("\tif (%s != NULL) {", a.Name)
			s.line("\t\tif (!sing_bytes(%s, %d, SING_LONGEST_ANSWER, &wide_))", countInC(s.c, a), a.Type.ElementSize())
			s.line("\t\t\treturn %d;", s.fail.invalid)
			s.addLength("room_", "wide_", "SING_LONGEST_ANSWER")
			s.line("\t}")
		}
	}
	if in {
		s.line("\tin_ = sing_room(small_in_, sizeof(small_in_), n_);")
	}
	if out {
		s.line("\tout_ = sing_room(small_out_, sizeof(small_out_), room_);")
	}
	var absent []string
	if in {
		absent = append(absent, "in_ == NULL")
	}
	if out {
		absent = append(absent, "out_ == NULL")
	}
	if absent != nil {
		s.line("\tif (%s) {", strings.Join(absent, " || "))
		s.line("\t\tr_ = %d;", s.fail.memory)
		s.line("\t\tgoto done_;")
		s.line("\t}")
	}
	if in {
		s.line("\tp_ = in_;")
	}
}

func (s *sender) addLength(to, more, longest string) {
	s.line("\t\t%s += %s;", to, more)
	s.line("\t\tif (%s > %s)", to, longest)
	s.line("\t\t\treturn %d;", s.fail.invalid)
}

// packArgument puts an argument into the message.
func (s *sender) packArgument(a api.Arg) {
	n := a.Name
	switch {
	case isShimHandle(a):
		s.line("\tconst uint64_t %s_ = sing_handle_new(%s);", n, classOf(a.Type))
		s.line("\tp_ = sing_put(p_, &%s_, 8);", n)
	case a.Dir == api.Out:
		if a.Opt {
			s.line("\t*p_++ = %s != NULL;", n)
		}
	case a.Type.Word == "string":
		s.line("\tconst uint64_t %s_ = %s == NULL ? UINT64_MAX : strlen(%s);", n, n, n)
		s.line("\tp_ = sing_put(p_, &%s_, 8);", n)
		s.line("\tif (%s != NULL)", n)
		s.line("\t\tp_ = sing_put(p_, %s, %s_);", n, n)
	case a.Count.IsArray():
		absent := "0"
		if a.Opt {
			absent = "UINT64_MAX"
		}
		s.line("\tconst uint64_t %s_ = %s == NULL ? %s : %s;", n, n, absent, countInC(s.c, a))
		s.line("\tp_ = sing_put(p_, &%s_, 8);", n)
		s.line("\tif (%s != NULL)", n)
		s.line("\t\tp_ = sing_put(p_, %s, %s_ * %d);", n, n, a.Type.ElementSize())
	case isPointer(a) && a.Opt:
		s.line("\t*p_++ = %s != NULL;", n)
		s.line("\tp_ = %s != NULL ? sing_put(p_, %s, %d) : memset(p_, 0, %d) + %d;", n, n, a.Type.ElementSize(), a.Type.ElementSize(), a.Type.ElementSize())
	case isPointer(a):
		s.line("\tp_ = sing_put(p_, %s, %d);", n, a.Type.ElementSize())
	default:
		s.line("\tp_ = sing_put(p_, &%s, %d);", n, a.Type.ElementSize())
	}
}
