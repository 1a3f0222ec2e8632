// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// machine is the simplest device: it carries out every call. The state of an object is a number that depends
// on all calls that changed the object and on the state of all objects that these calls needed.
type machine struct {
	objects map[name]*thing
}

type thing struct {
	class    Class
	state    uint64
	settings map[string]uint64
	owner    *thing
	owned    []*thing
	part     bool // making it has changed its owner
	implicit bool // no call has made it
	dead     bool
}

func newMachine() *machine { return &machine{map[name]*thing{}} }

func mixHash(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}

// value returns the state of an object as a program sees it. The nodes of a graph are part of the graph's value.
func (t *thing) value() uint64 {
	all := []any{t.state}
	for _, key := range slices.Sorted(maps.Keys(t.settings)) {
		all = append(all, key, t.settings[key])
	}
	if t.class == "graph" {
		for _, o := range t.owned {
			if o.part && !o.dead {
				all = append(all, o.value())
			}
		}
	}
	return mixHash(all...)
}

func (m *machine) thingAt(class Class, value uint64) *thing {
	t := m.objects[name{class, value}]
	if t == nil {
		t = &thing{class: class, state: mixHash(class, value), settings: map[string]uint64{}, implicit: true}
		m.objects[name{class, value}] = t
	}
	return t
}

func (m *machine) carryOut(c Call) {
	rule, _ := Look(c.Op)
	refs, enums, err := readRefs(c.Op, c.In, c.Out)
	if err != nil {
		panic(err)
	}
	saw := []any{c.Op, c.In}
	var current *thing
	if c.Context != 0 && (rule.Context || rule.Changes == "context") {
		current = m.thingAt("context", c.Context)
		if rule.Changes != "context" {
			saw = append(saw, current.value())
		}
	}
	var changed []*thing
	switch {
	case rule.Changes == "context" && current != nil:
		changed = append(changed, current)
	case rule.Changes != "":
		changed = append(changed, m.thingAt(rule.Changes, 0))
	}
	for i, r := range refs {
		if memory[r.Class] {
			continue
		}
		switch known := m.objects[name{r.Class, r.Value}]; {
		case r.Verb == Make || r.Verb == "" && known == nil:
			refs[i].Verb = Make
		case r.Verb == Break || r.Verb == Change && rule.Stateful:
			changed = append(changed, m.thingAt(r.Class, r.Value))
		default:
			saw = append(saw, m.thingAt(r.Class, r.Value).value())
		}
	}
	m.applyRule(rule, refs, fmt.Sprint(c.Op, c.Context, refs, string(enums)), mixHash(saw...), current, changed)
}

func (m *machine) applyRule(rule Rule, refs []Ref, key string, effect uint64, current *thing, changed []*thing) {
	makes := slices.ContainsFunc(refs, func(r Ref) bool { return r.Verb == Make && !memory[r.Class] })
	for _, t := range changed {
		switch {
		case overwritten[rule.Symbol] && len(changed) == 1 && !makes:
			const parameters = "parameters "
			if rule.Symbol == updates {
				maps.DeleteFunc(t.settings, func(key string, _ uint64) bool { return strings.HasPrefix(key, parameters) })
			}
			if rule.Replaces || rule.Symbol == updates {
				t.settings[parameters+key] = effect
			} else {
				t.settings[parameters] = mixHash(t.settings[parameters], effect)
			}
		case rule.Replaces:
			t.settings[key] = effect
		case rule.Stateful:
			t.state = mixHash(t.state, effect)
		}
	}
	for _, r := range refs {
		n := name{r.Class, r.Value}
		switch {
		case memory[r.Class]:
		case r.Verb == Make:
			t := &thing{class: r.Class, state: mixHash(effect, r), settings: map[string]uint64{}}
			of := Owner(r.Class)
			if of == "context" {
				t.owner = current
			}
			for _, other := range slices.Backward(refs) {
				if other.Class == of && other.Verb != Make {
					t.owner, t.part = m.thingAt(other.Class, other.Value), other.Verb == Change
				}
			}
			if t.owner != nil {
				t.owner.owned = append(t.owner.owned, t)
			}
			m.objects[n] = t
		case r.Verb == Break:
			m.endThing(m.objects[n])
		}
	}
}

func (m *machine) endThing(t *thing) {
	t.dead = true
	for _, o := range t.owned {
		m.endThing(o)
	}
	maps.DeleteFunc(m.objects, func(_ name, t *thing) bool { return t.dead })
}

// aliveObjects returns the values of all objects that calls have made.
func (m *machine) aliveObjects() map[name]uint64 {
	all := map[name]uint64{}
	for n, t := range m.objects {
		if !t.implicit {
			all[n] = t.value()
		}
	}
	return all
}

// program makes random calls with handles that the machine knows.
type program struct {
	random *rand.Rand
	m      *machine
	ops    []uint32
	last   uint64
}

// often lists calls that would be too rare if all calls were equally likely.
var often = []string{
	"cuStreamCreate", "cuEventCreate", "cuGraphCreate", "captured", "captured", "graph_instantiate", "graph_update", "graph_exec_host", "cuGraphDestroy", "cuStreamDestroy_v2",
}

func newProgram(seed uint64) *program {
	ops := slices.Sorted(maps.Keys(rules))
	for _, op := range slices.Clone(ops) {
		if slices.Contains(often, rules[op].Symbol) {
			ops = append(ops, slices.Repeat([]uint32{op}, 15)...)
		}
	}
	return &program{rand.New(rand.NewPCG(seed, 1)), newMachine(), ops, 100}
}

// randomHandle returns a random handle of an object that is alive, or 0.
func (p *program) randomHandle(class Class) uint64 {
	var all []uint64
	for n := range p.m.objects {
		if n.class == class {
			all = append(all, n.value)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[p.random.IntN(len(all))]
}

// makeCall makes a call and has the machine carry it out. ok is false if there was no object to make the call
// with.
func (p *program) makeCall() (c Call, ok bool) {
	c.Op = p.ops[p.random.IntN(len(p.ops))]
	rule := rules[c.Op]
	// Calls that break objects are rare, or hardly any object would be alive.
	ends := slices.ContainsFunc(rule.Args, func(a Arg) bool { return a.Verb == Break })
	if ends && p.random.IntN(4) > 0 || rule.Symbol == "cuCtxDestroy_v2" && p.random.IntN(8) > 0 {
		return c, false
	}
	c.Context = p.randomHandle("context")
	if !p.fillMessage(&c, rule) {
		return c, false
	}
	p.m.carryOut(c)
	return c, true
}

// work lists calls that streams capture.
var work = []string{"launch", "cuMemsetD8Async", "cuEventRecordWithFlags", "graph_launch", "nccl_group", "cuMemAllocFromPoolAsync"}

// fillMessage makes the message and the answer of a call.
func (p *program) fillMessage(c *Call, rule Rule) bool {
	var inner Call
	if rule.Symbol == captured {
		symbol := work[p.random.IntN(len(work))]
		i := slices.IndexFunc(p.ops, func(op uint32) bool { return rules[op].Symbol == symbol })
		inner.Op = p.ops[i]
		if !p.fillMessage(&inner, rules[inner.Op]) {
			return false
		}
	}
	bytes := map[string][]byte{
		"op": binary.LittleEndian.AppendUint32(nil, inner.Op), "args": encodeCounted(inner.In), "answer": encodeCounted(inner.Out),
	}
	put := func(to []byte, a Arg, opt bool) ([]byte, bool) {
		if b, given := bytes[a.Name]; given && rule.Symbol == captured {
			return append(to, b...), true
		}
		return p.encodeArgument(to, a, opt)
	}
	for _, a := range rule.Args {
		if !a.In {
			if a.Opt {
				c.In = append(c.In, 1)
			}
			continue
		}
		var good bool
		if c.In, good = put(c.In, a, a.Opt); !good {
			return false
		}
	}
	for _, arrays := range []bool{true, false} {
		for _, a := range rule.Args {
			var good bool
			if !a.Out || a.Array != arrays {
				continue
			}
			if c.Out, good = put(c.Out, a, false); !good {
				return false
			}
		}
	}
	return true
}

// encodeCounted encodes an array of bytes for a message.
func encodeCounted(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...)
}

func (p *program) encodeArgument(to []byte, a Arg, opt bool) ([]byte, bool) {
	n := 1
	switch {
	case a.Array:
		n = p.random.IntN(3)
		to = binary.LittleEndian.AppendUint64(to, uint64(n))
	case opt:
		to = append(to, 1)
	}
	for range n {
		if a.Class == "" {
			one := make([]byte, a.Size)
			if a.Enum || p.random.IntN(2) == 0 {
				one[0] = byte(p.random.IntN(3))
			}
			for _, f := range a.Within {
				binary.LittleEndian.PutUint64(one[f.Offset:], p.randomHandle(f.Class))
			}
			to = append(to, one...)
			continue
		}
		v := p.randomHandle(a.Class)
		if a.Verb == Make || a.Verb == "" && p.random.IntN(4) == 0 {
			p.last++
			v = p.last
		}
		if v == 0 && !memory[a.Class] && a.Class != "context" {
			return to, false
		}
		to = append(to, binary.LittleEndian.AppendUint64(nil, v)[:a.Size]...)
	}
	return to, true
}
