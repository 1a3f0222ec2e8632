// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/outside"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/forward"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
)

// A TCP connection between a program and an address outside of the job cannot move with the program: the other end
// knows the connection by the address of the node. While the job runs on in place, such a connection lives through a
// checkpoint. At a restore the connection is reset before the program runs, so the program at once gets the error that
// a failure of the network would give. A connection between programs of the job is left alone. A unix socket that is
// connected to a daemon of the node is treated alike; package criu resets it.
//
// With the option relay, the program's connection ends at a forwarder of the capsule (package outside), and the relay
// has a connection to the other side: both stay.

// Values of the option "outside".
const (
	outsideRefuse = "refuse" // such connections prevent a checkpoint
	outsideRelay  = "relay"  // such connections go through the site's relay
)

// outsideStream is the stream of a capsule with its connections through the relay.
const outsideStream = "outside.json"

// errNoRelay refuses a job that needs a relay.
var errNoRelay = errors.New("--singularity-outside=relay and --singularity-listen: the site has no relay (relay in proxyd.yaml): submit the job with reset, the default, or with refuse")

// The advice to users about connections to outside.
const (
	cureRefused = "close it, or submit the job with --singularity-outside=reset"
	cureReset   = "a restore resets it, and the program has to connect again; with --singularity-outside=refuse the job is not captured meanwhile"
	cureRelay   = "; with --singularity-outside=relay the site's relay keeps it"
	cureAsks    = "it asks again when the job resumes"
	cureInward  = "it has come from outside and not by the relay, so a restore resets it: the relay keeps those that programs make themselves, and clients of --singularity-listen"
)

// outsideOption returns the way in which the job's connections to outside are treated: its own option, or the site's.
func (j *job) outsideOption() string {
	return cmp.Or(j.run.Snapshot().Record.Options.Outside, j.c.Outside)
}

// refusesOutside tells whether the job is not captured while it has connections to outside.
func (j *job) refusesOutside() bool { return j.outsideOption() == outsideRefuse }

// findOutside returns the TCP connections of programs of a capsule to outside of the job.
func (lc *localCapsule) findOutside(ctx context.Context, programs []capsule.Program) ([]processes.OutsideSocket, error) {
	j := lc.j
	return processes.FindOutside(ctx, lc.capsule.PID(), programs, j.run.Snapshot().Record.Addresses)
}

// findObstacles returns the parts of a capsule's programs that cannot be captured, and the connections to outside, with
// their fate at a restore.
func (lc *localCapsule) findObstacles(ctx context.Context, programs []capsule.Program) (found, reset []processes.Obstacle, err error) {
	found = processes.FindObstacles(ctx, lc.capsule.PID(), programs)
	found = append(found, processes.FindLargeInputs(lc.sruns.PIDs())...)
	sockets, err := lc.findOutside(ctx, programs)
	if err != nil {
		return nil, nil, err
	}
	unixSockets, err := outsideOf(lc).findOutsideUnix(ctx, programs)
	if err != nil {
		return nil, nil, err
	}
	sockets = append(sockets, unixSockets...)
	if lc.j.refusesOutside() {
		return append(found, processes.OutsideObstacles(lc.capsule.PID(), sockets, func(processes.OutsideSocket) string { return cureRefused })...), nil, nil
	}
	return found, processes.OutsideObstacles(lc.capsule.PID(), sockets, outsideOf(lc).fateOfSockets(ctx)), nil
}

// outsidePart is a capsule as far as its connections to outside are concerned.
type outsidePart struct{ *localCapsule }

func outsideOf(lc *localCapsule) outsidePart { return outsidePart{lc} }

// fateOfSockets returns a function that describes the fate of a connection to outside, for people.
func (lc outsidePart) fateOfSockets(ctx context.Context) func(processes.OutsideSocket) string {
	j := lc.j
	if lc.outside == nil {
		text := cureReset
		if j.c.Relay != nil {
			text += cureRelay
		}
		return func(s processes.OutsideSocket) string {
			switch {
			case s.Connecting:
				return cureAsks
			case s.Inode != 0:
				return cureReset
			}
			return text
		}
	}
	st, err := lc.outside.Status(ctx)
	if err != nil {
		j.log.Warn("connections through the relay", "capsule", lc.index, "error", err)
	}
	return func(s processes.OutsideSocket) string {
		switch {
		case s.Connecting:
			return cureAsks
		case s.Inode != 0:
			return cureReset
		}
		for _, c := range st.Connections {
			switch {
			case c.From != s.From || c.To != s.To:
			case c.Opened && !c.Resumed:
				return "the relay, " + j.c.RelayName + ", keeps it when the job resumes"
			default:
				return "it waits for the relay, " + j.c.RelayName
			}
		}
		return cureInward
	}
}

// forwarderSpec describes the capsule to its forwarder.
func (lc outsidePart) forwarderSpec(rec *records.Record) outside.Spec {
	j := lc.j
	clients := forward.Ports{Address: rec.Addresses[lc.index], Range: j.c.Overlay.Range()}
	if lc.index == 0 {
		clients.Ports = rec.Options.Listen
	}
	return outside.Spec{
		Clients: clients,
		Dir:     j.c.folders().forwarderDir(j.id, lc.index), Init: lc.capsule.PID(), UID: rec.UID, GID: rec.GID,
		Cgroup: processes.ForwardCgroup(processes.JobCgroupHere(j.c.Cgroups, j.id), lc.index), Divert: j.c.Overlay.Divert,
	}
}

// startForwarder has the connections of a capsule go through the relay, if the job has that option. The forwarder of
// a capsule that is restored has the connections of the checkpoint, and stands still until the network is unlocked.
func (lc outsidePart) startForwarder(ctx context.Context, point *runs.ResumePoint, m *records.CapsuleMeta) (err error) {
	j := lc.j
	if j.outsideOption() != outsideRelay {
		return nil
	}
	if j.c.Relay == nil {
		return fmt.Errorf("node %s: %w", j.c.Node, errNoRelay)
	}
	// A forwarder of an earlier run: this node has missed the end of that run.
	if err := outside.EndLeftover(ctx, j.c.folders().forwarderDir(j.id, lc.index)); err != nil {
		return err
	}
	f, err := outside.Start(ctx, lc.forwarderSpec(j.run.Snapshot().Record))
	if err != nil {
		return err
	}
	if m != nil {
		if err := lc.restoreConnections(ctx, f, point, m); err != nil {
			return errors.Join(err, f.End(context.WithoutCancel(ctx)))
		}
	}
	lc.outside, lc.note.Outside = f, f.Note()
	if m == nil && len(lc.forwarderSpec(j.run.Snapshot().Record).Clients.Ports) > 0 {
		if err := f.AdmitFirst(ctx, j.c.Relay, lc.describeForRelay()); err != nil {
			j.log.Warn("programs are not told where clients reach them: the relay has not admitted the capsule yet", "capsule", lc.index, "error", err)
		}
	}
	return nil
}

// describeForRelay returns the description of the capsule for the relay.
func (lc outsidePart) describeForRelay() outside.Admission {
	j := lc.j
	j.mu.Lock()
	run := lc.note.Run
	j.mu.Unlock()
	rec := j.run.Snapshot().Record
	return outside.Admission{Job: rec.RelayKey(j.c.Cluster), Run: run, Capsule: lc.index, Changed: lc.reportReachable}
}

// reportReachable tells the user where clients reach the job: in the time line, which people can read also while the job
// is away.
func (lc outsidePart) reportReachable(all []*rpc.Reachable) {
	var texts []string
	for _, r := range all {
		text := fmt.Sprintf("port %d at %s", r.GetPort(), r.GetAt())
		if r.GetAt() == "" {
			text = fmt.Sprintf("not port %d: %s", r.GetPort(), r.GetProblem())
		}
		texts = append(texts, text)
	}
	if len(texts) > 0 {
		lc.j.report.AddEvent(records.EventReachable, []string{lc.j.c.RelayName}, strings.Join(texts, ", "))
	}
}

// listReachable returns where clients reach ports of the capsule.
func (lc outsidePart) listReachable() []*rpc.Reachable {
	if lc.outside == nil {
		return nil
	}
	return lc.outside.Reachable()
}

// clientEnv is the variable by which programs know where clients reach them: PORT=HOST:PORT, with commas between.
func (lc outsidePart) clientEnv() []string {
	var all []string
	for _, r := range lc.listReachable() {
		if r.GetAt() != "" {
			all = append(all, fmt.Sprintf("%d=%s", r.GetPort(), r.GetAt()))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{"SINGULARITY_SLURM_REACHABLE", strings.Join(all, ",")}
}

// restoreConnections gives a forwarder the connections of a checkpoint.
func (lc outsidePart) restoreConnections(ctx context.Context, f *outside.Forwarder, point *runs.ResumePoint, m *records.CapsuleMeta) error {
	if m.Connections == 0 {
		return f.Hold(ctx)
	}
	r, err := point.Reader.Stream(m.StreamID(outsideStream))
	if err != nil {
		return err
	}
	defer r.Close()
	return f.Restore(ctx, r, lc.j.log)
}

// serveForwarder has the relay admit the capsule while it runs.
func (lc outsidePart) serveForwarder(ctx context.Context) {
	j := lc.j
	if j.c.Relay == nil {
		j.log.Error("connections to outside wait: this daemon was started again without a relay", "capsule", lc.index)
		return
	}
	lc.outside.Serve(ctx, j.c.Relay, lc.describeForRelay(), j.log)
}

// pauseClients keeps new clients outside from programs that are about to be frozen. releaseForwarder undoes that.
func (lc outsidePart) pauseClients(ctx context.Context) error {
	if lc.outside == nil || lc.outside.HasDied() {
		return nil
	}
	err := lc.endStopped(ctx, lc.outside.PauseClients(ctx))
	if lc.outside.HasDied() {
		return nil
	}
	return err
}

// holdForwarder has the forwarder stand still before the network is locked. A second call is harmless. A forwarder that
// its user has stopped is ended: the checkpoint goes on without its connections.
func (lc outsidePart) holdForwarder(ctx context.Context) error {
	if lc.outside == nil {
		return nil
	}
	return lc.endStopped(ctx, lc.outside.Hold(ctx))
}

// releaseForwarder has the forwarder go on after the network was unlocked. A second call is harmless. A forwarder
// that has died, or was stopped and is ended, is no reason to fail: another takes its place.
func (lc outsidePart) releaseForwarder(ctx context.Context) error {
	if lc.outside == nil {
		return nil
	}
	err := lc.endStopped(ctx, lc.outside.Continue(ctx))
	if lc.outside.HasDied() {
		return nil
	}
	return err
}

// endStopped ends a forwarder of which err says that a signal has stopped it, and tells the user that this resets its
// connections. It returns other errors.
func (lc outsidePart) endStopped(ctx context.Context, err error) error {
	if !errors.Is(err, outside.ErrStopped) {
		return err
	}
	j := lc.j
	j.log.Error("the forwarder is ended: the capsule's connections to outside are lost", "capsule", lc.index, "error", err)
	j.report.AddEvent(records.EventReset, []string{j.c.Node}, "connections through the relay: a signal had stopped their forwarder, so it was ended")
	return lc.outside.EndProcess(ctx)
}

// saveConnections writes the connections through the relay into the checkpoint. If the forwarder has died, there are
// none.
func (lc outsidePart) saveConnections(ctx context.Context, w upload.ShareWriter, name string) (int, error) {
	if lc.outside.HasDied() {
		return 0, nil
	}
	s, err := w.Create(name)
	if err != nil {
		return 0, err
	}
	n, err := lc.outside.Save(ctx, s)
	return n, errors.Join(err, s.Close())
}

// reportResumed tells the user which connections of the checkpoint the relay could not keep.
func (lc outsidePart) reportResumed() {
	j := lc.j
	if lc.outside == nil || len(lc.outside.Note().Names) == 0 {
		return
	}
	j.c.startBackground(func(ctx context.Context) {
		lost, err := lc.outside.AwaitResumed(ctx)
		if err != nil {
			j.log.Warn("connections through the relay do not go on yet", "capsule", lc.index, "error", err)
		}
		if len(lost) == 0 {
			return
		}
		var to []string
		for _, l := range lost {
			j.log.Info("a connection through the relay is lost", "capsule", lc.index, "to", l.To, "reason", l.Reason)
			to = append(to, l.To+" ("+l.Reason+")")
		}
		slices.Sort(to)
		j.report.AddEvent(records.EventReset, []string{j.c.Node}, "connections to "+reports.JoinNames(slices.Compact(to)))
	})
}

// moveForwarderToCgroup moves a forwarder without a cgroup into one.
func (lc outsidePart) moveForwarderToCgroup(cgroup string) {
	if lc.outside == nil || cgroup == "" || lc.outside.Cgroup() != "" {
		return
	}
	if err := lc.outside.Enter(cgroup); err != nil {
		lc.j.log.Warn("the job's limits do not apply to its forwarder", "capsule", lc.index, "error", err)
	}
}

// endForwarder ends the forwarder, and removes the job's cgroup if it is empty. A second call is harmless.
func (lc outsidePart) endForwarder(ctx context.Context) error {
	if lc.outside == nil {
		return nil
	}
	g := lc.outside.Cgroup()
	if err := lc.outside.End(ctx); err != nil || g == "" {
		return err
	}
	return processes.RemoveEmptyCgroup(filepath.Dir(g))
}
