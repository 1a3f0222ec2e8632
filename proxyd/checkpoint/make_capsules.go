// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/srun"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/warden"
)

// capsule returns a capsule of the job on this node, and makes it if need be: fresh, or
// as it was in the checkpoint but for its programs. Caller holds j.raising.
func (j *job) capsule(ctx context.Context, index int, t warden.Join) (*held, error) {
	j.mu.Lock()
	h := j.held[index]
	from := j.from
	j.mu.Unlock()
	if h != nil {
		return h, nil
	}
	var m *CapsuleMeta
	if from != nil {
		m = from.meta.capsule(index)
	}
	h, err := j.raise(ctx, index, t.Script, from, m)
	if err != nil {
		return nil, err
	}
	j.adopt(h)
	return h, nil
}

// adopt makes a capsule one of the job's on this node and begins to watch it.
func (j *job) adopt(h *held) {
	ctx, cancel := context.WithCancel(j.c.life)
	h.stop, h.listed = cancel, make(chan struct{})
	j.mu.Lock()
	j.held[h.index] = h
	j.save(h)
	j.mu.Unlock()
	j.c.all.Go(func() { j.watch(ctx, h) })
	j.c.all.Go(func() { j.list(ctx, h) })
	if h.devices != nil {
		j.c.all.Go(func() { j.watchDevices(ctx, h) })
	}
}

// raise makes a capsule. m is what the checkpoint says of it, or nil.
func (j *job) raise(ctx context.Context, index int, script string, from *origin, m *CapsuleMeta) (_ *held, err error) {
	j.mu.Lock()
	rec, where, run := j.rec, j.where, j.run
	j.mu.Unlock()
	if err := j.reach(ctx, rec, where); err != nil {
		return nil, err
	}
	h := &held{index: index, sruns: map[string]*srun.Runner{}, kept: map[string]bool{}, note: note{
		Job: j.id, Index: index, Run: run, Today: where.today, Script: script, Wardens: map[string]int{},
	}}
	dir := j.c.capsuleDir(j.id, index)
	// One of a run whose end this node has missed.
	if err := capsule.Discard(ctx, dir); err != nil {
		return nil, err
	}
	if h.journal, err = j.openJournal(index); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.journal.Close())
		}
	}()
	kit, err := j.c.kit(rec.Kit)
	if err != nil {
		return nil, err
	}
	hosts, err := hostsOf(rec)
	if err != nil {
		return nil, err
	}
	spec := capsule.Spec{
		Dir: dir, Hostname: rec.Nodes[index], Owner: rec.UID, Hosts: hosts, Cgroups: j.c.Cgroups,
		Hold: []syscall.Signal{syscall.SIGTERM},
		Network: func(pid int) error {
			return j.c.Overlay.Attach(ctx, pid, attachment(j.id, index), rec.Addresses[index])
		},
		Binds: []capsule.Bind{
			{Source: filepath.Join(kit, kitSrun), Target: j.c.Real, ReadOnly: true},
			{Source: kit, Target: j.c.KitDir, ReadOnly: true},
			{Source: j.c.journalDir(j.id, index), Target: j.c.ListDir},
		},
	}
	if m != nil {
		if err := j.c.compatible(m); err != nil {
			return nil, err
		}
		spec.Restore, spec.Clocks = true, &m.Clocks
		h.note.From, h.note.Sruns, h.note.Env = from.id.Number, m.Sruns, from.meta.Env
		h.note.Shut = true
		for _, p := range m.Programs {
			h.note.Left = append(h.note.Left, p.Name)
		}
		if m.Script != "" {
			h.note.Script = m.Script
		}
	}
	binds, err := j.startDevices(ctx, h, kit, from, m)
	if err != nil {
		return nil, err
	}
	spec.Binds = append(spec.Binds, binds...)
	defer func() {
		if err != nil {
			err = errors.Join(err, j.c.endDevices(context.WithoutCancel(ctx), j.id, index))
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := j.private(ctx, dir, from, m); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if h.note.Script != "" {
		// The script's path is the capsule's own: slurmd removes its file with the run,
		// and another node has it elsewhere.
		spec.Binds = append(spec.Binds, capsule.Bind{Source: j.c.scriptPath(j.id), Target: h.note.Script, ReadOnly: true, Alone: true})
		if m == nil {
			if err := copyScript(script, j.c.scriptPath(j.id)); err != nil {
				return nil, err
			}
		}
	}
	c, err := capsule.Make(ctx, spec)
	if err != nil {
		return nil, err
	}
	h.c = c
	if m != nil {
		err = j.furnish(ctx, h, from, m)
	}
	if err != nil {
		return nil, errors.Join(err, c.Remove(context.WithoutCancel(ctx)), j.c.Overlay.Detach(context.WithoutCancel(ctx), attachment(j.id, index)))
	}
	return h, nil
}

// furnish puts back what a capsule has besides programs, and shuts its network until
// all programs of the job are back.
func (j *job) furnish(ctx context.Context, h *held, from *origin, m *CapsuleMeta) error {
	c := h.c
	if err := overlay.Lock(c.PID()); err != nil {
		return err
	}
	if err := c.LoadLastPID(ctx, m.LastPID); err != nil {
		return err
	}
	shm := fmt.Sprintf("/proc/%d/root/dev/shm", c.PID())
	if err := from.unpack(ctx, m, "shm", shm); err != nil {
		return fmt.Errorf("/dev/shm: %w", err)
	}
	return j.putBack(ctx, h, from, m)
}

// compatible says whether programs of a capsule can run on this node.
func (c *Conductor) compatible(m *CapsuleMeta) error {
	here, err := host.FingerprintOf("/", slices.Collect(maps.Keys(m.Fingerprint.Files))...)
	if err == nil {
		err = host.Compatible(m.Fingerprint, here)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", c.Node, err)
	}
	return nil
}

// private fills the folders that become /tmp and /var/tmp.
func (j *job) private(ctx context.Context, dir string, from *origin, m *CapsuleMeta) error {
	if m == nil {
		return nil
	}
	for _, f := range privateFolders {
		to := filepath.Join(dir, f.name)
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		if err := from.unpack(ctx, m, f.name, to); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// privateFolders are those that capsule keeps below its folder under these names.
var privateFolders = []struct{ name string }{{"tmp"}, {"var-tmp"}}

// unpack reads a packed folder from the checkpoint.
func (o *origin) unpack(ctx context.Context, m *CapsuleMeta, name, dir string) error {
	r, err := o.reader.Stream(m.stream(name + ".pack"))
	if err != nil {
		return err
	}
	defer r.Close()
	return files.Unpack(ctx, r, dir)
}

// stream names a stream of a capsule.
func (m *CapsuleMeta) stream(name string) store.StreamID {
	return store.StreamID{Node: m.Node, Rank: store.None, Name: fmt.Sprintf("%d/%s", m.Index, name)}
}

// reach makes the job's capsules on other nodes reachable from here. A controller that is
// starting again, or a node whose network is, is waited for.
func (j *job) reach(ctx context.Context, rec *Record, where placement) error {
	return retryWhile(ctx, restoreCallTimeout, passing, func() error { return j.reachNow(ctx, rec, where) })
}

// passing says of why a node is not reached that it may be otherwise soon.
func passing(err error) bool {
	return errors.Is(err, errLocate) || errors.Is(err, overlay.ErrUnreachable)
}

func (j *job) reachNow(ctx context.Context, rec *Record, where placement) error {
	var peers []overlay.Peer
	for k, address := range rec.Addresses {
		node := where.node(k)
		if node == j.c.Node {
			continue
		}
		at, err := j.c.locate(ctx, node)
		if err != nil {
			return err
		}
		peers = append(peers, overlay.Peer{Address: address, Node: at})
	}
	return j.c.Overlay.SetPeers(ctx, name(j.id), peers)
}

// raiseAll makes every capsule of the checkpoint, on the nodes where they belong now,
// before the first program is restored: what cannot work is found here. Caller holds
// j.raising, of the leader.
func (j *job) raiseAll(ctx context.Context) error {
	j.mu.Lock()
	from, where, run := j.from, j.where, j.run
	j.mu.Unlock()
	j.log.Debug("phase begins", "phase", callMakeCapsules)
	g, ctx := errgroup.WithContext(ctx)
	asked := map[string]bool{}
	for _, m := range from.meta.Capsules {
		node := where.node(m.Index)
		if node == j.c.Node || asked[node] {
			continue
		}
		asked[node] = true
		g.Go(func() error {
			return j.c.callNodeRetrying(ctx, restoreCallTimeout, node, j.id, callMakeCapsules, raiseBody{from.id.Number, run, where.today}, nil)
		})
	}
	g.Go(func() error { return j.raiseHere(ctx) })
	return g.Wait()
}

// raiseHere makes those of this node. Caller holds j.raising.
func (j *job) raiseHere(ctx context.Context) error {
	j.mu.Lock()
	from, where := j.from, j.where
	j.mu.Unlock()
	for _, m := range from.meta.Capsules {
		if where.node(m.Index) != j.c.Node {
			continue
		}
		if _, err := j.capsule(ctx, m.Index, warden.Join{}); err != nil {
			return fmt.Errorf("capsule %d: %w", m.Index, err)
		}
	}
	return nil
}

// raiseBody is what the leader tells another node of a run that resumes.
type raiseBody struct {
	Number uint32   `json:"number"`
	Run    int      `json:"run"`
	Today  []string `json:"today"`
}

// raiseFor is raiseAll's part of another node.
func (j *job) raiseFor(ctx context.Context, b raiseBody) error {
	j.raising.Lock()
	defer j.raising.Unlock()
	rec, err := j.c.records.load(j.id)
	if err != nil {
		return err
	}
	if rec == nil {
		return ErrNoJob
	}
	id := store.ID{JobID: j.c.storeJob(j.id), Number: b.Number}
	from, err := j.c.open(id)
	if err != nil {
		return err
	}
	if err := j.clear(ctx); err != nil {
		from.close()
		return err
	}
	j.begin(rec, b.Run, b.Today, from)
	return j.raiseHere(ctx)
}

// hostsOf is /etc/hosts as the job's capsules see it: the names of the job's nodes mean
// the capsules.
func hostsOf(rec *Record) ([]byte, error) {
	b, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return nil, err
	}
	return []byte(rewriteHosts(string(b), rec)), nil
}

// rewriteHosts takes the names of the job's nodes from the node's own file.
func rewriteHosts(hosts string, rec *Record) string {
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

// scriptPath is where a job's batch script is kept from its first start to its end.
func (c *Conductor) scriptPath(job uint32) string {
	return filepath.Join(c.records.dir, name(job)+".script")
}

func copyScript(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	return replaceWith(to, func(out *os.File) error {
		_, err := io.Copy(out, in)
		return errors.Join(err, out.Chmod(0o500|st.Mode().Perm()&0o055), own(out, st))
	})
}

func own(f *os.File, st os.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(sys.Uid), int(sys.Gid))
}
