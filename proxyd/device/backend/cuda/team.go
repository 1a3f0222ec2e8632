// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/driver"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/nccl"
)

// team is a rank of a communicator of NCCL's. A team lives in the device's primary context, as NCCL expects, in a
// stream of its own, and names memory by its addresses in the window, so that any space may be mapped.
type team struct {
	device       *device
	ctx          driver.Context
	comm         *nccl.Comm
	driverStream *driverStream
	stop         chan struct{} // closed by Abort
	once         sync.Once
	leave        sync.Once

	mu    sync.Mutex // held by the user of comm
	ended bool
}

var errTeamEnded = errors.New("the team has ended")

// leaveTimeout is how long a member that leaves waits for operations that other members still do with it.
const leaveTimeout = 30 * time.Second

// NCCL returns the version of the machine's NCCL.
func NCCL() (string, error) {
	lib, err := nccl.Open(ncclName)
	if err != nil {
		return "", err
	}
	v, err := lib.Version()
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100), err
}

const ncclName = "libnccl.so.2"

// openLibrary opens NCCL at its first use.
func (b *Backend) openLibrary() (*nccl.Library, error) {
	b.ncclMu.Lock()
	defer b.ncclMu.Unlock()
	if b.nccl != nil || b.ncclErr != nil {
		return b.nccl, b.ncclErr
	}
	name := b.cfg.NCCL
	if name == "" {
		name = ncclName
	}
	b.nccl, b.ncclErr = nccl.Open(name)
	return b.nccl, b.ncclErr
}

// Teams implements backend.Teams.
func (d *device) Teams() error {
	_, err := d.backend.openLibrary()
	return err
}

// NewTeamID implements backend.Teams.
func (d *device) NewTeamID() (backend.TeamID, error) {
	lib, err := d.backend.openLibrary()
	if err != nil {
		return backend.TeamID{}, err
	}
	return lib.NewID()
}

// Join implements backend.Teams.
func (d *device) Join(ctx context.Context, id backend.TeamID, members, member int) (backend.Team, error) {
	lib, err := d.backend.openLibrary()
	if err != nil {
		return nil, err
	}
	if err := d.serviceContext(); err != nil {
		return nil, err
	}
	drv := d.backend.drv
	t := &team{device: d, stop: make(chan struct{})}
	if t.ctx, err = drv.Primary(d.dev); err != nil {
		return nil, err
	}
	t.driverStream, err = d.backend.newDriverStream(t.ctx, 0, func(f func() error) error { return f() })
	if err != nil {
		return nil, errors.Join(err, drv.Unprimary(d.dev))
	}
	err = drv.Within(t.ctx, func() (err error) {
		t.comm, err = lib.Init(id, members, member)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, t.driverStream.closeDriverStream(), drv.Unprimary(d.dev))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !d.enlistTeam(t) {
		t.abortCommunicator()
		return nil, errClosed
	}
	stop := context.AfterFunc(ctx, func() { t.once.Do(func() { close(t.stop) }) })
	err = t.waitProgress()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		t.abortCommunicator()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("member %d of %d: %w", member, members, err)
	}
	return t, nil
}

// enlistTeam has stop wait for a team's end. enlistTeam returns false if the device is stopped already.
func (d *device) enlistTeam(t *team) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return false
	}
	if d.teams == nil {
		d.teams = map[*team]bool{}
	}
	d.teams[t] = true
	return true
}

// disbandTeams aborts all teams. No further team is made, also not by a Join that has begun.
func (d *device) disbandTeams() {
	d.mu.Lock()
	d.stopped = true
	var all []*team
	for t := range d.teams {
		all = append(all, t)
	}
	d.mu.Unlock()
	for _, t := range all {
		t.Abort()
		t.mu.Lock()
		t.abortCommunicator()
		t.mu.Unlock()
	}
}

// waitProgress waits until no operation is in progress. The caller holds mu.
func (t *team) waitProgress() error {
	for p := (patience{}); ; {
		err := t.comm.State()
		if !errors.Is(err, nccl.ErrInProgress) {
			return err
		}
		if err := t.pauseUnlessEnding(&p); err != nil {
			return err
		}
	}
}

// pauseUnlessEnding waits a little, or returns that the team is to end.
func (t *team) pauseUnlessEnding(p *patience) error {
	select {
	case <-t.stop:
		return errTeamEnded
	default:
		return p.pauseBeforeRetry(context.Background())
	}
}

// Do implements backend.Team.
func (t *team) Do(ops []backend.TeamOp) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return errTeamEnded
	}
	list := make([]nccl.Op, len(ops))
	var err error
	for i, o := range ops {
		list[i].TeamOp = o
		if list[i].From, err = t.spanAddress(o.Send); err == nil {
			list[i].To, err = t.spanAddress(o.Recv)
		}
		if err != nil {
			t.abortCommunicator()
			return err
		}
	}
	drv := t.device.backend.drv
	forget := func() {}
	err = drv.Within(t.ctx, func() (err error) {
		forget, err = t.comm.Group(list, t.driverStream.stream.Pointer())
		return err
	})
	if err == nil {
		err = t.waitProgress()
	}
	if err == nil {
		err = t.waitIssued()
	}
	if err != nil {
		t.abortCommunicator()
		return err
	}
	return drv.Within(t.ctx, func() error { forget(); return nil })
}

// spanAddress returns the address at which the team's device finds a span, or 0 for a nil span.
func (t *team) spanAddress(x backend.Span) (backend.Addr, error) {
	if x == nil {
		return 0, nil
	}
	own, ok := x.(*span)
	if !ok {
		return 0, fmt.Errorf("memory of another backend: %w", backend.InvalidValue)
	}
	at, err := own.deviceAddress()
	if err != nil {
		return 0, err
	}
	// The span's space may be about to move to the team's device.
	return at, own.reachFrom(t.device)
}

// waitIssued returns when the device has done the issued operations. The caller holds mu.
func (t *team) waitIssued() error {
	l := t.driverStream
	if err := l.drv.Record(l.ctx, l.done, l.stream); err != nil {
		return err
	}
	for p := (patience{}); ; {
		err := l.drv.EventQuery(l.ctx, l.done)
		if backend.ResultOf(err) != backend.NotReady {
			return err
		}
		if err := t.comm.State(); err != nil {
			return err
		}
		if err := t.pauseUnlessEnding(&p); err != nil {
			return err
		}
	}
}

// Abort implements backend.Team.
func (t *team) Abort() {
	t.once.Do(func() { close(t.stop) })
	t.leave.Do(func() {
		go func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.abortCommunicator()
		}()
	})
}

// Close implements backend.Team.
func (t *team) Close() {
	t.leave.Do(func() {
		go func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			timer := time.AfterFunc(leaveTimeout, func() { t.once.Do(func() { close(t.stop) }) })
			defer timer.Stop()
			if t.ended {
				return
			}
			drv := t.device.backend.drv
			err := drv.Within(t.ctx, t.comm.Finalize)
			if err == nil {
				err = t.waitProgress()
			}
			if err != nil {
				t.abortCommunicator()
				return
			}
			t.endTeam(t.comm.Destroy)
		}()
	})
}

// abortCommunicator ends the communicator at once. The caller holds mu.
func (t *team) abortCommunicator() { t.endTeam(t.comm.Abort) }

// endTeam ends the team, by how. The caller holds mu. When endTeam returns, the device works no more for it.
func (t *team) endTeam(how func() error) {
	if t.ended {
		return
	}
	t.ended = true
	d := t.device
	// All waiters for the team have its reason by now: an error here says no more.
	_ = d.backend.drv.Within(t.ctx, how)
	_ = t.driverStream.waitIdle()
	_ = t.driverStream.closeDriverStream()
	_ = d.backend.drv.Unprimary(d.dev)
	d.mu.Lock()
	delete(d.teams, t)
	d.mu.Unlock()
}
