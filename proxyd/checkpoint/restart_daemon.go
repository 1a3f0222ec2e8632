// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// Adopt finds the capsules of this daemon's predecessor, and ends or undoes what that
// was doing when it died. Of what is left of a node that died, nothing stays.
func (c *Conductor) Adopt(ctx context.Context) error {
	entries, err := os.ReadDir(c.notes())
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		n, err := readNote(filepath.Join(c.notes(), e.Name()))
		if err != nil {
			c.Log.Error("note", "file", e.Name(), "error", err)
			continue
		}
		if err := c.adoptOne(ctx, n); err != nil {
			c.Log.Error("adopt", "job", n.Job, "capsule", n.Index, "error", err)
		}
		// Also one that cannot be taken over now is none to be swept away.
		found = append(found, attachment(n.Job, n.Index))
	}
	if err := c.discardOthers(ctx, found); err != nil {
		return err
	}
	if err := c.discardDevices(ctx, found); err != nil {
		return err
	}
	for _, j := range c.every() {
		c.recover(ctx, j)
	}
	if err := c.outlasting(); err != nil {
		return err
	}
	if err := c.sweepKits(); err != nil {
		return err
	}
	if err := c.bringPending(); err != nil {
		c.Log.Error("uploads of a predecessor", "error", err)
	}
	c.spawn(c.sweep)
	return c.Overlay.Sweep(ctx, found)
}

// adoptOne takes over one capsule.
func (c *Conductor) adoptOne(ctx context.Context, n note) error {
	cap, err := capsule.Adopt(ctx, c.capsuleDir(n.Job, n.Index))
	if errors.Is(err, capsule.ErrStale) {
		c.lose(n.Job, n.Run)
		return errors.Join(
			capsule.Discard(ctx, c.capsuleDir(n.Job, n.Index)),
			c.endDevices(ctx, n.Job, n.Index),
			c.Overlay.Detach(ctx, attachment(n.Job, n.Index)),
			os.RemoveAll(c.journalDir(n.Job, n.Index)),
			os.RemoveAll(c.srunDir(n.Job, n.Index)),
			os.Remove(c.notePath(n.Job, n.Index)),
		)
	}
	if err != nil {
		return err
	}
	rec, err := c.records.load(n.Job)
	if err != nil {
		cap.Close()
		return err
	}
	if rec == nil { // the job is over, and its end was told to nobody
		return errors.Join(
			cap.Remove(ctx),
			c.endDevices(ctx, n.Job, n.Index),
			c.Overlay.Detach(ctx, attachment(n.Job, n.Index)),
			os.RemoveAll(c.journalDir(n.Job, n.Index)),
			os.RemoveAll(c.srunDir(n.Job, n.Index)),
			os.Remove(c.notePath(n.Job, n.Index)),
		)
	}
	j := c.job(n.Job)
	j.mu.Lock()
	fresh := j.rec == nil
	j.mu.Unlock()
	if fresh {
		var from *origin
		if n.From != 0 && (len(n.Left) > 0 || n.Shut) {
			if from, err = c.open(store.ID{JobID: c.storeJob(n.Job), Number: n.From}); err != nil {
				cap.Close()
				return err
			}
		}
		j.begin(rec, n.Run, n.Today, from)
		today := placement{rec.Nodes, n.Today}
		if err := j.reachNow(ctx, rec, today); err != nil {
			j.log.Error("ways to the job's other capsules", "error", err)
			c.spawn(func(ctx context.Context) { j.reachLater(ctx, rec, today) })
		}
	}
	h := &held{index: n.Index, c: cap, note: n, sruns: map[string]*srun.Runner{}, kept: map[string]bool{}}
	if all, err := cap.Ended(ctx); err == nil {
		_, h.over = all[batch]
	}
	if h.journal, err = files.OpenJournal(c.journalDir(n.Job, n.Index), c.journalLog(n.Job, n.Index)); err != nil {
		cap.Close()
		return err
	}
	if h.devices, err = life.Find(ctx, c.deviceDir(n.Job, n.Index)); err != nil {
		cap.Close()
		return errors.Join(err, h.journal.Close())
	}
	runners, err := srun.Find(c.srunDir(n.Job, n.Index))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Log.Error("sruns", "job", n.Job, "error", err)
	}
	for _, r := range runners {
		h.sruns[r.Key()] = r
		c.spawn(func(ctx context.Context) { j.followSrun(ctx, h, r.Key(), r) })
	}
	j.adopt(h)
	j.log.Info("capsule adopted", "capsule", n.Index, "run", n.Run)
	return nil
}

// reachLater goes on where the daemon could not wait. Of a run that is over by then there is
// nothing to be reached.
func (j *job) reachLater(ctx context.Context, rec *Record, where placement) {
	err := retryWhile(ctx, restoreCallTimeout, passing, func() error {
		if len(j.capsules()) == 0 {
			return nil
		}
		return j.reachNow(ctx, rec, where)
	})
	if err != nil && ctx.Err() == nil {
		j.log.Error("ways to the job's other capsules", "error", err)
	}
}

// discardOthers removes the capsules of which no note tells: their maker died at once.
func (c *Conductor) discardOthers(ctx context.Context, known []string) error {
	entries, err := os.ReadDir(c.capsules())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(known, e.Name()) {
			continue
		}
		if err := capsule.Discard(ctx, filepath.Join(c.capsules(), e.Name())); err != nil {
			c.Log.Error("discard", "capsule", e.Name(), "error", err)
		}
	}
	return nil
}

// recover goes on with a job where the predecessor stood: a checkpoint in progress is
// finished or undone; a job that has gone is cleared away; the clock of the periodic
// checkpoints runs again.
func (c *Conductor) recover(ctx context.Context, j *job) {
	for _, h := range j.capsules() {
		j.mu.Lock()
		p := h.note.Attempt
		j.mu.Unlock()
		if p == nil {
			continue
		}
		id := store.ID{JobID: c.storeJob(j.id), Number: p.Number}
		c.spawn(func(ctx context.Context) { j.resolveOrphaned(ctx, id, p.Release) })
		break
	}
	if j.shut() {
		// Whatever is left to be restored is heard of by its warden, which waits. If it is
		// nothing, the predecessor died before it could say so.
		c.spawn(j.settleRestore)
	}
	s, err := c.Slurm.Show(ctx, name(j.id))
	j.mu.Lock()
	run := j.run
	j.mu.Unlock()
	if errors.Is(err, slurm.ErrNoJob) || err == nil && s.Restarts > run+1 {
		c.spawn(func(ctx context.Context) {
			if err := c.End(ctx, j.id); err != nil {
				j.log.Error("clear away", "error", err)
			}
		})
		return
	}
	if err != nil {
		j.log.Warn("state of the job", "error", err)
	}
	if j.leader() == c.Node {
		j.periodic()
	}
}

// errLocate is why a node was not found: slurmctld or a name server did not answer.
var errLocate = errors.New("no address")

// locate returns the address of a node.
func (c *Conductor) locate(ctx context.Context, node string) (netip.Addr, error) {
	at, err := c.Slurm.Address(ctx, node)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w of node %s: %w", errLocate, node, err)
	}
	if a, err := netip.ParseAddr(at); err == nil {
		return a, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", at)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w of node %s: %w", errLocate, node, err)
	}
	return all[0].Unmap(), nil
}
