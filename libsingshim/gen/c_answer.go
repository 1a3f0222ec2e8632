// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// writeWayThere writes the code that sends the message.
func (s *sender) writeWayThere(message string, answers bool) {
	c := s.c
	op := fmt.Sprintf("%#xu | per_thread", c.Op())
	switch c.Kind {
	case api.Counted:
		s.line("\tr_ = sing_post_counted(%s, counts, k, %s);", op, message)
	case api.Async:
		s.line("\tr_ = sing_post(%s, %s);", op, message)
	default:
		carrier := "sing_call"
		if c.Kind == api.Cached {
			carrier = "sing_cached"
		}
		s.line("\tsize_t got_ = 0;")
		if answers {
			s.line("\tr_ = %s(%s, %s, out_, room_, &got_);", carrier, op, message)
		} else {
			s.line("\tr_ = %s(%s, %s, NULL, 0, &got_);", carrier, op, message)
		}
	}
	s.line("\tif (r_ < 0)")
	s.line("\t\tr_ = %d;", s.fail.gone)
}

// writeAnswer writes the code that unpacks the answer, and the end of the function.
func (s *sender) writeAnswer(in, out, answers bool) {
	if answers {
		if s.c.Always {
			s.line("\tif (%s || got_ > 0) {", successCondition(s.c, "r_"))
		} else {
			s.line("\tif (%s) {", successCondition(s.c, "r_"))
		}
		s.line("\t\tconst unsigned char *q_ = out_, *const end_ = out_ + got_;")
		s.line("")
		s.line("\t\tif (!(%s))", s.unpackAnswer())
		s.line("\t\t\tr_ = %d;", s.fail.gone)
		s.line("\t}")
	}
	for _, a := range s.c.Args {
		switch {
		case isShimHandle(a):
			s.line("\tif (%s)", successCondition(s.c, "r_"))
			s.line("\t\t*%s = (%s)(uintptr_t)%s_;", a.Name, a.Type.C, a.Name)
			s.line("\telse")
			s.line("\t\tsing_handle_drop(%s, %s_);", classOf(a.Type), a.Name)
		case a.Verb == api.Break && a.Type.Maker == api.ByClient:
			s.line("\tif (%s)", successCondition(s.c, "r_"))
			s.line("\t\tsing_handle_drop(%s, (uint64_t)(uintptr_t)%s);", classOf(a.Type), a.Name)
		}
	}
	if in || out {
		s.line("done_:")
	}
	if in {
		s.line("\tsing_room_done(in_, small_in_);")
	}
	if out {
		s.line("\tsing_room_done(out_, small_out_);")
	}
	s.line("\treturn r_;")
}

// unpackAnswer is the expression that reads all out arguments from the answer.
func (s *sender) unpackAnswer() string {
	all := ""
	and := func(form string, args ...any) {
		if all != "" {
			all += " && "
		}
		all += fmt.Sprintf(form, args...)
	}
	// Rooms are read before the counts that they point to are overwritten.
	for _, arrays := range []bool{true, false} {
		for _, a := range s.c.Args {
			if !isAnswered(a) || a.Count.IsArray() != arrays {
				continue
			}
			wanted := ""
			if a.Opt {
				wanted = fmt.Sprintf("%s == NULL || ", a.Name)
			}
			switch {
			case a.Type.Word == "text":
				and("(%ssing_take_text(&q_, end_, %s, %s))", wanted, a.Name, countInC(s.c, a))
			case arrays:
				and("(%ssing_take_array(&q_, end_, %s, %s, %d))", wanted, a.Name, countInC(s.c, a), a.Type.ElementSize())
			default:
				and("(%ssing_take(&q_, end_, %s, %d))", wanted, a.Name, a.Type.ElementSize())
			}
		}
	}
	and("q_ == end_")
	return all
}
