// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
)

// A save, and how a server comes back:
//
//	Save      refusals     the first obstacle is named, before any process is stopped
//	          cut          every ring's gate shuts; calls under way end; no message is in flight anywhere
//	          describe     processes, handles, the calls that made them
//	          memory       the blocks that are neither zero nor known
//	          state.json   last: without it there is no save
//	then      Resume       the gates open, the processes go on here; or
//	          Leave        this server is done with the rings, which stay unchanged, for another server
//	          (or is killed: that is the same to the processes)
//
//	Restore   compare      the devices are like the saved devices, or the restore is refused
//	          build        spaces with their addresses, then the calls again, with the same handles
//	          memory       the blocks
//	then      Adopt        of each process, when it comes back with its ring
//	          Reconnect    with the job's other servers: communicators are made again
//	          Resume       the gates open
//
// A process that stands at the gate is in no call. The process may be dumped there, be away for a year, and find
// another server.

// Errors of a save. They wrap the reason.
var (
	// ErrNotSaved is why a job cannot be saved in its present state. The job is unchanged.
	ErrNotSaved = errors.New("the devices cannot be saved")
	// ErrRestore is why a saved state cannot be built here.
	ErrRestore = driver.ErrRestore
)

// Sink takes the files of a save. Names are plain, without a slash. A file is complete when its Close returns nil.
// Create is called concurrently. If a file has a method CloseWithError, like an io.PipeWriter, then CloseWithError
// closes a file that will not be complete.
type Sink interface {
	Create(name string) (io.WriteCloser, error)
}

// Source gives the files of a save. Open is called concurrently.
type Source interface {
	Open(name string) (io.ReadCloser, error)
}

// SaveOptions say how a save is made.
type SaveOptions struct {
	// Upon is the ID of an earlier save whose files are kept: blocks that it has are named, and not written, and a
	// Source for this save finds the files of it that Report.Kept names beside the new files. The server knows its last
	// saves, and the save that it was restored from; with any other ID the server saves all blocks.
	Upon string
	// Attempt is the attempt whose cut is to be saved, which must hold; 0: the save finds a cut of its own.
	Attempt uint64
}

// OwnerPlaces is the number of places: variables of spaces whose numbers in Report.Owners differ by a multiple of it are at
// the same addresses.
const OwnerPlaces = backend.OwnerPlaces

// Report is the result of a save.
type Report struct {
	ID        string         `json:"id"` // of this save; no other of any server has the same
	Processes []SavedProcess `json:"processes"`
	Files     []string       `json:"files"`   // the files that a Source must have
	Kept      []string       `json:"kept"`    // of these, the files of earlier saves
	Bytes     uint64         `json:"bytes"`   // of the devices' memory
	Written   uint64         `json:"written"` // of these: written now
	Zero      uint64         `json:"zero"`    // left out
	Twice     uint64         `json:"twice"`   // the same as other blocks of this save
	Known     uint64         `json:"known"`   // in files of the saves before
	Memory    uint64         `json:"memory"`  // of a device
	Needs     []uint64       `json:"needs"`   // the most of these bytes that would be on a device if the job's were on 1, 2, … devices
	Owners    []uint64       `json:"owners"`  // of all spaces: numbers by which the driver's own memory lies, see driver.OwnerNumbers
	Cut       time.Duration  `json:"cut"`     // the time to stop
	Wrote     time.Duration  `json:"wrote"`   // and to write
}

// SavedProcess names a process of a save. The key of HostMappings is older than the field's name: it stays, so that a new server
// reads old saves.
type SavedProcess struct {
	ID      uint64 `json:"id"`
	PID     int    `json:"pid"`     // in this server's PID namespace
	Capsule int    `json:"capsule"` // as the process itself does
	// HostMappings come back with the process: see Adopt. The ring is the first.
	HostMappings []HostMapping `json:"belongings"`
}

// stateKeeper is the state of a server's saves.
type stateKeeper struct {
	admission sync.RWMutex // held for writing while the job is stopped: no process is attached

	mu       sync.Mutex // held during Save, Resume, Leave and Adopt
	stopped  bool
	awaits   bool          // a restore, with admission held
	shift    time.Duration // the lead of the saved server's clock
	key      *[32]byte
	saves    uint64         // number of saves so far, before a restore too
	earlier  []*earlierSave // the last saves, oldest first
	alike    []uint64       // of each device of the machine, as in SharingStatus
	common   [][]int        // of each two devices of the job: blocks that they had alike at the last save; nil: no save
	regroup  *regroupOrder  // when the job goes on after the last save; nil: as before
	placed   bool           // Place has given an order
	awaiting map[uint64]*process
}

// stateClock is a clock that goes on over a restore: state.shift ahead of the backend's, which began at about the same
// moment as its machine. Times of events are by the backend's; they are saved by this clock.
func (s *Server) stateClock() time.Duration { return time.Since(s.machine.epoch) + s.state.shift }

// Save stops the job and writes its devices' state to sink. On success the job stays stopped until Resume or Leave; a
// second Save then writes the same again. On failure the job runs on, and the error says why: it wraps ErrNotSaved if
// the job's state is the reason. ctx limits the whole Save. The cut of an attempt is its leader's: the cut lasts after
// a failure, too.
func (s *Server) Save(ctx context.Context, sink Sink, o SaveOptions) (*Report, error) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	began := time.Now()
	ctx, stop, err := s.contextOfSave(ctx, o.Attempt)
	if err != nil {
		return nil, fmt.Errorf("save: %w", err)
	}
	defer stop()
	if o.Attempt != 0 {
		if err := s.findRefusals(); err != nil {
			return nil, err
		}
	}
	if s.state.awaits {
		return nil, fmt.Errorf("save: nothing was restored yet: %w", ErrNotSaved)
	}
	if !s.state.stopped {
		if err := s.findRefusals(); err != nil {
			return nil, err
		}
		if err := s.stopJob(ctx); err != nil {
			return nil, err
		}
		s.state.stopped = true
	}
	stopped := time.Now()
	r, err := s.writeState(ctx, sink, o)
	switch {
	case o.Attempt != 0 && ctx.Err() != nil:
		return nil, fmt.Errorf("save: %w", context.Cause(ctx))
	case err != nil && o.Attempt != 0:
		return nil, fmt.Errorf("save: %w", err)
	case err != nil:
		return nil, errors.Join(fmt.Errorf("save: %w", err), s.resumeJob())
	}
	r.Cut, r.Wrote = stopped.Sub(began), time.Since(stopped)
	return r, nil
}

// Resume lets the job go on after Save, or after Restore and Adopt. Processes that have not come back by then are gone.
func (s *Server) Resume() error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if !s.state.stopped {
		return errors.New("the job is not stopped")
	}
	if err := s.collectives.ReconnectAlone(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	s.machine.restored.forgetServer(s)
	regroupStopped(s)
	for _, p := range s.state.awaiting {
		p.endProcess("it did not come back")
		s.forgetProcess(p)
	}
	s.state.awaiting = nil
	queueHeldWork(s.allProcesses())
	s.sharing.EndRestore()
	if a := s.currentAttempt(); a != nil {
		s.concludeAttempt(a, true)
		return nil
	}
	return s.resumeJob()
}

// resumeJob opens the gates that stopJob has shut. The caller holds state.mu.
func (s *Server) resumeJob() error {
	s.state.stopped = false
	s.openGates(s.allProcesses())
	s.collectives.MeetAgain()
	s.state.admission.Unlock()
	return nil
}

// Leave gives up the rings after Save, without a message to the processes, and frees all memory; Close is still to be
// called. The processes wait for another server.
func (s *Server) Leave() error {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if !s.state.stopped {
		return errors.New("the job is not stopped")
	}
	for _, p := range s.allProcesses() {
		if p.Ring != nil {
			p.Ring.Detach()
		}
	}
	s.state.stopped = false
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if a := s.currentAttempt(); a != nil {
		s.concludeAttempt(a, false)
		return nil
	}
	s.state.admission.Unlock()
	return nil
}

// dismissWaiting lets the processes go that wait for a stopped job, when all is over.
func (s *Server) dismissWaiting() {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.state.stopped {
		s.state.stopped = false
		s.state.admission.Unlock()
	}
}

// forgetProcess takes a process that has no ring off the list.
func (s *Server) forgetProcess(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, p.ID)
}
