// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"slices"
)

// Call is a call that succeeded.
type Call struct {
	Op      uint32
	Context uint64 // the current context, 0 if there was no current context
	In, Out []byte // the message and the answer
}

// Graph keeps the calls that are needed to rebuild the objects that are alive. A Graph keeps the slices that
// are passed to it. It is not safe for concurrent use. The zero value is not usable; see New.
//
// A dead object stays while an object that is alive was made with it: a destroyed graph stays for an
// executable graph that was instantiated from it. Calls come out in the order in which they were made, and
// calls that destroy objects are among them, so each call finds the same objects as the first time.
type Graph struct {
	entries []*entry
	objects map[name]*object  // that are alive
	last    map[string]*entry // the latest call of each kind that replaces an earlier call
	number  int
	kept    int // entries after the last sweep
}

type name struct {
	class Class
	value uint64
}

// object is an object that a handle names, or has named.
type object struct {
	class Class
	owner *object
	calls []*entry // that made, changed and broke the object
	owned []*object
	dead  bool
	// Of an executable graph: its last update and the later settings of its nodes. The next update replaces these
	// calls.
	settings []*entry
}

type entry struct {
	call    Call
	number  int
	needs   []*object // must be rebuilt as the call found them
	effects []*object // are made, changed or broken
	next    *entry    // the entry that replaces this entry
}

// New returns a Graph of a program that has made no call.
func New() *Graph {
	return &Graph{objects: map[name]*object{}, last: map[string]*entry{}}
}

// memory has the classes of memory. The allocations are saved elsewhere, so a Graph does not keep their
// calls.
var memory = map[Class]bool{"devptr": true, "range": true, "alloc": true, "hostmem": true}

// Add adds a call. If the bytes are no message and answer of such a call, it returns an error and does not add the
// call.
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
	// A call that returns a handle which is not known yet has made the object: a default pool, a graph inside
	// of a node.
	for i, r := range refs {
		o := g.objects[name{r.Class, r.Value}]
		switch {
		case r.Verb == "" && o == nil:
			refs[i].Verb = Make
		case r.Verb == Make && o != nil && !o.dead && r.Class != "context":
			refs[i].Verb = "" // returned again, such as a function by name
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
	noteUpdate(rule, e)
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

// hasEffect tells whether the call has an effect other than on memory.
func hasEffect(rule Rule, refs []Ref) bool {
	if rule.Stateful && rule.Changes != "" {
		return true
	}
	return slices.ContainsFunc(refs, func(r Ref) bool {
		return r.Verb == Make || r.Verb == Break || r.Verb == Change && rule.Stateful
	})
}

// noteCurrent adds the current context, and the object that the call changes without naming it, to the entry.
// It returns the current context if the call depends on it.
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

// objectOf returns the object of a handle. A handle that no call has made names an object that has always
// existed.
func (g *Graph) objectOf(n name) *object {
	o := g.objects[n]
	if o == nil {
		o = &object{class: n.class}
		g.objects[n] = o
	}
	return o
}

// resolveRefs adds the objects that the call needs and has an effect on to the entry, and makes new objects.
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

// findOwner returns the object together with which a new object will end, or nil.
func (g *Graph) findOwner(class Class, refs []Ref, current *object) *object {
	of := Owner(class)
	if class == "graph" {
		of = "node" // a graph that a call makes of a node is within the node
	}
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

// noteReplaced links the earlier call of the same kind and arguments to this call, which replaces it.
func (g *Graph) noteReplaced(rule Rule, refs []Ref, enums []byte, e *entry) {
	key := fmt.Sprint(rule.Symbol, e.call.Context, refs, string(enums))
	if old := g.last[key]; old != nil {
		old.next = e
	}
	g.last[key] = e
}

// updates is the call that gives all nodes of an executable graph the parameters of another graph's nodes.
const updates = "graph_update"

// overwritten are the calls that the next update of the executable graph replaces completely. Whether a node is enabled
// is no parameter.
var overwritten = map[string]bool{
	updates: true, "graph_exec_kernel": true, "cuGraphExecMemcpyNodeSetParams": true, "cuGraphExecMemsetNodeSetParams": true,
	"graph_exec_host": true, "graph_exec_child": true, "cuGraphExecEventRecordNodeSetEvent": true, "cuGraphExecEventWaitNodeSetEvent": true,
}

// isOverwritten tells whether an update replaces the call, which must have no effect on anything but the executable graph.
func isOverwritten(rule Rule, effects []*object) bool {
	return overwritten[rule.Symbol] && len(effects) == 1 && effects[0].class == "graphexec"
}

// noteUpdate links the earlier calls that an update of an executable graph replaces to this call, if it is an update.
func noteUpdate(rule Rule, e *entry) {
	if !isOverwritten(rule, e.effects) {
		return
	}
	x := e.effects[0]
	if rule.Symbol == updates {
		for _, old := range x.settings {
			if old.next == nil {
				old.next = e
			}
		}
		x.settings = nil
	}
	x.settings = append(x.settings, e)
}

// markDead marks broken objects, and the objects that they own, as dead.
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

// Calls returns the calls that rebuild the objects that are alive, in order.
func (g *Graph) Calls() []Call {
	g.sweepUnneeded()
	var all []Call
	for _, e := range g.entries {
		all = append(all, e.call)
	}
	return all
}

// Alive tells whether an object of a class is alive.
func (g *Graph) Alive(c Class) bool {
	for n, o := range g.objects {
		if n.class == c && !o.dead {
			return true
		}
	}
	return false
}

// sweepUnneeded drops the calls that no object that is alive needs. Each round drops replaced calls; a further round
// drops the calls that only these needed.
func (g *Graph) sweepUnneeded() {
	for g.sweepOnce() {
	}
	g.kept = len(g.entries)
}

// sweepOnce tells whether there were replaced calls to drop.
func (g *Graph) sweepOnce() bool {
	m := marker{entries: map[*entry]bool{}, objects: map[*object]bool{}}
	for n, o := range g.objects {
		if o.dead { // its owner was broken
			delete(g.objects, n)
			continue
		}
		m.markObject(o)
	}
	g.entries = slices.DeleteFunc(g.entries, func(e *entry) bool { return !m.entries[e] })
	superseded := g.dropSuperseded(m.entries)
	for key, e := range g.last {
		if !m.entries[e] {
			delete(g.last, key)
		}
	}
	for o := range m.objects {
		o.calls = slices.DeleteFunc(o.calls, func(e *entry) bool { return !m.entries[e] })
		o.settings = slices.DeleteFunc(o.settings, func(e *entry) bool { return !m.entries[e] })
		o.owned = slices.DeleteFunc(o.owned, func(o *object) bool { return !m.objects[o] })
	}
	return superseded
}

// dropSuperseded drops replaced calls, unless a kept call in between needs an object as the replaced call
// left it. The loop goes backwards, because a call is only kept for the sake of a later call that is kept,
// too. It tells whether there were such calls.
func (g *Graph) dropSuperseded(marked map[*entry]bool) bool {
	needed := map[*object]int{} // by object: the first kept call, so far, that needs it
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
	return len(dropped) > 0
}

// isSeen tells whether a call with a number up to last needs the object. A call that needs a graph sees the
// graph's nodes, too, and the nodes of graphs within these.
func isSeen(o *object, needed map[*object]int, last int) bool {
	for ; o != nil; o = o.owner {
		if n, ok := needed[o]; ok && n <= last {
			return true
		}
		if o.class != "node" && o.class != "graph" {
			return false
		}
	}
	return false
}

// marker marks the needed calls and objects. It recurses to the depth in which objects were made from each
// other.
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
		// A dead object must be made and end again. If it ended with its owner, its owner must, too.
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
