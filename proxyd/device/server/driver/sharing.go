// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/handles"
)

// RandomID is a name that no process can guess.
type RandomID [16]byte

// NewRandomID makes a name.
func NewRandomID() (id RandomID) {
	_, _ = rand.Read(id[:]) // rand.Read never fails
	return id
}

// MarshalText implements encoding.TextMarshaler.
func (id RandomID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *RandomID) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(id) {
		return fmt.Errorf("%d characters are no name: %w", len(text), ErrRestore)
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Sharing is the state of CUDA's IPC that the processes of a server have in common. A handle that a process hands to
// another process has the name of the server in it, so that a handle of a process which another server serves is told
// from nonsense.
//
// Work of a process may wait for work of another process. So a process that records or waits for a shared event gets a
// number in the order of all such calls, by which a restore queues again the work that was held at a cut.
type Sharing struct {
	ID    RandomID // of the server; a restored server has the saved server's
	Group uint64   // of the processes' spaces

	mu       sync.Mutex
	order    uint64
	exported map[RandomID]*Event        // by their names
	pools    map[RandomID]SharedPool    // by their names
	restored map[RandomID]backend.Event // during a restore, one for each name
}

// NewSharing makes the Sharing of a server. group is a number that no other server of the machine has.
func NewSharing(group uint64) *Sharing {
	return &Sharing{ID: NewRandomID(), Group: group, exported: map[RandomID]*Event{}, pools: map[RandomID]SharedPool{}, restored: map[RandomID]backend.Event{}}
}

// NextInOrder is a number that is higher than all numbers before.
func (s *Sharing) NextInOrder() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order++
	return s.order
}

// nameEvent names an event for other processes, the same in each call.
func (s *Sharing) nameEvent(e *Event) RandomID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.share == (RandomID{}) {
		e.share = NewRandomID()
	}
	s.exported[e.share] = e
	return e.share
}

// ShareOf is the name that an event has among processes, zero if there is none.
func (s *Sharing) ShareOf(e *Event) RandomID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.share
}

// findEvent finds the event that a process has exported, nil if that is gone.
func (s *Sharing) findEvent(share RandomID) *Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.exported[share]
	if e == nil || e.process.IsGone() || e.Context.Gone.Load() {
		return nil
	}
	return e
}

// forgetEvent forgets an event that is destroyed, and returns its name.
func (s *Sharing) forgetEvent(e *Event) RandomID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exported[e.share] == e {
		delete(s.exported, e.share)
	}
	return e.share
}

// ForgetEvents forgets exported events that are gone.
func (s *Sharing) ForgetEvents(gone func(*Event) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for share, e := range s.exported {
		if gone(e) {
			delete(s.exported, share)
		}
	}
}

// ForgetProcess forgets the events and pools that an ended process has exported.
func (s *Sharing) ForgetProcess(p *Process) {
	s.ForgetEvents(func(e *Event) bool { return e.process == p })
	s.mu.Lock()
	defer s.mu.Unlock()
	for share, pool := range s.pools {
		if pool.Process == p {
			delete(s.pools, share)
		}
	}
}

// SharedPool is a memory pool that a process has exported.
type SharedPool struct {
	Process *Process
	Device  int // by the job's number
}

// SharePool lets other processes find a pool by its name.
func (s *Sharing) SharePool(share RandomID, pool SharedPool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools[share] = pool
}

// FindPool finds the pool with a name, if there still is one.
func (s *Sharing) FindPool(share RandomID) (SharedPool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool, ok := s.pools[share]
	return pool, ok && !pool.Process.IsGone()
}

// ForgetPool forgets a pool that is destroyed.
func (s *Sharing) ForgetPool(share RandomID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pools, share)
}

// EndRestore is called when all work is queued again that was held at a cut: events that no process has any more are gone.
func (s *Sharing) EndRestore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.restored)
}

// restoreEvent makes an event of a context that refers to the same event of the backend as all events of that name.
func (s *Sharing) restoreEvent(x *Context, share RandomID, cfg backend.EventConfig) (backend.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b backend.Event
	var err error
	if first := s.restored[share]; first == nil {
		b, err = x.Backend.NewEvent(cfg)
	} else if with := x.Sharer(); with != nil {
		b, err = with.OpenEvent(first)
	} else {
		return nil, fmt.Errorf("its processes share events, which the devices here cannot: %w", ErrRestore)
	}
	if err == nil {
		s.restored[share] = b
	}
	return b, err
}

// Sharer is the context's backend as one that shares memory and events, or nil.
func (x *Context) Sharer() backend.Sharer {
	b := x.Backend
	if w, wrapped := b.(interface{ Unwrap() backend.Context }); wrapped {
		b = w.Unwrap()
	}
	with, _ := b.(backend.Sharer)
	return with
}

// SetsConditions tells whether graphs of the context may have conditional nodes.
func (x *Context) SetsConditions() bool {
	b := x.Backend
	if w, wrapped := b.(interface{ Unwrap() backend.Context }); wrapped {
		b = w.Unwrap()
	}
	with, ok := b.(backend.ConditionSetter)
	return ok && with.SetsConditions()
}

// The first bytes of handles that processes hand to each other.
const (
	MemoryHandle  = "SINGMEM1"
	EventHandle   = "SINGEVT1"
	PoolHandle    = "SINGPOL1"
	PointerHandle = "SINGPTR1"
)

// EncodeHandle makes a handle of a kind, with a content.
func (s *Sharing) EncodeHandle(kind string, content []byte) (out [64]uint8) {
	n := copy(out[:], kind)
	n += copy(out[n:], s.ID[:])
	copy(out[n:], content)
	return out
}

// DecodeHandle finds the content of a handle of a kind: NOT_SUPPORTED if a process of another server has made the handle,
// INVALID_HANDLE if no process has.
func (s *Sharing) DecodeHandle(kind string, handle [64]uint8, length int) ([]byte, dispatch.Result) {
	begin := len(kind) + len(s.ID)
	rest := handle[begin:]
	switch {
	case string(handle[:len(kind)]) != kind || !bytes.Equal(rest[length:], make([]byte, len(rest)-length)):
		return nil, dispatch.ResultInvalidHandle
	case !bytes.Equal(handle[len(kind):begin], s.ID[:]):
		return nil, dispatch.ResultNotSupported
	}
	return rest[:length], 0
}

// SharedEventState is an event that processes share.
type SharedEventState struct {
	Handle dispatch.Event `json:"handle"`
	Share  RandomID       `json:"share"`
}

// DescribeSharedEvents writes down which events are shared.
func (p *StreamCalls) DescribeSharedEvents() []SharedEventState {
	var out []SharedEventState
	hs, es := handles.Sorted(&p.events)
	for i, e := range es {
		if share := p.Sharing.ShareOf(e); share != (RandomID{}) {
			out = append(out, SharedEventState{hs[i], share})
		}
	}
	return out
}

// newEvent makes an event of a context, which is shared if it was before a restore.
func (p *StreamCalls) newEvent(x *Context, h dispatch.Event, share RandomID, cfg backend.EventConfig) (*Event, error) {
	if p.Restoring != nil {
		share = p.Restoring.EventShare(h)
	}
	e := &Event{Context: x, process: p.Process, share: share}
	var err error
	if share == (RandomID{}) {
		e.Backend, err = x.Backend.NewEvent(cfg)
	} else {
		e.Backend, err = p.Sharing.restoreEvent(x, share, cfg)
	}
	return e, err
}

// putEvent gives an event the handle that the shim made up.
func (p *StreamCalls) putEvent(h dispatch.Event, e *Event) dispatch.Result {
	r := p.events.Put(h, e)
	if r != 0 {
		_ = e.Backend.Destroy() // the event is unused
	}
	return r
}

// MakeGoneEvent makes an event that was destroyed while held work named the event.
func (p *StreamCalls) MakeGoneEvent(in dispatch.Context, h dispatch.Event, share RandomID) dispatch.Result {
	x, r := p.Context(in)
	if r != 0 {
		return r
	}
	e, err := p.newEvent(x, h, share, backend.EventConfig{NoTiming: true})
	if err != nil {
		return p.Result(err)
	}
	e.interprocess = share != (RandomID{})
	e.opened = e.interprocess
	return p.putEvent(h, e)
}

// IpcEvent implements dispatch.Backend, as IpcOpenEvent.
func (p *StreamCalls) IpcEvent(_ *dispatch.Call, event dispatch.Event) (handle dispatch.Ipcevent, r dispatch.Result) {
	e, r := p.Event(event)
	switch {
	case r != 0:
		return handle, r
	case !e.interprocess || e.opened:
		return handle, dispatch.ResultInvalidHandle
	case e.Context.Sharer() == nil:
		return handle, dispatch.ResultNotSupported
	}
	share := p.Sharing.nameEvent(e)
	handle.Bytes = p.Sharing.EncodeHandle(EventHandle, share[:])
	return handle, 0
}

func (p *StreamCalls) IpcOpenEvent(c *dispatch.Call, event dispatch.Event, handle dispatch.Ipcevent) dispatch.Result {
	x, r := p.Current(c)
	if r != 0 {
		return r
	}
	e, r := p.openEvent(x, event, handle)
	if r != 0 {
		return r
	}
	e.interprocess, e.opened = true, true
	return p.putEvent(event, e)
}

// openEvent makes an event of the context that refers to another process's event.
func (p *StreamCalls) openEvent(x *Context, event dispatch.Event, handle dispatch.Ipcevent) (*Event, dispatch.Result) {
	if p.Restoring != nil {
		e, err := p.newEvent(x, event, RandomID{}, backend.EventConfig{NoTiming: true})
		return e, p.Result(err)
	}
	content, r := p.Sharing.DecodeHandle(EventHandle, handle.Bytes, len(RandomID{}))
	if r != 0 {
		return nil, r
	}
	share := RandomID(content)
	theirs, with := p.Sharing.findEvent(share), x.Sharer()
	switch {
	case theirs == nil:
		return nil, dispatch.ResultInvalidHandle
	case theirs.process == p.Process:
		return nil, dispatch.ResultInvalidContext
	case with == nil:
		return nil, dispatch.ResultNotSupported
	}
	b, err := with.OpenEvent(theirs.Backend)
	if err != nil {
		return nil, p.Result(err)
	}
	return &Event{Backend: b, Context: x, process: p.Process, share: share}, 0
}
