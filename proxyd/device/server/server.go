// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
)

// DriverVersion is the version of CUDA's driver that programs are told.
const DriverVersion = 13000

// Config is what a Server is made of.
type Config struct {
	Backend backend.Backend // the server closes it
	Order   []int           // which of its devices there are, in what order; nil: all, in its own
	Log     *slog.Logger
	Version string // what Status says
	// Network is called when collectives are first used; nil: Alone.
	Network func(context.Context) (*Network, error)
}

// Server holds the devices of a job on this node, and serves the job's processes.
type Server struct {
	cfg     Config
	devices []*device
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup // attachments and processes
	fabric  *fabric
	state   stateKeeper
	seen    seen
	cuts    cutKeeper

	mu        sync.Mutex
	closed    bool
	last      uint64
	processes map[uint64]*process
}

// device is one of the server's, as processes share it.
type device struct {
	backend.Device
	info  *backend.Info // what programs are told: of the device that they began with
	base  backend.Addr  // of each space of it: no two devices have the same addresses
	turns turns
}

// Info implements backend.Device.
func (d *device) Info() *backend.Info { return d.info }

// New makes a server. The caller closes it.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, processes: map[uint64]*process{}}
	s.state.epoch = time.Now()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.fabric = newFabric(s.ctx, cfg.Network)
	all := cfg.Backend.Devices()
	if cfg.Order != nil {
		all = nil
		for _, i := range cfg.Order {
			all = append(all, cfg.Backend.Devices()[i])
		}
	}
	var stride uint64
	for _, d := range all {
		stride = max(stride, backend.SpaceSize(d.Info().Memory))
	}
	for i, d := range all {
		s.devices = append(s.devices, &device{Device: d, info: d.Info(), base: backend.DefaultBase + backend.Addr(uint64(i)*stride)})
	}
	return s
}

// Serve attaches who connects to l, until Close. It closes l. It returns nil after Close.
func (s *Server) Serve(l *net.UnixListener) error {
	defer l.Close()
	// As long as this one runs, Close waits for those that it starts.
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
			if err := s.attach(c); err != nil {
				s.cfg.Log.Warn("a process was not attached", "error", err)
			}
		})
	}
}

// errClosed is why nobody is attached any more.
var errClosed = errors.New("the device server is ending")

// errStopped is why nobody is attached now: ask again.
var errStopped = errors.New("the job is stopped")

// serve makes a process of a ring and its peer, which are the server's if there is no error. view are the devices that it sees.
// welcome tells the peer, before its end can be noticed.
func (s *Server) serve(ring *wire.Ring, peer peer, view []int, welcome func() error) (*process, error) {
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
	p := newProcess(s, s.last, ring, peer, view)
	s.processes[p.id] = p
	s.attend(p, peer)
	return p, nil
}

// attend serves a process's ring from now on, and watches its peer.
func (s *Server) attend(p *process, peer peer) {
	s.running.Go(func() {
		p.run()
		s.mu.Lock()
		delete(s.processes, p.id)
		s.mu.Unlock()
	})
	s.running.Go(func() {
		if why := peer.Watch(); why != "" {
			p.end(why)
		}
	})
}

// Close ends all processes' work, frees everything and closes the backend. It may be called more than once.
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
		p.end("the device server is ending")
	}
	if a := s.inCut(); a != nil {
		s.abandon(a.number)
	}
	s.dismiss()
	s.running.Wait()
	s.fabric.close()
	return s.cfg.Backend.Close()
}

// all lists the processes that are attached, in no order.
func (s *Server) all() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*process, 0, len(s.processes))
	for _, p := range s.processes {
		out = append(out, p)
	}
	return out
}
