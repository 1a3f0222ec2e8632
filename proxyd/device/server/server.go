// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
)

// Config is the configuration of a Server.
type Config struct {
	Backend backend.Backend // the server closes the backend
	// Machine, instead of Backend, has the server share the machine with others. The caller closes the machine.
	Machine *Machine
	// Order says which of the backend's devices each of the job's devices is on; several may be on the same device.
	// Nil: each has a device of its own. If a restored job had more devices, the devices with memory that was
	// alike share a device: see likeness.go.
	Order []int
	// Spare is how many of the backend's devices, the last ones, the job has no use for before Place names them.
	Spare int
	// Regroup has Order say only how often each device of the backend is used: devices that turn out to be alike come to
	// share a device by themselves, until Place names an order. See regroup.go.
	Regroup bool
	// Info describes each of the job's devices to programs; nil: the devices as they are.
	Info []backend.Info
	// Addresses are where the first device's memory lies, and how many addresses each device has; zero:
	// backend.SpaceSize addresses for each, from backend.DefaultBase on.
	Addresses backend.Range
	Log       *slog.Logger
	Version   string // the version in Status
	// Self is the number of this device server among the job's, from 0. Communicators that are over several servers
	// cannot be saved unless the servers have different numbers.
	Self int
	// Awaits makes the server attach no process before Restore: a process that connects meanwhile is to ask again.
	Awaits bool
	// Exact has all reductions follow the tree over rank numbers, also on devices that can be in a team: as where no
	// device can be in a team.
	Exact bool
	// Network is called when collectives are first used; nil: Alone.
	Network func(context.Context) (*nccl.Network, error)
}

// Server holds the devices of a job on this node, and serves the job's processes.
type Server struct {
	cfg         Config
	machine     *Machine
	devices     []*driver.Device
	ctx         context.Context
	cancel      context.CancelFunc
	running     sync.WaitGroup // attachments and processes
	collectives *nccl.Collectives
	sharing     *driver.Sharing
	state       stateKeeper
	seen        reportedFaults
	cuts        cutKeeper

	mu        sync.Mutex
	closed    bool
	last      uint64
	processes map[uint64]*process
}

// New makes a server. The caller closes the server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, machine: cfg.Machine, processes: map[uint64]*process{}}
	if s.machine == nil {
		s.machine = NewMachine(cfg.Backend)
	}
	if s.state.awaits = cfg.Awaits; cfg.Awaits {
		s.state.admission.Lock()
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sharing = driver.NewSharing(s.machine.servers.Add(1))
	s.collectives = nccl.NewCollectives(s.ctx, cfg.Self, cfg.Network)
	s.collectives.Exact = cfg.Exact
	if m, is := s.machine.backend.(backend.BufferSharer); is {
		s.collectives.Memory = m
	}
	for _, d := range s.machine.backend.Devices() {
		_, s.collectives.Teams = d.(backend.Teams)
	}
	order := cfg.Order
	if order == nil {
		order = Spread(s.deviceCount(), s.deviceCount())
	}
	s.makeDevices(order)
	if cfg.Regroup {
		s.running.Go(func() { regroupRunning(s) })
	}
	return s
}

// Spread is an order of n devices over m: neighbours are together, and no device of the m has two more than another.
func Spread(n, m int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i * m / n
	}
	return out
}

// deviceCount is the number of the backend's devices with which the job begins.
func (s *Server) deviceCount() int { return len(s.machine.timeSlices) - s.cfg.Spare }

// makeDevices makes the job's devices, in an order of the backend's.
func (s *Server) makeDevices(order []int) {
	s.devices = nil
	var stride uint64
	for i, at := range order {
		d := driver.NewDevice(s.machine.placeAt(at))
		if i < len(s.cfg.Info) {
			d.ShownInfo = &s.cfg.Info[i]
		}
		d.Size = cmp.Or(s.cfg.Addresses.Size, backend.SpaceSize(d.ShownInfo.Memory))
		stride = max(stride, d.Size)
		s.devices = append(s.devices, d)
	}
	for i, d := range s.devices {
		d.Base = cmp.Or(s.cfg.Addresses.Base, backend.DefaultBase) + backend.Addr(uint64(i)*stride)
	}
}

// Serve attaches the processes that connect to l, until Close. Serve closes l, and returns nil after Close.
func (s *Server) Serve(l *net.UnixListener) error {
	defer l.Close()
	// As long as this goroutine runs, Close waits for the goroutines that it starts.
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.running.Add(1)
	}
	s.mu.Unlock()
	if closed {
		return nil
	}
	defer s.running.Done()
	stop := context.AfterFunc(s.ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.AcceptUnix()
		switch {
		case s.ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("accept a process: %w", err)
		}
		s.running.Go(func() {
			if err := s.attachProgram(c); err != nil {
				s.cfg.Log.Warn("a process was not attached", "error", err)
			}
		})
	}
}

// errClosed is why no process is attached any more.
var errClosed = errors.New("the device server is ending")

// errStopped is why no process is attached now: ask again.
var errStopped = errors.New("the job is stopped")

// makeProcess makes a process of a ring and its peer, which are the server's if there is no error. sees says which
// devices the process sees. welcome tells the peer, before its end can be noticed.
func (s *Server) makeProcess(ring *wire.Ring, peer driver.Peer, sees visibility, welcome func() error) (*process, error) {
	if !s.state.admission.TryRLock() {
		return nil, errStopped
	}
	defer s.state.admission.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if err := welcome(); err != nil {
		return nil, err
	}
	s.last++
	p := newProcess(s, s.last, ring, peer, s.viewOf(sees))
	s.processes[p.ID] = p
	s.serveProcess(p, peer)
	return p, nil
}

// serveProcess serves a process's ring from now on, and watches its peer.
func (s *Server) serveProcess(p *process, peer driver.Peer) {
	s.running.Go(func() {
		p.serveRing()
		s.mu.Lock()
		delete(s.processes, p.ID)
		s.mu.Unlock()
	})
	s.running.Go(func() {
		if why := peer.Watch(); why != "" {
			p.notePeerGone(why)
		}
	})
}

// Close ends all processes' work, frees everything and closes the backend, unless the server shares a machine. Close may
// be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	all := make([]*process, 0, len(s.processes))
	for _, p := range s.processes {
		all = append(all, p)
	}
	s.mu.Unlock()
	s.cancel()
	for _, p := range all {
		p.endProcess("the device server is ending")
	}
	if a := s.currentAttempt(); a != nil {
		s.abandonAttempt(a.number)
	}
	s.dismissWaiting()
	s.running.Wait()
	s.collectives.Close()
	if s.cfg.Machine != nil {
		s.machine.restored.forgetServer(s)
		return nil
	}
	s.reportSwaps()
	return s.machine.Close()
}

// reportSwaps logs the bytes moved because spaces did not fit on a device together.
func (s *Server) reportSwaps() {
	for i, d := range s.machine.backend.Devices() {
		if w, ok := d.(backend.Swapper); ok {
			if n := w.Swapped(); n.Out > 0 {
				s.cfg.Log.Info("memory was swapped", "device", i, "out", n.Out, "in", n.In, "took", n.Took, "most", n.Most)
			}
		}
	}
}

// processCores are the processes that are attached, in no order.
func (s *Server) processCores() []*driver.Process {
	var out []*driver.Process
	for _, p := range s.allProcesses() {
		out = append(out, p.Process)
	}
	return out
}

// allProcesses lists the processes that are attached, in no order.
func (s *Server) allProcesses() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*process, 0, len(s.processes))
	for _, p := range s.processes {
		out = append(out, p)
	}
	return out
}
