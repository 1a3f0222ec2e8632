// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Key is the name that cuGetProcAddress is asked for. A function is found by the largest version
// that is not beyond the requested version.
type Key struct {
	Name      string
	Version   int
	PerThread bool
}

// Entry is the answer to a Key: a symbol to export.
type Entry struct {
	Key
	Symbol string
	Call   *Call
}

// Entries returns the entries of all calls of the driver, sorted by name, then by flag, then by version.
func (t *Table) Entries() []Entry {
	var all []Entry
	for c := range t.Calls {
		if c.Message || c.Area.Lib != Driver {
			continue
		}
		all = append(all, Entry{Key{c.Name, c.Version, false}, c.Symbol, c})
		if c.Also != "" {
			all = append(all, Entry{Key{c.Also, c.AlsoVersion, false}, c.Symbol, c})
		}
		if c.PerThread != "" {
			all = append(all, Entry{Key{c.Name, c.PerThreadVersion(), true}, c.PerThreadSymbol(), c})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), compareBool(a.PerThread, b.PerThread), cmp.Compare(a.Version, b.Version))
	})
	return all
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Symbols returns every symbol of the device half, sorted, with its call.
func (t *Table) Symbols() []Entry {
	var all []Entry
	for c := range t.Calls {
		if c.Message || c.Area.Lib == LibC {
			continue
		}
		all = append(all, Entry{Key{c.Name, c.Version, false}, c.Symbol, c})
		if c.PerThread != "" {
			all = append(all, Entry{Key{c.Name, c.PerThreadVersion(), true}, c.PerThreadSymbol(), c})
		}
		if p := c.ProfiledSymbol(); p != "" {
			all = append(all, Entry{Key{p, c.Version, false}, p, c})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Symbol, b.Symbol) })
	return all
}

// PerThreadOp is set in the number of a message that the variant for per-thread default streams sent.
const PerThreadOp = 1 << 31

// Op is the number of a message, made from the name alone, so that the number stays when other
// rows come and go: a restored program brings the shim of the release with which it began.
func (c *Call) Op() uint32 {
	h := fnv.New32a()
	h.Write([]byte(c.Symbol))
	return h.Sum32() &^ PerThreadOp
}
