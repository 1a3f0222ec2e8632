// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server/nccl"
	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// Tenants are the servers of a process that serves several capsules of a job on one machine:
//
//	process ── Machine ── devices, turns, common memory
//	   │
//	   ├─ Tenants ◄── admit, dismiss: a control socket of the process
//	   ├─ Server, capsule 1 ◄── its control socket, its socket for programs
//	   └─ Server, capsule 2 ◄── …
//
// A tenant is a Server like any other: its programs reach no other tenant's socket, it is cut, saved and restored by
// itself, its state is that of a server of its own, and so it comes back in a process of its own or in one with others.
// Tenants have only the Machine in common, and they end together if the process does. So tenants are of the same
// job, which loses its run in any case when one of its device servers ends.
type Tenants struct {
	cfg     TenantsConfig
	machine *Machine
	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup // of tenants' sockets

	mu      sync.Mutex
	closed  bool
	servers map[string]*Server
	failed  chan error // of the first tenant that has ended by itself
}

// TenantsConfig is the configuration of Tenants.
type TenantsConfig struct {
	Backend backend.Backend // closed with the Tenants
	Spare   int             // see Config
	Network func(context.Context) (*nccl.Network, error)
	// Info describes n devices to the programs of a tenant; see Config.
	Info    func(n int) []backend.Info
	Log     *slog.Logger
	Version string
}

// Admission describes a tenant; see Config for the fields that are not explained here.
type Admission struct {
	Name   string `json:"name"` // of the tenant among those of the process
	Self   int    `json:"self,omitempty"`
	Exact  bool   `json:"exact,omitempty"`
	Awaits bool   `json:"awaits,omitempty"`
	Order  []int  `json:"order,omitempty"`
	// Regroup is as in Config.
	Regroup bool `json:"regroup,omitempty"`
}

// maxTenants bounds the tenants of a process.
const maxTenants = 256

// errNotAdmitted is why a tenant cannot be admitted. The reason is wrapped, too.
var errNotAdmitted = errors.New("the device server does not serve this capsule")

// NewTenants makes the machine, without a tenant. The caller closes the Tenants.
func NewTenants(cfg TenantsConfig) (*Tenants, error) {
	t := &Tenants{cfg: cfg, machine: NewMachine(cfg.Backend), servers: map[string]*Server{}, failed: make(chan error, 1)}
	if t.machine.canHoldInCommon() {
		if err := t.machine.shareRestored(); err != nil {
			return nil, err
		}
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// Failed tells that a tenant serves no more although it was not dismissed: the process is to end.
func (t *Tenants) Failed() <-chan error { return t.failed }

// ServeControl carries out orders about tenants, as Server.ServeControl does for a server.
func (t *Tenants) ServeControl(l *net.UnixListener) error {
	return (&orderSocket{t.ctx, t.cfg.Log, t.obeyOrder}).serveSocket(l)
}

// obeyOrder carries out an order.
func (t *Tenants) obeyOrder(_ context.Context, h *controlSession, o *receivedMessage) (any, *os.File, error) {
	switch o.Do {
	case "tenants":
		return t.tenantNames(), nil, nil
	case "bring":
		return nil, nil, h.keepOrderFile(o)
	case "admit":
		err := t.admitTenant(o.Admit, h.brought)
		localsock.CloseAll(h.brought)
		h.brought = nil
		return nil, nil, err
	case "dismiss":
		return nil, nil, t.dismissTenant(o.Tenant)
	}
	return nil, nil, fmt.Errorf("there is no order %q", o.Do)
}

// tenantNames are the tenants, in order.
func (t *Tenants) tenantNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.servers))
}

// admitTenant begins to serve a tenant at its sockets: for orders, listening, and for programs, which has its name and does not listen
// yet. The files stay the caller's.
func (t *Tenants) admitTenant(a *Admission, sockets []*os.File) error {
	if a == nil || a.Name == "" || len(sockets) != 2 {
		return fmt.Errorf("%w: it has %d sockets: %w", errNotAdmitted, len(sockets), os.ErrInvalid)
	}
	for _, at := range a.Order {
		if at < 0 || at >= len(t.machine.timeSlices) || len(a.Order) > maxDevices {
			return fmt.Errorf("%w: devices on %v of %d", errNotAdmitted, a.Order, len(t.machine.timeSlices))
		}
	}
	control, err := openListener(sockets[0])
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAdmitted, err)
	}
	programs, err := listenOn(sockets[1])
	if err != nil {
		control.Close()
		return fmt.Errorf("%w: %w", errNotAdmitted, err)
	}
	s, err := t.makeServer(a)
	if err != nil {
		control.Close()
		programs.Close()
		return err
	}
	t.serving.Go(func() { t.reportTenantEnd(a.Name, s, s.Serve(programs)) })
	t.serving.Go(func() { t.reportTenantEnd(a.Name, s, s.ServeControl(control)) })
	return nil
}

// makeServer makes the server of a tenant.
func (t *Tenants) makeServer(a *Admission) (*Server, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, fmt.Errorf("%w: %w", errNotAdmitted, errClosed)
	case t.servers[a.Name] != nil:
		return nil, fmt.Errorf("%w: %q is a tenant already", errNotAdmitted, a.Name)
	case len(t.servers) >= maxTenants:
		return nil, fmt.Errorf("%w: there are %d", errNotAdmitted, len(t.servers))
	}
	s := New(Config{
		Machine: t.machine, Order: a.Order, Info: t.cfg.Info(max(len(t.machine.timeSlices), len(a.Order))), Log: t.cfg.Log.With("tenant", a.Name), Spare: t.cfg.Spare,
		Version: t.cfg.Version, Self: a.Self, Awaits: a.Awaits, Exact: a.Exact, Network: t.cfg.Network, Regroup: a.Regroup,
	})
	t.servers[a.Name] = s
	return s, nil
}

// reportTenantEnd notes that a tenant does not serve a socket any more.
func (t *Tenants) reportTenantEnd(name string, s *Server, err error) {
	if s.ctx.Err() != nil {
		return // it was dismissed, or all end
	}
	select {
	case t.failed <- fmt.Errorf("tenant %s: its socket is not served any more: %w", name, errors.Join(err, errClosed)):
	default:
	}
}

// dismissTenant ends a tenant: its processes' work ends, and its memory is free for the other tenants when dismissTenant returns. A tenant that is
// not there is no error. To a job that is stopped that is as the death of a process of its own would be.
func (t *Tenants) dismissTenant(name string) error {
	t.mu.Lock()
	s := t.servers[name]
	t.mu.Unlock()
	if s == nil {
		return nil
	}
	_ = s.Leave() // of a job that is stopped: its rings may be saved, and are not to say that their server is gone
	err := s.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.servers[name] == s {
		delete(t.servers, name)
	}
	return err
}

// Close dismisses all tenants and closes the machine. Close may be called more than once.
func (t *Tenants) Close() error {
	t.mu.Lock()
	was := t.closed
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	var errs []error
	for _, name := range t.tenantNames() {
		errs = append(errs, t.dismissTenant(name))
	}
	t.serving.Wait()
	if !was {
		errs = append(errs, t.machine.Close())
	}
	return errors.Join(errs...)
}

// listenOn listens at a socket that has its name already. The kernel tells a program which process has called listen.
func listenOn(f *os.File) (*net.UnixListener, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = unix.Listen(int(fd), unix.SOMAXCONN) }); err != nil {
		return nil, err
	}
	if inner != nil {
		return nil, fmt.Errorf("listen for processes: %w", inner)
	}
	return openListener(f)
}

// openListener makes a listener of a socket that was brought; the file stays the caller's.
func openListener(f *os.File) (*net.UnixListener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, fmt.Errorf("a socket of another kind: %w", os.ErrInvalid)
	}
	u.SetUnlinkOnClose(false) // the name is its maker's
	return u, nil
}
