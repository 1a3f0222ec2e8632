// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"maps"
	"slices"
	"strings"
)

// fact has the known changes of a path.
type fact struct {
	known   bool // the State has this path
	touched bool // false: the path is only on the way to such a path
	mapped  bool // at a cut in this span, for writing and sharing
	wrote   bool // its content may have changed otherwise than by appending
	grew    bool // the file was appended to
	made    bool // the job made the present file, in this span
	gone    bool // the job took the file away for certain, and no new file is known to have come since
	unique  bool // the present file may have no other name, and is not the job's
	lost    bool // it is not known which file was there before the span
	maybe   bool // the job may have made the file: the change list does not know
	size    int64
	link    string // the path was made a hard link to this path
}

// tree holds the paths that a job touched, folder by folder, so that a new name of a folder is a
// new name of everything in the folder. A tree knows no file system: entries in, facts out.
type tree struct {
	root  *node
	count int
	lost  bool // there were more paths than can be kept
}

type node struct {
	fact
	children map[string]*node
}

func newTree() *tree { return &tree{root: &node{}} }

// nodeAt returns the node of a clean absolute path, made if missing.
func (t *tree) nodeAt(path string) *node {
	n := t.root
	for part := range strings.SplitSeq(path[1:], "/") {
		next := n.children[part]
		if next == nil {
			if t.count >= maxEntries {
				t.lost = true
				return &node{} // outside of the tree: its facts are dropped
			}
			t.count++
			next = &node{}
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[part] = next
		}
		n = next
	}
	return n
}

// findNode returns the node of a path, or nil.
func (t *tree) findNode(path string) *node {
	n := t.root
	for part := range strings.SplitSeq(path[1:], "/") {
		if n = n.children[part]; n == nil {
			return nil
		}
	}
	return n
}

// wasChanged says whether the job did something to a path or to a folder on the way to that path:
// with another folder in its place, another file is there.
func (t *tree) wasChanged(path string) bool {
	n := t.root
	for part := range strings.SplitSeq(path[1:], "/") {
		if n = n.children[part]; n == nil {
			return false
		}
		if n.touched {
			return true
		}
	}
	return false
}

// copyBelow gives the node to the children that the node from has.
func (t *tree) copyBelow(to, from *node, depth int) {
	if depth > maxPath/2 { // a folder moved into itself; no kernel does that
		return
	}
	for _, name := range slices.Sorted(maps.Keys(from.children)) {
		if t.count >= maxEntries {
			t.lost = true
			return
		}
		c := from.children[name]
		if to.children == nil {
			to.children = map[string]*node{}
		}
		d := to.children[name]
		if d == nil {
			d = &node{}
			to.children[name] = d
			t.count++
		}
		if !c.gone && (c.touched || c.known) {
			d.arriveFrom(c)
		}
		t.copyBelow(d, c, depth+1)
	}
}

// arriveFrom says that the file of o has come to n.
func (n *node) arriveFrom(o *node) {
	n.size, n.grew, n.maybe, n.mapped = o.size, o.grew, o.maybe, n.mapped || o.mapped
	n.unique = o.unique || !o.known && !o.made
	n.touched, n.made, n.wrote, n.gone, n.link = true, true, true, false, ""
}

// markGone says that the files at n and below are gone.
func (n *node) markGone() {
	n.made, n.unique, n.maybe, n.gone, n.link = false, false, false, true, ""
	for _, c := range n.children {
		c.markGone()
	}
}

// applyEntry applies an entry; its paths are clean.
func (t *tree) applyEntry(e Entry) {
	n := t.nodeAt(e.Path)
	before := n.touched
	n.touched = true
	switch e.Kind {
	case Created, Folder, Symlinked:
		n.made, n.wrote, n.link = true, true, ""
		n.unique, n.gone = false, false
	case Written:
		n.markForeign()
		n.wrote, n.gone = true, false
	case Mapped:
		if !before { // no other change of the file is known
			n.markForeign()
		}
		n.wrote, n.mapped, n.gone = true, true, false
	case Unsure:
		n.wrote, n.maybe, n.gone = true, true, false
	case Appended:
		if !n.grew && !n.wrote {
			n.size = e.Size
		}
		n.unique = n.unique || !n.made && !n.known
		n.maybe = n.maybe || e.Size < 0
		n.grew, n.gone = true, false
	case Closed:
		n.wrote, n.maybe, n.gone = true, true, false
	case Removed:
		n.markGone()
	case Linked:
		n.made, n.unique, n.gone, n.link = true, false, false, e.Other
	case Renamed, Replaced:
		t.applyRename(n, e)
	case Exchanged:
		o := t.nodeAt(e.Other)
		was := &node{fact: n.fact}
		t.copyBelow(was, n, 0)
		n.markGone()
		n.arriveFrom(o)
		t.copyBelow(n, o, 0)
		o.markGone()
		o.arriveFrom(was)
		t.copyBelow(o, was, 0)
	}
	if e.Kind == Unsure && e.Other != "" {
		t.nodeAt(e.Other).touched = true
	}
}

func (t *tree) applyRename(n *node, e Entry) {
	if isBelow(e.Path, e.Other) || isBelow(e.Other, e.Path) {
		return // the kernel refuses this
	}
	o := t.nodeAt(e.Other)
	if e.Kind == Replaced {
		n.markForeign()
	}
	n.arriveFrom(o)
	t.copyBelow(n, o, 0)
	o.touched = true
	if e.Kind == Replaced && len(o.children) == 0 {
		return // both may be names of the same file: then the kernel's rename has no effect, and both are still there
	}
	o.markGone()
}

// markForeign is called when something at n is changed that was there before: if the State does
// not have the old content, that content is lost.
func (n *node) markForeign() {
	if !n.made && !n.known && !n.gone {
		n.lost, n.unique = true, true
	}
}

// touchedPaths returns all paths that were touched, folders before their content.
func (t *tree) touchedPaths() []string {
	var all []string
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		if n.touched {
			all = append(all, path)
		}
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			walk(n.children[name], path+"/"+name)
		}
	}
	walk(t.root, "")
	return all
}
