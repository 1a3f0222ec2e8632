// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/collective"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/meeting"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// maxPast is how many ended communicators a server remembers.
const maxPast = 1024

// MaxCommSize is the size of the largest communicator.
const MaxCommSize = 1 << 16

// savedCommunicators is the part of Collectives that saves need. The mu of Collectives guards the fields.
type savedCommunicators struct {
	live     map[*collective.Comm]struct{}
	past     []commState // ended here, and not everywhere
	identity *meeting.Identity
	peers    map[int]string
	back     map[string]*commToRemake // restored, and not reconnected
	asking   []*Member                // restored, and to ask again
}

// NetworkState is a server's part in the communicators of its job.
type NetworkState struct {
	Maker []byte      `json:"maker"`
	Key   []byte      `json:"key"` // of unique ids
	Comms []commState `json:"comms,omitempty"`
	// Rounded tells that sums depend on the order in which the terms were added: see Status.Reductions.
	Rounded bool `json:"rounded,omitempty"`
}

// commState is a communicator.
type commState struct {
	Name    string             `json:"name"`
	Key     []byte             `json:"key"`
	Size    int                `json:"size"`
	Ranks   []int              `json:"ranks"`             // the ranks on this server
	Servers []int              `json:"servers,omitempty"` // the server of each rank; empty if all ranks are here
	Splits  int                `json:"splits,omitempty"`
	Is      meeting.Attendance `json:"is,omitempty"`
}

// isHere tells whether all ranks are on this server.
func (c *commState) isHere() bool { return len(c.Ranks) == c.Size }

// commToRemake is a communicator that is to be made again.
type commToRemake struct {
	commState
	members map[int]*Member // by rank; other ranks of this server have left
}

// describeUntilEnd has a communicator described in saves, until its end everywhere.
func (f *Collectives) describeUntilEnd(c *collective.Comm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.live[c]; known {
		return
	}
	if f.live == nil {
		f.live = map[*collective.Comm]struct{}{}
	}
	f.live[c] = struct{}{}
	go func() {
		<-c.Done()
		st := commStateOf(c)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.live, c)
		if !st.isHere() && (st.Is == meeting.Over || c.HasLeft()) {
			f.past = append(f.past, st)
			f.past = f.past[max(0, len(f.past)-maxPast):]
		}
	}()
}

// commStateOf describes a communicator that was ready.
func commStateOf(c *collective.Comm) commState {
	d, _ := c.Describe()
	st := commState{Name: d.ID, Key: d.Key, Size: d.Size, Ranks: d.Ranks, Servers: d.Servers, Splits: d.Splits}
	if st.isHere() {
		st.Servers = nil
	}
	switch err := c.Err(); {
	case err == nil:
	case errors.Is(err, collective.ErrClosed):
		st.Is = meeting.Left
	default:
		st.Is = meeting.Over
	}
	return st
}

// Describe writes down the state that a later life of this server needs; nil: no state. No operation is under way.
func (f *Collectives) Describe() *NetworkState {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.identity
	if f.net != nil {
		i := f.net.Rendezvous.Identity()
		id = &i
	}
	if id == nil {
		return nil
	}
	st := &NetworkState{Maker: id.Maker[:], Key: id.Key[:], Comms: slices.Clone(f.past), Rounded: f.Rounded.Load()}
	for c := range f.live {
		if s := commStateOf(c); !s.isHere() || s.Is == meeting.Present {
			st.Comms = append(st.Comms, s)
		}
	}
	for _, b := range f.back {
		st.Comms = append(st.Comms, b.commState)
	}
	slices.SortFunc(st.Comms, func(a, b commState) int { return cmp.Compare(a.Name, b.Name) })
	return st
}

// Restore takes the state that Describe has written.
func (f *Collectives) Restore(st *NetworkState) error {
	if st == nil {
		return nil
	}
	id := &meeting.Identity{}
	if len(st.Maker) != len(id.Maker) || len(st.Key) != len(id.Key) {
		return fmt.Errorf("an identity of %d and %d bytes: %w", len(st.Maker), len(st.Key), driver.ErrRestore)
	}
	f.Rounded.Store(st.Rounded)
	copy(id.Maker[:], st.Maker)
	copy(id.Key[:], st.Key)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.identity, f.back = id, map[string]*commToRemake{}
	for _, c := range st.Comms {
		if err := c.checkValid(f.Self); err != nil || f.back[c.Name] != nil {
			return fmt.Errorf("communicator %q, or there are two: %w: %w", c.Name, cmp.Or(err, errors.New("twice")), driver.ErrRestore)
		}
		f.back[c.Name] = &commToRemake{c, map[int]*Member{}}
	}
	return nil
}

// checkValid tells whether a description is valid.
func (c *commState) checkValid(self int) error {
	increasing := slices.IsSorted(c.Ranks) && len(slices.Compact(slices.Clone(c.Ranks))) == len(c.Ranks)
	switch {
	case c.Name == "" || len(c.Name) > 64 || len(c.Key) < 16 || c.Splits < 0 || c.Is > meeting.Over:
		return errors.New("damaged")
	case c.Size < 1 || c.Size > MaxCommSize || len(c.Ranks) == 0 || !increasing || c.Ranks[0] < 0 || c.Ranks[len(c.Ranks)-1] >= c.Size:
		return fmt.Errorf("ranks %v of %d", c.Ranks, c.Size)
	case c.isHere():
		return nil
	case len(c.Servers) != c.Size:
		return fmt.Errorf("%d ranks, and %d are somewhere", c.Size, len(c.Servers))
	}
	for rank, n := range c.Servers {
		if n == self != slices.Contains(c.Ranks, rank) {
			return fmt.Errorf("rank %d was at server %d, this is server %d", rank, n, self)
		}
	}
	return nil
}

// enterRestoredMember has a restored member get a communicator when the communicator is made again.
func (f *Collectives) enterRestoredMember(name string, m *Member) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.back[name]
	if b == nil || b.Size != m.size || !slices.Contains(b.Ranks, m.rank) || b.members[m.rank] != nil {
		return fmt.Errorf("rank %d of communicator %q: %w", m.rank, name, driver.ErrRestore)
	}
	b.members[m.rank] = m
	return nil
}

// resumeMeeting has a restored member go to its rendezvous when the job goes on.
func (f *Collectives) resumeMeeting(m *Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking = append(f.asking, m)
}

// MeetAgain sends the members that wait to their rendezvous.
func (f *Collectives) MeetAgain() {
	f.mu.Lock()
	all := f.asking
	f.asking = nil
	f.mu.Unlock()
	for _, m := range all {
		go m.meetRanks()
	}
}

// isWaiting tells whether a rendezvous is not over.
func (f *Collectives) isWaiting(id meeting.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.net == nil || f.net.Rendezvous.Waits(id)
}

// HoldMeetings keeps communicators from being made, until ReleaseMeetings.
func (f *Collectives) HoldMeetings() { f.withRendezvous((meeting.Rendezvous).Hold) }

// ReleaseMeetings lets communicators be made again.
func (f *Collectives) ReleaseMeetings() { f.withRendezvous((meeting.Rendezvous).Release) }

func (f *Collectives) withRendezvous(do func(meeting.Rendezvous)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.net != nil {
		do(f.net.Rendezvous)
	}
}
