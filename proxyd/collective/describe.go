// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"errors"
	"net"
	"slices"
)

// Description has the data with which Start makes a communicator again after its processes have
// ended: with the same ID and number of splits, a key that all members derive from this key, and
// members at their new addresses.
type Description struct {
	ID      string
	Key     []byte
	Size    int
	Ranks   []int // that are here
	Servers []int // of each rank, as in its Member
	Splits  int
}

// Describe describes the communicator: false until its members are known.
func (c *Comm) Describe() (Description, bool) {
	select {
	case <-c.ready:
	default:
		return Description{}, false
	}
	d := Description{ID: c.id, Key: slices.Clone(c.key), Size: c.size, Ranks: slices.Clone(c.local)}
	for _, p := range c.home {
		d.Servers = append(d.Servers, c.server[p])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Splits = c.splits
	return d, true
}

// HasLeft tells whether this process has left a communicator that has not failed, and other
// processes have not left it, as far as this process knows.
func (c *Comm) HasLeft() bool {
	c.mu.Lock()
	exited, links := c.exited && errors.Is(c.err, ErrClosed), slices.Clone(c.links)
	c.mu.Unlock()
	if !exited {
		return false
	}
	return slices.ContainsFunc(links, func(l *link) bool { return l != nil && !l.peerIsGone() })
}

// replaceDepartedLinks makes links, already ended, for processes that have left. It returns others less
// their number: the processes still to be connected.
func (c *Comm) replaceDepartedLinks(others int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, gone := range c.gone {
		if !gone || p == c.me {
			continue
		}
		ours, theirs := net.Pipe() // no goroutine reads or writes this pipe
		theirs.Close()
		c.links[p] = newLink(p, ours, 0, c.failComm)
		c.links[p].peerLeft, c.links[p].state = true, linkEnded
		others--
	}
	return others
}
