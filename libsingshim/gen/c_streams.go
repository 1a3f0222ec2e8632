// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/api"
)

// onStream is a message that is about a stream.
type onStream struct {
	call *api.Call
	kind string
	at   int // of the stream: from the beginning, or, negative, from the end
}

// cStreams is gen_streams.c: where messages name a stream, and their effect on it.
func cStreams(t *api.Table) ([]byte, error) {
	var all []onStream
	for c := range t.Calls {
		if !c.Shipped() || c.Kind == api.Cached {
			continue
		}
		s, ok, err := streamOf(c)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b onStream) int { return cmp.Compare(a.call.Op(), b.call.Op()) })
	w := newFile()
	w.line("")
	w.line("#include \"streams.h\"")
	w.line("")
	w.line("const struct sing_on_stream sing_on_streams[] = {")
	for _, s := range all {
		w.line("\t{ %#xu, %s, %d }, /* %s */", s.call.Op(), s.kind, s.at, s.call.Symbol)
	}
	w.line("};")
	w.line("const unsigned int sing_on_stream_count = %d;", len(all))
	return w.Bytes(), nil
}

// streamOf finds the stream that a message is about. A call with the variant ptds works on the default stream, and has
// no stream among its arguments.
func streamOf(c *api.Call) (onStream, bool, error) {
	s := onStream{call: c, kind: "SING_STREAM_WORK"}
	if c.PerThread == "ptds" {
		s.kind = "SING_STREAM_DEFAULT"
		return s, true, nil
	}
	i := slices.IndexFunc(c.Args, func(a api.Arg) bool {
		return a.Type.Word == "stream" && a.Dir == api.In && a.Verb == api.Use && !a.Count.IsArray()
	})
	changed := slices.ContainsFunc(c.Args, func(a api.Arg) bool { return a.Type.Word == "stream" && a.Verb == api.Change })
	if i < 0 || changed {
		return s, false, nil
	}
	if c.Kind == api.Sync {
		s.kind = "SING_STREAM_ASKED"
	}
	if n, fixed := widthsOf(c.Args[:i]); fixed {
		s.at = n
		return s, true, nil
	}
	n, fixed := widthsOf(c.Args[i:])
	if !fixed {
		return s, false, fmt.Errorf("%s: a stream between arrays", c.Symbol)
	}
	s.at = -n
	return s, true, nil
}

// widthsOf is the size of arguments in a message, if that is always the same.
func widthsOf(args []api.Arg) (n int, fixed bool) {
	for _, a := range args {
		switch {
		case a.Dir == api.Out && !isShimHandle(a):
			if a.Opt {
				n++
			}
		case a.Count.IsArray() || a.Type.Word == "string":
			return 0, false
		default:
			n += a.Type.ElementSize()
			if a.Opt {
				n++
			}
		}
	}
	return n, true
}
