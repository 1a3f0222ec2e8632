// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/calls"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/queues"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// ensureCapsule returns a capsule of the job on this node. If needed, it makes the capsule: new,
// or with the contents of the checkpoint except the programs. Caller holds j.capsulesMu.
func (j *job) ensureCapsule(ctx context.Context, index int, t nodesocket.Join) (*localCapsule, error) {
	j.mu.Lock()
	lc := j.capsules[index]
	j.mu.Unlock()
	point := j.run.Snapshot().Point
	if lc != nil {
		return lc, nil
	}
	var m *records.CapsuleMeta
	if point != nil {
		m = point.Meta.Capsule(index)
	}
	lc, err := j.makeCapsule(ctx, index, t.Script, point, m)
	if err != nil {
		return nil, err
	}
	lc.addCapsule()
	return lc, nil
}

// addCapsule adds a capsule to the job and starts the goroutines that watch it.
func (lc *localCapsule) addCapsule() {
	j := lc.j
	ctx, cancel := context.WithCancel(j.c.daemonCtx)
	lc.stopWatching, lc.changesIdle = cancel, make(chan struct{})
	j.mu.Lock()
	j.capsules[lc.index] = lc
	lc.saveNote()
	j.mu.Unlock()
	j.c.background.Go(func() { lc.watchCapsule(ctx) })
	j.c.background.Go(func() { lc.recordFileChanges(ctx) })
	if lc.devices != nil {
		j.c.background.Go(func() { lc.watchDevices(ctx) })
	}
	if lc.outside != nil {
		j.c.background.Go(func() { outsideOf(lc).serveForwarder(ctx) })
	}
}

// makeCapsule makes a capsule. m is the capsule's entry in the checkpoint's manifest, or nil for
// a new capsule.
func (j *job) makeCapsule(ctx context.Context, index int, script string, point *runs.ResumePoint, m *records.CapsuleMeta) (_ *localCapsule, err error) {
	snap := j.run.Snapshot()
	lc, err := newLocalCapsule(ctx, j, index, snap)
	if err != nil {
		return nil, err
	}
	lc.note.Script = script
	defer func() {
		if err != nil {
			err = errors.Join(err, lc.changes.Close())
		}
	}()
	kit, err := j.c.kits.OnNode(snap.Record.Kit)
	if err != nil {
		return nil, err
	}
	spec, err := capsuleSpec(ctx, lc, snap.Record, kit)
	if err != nil {
		return nil, err
	}
	if m != nil {
		if err := j.c.checkCompatible(m); err != nil {
			return nil, err
		}
		spec.Restore, spec.Clocks = true, &m.Clocks
		lc.note.noteResumption(point, m)
	}
	binds, err := lc.startDevices(ctx, kit, point, m)
	if err != nil {
		return nil, err
	}
	spec.Binds = append(spec.Binds, binds...)
	defer func() {
		if err != nil {
			err = errors.Join(err, j.c.endLeftoverDevices(context.WithoutCancel(ctx), j.id, index))
		}
	}()
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := unpackPrivateFolders(ctx, point, spec.Dir, m); err != nil {
		return nil, errors.Join(err, os.RemoveAll(spec.Dir))
	}
	if m == nil && script != "" {
		if err := j.c.records.SaveScript(j.id, script); err != nil {
			return nil, err
		}
	}
	spec.Binds = append(spec.Binds, scriptBinds(lc)...)
	c, err := capsule.Make(ctx, spec)
	if err != nil {
		return nil, err
	}
	lc.capsule = c
	if err := lc.fillCapsule(ctx, point, m); err != nil {
		return nil, errors.Join(err, c.Remove(context.WithoutCancel(ctx)), j.c.Overlay.Detach(context.WithoutCancel(ctx), capsuleName(j.id, index)))
	}
	return lc, nil
}

// newLocalCapsule returns a capsule of a job's present run that has no processes yet: its addresses are connected, and its
// change list is new. The caller closes the change list after an error.
func newLocalCapsule(ctx context.Context, j *job, index int, snap runs.Snapshot) (*localCapsule, error) {
	if err := j.connectCapsules(ctx, snap.Record, snap.Placement); err != nil {
		return nil, err
	}
	lc := &localCapsule{j: j, index: index, criuRestored: map[string]bool{}, note: capsuleNote{
		Job: j.id, Index: index, Run: snap.Number, Nodes: snap.Placement.ThisRun, WardenPIDs: map[string]int{},
	}}
	// A capsule of an earlier run: this node has missed the end of that run.
	if err := capsule.Discard(ctx, j.c.folders().capsuleDir(j.id, index)); err != nil {
		return nil, err
	}
	var err error
	lc.changes, err = j.createChangeList(index)
	return lc, err
}

// capsuleSpec returns the parts of each capsule of a job: its network, and a kit in the place of srun and scontrol.
func capsuleSpec(ctx context.Context, lc *localCapsule, rec *records.Record, kit string) (capsule.Spec, error) {
	j, index := lc.j, lc.index
	hosts, err := capsuleHosts(rec)
	if err != nil {
		return capsule.Spec{}, err
	}
	spec := capsule.Spec{
		Dir: j.c.folders().capsuleDir(j.id, index), Hostname: rec.Nodes[index], Owner: rec.UID, Hosts: hosts, Cgroups: j.c.Cgroups,
		Containers: j.c.ContainersDir, Hold: []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT},
		Network: func(pid int) error {
			return j.c.Overlay.Attach(ctx, pid, capsuleName(j.id, index), rec.Addresses[index])
		},
		Binds: []capsule.Bind{
			{Source: filepath.Join(kit, records.KitSrun), Target: j.c.SrunPath, ReadOnly: true},
			{Source: kit, Target: j.c.KitDir, ReadOnly: true},
			{Source: j.c.folders().changeListDir(j.id, index), Target: j.c.ListDir},
		},
	}
	spec.Binds = append(spec.Binds, j.c.scontrolBinds(kit)...)
	return spec, nil
}

// noteResumption notes that a new capsule has the contents of a checkpoint, and that its programs are to be restored. m is the
// capsule's entry in the checkpoint's manifest.
func (n *capsuleNote) noteResumption(point *runs.ResumePoint, m *records.CapsuleMeta) {
	n.ResumedFrom, n.SrunKeys, n.FirstEnv = point.ID.Number, m.Sruns, point.Meta.Env
	n.NetworkLocked = true
	for _, p := range m.Programs {
		n.ProgramsToRestore = append(n.ProgramsToRestore, p.Name)
	}
	if m.Script != "" {
		n.Script = m.Script
	}
}

// scriptBinds shows a capsule the job's copy of the batch script under the path of the first run: slurmd removes its own file
// after the run, and uses another path on another node.
func scriptBinds(lc *localCapsule) []capsule.Bind {
	if lc.note.Script == "" {
		return nil
	}
	return []capsule.Bind{{Source: lc.j.c.records.ScriptPath(lc.j.id), Target: lc.note.Script, ReadOnly: true, Alone: true}}
}

// scontrolBinds replaces scontrol by sing-scontrol in a capsule, and shows scontrol elsewhere.
func (c *Conductor) scontrolBinds(kit string) []capsule.Bind {
	wrapper := filepath.Join(kit, records.KitScontrol)
	if _, err := os.Stat(wrapper); err != nil || c.Scontrol == "" {
		return nil
	}
	return []capsule.Bind{
		{Source: c.Scontrol, Target: c.RealScontrol, ReadOnly: true},
		{Source: wrapper, Target: c.Scontrol, ReadOnly: true},
	}
}

// isKitFile tells whether a path within a capsule belongs to the kit.
func (c *Conductor) isKitFile(path string) bool {
	return path == c.SrunPath || path == c.Scontrol || strings.HasPrefix(path, c.KitDir+"/")
}

// fillCapsule prepares a capsule for its programs: it restores the contents, if any, and starts the forwarder.
func (lc *localCapsule) fillCapsule(ctx context.Context, point *runs.ResumePoint, m *records.CapsuleMeta) error {
	if m != nil {
		if err := lc.restoreContents(ctx, point, m); err != nil {
			return err
		}
	}
	return outsideOf(lc).startForwarder(ctx, point, m)
}

// restoreContents restores the contents of a capsule, except programs, and locks its network until all programs of the
// job are restored.
func (lc *localCapsule) restoreContents(ctx context.Context, point *runs.ResumePoint, m *records.CapsuleMeta) error {
	c := lc.capsule
	if err := overlay.Lock(c.PID()); err != nil {
		return err
	}
	if err := c.LoadLastPID(ctx, m.LastPID); err != nil {
		return err
	}
	if err := lc.restoreContainers(ctx, m); err != nil {
		return err
	}
	shm := fmt.Sprintf("/proc/%d/root/dev/shm", c.PID())
	if err := unpackFolder(ctx, point, m, "shm", shm); err != nil {
		return fmt.Errorf("/dev/shm: %w", err)
	}
	if err := queues.Restore(ctx, lc.capsule, point.Reader, m); err != nil {
		return err
	}
	renamed, err := criu.RenameRemoved(c.PID(), m.Removed)
	if err != nil {
		return fmt.Errorf("removed files: %w", err)
	}
	lc.note.Renamed, lc.note.Links = renamed, slices.Collect(maps.Values(renamed))
	return lc.restoreFileState(ctx, point, m)
}

// checkCompatible returns an error if this node cannot run the programs of a capsule.
func (c *Conductor) checkCompatible(m *records.CapsuleMeta) error {
	was := m.Fingerprint
	if id, has := was.Files[c.RealScontrol]; has { // a program ran scontrol, which has this path in capsules only
		was.Files = maps.Clone(was.Files)
		delete(was.Files, c.RealScontrol)
		was.Files[c.Scontrol] = id
	}
	here, err := host.FingerprintOf("/", slices.Collect(maps.Keys(was.Files))...)
	if err == nil {
		err = host.Compatible(was, here)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", c.Node, err)
	}
	return nil
}

// unpackPrivateFolders fills the folders that become /tmp and /var/tmp.
func unpackPrivateFolders(ctx context.Context, p *runs.ResumePoint, dir string, m *records.CapsuleMeta) error {
	if m == nil {
		return nil
	}
	for _, f := range privateFolders {
		to := filepath.Join(dir, f.name)
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		if err := unpackFolder(ctx, p, m, f.name, to); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// privateFolders are names of package capsule, below the capsule's folder.
var privateFolders = []struct{ name string }{{"tmp"}, {"var-tmp"}}

// unpackFolder unpacks a folder from the checkpoint.
func unpackFolder(ctx context.Context, p *runs.ResumePoint, m *records.CapsuleMeta, name, dir string) error {
	r, err := p.Reader.Stream(m.StreamID(name + ".pack"))
	if err != nil {
		return err
	}
	defer r.Close()
	return files.Unpack(ctx, r, dir)
}

// connectCapsules makes the job's capsules on other nodes reachable from this node. It waits for a slurmctld, or the
// network of a node, that is restarting.
func (j *job) connectCapsules(ctx context.Context, rec *records.Record, where records.Placement) error {
	return retryWhile(ctx, restoreCallTimeout, clusterMayRecover, func() error { return j.setPeers(ctx, rec, where) })
}

func (j *job) setPeers(ctx context.Context, rec *records.Record, where records.Placement) error {
	var peers []overlay.Peer
	for k, address := range rec.Addresses {
		node := where.NodeOf(k)
		if node == j.c.Node {
			continue
		}
		at, err := j.c.nodeAddress(ctx, node)
		if err != nil {
			return err
		}
		peers = append(peers, overlay.Peer{Address: address, Node: at})
	}
	return j.c.Overlay.SetPeers(ctx, slurm.JobName(j.id), peers)
}

// makeCapsulesHere makes the capsules of this node. Caller holds j.capsulesMu.
func (r *restore) makeCapsulesHere(ctx context.Context) error {
	j := r.j
	snap := j.run.Snapshot()
	point, where := snap.Point, snap.Placement
	for _, m := range point.Meta.Capsules {
		if where.NodeOf(m.Index) != j.c.Node {
			continue
		}
		if _, err := j.ensureCapsule(ctx, m.Index, nodesocket.Join{}); err != nil {
			return fmt.Errorf("capsule %d: %w", m.Index, err)
		}
	}
	return nil
}

// makeCapsulesForLeader carries out calls.MakeCapsules on a node that does not lead.
func (r *restore) makeCapsulesForLeader(ctx context.Context, args calls.MakeCapsulesArgs) error {
	j := r.j
	j.capsulesMu.Lock()
	defer j.capsulesMu.Unlock()
	rec, err := j.c.records.Load(j.id)
	if err != nil {
		return err
	}
	if rec == nil {
		return ErrNoJob
	}
	id := store.ID{JobID: store.PlainJob(j.c.Cluster, j.id), Number: args.Number}
	point, err := j.c.openCheckpoint(id)
	if err != nil {
		return err
	}
	if err := j.removeRun(ctx); err != nil {
		point.Close()
		return err
	}
	j.beginRun(rec, args.Run, args.Nodes, point)
	return r.makeCapsulesHere(ctx)
}

// capsuleHosts returns the capsules' /etc/hosts, in which the names of the job's nodes stand for
// the capsules.
func capsuleHosts(rec *records.Record) ([]byte, error) {
	b, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return nil, err
	}
	return []byte(rewriteHosts(string(b), rec)), nil
}

// rewriteHosts removes the names of the job's nodes from the node's /etc/hosts, and adds them
// with the capsules' addresses.
func rewriteHosts(hosts string, rec *records.Record) string {
	ours := map[string]bool{}
	var out strings.Builder
	for k, n := range rec.Nodes {
		ours[n] = true
		fmt.Fprintf(&out, "%s\t%s\n", rec.Addresses[k], n)
	}
	for line := range strings.Lines(hosts) {
		text, _, _ := strings.Cut(line, "#")
		words := strings.Fields(text)
		if len(words) < 2 {
			continue
		}
		kept := words[:1]
		for _, w := range words[1:] {
			short, _, _ := strings.Cut(w, ".")
			if !ours[w] && !ours[short] {
				kept = append(kept, w)
			}
		}
		if len(kept) > 1 {
			out.WriteString(kept[0] + "\t" + strings.Join(kept[1:], " ") + "\n")
		}
	}
	return out.String()
}
