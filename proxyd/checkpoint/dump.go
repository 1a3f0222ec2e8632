// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/filestate"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/queues"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/messagequeue"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
)

// dump has all nodes write their capsules.
func (a *attempt) dump(ctx context.Context) error {
	j := a.j
	a.startHeartbeat(ctx)
	// The script may have ended after prepare; now it is frozen.
	if err := j.checkBatchRuns(ctx); err != nil {
		return err
	}
	// The writer's context must outlive the phase: commit comes later.
	ticket, err := a.createWriter(context.WithoutCancel(ctx))
	if a.staged && upload.IsOutOfSpace(err) {
		err = fmt.Errorf("%w: %w", upload.ErrStageFull, err)
	}
	if err != nil {
		return err
	}
	j.participant.setLeaderWriter(a.id, a.writer)
	return a.dumpEverywhere(ctx, calls.DumpArgs{Ticket: ticket, Steps: a.runningSteps(), Cut: a.cutNumber, Base: a.chooseBase(ctx)})
}

// dumpEverywhere has all nodes write their shares, and collects their parts of the manifest.
// a.base is set only if a node took over streams of the base.
func (a *attempt) dumpEverywhere(ctx context.Context, args calls.DumpArgs) error {
	a.base = 0
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range a.nodes {
		g.Go(func() error {
			r, err := callNode(ctx, a.j.c, node, a.j.id, a.id.Number, calls.Dump, args)
			if err != nil {
				return a.noteFoundByCRIU(node, err)
			}
			if r.StageFull {
				return fmt.Errorf("node %s: %w", node, upload.ErrStageFull)
			}
			if r.BaseUnusable {
				return fmt.Errorf("node %s: %w", node, upload.ErrBaseUnusable)
			}
			mu.Lock()
			defer mu.Unlock()
			if !r.BaseUnused {
				a.base = args.Base
			}
			if r.Part != nil {
				a.parts = append(a.parts, *r.Part)
			}
			a.meta.Capsules = append(a.meta.Capsules, r.Capsules...)
			return nil
		})
	}
	return g.Wait()
}

// createWriter creates the leader's writer, in its stage or in the store. For the store it
// returns the ticket with which other nodes join the upload.
func (a *attempt) createWriter(ctx context.Context) (store.Ticket, error) {
	c := a.j.c
	if a.staged {
		h, err := c.Stage.Create(a.id)
		if err == nil {
			a.writer = upload.StageShare{Share: h, Node: c.Node, Store: c.Store}
		}
		return "", err
	}
	w, err := c.Store.Create(ctx, store.Upload{ID: a.id, Node: c.Node, Reservation: a.reservation})
	if err != nil {
		return "", err
	}
	a.writer = upload.StoreShare{Writer: w, Node: c.Node}
	return w.Ticket(), nil
}

func (a *attempt) dropChunks(ctx context.Context) error {
	a.endHeartbeat()
	if a.writer == nil {
		return nil
	}
	err := a.writer.Abort(ctx)
	if a.upload != nil { // The record may have been written although the write returned an error.
		err = errors.Join(err, a.j.c.uploads.Change(a.upload, func(*upload.Record) bool { return false }))
	}
	return err
}

// dumpHere writes this node's share.
func (p *participant) dumpHere(ctx context.Context, id store.ID, args calls.DumpArgs) (calls.DumpReply, error) {
	j := p.j
	m, err := p.membershipIn(id)
	if err != nil {
		return calls.DumpReply{}, err
	}
	defer m.releaseStageRoom()
	r, err := p.dumpShare(ctx, m, args)
	if args.Ticket == "" && upload.IsOutOfSpace(err) {
		j.log.Warn("dump failed", "checkpoint", id, "error", err)
		return calls.DumpReply{StageFull: true}, nil
	}
	if errors.Is(err, upload.ErrBaseUnusable) {
		j.log.Warn("dump failed", "checkpoint", id, "error", err)
		return calls.DumpReply{BaseUnusable: true}, nil
	}
	return r, err
}

func (p *participant) dumpShare(ctx context.Context, m *membership, args calls.DumpArgs) (r calls.DumpReply, err error) {
	j := p.j
	ctx, w, end, err := p.beginDump(ctx, m)
	if err != nil {
		return r, err
	}
	defer end()
	leads := w != nil
	if !leads {
		if w, err = p.joinWriter(context.WithoutCancel(ctx), m.id, args); err != nil {
			return r, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, w.Abort(context.WithoutCancel(ctx)))
			}
		}()
		// A leader that gives up aborts the writer by resumeHere.
		p.mu.Lock()
		m.ownWriter = w
		p.mu.Unlock()
	}
	var base *upload.Base
	if p.profitsFromBase() {
		base = p.openBase(ctx, w, m.id, args.Base)
	}
	for _, lc := range j.localCapsules() {
		c, err := lc.dumpCapsule(ctx, w, base, args)
		if err != nil {
			return r, fmt.Errorf("capsule %d: %w", lc.index, err)
		}
		r.Capsules = append(r.Capsules, *c)
	}
	r.BaseUnused = !base.IsUsed()
	if !leads {
		r.Part, err = w.Finish(ctx)
	}
	return r, err
}

// joinWriter creates the writer of a node that does not lead.
func (p *participant) joinWriter(ctx context.Context, id store.ID, args calls.DumpArgs) (upload.ShareWriter, error) {
	j := p.j
	if args.Ticket == "" {
		if j.c.Stage == nil {
			return nil, errors.New("the node has no staging folder")
		}
		h, err := j.c.Stage.Create(id)
		return upload.StageShare{Share: h, Node: j.c.Node, Store: j.c.Store}, err
	}
	w, err := j.c.Store.Join(ctx, store.Upload{ID: id, Node: j.c.Node}, args.Ticket)
	return upload.StoreShare{Writer: w, Node: j.c.Node}, err
}

// maxDumpsAtOnce bounds the programs of a node that are dumped in parallel. Each uses one core to
// copy and one to compress.
const maxDumpsAtOnce = 4

// capsuleDump writes a capsule. Its methods run in the order in which they stand here.
type capsuleDump struct {
	lc       *localCapsule
	w        upload.ShareWriter
	prefix   string // of the names of the capsule's streams
	meta     *records.CapsuleMeta
	attempt  uint32 // number of the attempt that the capsule's note has
	programs []capsule.Program
	sockets  []processes.BoundSocket // of these programs
}

// dumpCapsule writes all of a capsule: programs, devices, private folders, files.
func (lc *localCapsule) dumpCapsule(ctx context.Context, w upload.ShareWriter, base *upload.Base, args calls.DumpArgs) (*records.CapsuleMeta, error) {
	j := lc.j
	d := &capsuleDump{lc: lc, w: w, prefix: fmt.Sprintf("%d/", lc.index)}
	clocksRead, err := d.describeCapsule(ctx, args.Steps)
	if err != nil {
		return nil, err
	}
	if d.meta.Removed, err = lc.linkRemoved(d.programs); err != nil {
		return nil, fmt.Errorf("removed files: %w", err)
	}
	defer func() {
		if err := lc.unlinkRemoved(); err != nil {
			j.log.Warn("cannot delete the names of removed files", "capsule", lc.index, "error", err)
		}
	}()
	queueStates, err := queues.Save(ctx, lc.capsule, w, d.prefix, d.programs)
	if err != nil {
		return nil, err
	}
	subjects, err := subjectsOfDump(ctx, lc, d.programs, d.sockets, queueStates, clocksRead)
	if err != nil {
		return nil, err
	}
	if err := d.dumpParts(ctx, subjects, base, args.Cut); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	d.meta.Groups, d.meta.Logs, d.meta.Containers = lc.note.Groups, lc.note.Logs, containersOf(lc.note.Containers, d.programs)
	return d.meta, nil
}

// describeCapsule begins the capsule's meta with the values that are not in streams. clocksRead is when the capsule's
// clocks were read. steps are the keys of the steps that have an srun.
func (d *capsuleDump) describeCapsule(ctx context.Context, steps []string) (clocksRead time.Duration, err error) {
	lc, j := d.lc, d.lc.j
	j.mu.Lock()
	d.meta = &records.CapsuleMeta{
		Index: lc.index, Node: j.c.Node, Script: lc.note.Script, Sruns: lc.note.SrunKeys,
	}
	d.attempt = lc.note.attemptNumber()
	j.mu.Unlock()
	if clocksRead, err = syscalls.ReadMonotonic(); err != nil {
		return 0, err
	}
	if d.meta.Clocks, err = lc.capsule.Clocks(ctx); err != nil {
		return 0, err
	}
	if d.meta.LastPID, err = lc.capsule.LastPID(ctx); err != nil {
		return 0, err
	}
	if d.programs, err = processes.RunningPrograms(ctx, lc.capsule); err != nil {
		return 0, err
	}
	root := fmt.Sprintf("/proc/%d/root", lc.capsule.PID())
	if d.meta.Fingerprint, err = host.FingerprintOf(root, systemExecutables(lc, d.programs)...); err != nil {
		return 0, err
	}
	if d.sockets, d.meta.SocketInodes, err = findSockets(ctx, lc, d.programs); err != nil {
		return 0, err
	}
	return clocksRead, lc.describeTasks(ctx, d.meta, steps)
}

// dumpParts writes the parts of the capsule in parallel. The first error ends all of them.
func (d *capsuleDump) dumpParts(ctx context.Context, subjects []criu.Program, on *upload.Base, cutNumber uint64) error {
	lc, w := d.lc, d.w
	d.meta.Programs = make([]records.ProgramMeta, len(d.programs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxDumpsAtOnce)
	for i := range d.programs {
		g.Go(func() error {
			if err := d.dumpProgram(ctx, i, subjects[i]); err != nil {
				return fmt.Errorf("program %s: %w", d.programs[i].Name, err)
			}
			return nil
		})
	}
	if lc.devices != nil {
		g.Go(func() (err error) {
			d.meta.Devices, err = lc.saveDevices(ctx, w, on, cutNumber)
			return err
		})
	}
	if lc.outside != nil {
		g.Go(func() (err error) {
			d.meta.Connections, err = outsideOf(lc).saveConnections(ctx, w, d.prefix+outsideStream)
			return err
		})
	}
	for name, dir := range lc.ownFolders() {
		g.Go(func() error { return packFolder(ctx, w, d.prefix+name+".pack", dir) })
	}
	g.Go(func() error {
		state, err := lc.recordFiles(ctx, d.programs, on, upload.StreamSink{Writer: w, Prefix: d.prefix + "files/"})
		if err == nil {
			d.meta.FilesSummary, err = filestate.Save(w, d.prefix, state)
		}
		return err
	})
	return g.Wait()
}

// dumpProgram writes the image of a program, and the standard input that is on its way.
func (d *capsuleDump) dumpProgram(ctx context.Context, number int, subject criu.Program) error {
	p := d.programs[number]
	img, err := criu.Dump(ctx, subject, upload.StreamSink{Writer: d.w, Prefix: d.prefix + p.Name + "/"})
	if err != nil {
		return markDumpError(p.Name, err)
	}
	d.lc.j.mu.Lock()
	d.lc.dumped[p.Name] = img
	d.lc.j.mu.Unlock()
	meta := &d.meta.Programs[number]
	*meta = records.ProgramMeta{Name: p.Name, PID: p.PID, First: p.First, Image: img}
	if err := inputOf(d.lc, p, d.attempt).saveInput(d.w, d.prefix, meta); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	return nil
}

// subjectsOfDump describes programs of a capsule to package criu, and forgets the images of an earlier dump.
func subjectsOfDump(ctx context.Context, lc *localCapsule, programs []capsule.Program, sockets []processes.BoundSocket, queueStates []*messagequeue.State, clocksRead time.Duration) ([]criu.Program, error) {
	j := lc.j
	connected, err := outsideOf(lc).listOutsideUnix(ctx, programs)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	lc.dumped = map[string]*criu.Image{}
	observed := maps.Clone(lc.observed)
	j.mu.Unlock()
	rec := j.run.Snapshot().Record
	all := make([]criu.Program, len(programs))
	for i, p := range programs {
		all[i] = criu.Program{
			Init: lc.capsule.PID(), PID: p.PID, UID: rec.UID, GID: rec.GID, Cgroup: p.Cgroup, Stdio: p.Stdio,
			Observed: observed[p.Name], ClocksRead: clocksRead, Queues: queueStates[i], Outside: connected[p.Name],
			Moved: movedSockets(p.Name, sockets),
		}
	}
	return all, nil
}

// commit makes the checkpoint exist: it writes the manifest. A staged checkpoint is pledged
// instead; the upload writes the manifest later.
func (a *attempt) commit(ctx context.Context) error {
	if !a.meta.HasScript() {
		return errScriptEnded
	}
	if err := (runFence{a.j}).checkNewestRun(ctx); err != nil { // it may have begun during the dump
		return err
	}
	slices.SortFunc(a.meta.Capsules, func(x, y records.CapsuleMeta) int { return x.Index - y.Index })
	meta, err := a.meta.Encode()
	if err != nil {
		return err
	}
	err = a.writer.Commit(ctx, meta, a.parts)
	if a.staged && upload.IsOutOfSpace(err) {
		err = fmt.Errorf("%w: %w", upload.ErrStageFull, err)
	}
	if err != nil {
		return err
	}
	if a.staged {
		return a.pledgeUpload(ctx)
	}
	if err := a.j.c.uploads.Replace(a.j.id); err != nil {
		a.log.Warn("cannot end an older upload", "error", err)
	}
	return nil
}

// ownFolders returns the folders that only the capsule has, by the names of their streams.
func (lc *localCapsule) ownFolders() map[string]string {
	folders := map[string]string{"shm": fmt.Sprintf("/proc/%d/root/dev/shm", lc.capsule.PID())}
	for _, f := range privateFolders {
		folders[f.name] = filepath.Join(lc.capsule.Dir(), f.name)
	}
	return folders
}

func packFolder(ctx context.Context, w upload.ShareWriter, name, dir string) error {
	s, err := w.Create(name)
	if err != nil {
		return err
	}
	if err := files.Pack(ctx, dir, s); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", strings.TrimSuffix(name, ".pack"), err), s.Close())
	}
	return s.Close()
}
