// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"slices"
)

// Call is a call that was carried out, with success.
type Call struct {
	Op      uint32
	Context uint64 // what was current, 0 if nothing was
	In, Out []byte // its message and its answer
}

// Graph keeps the calls that are needed to build again what is alive. It holds on to the slices that it is
// given. It is not safe for concurrent use. The zero value is not usable; see New.
//
// What is dead stays for as long as something alive was made with it: a graph that was destroyed, for what was
// instantiated from it. Calls come out in the order in which they were made, so whatever they found at the
// time they find again; those that destroy are among them.
type Graph struct {
	entries []*entry
	objects map[name]*object  // alive
	last    map[string]*entry // of calls that replace
	number  int
	kept    int // entries after the last sweep
}

type name struct {
	class Class
	value uint64
}

// object is something that a handle names, or named.
type object struct {
	class Class
	owner *object
	calls []*entry // that made and changed it, and the one that broke it
	owned []*object
	dead  bool
}

type entry struct {
	call    Call
	number  int
	needs   []*object // must be as they were
	effects []*object // are made, changed or broken
	next    *entry    // the one that came in its place
}

// New returns a Graph of a program that has not called anything.
func New() *Graph {
	return &Graph{objects: map[name]*object{}, last: map[string]*entry{}}
}

// memory is of those who keep allocations: where they are is no question of what was called.
var memory = map[Class]bool{"devptr": true, "range": true, "alloc": true, "hostmem": true}

// Add notes a call. An error means that the bytes are no call's, and nothing was noted.
func (g *Graph) Add(c Call) error {
	rule, ok := Look(c.Op)
	if !ok {
		return fmt.Errorf("op %#x: %w", c.Op, ErrMalformed)
	}
	refs, enums, err := readRefs(c.Op, c.In, c.Out)
	if err != nil {
		return err
	}
	refs = slices.DeleteFunc(refs, func(r Ref) bool { return memory[r.Class] })
	// Who hands out what nobody knew yet, has made it: a default pool, a graph inside of a node.
	for i, r := range refs {
		o := g.objects[name{r.Class, r.Value}]
		switch {
		case r.Verb == "" && o == nil:
			refs[i].Verb = Make
		case r.Verb == Make && o != nil && !o.dead && r.Class != "context":
			refs[i].Verb = "" // asked for again, a function by its name: it is what has become of it
		}
	}
	if !hasEffect(rule, refs) {
		return nil
	}
	g.number++
	e := &entry{call: c, number: g.number}
	current := g.noteCurrent(rule, c, e)
	g.resolveRefs(rule, refs, current, e)
	if rule.Replaces {
		g.noteReplaced(rule, refs, enums, e)
	}
	for _, o := range e.effects {
		o.calls = append(o.calls, e)
	}
	g.entries = append(g.entries, e)
	g.markDead(refs)
	if len(g.entries) > 2*g.kept+1024 {
		g.sweepUnneeded()
	}
	return nil
}

// hasEffect tells whether the call leaves something behind that is not memory.
func hasEffect(rule Rule, refs []Ref) bool {
	if rule.Stateful && rule.Changes != "" {
		return true
	}
	return slices.ContainsFunc(refs, func(r Ref) bool {
		return r.Verb == Make || r.Verb == Break || r.Verb == Change && rule.Stateful
	})
}

// noteCurrent notes the context that is current, and what the call changes without naming it.
func (g *Graph) noteCurrent(rule Rule, c Call, e *entry) *object {
	var current *object
	if c.Context != 0 && (rule.Context || rule.Changes == "context") {
		current = g.objectOf(name{"context", c.Context})
	}
	switch {
	case rule.Changes == "context" && current != nil:
		e.effects = append(e.effects, current)
	case rule.Changes != "":
		e.effects = append(e.effects, g.objectOf(name{rule.Changes, 0}))
	}
	if current != nil && rule.Changes != "context" {
		e.needs = append(e.needs, current)
	}
	return current
}

// objectOf returns what a handle names. What was never made was always there.
func (g *Graph) objectOf(n name) *object {
	o := g.objects[n]
	if o == nil {
		o = &object{class: n.class}
		g.objects[n] = o
	}
	return o
}

// resolveRefs notes what the call needs and what it does, and makes what it makes.
func (g *Graph) resolveRefs(rule Rule, refs []Ref, current *object, e *entry) {
	for _, r := range refs {
		n := name{r.Class, r.Value}
		switch {
		case r.Verb == Make:
		case r.Verb == Break || r.Verb == Change && rule.Stateful:
			e.effects = append(e.effects, g.objectOf(n))
		default:
			e.needs = append(e.needs, g.objectOf(n))
		}
	}
	for _, r := range refs {
		if r.Verb != Make {
			continue
		}
		o := &object{class: r.Class, owner: g.findOwner(r.Class, refs, current)}
		if o.owner != nil {
			o.owner.owned = append(o.owner.owned, o)
		}
		g.objects[name{r.Class, r.Value}] = o
		e.effects = append(e.effects, o)
	}
}

// findOwner finds what something new will end with.
func (g *Graph) findOwner(class Class, refs []Ref, current *object) *object {
	of := Owner(class)
	if of == "" {
		return nil
	}
	for _, r := range refs {
		if r.Class == of && r.Verb != Make {
			return g.objectOf(name{r.Class, r.Value})
		}
	}
	if of == "context" {
		return current
	}
	return nil
}

// noteReplaced notes the call that this one makes needless, unless something was made in between with what it left.
func (g *Graph) noteReplaced(rule Rule, refs []Ref, enums []byte, e *entry) {
	key := fmt.Sprint(rule.Symbol, e.call.Context, refs, string(enums))
	if old := g.last[key]; old != nil {
		old.next = e
	}
	g.last[key] = e
}

// markDead makes what was broken, and what ends with it, dead.
func (g *Graph) markDead(refs []Ref) {
	for _, r := range refs {
		if r.Verb != Break {
			continue
		}
		n := name{r.Class, r.Value}
		if o := g.objects[n]; o != nil {
			o.markDead()
			delete(g.objects, n)
		}
	}
}

func (o *object) markDead() {
	o.dead = true
	for _, owned := range o.owned {
		owned.markDead()
	}
	o.owned = nil
}

// Calls returns what has to be called, in this order, to build again what is alive.
func (g *Graph) Calls() []Call {
	g.sweepUnneeded()
	var all []Call
	for _, e := range g.entries {
		all = append(all, e.call)
	}
	return all
}

// Alive tells whether there is something of a class.
func (g *Graph) Alive(c Class) bool {
	for n, o := range g.objects {
		if n.class == c && !o.dead {
			return true
		}
	}
	return false
}

// sweepUnneeded forgets what nothing alive needs.
func (g *Graph) sweepUnneeded() {
	m := marker{entries: map[*entry]bool{}, objects: map[*object]bool{}}
	for n, o := range g.objects {
		if o.dead { // its owner was broken
			delete(g.objects, n)
			continue
		}
		m.markObject(o)
	}
	g.entries = slices.DeleteFunc(g.entries, func(e *entry) bool { return !m.entries[e] })
	g.dropSuperseded(m.entries)
	for key, e := range g.last {
		if !m.entries[e] {
			delete(g.last, key)
		}
	}
	for o := range m.objects {
		o.calls = slices.DeleteFunc(o.calls, func(e *entry) bool { return !m.entries[e] })
		o.owned = slices.DeleteFunc(o.owned, func(o *object) bool { return !m.objects[o] })
	}
	g.kept = len(g.entries)
}

// dropSuperseded drops the calls that others came in the place of. It goes backwards: what keeps a call is later,
// and kept itself.
func (g *Graph) dropSuperseded(marked map[*entry]bool) {
	needed := map[*object]int{} // the first kept call, so far, that needs it
	dropped := map[*entry]bool{}
	for _, e := range slices.Backward(g.entries) {
		if e.next != nil && !slices.ContainsFunc(e.effects, func(o *object) bool { return isSeen(o, needed, e.next.number) }) {
			dropped[e] = true
			delete(marked, e)
			continue
		}
		for _, o := range e.needs {
			needed[o] = e.number
		}
	}
	g.entries = slices.DeleteFunc(g.entries, func(e *entry) bool { return dropped[e] })
}

// isSeen tells whether a call up to that number needs the object. Who looks at a graph looks at its nodes.
func isSeen(o *object, needed map[*object]int, last int) bool {
	for ; o != nil; o = o.owner {
		if n, ok := needed[o]; ok && n <= last {
			return true
		}
		if o.class != "node" {
			return false
		}
	}
	return false
}

// marker finds what is needed. It goes as deep as things were made of each other.
type marker struct {
	entries map[*entry]bool
	objects map[*object]bool
}

func (m *marker) markObject(o *object) {
	if m.objects[o] {
		return
	}
	m.objects[o] = true
	if o.owner != nil {
		// Something dead must die again, with its owner if that is how it died.
		m.markObject(o.owner)
	}
	for _, e := range o.calls {
		if m.entries[e] {
			continue
		}
		m.entries[e] = true
		for _, needed := range e.needs {
			m.markObject(needed)
		}
		for _, other := range e.effects {
			m.markObject(other)
		}
	}
}
