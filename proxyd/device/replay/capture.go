// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package replay

// A capture is an object like others: it is made by the call that begins it and changed by the work that is
// captured, which would otherwise be forgotten, and the graph at its end needs it. Nobody has a handle for it:
// it is kept for as long as a stream is in it, and then for as long as that graph, or what was instantiated
// from it.
//
// A stream is in a capture because it began it, or because it waited for an event that was recorded in it.

// Calls that begin and end captures.
const (
	beginCapture   = "cuStreamBeginCapture_v2"
	captureToGraph = "cuStreamBeginCaptureToGraph"
	endCapture     = "cuStreamEndCapture"
)

// session returns the captures that a call is part of, or that it changes from outside, and whether it is part of
// one. What a part touches is in the capture from now on.
func (g *Graph) session(rule Rule, refs []Ref) (touched []*object, captured bool) {
	var o *object
	switch {
	case rule.Symbol == beginCapture || rule.Symbol == captureToGraph:
		o = &object{class: "capture", dead: true}
	case rule.Work:
		for _, r := range refs {
			// An event is waited for; to be recorded again takes it out of what it was in.
			if in := g.capture[name{r.Class, r.Value}]; in != nil && (r.Class == "stream" || r.Verb == Use) {
				o = in
			}
		}
	}
	if o != nil {
		touched = append(touched, o)
	}
	for _, r := range refs {
		n := name{r.Class, r.Value}
		enters := o != nil && r.Verb != Break && (r.Class == "stream" || r.Class == "event" && r.Verb == Change)
		leaves := r.Verb == Break || r.Class == "event" && r.Verb == Change
		if in := g.capture[n]; in != nil && in != o && (enters || leaves) {
			// Whoever builds that capture again must see it leave.
			touched = append(touched, in)
		}
		if leaves {
			delete(g.capture, n)
		}
		if enters {
			g.capture[n] = o
		}
	}
	if rule.Symbol == endCapture {
		for n, in := range g.capture {
			if in == o {
				delete(g.capture, n)
			}
		}
	}
	return touched, o != nil
}
