// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/filestate"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/files"
)

// changesPeriod bounds the loss of recorded changes at a crash of the node. Without changes the change list is not
// written.
const changesPeriod = 100 * time.Millisecond

// createChangeList creates the list for a capsule that is about to be made.
func (j *job) createChangeList(index int) (*files.ChangeList, error) {
	dir := j.c.folders().changeListDir(j.id, index)
	rec := j.run.Snapshot().Record
	if err := files.CreateChangeList(dir, rec.UID, rec.GID); err != nil {
		return nil, err
	}
	return files.OpenChangeList(dir, j.c.records.ChangedFilesPath(j.id, index))
}

// recordFileChanges maintains a capsule's list of changed files until ctx ends, from reports of
// the shims and, for programs that bypass the shims, of the kernel.
func (lc *localCapsule) recordFileChanges(ctx context.Context) {
	j := lc.j
	defer close(lc.changesIdle)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		lc.changes.Run(ctx, changesPeriod, lc.logRecording)
	})
	all.Go(func() { fileHistory{lc}.keepChangeListShort(ctx) })
	snap := j.run.Snapshot()
	kit := filepath.Join(j.c.kits.Local, snap.Record.Kit)
	all.Go(func() {
		err := files.Watch(ctx, files.WatchedCapsule{
			PID: lc.capsule.PID(), PIDs: func() []int { return capsuleProcesses(ctx, lc.capsule) },
			Trusted: []string{filepath.Join(kit, records.KitWarden), filepath.Join(kit, records.KitSrun), filepath.Join(kit, records.KitScontrol)},
		}, lc.changes)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, files.ErrNoFanotify):
			j.c.warnNoFanotify.Do(func() {
				j.c.Log.Warn("changes of files by static programs are not recorded on this node", "error", err)
			})
		default:
			j.log.Error("changes of files by static programs are not recorded any more", "capsule", lc.index, "error", err)
		}
	})
}

// capsuleProcesses returns the processes of a capsule's programs.
func capsuleProcesses(ctx context.Context, c *capsule.Capsule) (pids []int) {
	programs, err := processes.RunningPrograms(ctx, c)
	if err != nil {
		return nil // the capsule is gone, or the next call finds them
	}
	for _, p := range programs {
		pids = append(pids, processes.InCgroup(p.Cgroup)...)
	}
	return pids
}

// fileUser returns the user for reading and writing the job's files. Supplementary groups may be needed for access.
func (lc *localCapsule) fileUser(groups []uint32) files.User {
	rec := lc.j.run.Snapshot().Record
	return files.User{PID: lc.capsule.PID(), UID: rec.UID, GID: rec.GID, Groups: groups}
}

// recordFiles records the state of the job's files, and takes over streams of the base that have the same content. The
// job's programs are frozen.
func (lc *localCapsule) recordFiles(ctx context.Context, programs []capsule.Program, on *upload.Base, s upload.StreamSink) (*files.State, error) {
	j := lc.j
	var pids []int
	for _, p := range programs {
		pids = append(pids, processes.InCgroup(p.Cgroup)...)
	}
	rec := j.run.Snapshot().Record
	groups := processes.UserGroups(pids, rec.UID, rec.GID)
	// A file that srun writes for its step (--output=FILE) belongs to the job, too.
	pids = append(pids, lc.sruns.PIDs()...)
	if err := lc.changes.Drain(ctx); err != nil {
		return nil, err
	}
	open, err := files.Scan(pids)
	if err == nil {
		err = lc.changes.Add(open...)
	}
	if err != nil {
		return nil, err
	}
	if _, err := lc.changes.Cut(); err != nil {
		return nil, err
	}
	before, inBase, touched, err := fileHistory{lc}.changesSinceEarlier(ctx, on)
	if err != nil {
		return nil, err
	}
	saver := files.Saver(s)
	if inBase {
		saver = upload.BaseSink{StreamSink: s, Base: on}
	}
	user := lc.fileUser(groups)
	if len(programs) > 0 {
		user.Cgroup = inputOf(lc, programs[0], 0).memoryPayer().Cgroup
	}
	state, err := files.Record(ctx, user, lc.fileJob(programs), before, touched, saver)
	if err != nil {
		return nil, err
	}
	if touched.Lost || state.Full {
		lc.reportUnknownFiles(touched.Full || state.Full)
	}
	for _, n := range state.Notes {
		j.log.Info("file not recorded", "path", n.Path, "why", n.Why)
	}
	all, written := state.SavedBytes()
	j.log.Info("files are recorded", "capsule", lc.index, "files", len(state.Files), "bytes", all, "written", written)
	j.mu.Lock()
	lc.newFileBytes = uint64(written) //nolint:gosec // a size
	lc.manyFiles = all >= manyBytes || len(touched.Entries) >= manyChanges
	lc.note.Groups = groups
	j.mu.Unlock()
	return state, nil
}

// fileJob returns the files that are not put back: those that the user excluded, and the job's
// own logs, which only grow. The output of steps is put back.
func (lc *localCapsule) fileJob(programs []capsule.Program) files.Job {
	j := lc.j
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range programs {
		if p.Name != records.BatchProgram {
			continue
		}
		for _, path := range p.Stdio[1:] {
			if filepath.IsAbs(path) && !slices.Contains(lc.note.Logs, path) {
				lc.note.Logs = append(lc.note.Logs, path)
			}
		}
	}
	return files.Job{Exclude: j.run.Snapshot().Record.Options.Exclude, Logs: slices.Clone(lc.note.Logs)}
}

// restoreFileState restores the state of a capsule's files, before the first program is restored.
func (lc *localCapsule) restoreFileState(ctx context.Context, point *runs.ResumePoint, m *records.CapsuleMeta) error {
	j := lc.j
	state, err := filestate.Load(point.Reader, m)
	if err != nil || state == nil {
		return err
	}
	after, err := lc.changes.Since(state.Mark)
	if err != nil {
		return err
	}
	job := files.Job{Exclude: j.run.Snapshot().Record.Options.Exclude, Logs: m.Logs, Fixed: filestate.FixedPaths(m, state)}
	if events, err := j.c.timeline.Read(j.id); err != nil {
		j.log.Info("read the time line", "error", err)
	} else {
		job.Left = records.LeftWith(events, point.ID.Number)
	}
	var report files.Report
	err = processes.InFilesCgroup(j.c.Cgroups, j.id, lc.index, func(cgroup string) (err error) {
		user := lc.fileUser(m.Groups)
		user.Cgroup = cgroup
		report, err = files.PutBack(ctx, user, job, state, after,
			upload.StreamSource{Reader: point.Reader, Capsule: m, Prefix: "files/"})
		return err
	})
	if err != nil {
		return err
	}
	for _, n := range report.Notes {
		j.log.Warn("file not put back", "path", n.Path, "why", n.Why)
	}
	j.log.Info("files put back", "capsule", lc.index, "unchanged", report.Unchanged, "restored", report.Restored, "removed", report.Removed)
	return lc.changes.Rewind(state.Mark, report.Made)
}

// changesIdleTimeout is longer than the writers of a change list need to end, unless a file server
// hangs.
const changesIdleTimeout = 5 * time.Second

// removeChangeList removes a capsule's list on this node. Call lc.stopWatching before.
func (lc *localCapsule) removeChangeList() error {
	j := lc.j
	select {
	case <-lc.changesIdle:
	case <-time.After(changesIdleTimeout):
		j.log.Warn("the recorder of changed files hangs", "capsule", lc.index)
	}
	if err := lc.changes.Close(); err != nil { // only lines that were never readable are lost
		j.log.Info("record changed files", "capsule", lc.index, "error", err)
	}
	return os.RemoveAll(j.c.folders().changeListDir(j.id, lc.index))
}

// systemExecutables returns the system files with the code that the programs run, by their paths on
// the node: the next node is compared before it has the container.
func systemExecutables(lc *localCapsule, programs []capsule.Program) []string {
	paths := processes.SystemExecutables(lc.capsule.PID(), programs, lc.j.c.isKitFile)
	lc.j.mu.Lock()
	defer lc.j.mu.Unlock()
	for i := range paths {
		paths[i] = realPathIn(lc.note.Containers, paths[i])
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// realPathIn returns the path in the capsule of a file that may be seen in a container.
func realPathIn(shown []capsule.Container, path string) string {
	for _, c := range shown {
		path = c.RealPath(path)
	}
	return path
}

// addContainer notes that a program has a container for its root.
func (n *capsuleNote) addContainer(shown capsule.Container, program string) {
	i := slices.IndexFunc(n.Containers, func(c capsule.Container) bool { return c.Root == shown.Root })
	if i < 0 {
		shown.Programs = []string{program}
		n.Containers = append(n.Containers, shown)
		return
	}
	// An empty list means that the programs of this container are unknown. Adding one program would make the list look
	// complete.
	if had := n.Containers[i].Programs; len(had) > 0 && !slices.Contains(had, program) {
		n.Containers[i].Programs = append(slices.Clone(had), program)
	}
}

// endContainers notes that a program has ended: the capsule no longer shows a container that no other program has for
// its root.
func (n *capsuleNote) endContainers(program string) {
	all := n.Containers
	n.Containers = nil
	for _, c := range all {
		had := c.Programs
		if slices.Contains(had, program) {
			c.Programs = slices.DeleteFunc(slices.Clone(had), func(name string) bool { return name == program })
		}
		if len(had) > 0 && len(c.Programs) == 0 {
			n.PastContainers = append(n.PastContainers, c)
		} else {
			n.Containers = append(n.Containers, c)
		}
	}
	n.PastContainers = n.PastContainers[max(0, len(n.PastContainers)-maxPastContainers):]
}

// maxPastContainers bounds the size of a note. Reports about files in a container are read long before so many
// containers have ended.
const maxPastContainers = 64

// containersOf returns the containers that programs have for their root, each with only these programs.
func containersOf(all []capsule.Container, programs []capsule.Program) []capsule.Container {
	var used []capsule.Container
	for _, c := range all {
		known := len(c.Programs) > 0
		c.Programs = slices.DeleteFunc(slices.Clone(c.Programs), func(name string) bool {
			return !slices.ContainsFunc(programs, func(p capsule.Program) bool { return p.Name == name })
		})
		if !known || len(c.Programs) > 0 {
			used = append(used, c)
		}
	}
	return used
}

// translateContainers has the change list name files of containers by their paths in the capsule.
func (lc *localCapsule) translateContainers() {
	shown := slices.Concat(lc.note.Containers, lc.note.PastContainers)
	if len(shown) == 0 {
		return
	}
	lc.changes.SetRealPath(func(path string) string { return realPathIn(shown, path) })
}

// findSockets returns a capsule's unix sockets that have a file, and the inodes that programs are shown of the files, by
// the names of the restored sockets.
func findSockets(ctx context.Context, lc *localCapsule, programs []capsule.Program) ([]processes.BoundSocket, map[string]uint64, error) {
	sockets, err := processes.BoundSockets(ctx, lc.capsule.PID(), programs)
	bound := processes.FilesByName(sockets)
	if err != nil || len(bound) == 0 {
		return sockets, nil, err
	}
	rows, err := lc.changes.ShownInodes()
	if err != nil {
		return nil, nil, err
	}
	shown := map[files.FileNumber]uint64{}
	for _, r := range rows {
		shown[r.File] = r.Shown
	}
	inodes := map[string]uint64{}
	for name, file := range bound {
		inodes[name] = cmp.Or(shown[files.FileNumber(file)], file.Inode)
	}
	return sockets, inodes, nil
}

// movedSockets returns the names that the files of a program's unix sockets have, if these are not the sockets' own.
func movedSockets(program string, sockets []processes.BoundSocket) map[uint32]string {
	moved := map[uint32]string{}
	for _, s := range sockets {
		if s.Program == program && s.Moved != "" {
			moved[s.Inode] = s.Moved
		}
	}
	return moved
}

// showOldSocketInodes has programs see the inodes that the files of a restored program's unix sockets had. The
// program stands still.
func showOldSocketInodes(ctx context.Context, lc *localCapsule, p capsule.Program, had map[string]uint64) error {
	if len(had) == 0 {
		return nil
	}
	sockets, err := processes.BoundSockets(ctx, lc.capsule.PID(), []capsule.Program{p})
	if err != nil {
		return err
	}
	var rows []files.ShownInode
	for name, file := range processes.FilesByName(sockets) {
		if inode := had[name]; inode != 0 && inode != file.Inode {
			rows = append(rows, files.ShownInode{File: files.FileNumber(file), Shown: inode})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	left, err := lc.changes.ShowInodes(rows)
	if left > 0 && err == nil {
		lc.j.log.Warn("files of unix sockets have other inodes than before", "capsule", lc.index, "program", p.Name, "sockets", left)
	}
	return err
}

// travelling are the folders of a capsule that travel with it.
var travelling = []string{"/dev/shm", "/tmp", "/var/tmp"}

// linkRemoved gives removed files that programs use, and that have other names, names by
// which they can be found while the capsule is dumped.
func (lc *localCapsule) linkRemoved(programs []capsule.Program) ([]string, error) {
	j := lc.j
	var pids []int
	for _, p := range programs {
		pids = append(pids, processes.InCgroup(p.Cgroup)...)
	}
	links, err := criu.LinkRemoved(lc.capsule.PID(), pids, travelling)
	if len(links) > 0 {
		j.mu.Lock()
		lc.note.Links = links
		lc.saveNote()
		j.mu.Unlock()
	}
	return links, err
}

// unlinkRemoved removes the names that linkRemoved has made. A second call is harmless.
func (lc *localCapsule) unlinkRemoved() error {
	j := lc.j
	j.mu.Lock()
	links := lc.note.Links
	j.mu.Unlock()
	if len(links) == 0 {
		return nil
	}
	if err := criu.UnlinkRemoved(lc.capsule.PID(), links); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	lc.note.Links = nil
	lc.saveNote()
	return nil
}
