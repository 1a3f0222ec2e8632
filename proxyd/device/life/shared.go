// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
)

// A process that serves several capsules of a job, its tenants, has a folder of its own beside theirs:
//
//	SHARED/server.json, control, log     as of a server that is alone; control takes orders about tenants
//	DIR/server.json                      names SHARED, and the process
//	DIR/control, DIR/socket/device       the tenant's, as of a server that is alone
//
// A tenant's record names SHARED before SHARED exists, and SHARED is removed before the record of the last tenant. So
// whenever the daemon dies, the records of tenants lead to every process, cgroup and folder. All tenants of a process
// have their folders in the same folder, in which no other shared process has tenants.
//
// Handles of tenants are like other handles: Died is closed when the process ends. End of a tenant has the process
// dismiss the tenant; a process that does not is killed, with all its tenants.

// tenantSteps make a tenant, and the process with the first one.
var tenantSteps = []step{
	{"folder", (*serverStart).makeFolder},
	{"record", (*serverStart).recordShared},
	{"shared", (*serverStart).openShared},
	{"identity", (*serverStart).recordTenant},
	{"sockets", (*serverStart).makeSockets},
	{"admitted", (*serverStart).admitTenant},
	{"ready", (*serverStart).awaitReady},
}

// dismissTime is the time that a process may take to dismiss a tenant; then the process is killed.
var dismissTime = 10 * time.Second

// sharedLocks has a lock for each folder of a shared process. Whoever starts, ends or changes a tenant holds the lock.
var sharedLocks struct {
	mu  sync.Mutex
	all map[string]*sharedLock
}

type sharedLock struct {
	sync.Mutex
	users int
}

// lockShared takes the lock of a shared process's folder.
func lockShared(dir string) (unlock func()) {
	l := &sharedLocks
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*sharedLock{}
	}
	one := l.all[dir]
	if one == nil {
		one = &sharedLock{}
		l.all[dir] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.all, dir)
		}
	}
}

// Shared returns the folder of the process that the server is a tenant of, or "".
func (s *Server) Shared() string { return s.rec.Shared }

// recordShared names the process's folder, which may not exist yet.
func (m *serverStart) recordShared(context.Context) (err error) {
	if m.rec.Boot, err = procfs.BootID(); err != nil {
		return err
	}
	m.rec.Shared = m.Shared
	return m.rec.writeRecord(m.Dir)
}

// openShared finds the process, or starts it.
func (m *serverStart) openShared(ctx context.Context) error {
	host, err := Find(ctx, m.Shared)
	if err != nil {
		return err
	}
	if host != nil {
		defer host.Close()
		select {
		case <-host.Died():
			// The server died, and the state of its tenants with it. A new server in its place would not have that
			// state, so no tenant may connect to a new server.
			return fmt.Errorf("the process for several capsules in %s: %w", m.Shared, ErrDied)
		default:
		}
		m.rec.PID, m.rec.Start = host.rec.PID, host.rec.Start
		return nil
	}
	spec := m.Spec
	spec.Dir, spec.Shared, spec.Order, spec.Regroup, spec.Self, spec.Exact = m.Shared, "", nil, false, 0, false
	host, err = (&serverStart{Spec: spec, host: true}).makeSteps(ctx, steps)
	if err != nil {
		return err
	}
	defer host.Close()
	m.rec.PID, m.rec.Start = host.rec.PID, host.rec.Start
	return nil
}

// recordTenant writes the identity of the process to the tenant's record.
func (m *serverStart) recordTenant(context.Context) (err error) {
	if m.s, err = openRecorded(m.Dir, m.rec); err != nil {
		return err
	}
	return m.rec.writeRecord(m.Dir)
}

// tenantName is the tenant's name for the process.
func tenantName(dir string) string { return filepath.Base(dir) }

// admitTenant hands the tenant's sockets to the process.
func (m *serverStart) admitTenant(ctx context.Context) error {
	host, err := Find(ctx, m.Shared)
	if err == nil && host == nil {
		err = ErrDied
	}
	if err != nil {
		return err
	}
	defer host.Close()
	a := server.Admission{Name: tenantName(m.Dir), Self: m.Self, Exact: m.Exact, Awaits: m.await, Order: m.Order, Regroup: m.Regroup}
	err = host.giveOrder(ctx, "admit", func(c *server.Controller) error { return c.Admit(ctx, a, m.control, m.devices) })
	if err != nil {
		return fmt.Errorf("%w%s", err, lastWords(m.Shared))
	}
	return nil
}

// askTenants asks a process for its tenants.
func (s *Server) askTenants(ctx context.Context) (names []string, err error) {
	err = s.giveOrder(ctx, "tenants", func(c *server.Controller) (err error) {
		names, err = c.Tenants(ctx)
		return err
	})
	return names, err
}

// endTenant ends a tenant, and the process with the last one. The caller holds the lock of lockShared.
func (s *Server) endTenant(ctx context.Context) error {
	host, err := Find(ctx, s.rec.Shared)
	if err != nil || host == nil {
		return err
	}
	defer host.Close()
	others, err := s.otherTenants()
	if err != nil {
		return err
	}
	if len(others) == 0 {
		return host.End(ctx)
	}
	within, cancel := context.WithTimeout(ctx, dismissTime)
	defer cancel()
	err = host.giveOrder(within, "dismiss", func(c *server.Controller) error { return c.Dismiss(within, tenantName(s.dir)) })
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The tenants are of the same job, and Died tells the owner of each.
	return host.killProcess(ctx)
}

// otherTenants are the folders of the process's other tenants.
func (s *Server) otherTenants() (others []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(s.dir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(filepath.Dir(s.dir), e.Name())
		if dir == s.dir || !e.IsDir() {
			continue
		}
		// A record that cannot be read names no tenant which could be found again.
		if rec, err := readRecord(dir); err == nil && rec.Shared == s.rec.Shared {
			others = append(others, dir)
		}
	}
	return others, nil
}

// enterShared is Enter for a tenant: the first one moves the process.
func (s *Server) enterShared(cgroup string) error {
	defer lockShared(s.rec.Shared)()
	host, err := Find(context.Background(), s.rec.Shared)
	if err == nil && host == nil {
		err = ErrDied
	}
	if err != nil {
		return fmt.Errorf("device server in %s: enter a cgroup: %w", s.dir, err)
	}
	defer host.Close()
	if host.Cgroup() != "" {
		return nil
	}
	return host.Enter(cgroup)
}
