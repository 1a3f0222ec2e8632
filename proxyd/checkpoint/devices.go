// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/gpus"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/processes"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/records"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/runs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/upload"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
)

// Each capsule of a job with GPUs has a device server (package life), which holds the GPUs:
//
//	make       the server is started before the capsule is made, or built from the checkpoint and stopped
//	cut        all device servers of the job stop (find_cut.go), then the programs are frozen
//	dump       the server is saved beside the images
//	restore    each process of a restored program is handed to the server before the program runs
//	unlock     when all programs of the job are restored: the servers connect to each other and go on
//	remove     the server is ended with the capsule
//
// The server is in the job's cgroup (processes/cgroups.go). If the server dies, the state of the
// devices is lost: the run is ended, and the job resumes from its newest checkpoint.

// DeviceConfig describes the GPUs that jobs get on this node.
type DeviceConfig struct {
	Kind       string // "none", "soft" or "cuda"
	Memory     uint64 // bytes of each GPU
	Capability string // of software GPUs
	Kernels    string // how software GPUs execute kernels: compiled or interpreted
	Blas       string // the code for products of matrices on software GPUs: wire.BlasVendor or wire.BlasNative
	Address    string // of this node, for device servers of other nodes; "": as Slurm knows it
	Dir        string // where capsules see the socket of their server; an empty folder of the node
	Relative   bool   // Slurm numbers the GPUs of each job from 0
	// GPUs lists the UUIDs of the node's GPUs in Slurm's order, which is that of the PCI bus.
	// Only kind cuda needs it.
	GPUs func(context.Context) ([]string, error)
}

const (
	kindNone     = "none"
	kindSoft     = "soft"
	kindCuda     = "cuda"
	deviceSocket = "device"
)

// startDevices starts the device server of a capsule that has GPUs, and returns the bind mounts
// by which programs reach the server. Capsules that share a GPU have a process together, in which
// each is served by itself.
func (lc *localCapsule) startDevices(ctx context.Context, kit string, point *runs.ResumePoint, m *records.CapsuleMeta) ([]capsule.Bind, error) {
	j := lc.j
	snap := j.run.Snapshot()
	g, err := j.findGrant(ctx, snap.Record, snap.Placement, lc.index)
	if err != nil || g == nil {
		return nil, err
	}
	if !records.HasDevices(kit) {
		return nil, fmt.Errorf("the job has GPUs, and no %s was installed beside the plugin's shim when the job began", records.KitDriver)
	}
	address := j.c.Devices.Address
	if address == "" {
		at, err := j.c.nodeAddress(ctx, j.c.Node)
		if err != nil {
			return nil, err
		}
		address = at.String()
	}
	// Servers of an earlier run: this node has missed the end of that run.
	if err := j.endOldDevices(ctx); err != nil {
		return nil, err
	}
	spec, err := lc.specifyDevices(ctx, snap, g, address)
	if err != nil {
		return nil, err
	}
	if m == nil || m.Devices == nil {
		lc.devices, err = life.Start(ctx, spec)
	} else {
		if err := j.c.checkDevicesRestorable(g, &spec, point, m); err != nil {
			return nil, err
		}
		spec.Order = nil // the server knows which ranks have memory that is alike
		lc.devices, err = life.Restore(ctx, spec, upload.StreamSource{Reader: point.Reader, Capsule: m, Prefix: records.DevicesFolder + "/"})
	}
	if err != nil {
		return nil, fmt.Errorf("device server: %w", err)
	}
	lc.note.GPUs, lc.note.OwnGPUs = g.DeviceNames(), len(g.SlurmNumbers)
	return []capsule.Bind{{Source: lc.devices.SocketDir(), Target: j.c.Devices.Dir, ReadOnly: true}}, nil
}

// specifyDevices returns what the device server of a capsule needs to know. address is the node's, for device servers of
// other nodes.
func (lc *localCapsule) specifyDevices(ctx context.Context, snap runs.Snapshot, g *gpus.Grant, address string) (spec life.Spec, err error) {
	j, rec := lc.j, snap.Record
	spec = life.Spec{
		Dir: j.c.folders().deviceDir(j.id, lc.index), UID: rec.UID, GID: rec.GID, Count: len(g.SlurmNumbers), Spare: g.SpareDevices(rec.GPUs),
		Memory: strconv.FormatUint(j.c.Devices.Memory, 10), Capability: j.c.Devices.Capability, Kernels: j.c.Devices.Kernels,
		Address: address, Self: lc.index, Order: g.Order, Regroup: true, Exact: rec.Options.Exact,
		Cgroup: processes.DeviceCgroup(processes.JobCgroupHere(j.c.Cgroups, j.id), lc.index),
	}
	share := g.Sharing != nil
	if j.c.Devices.Kind == kindCuda {
		// Devices are moved between real GPUs only on request: no such move was tried in a job, and a move loses memory
		// that kernels' malloc gave.
		// Spare GPUs are software GPUs that are made beside the job's.
		spec.Kind, spec.Regroup, spec.Spare = kindCuda, false, 0
		if spec.GPUs, err = j.c.realGPUs(ctx, g.MachineNumbers); err != nil {
			return spec, err
		}
		if share && snap.Point != nil {
			if err := g.CheckAddresses(snap.Point.Meta.Capsules); err != nil {
				j.log.Warn("capsules that share a GPU have a device server each: they do not swap for each other", "capsule", lc.index, "reason", err)
				share = false
			}
		}
	}
	if share {
		first := g.Sharing[0]
		spec.Shared = j.c.folders().sharedDeviceDir(j.id, snap.Number, first)
		spec.Cgroup = processes.DeviceCgroup(processes.JobCgroupHere(j.c.Cgroups, j.id), first)
	}
	return spec, nil
}

// checkDevicesRestorable returns an error if this node's devices cannot take over the saved devices of a capsule.
func (c *Conductor) checkDevicesRestorable(g *gpus.Grant, spec *life.Spec, point *runs.ResumePoint, m *records.CapsuleMeta) error {
	if m.Devices.Kind != c.Devices.Kind {
		return fmt.Errorf("the job's devices were of kind %s, node %s has %s", m.Devices.Kind, c.Node, c.Devices.Kind)
	}
	switch {
	case spec.Shared != "":
		return nil
	case c.Devices.Kind == kindCuda: // the settings of the node do not tell the size of real GPUs
		return g.CheckSharedMemory(point.Meta.Capsules, 0)
	}
	return g.CheckSharedMemory(point.Meta.Capsules, c.Devices.Memory)
}

// endDevices ends the capsule's device server. A second call is harmless.
func (lc *localCapsule) endDevices(ctx context.Context) error {
	if lc.devices == nil {
		return nil
	}
	return endDeviceServer(ctx, lc.devices)
}

// endLeftoverDevices ends a device server of an earlier run or of a dead daemon.
func (c *Conductor) endLeftoverDevices(ctx context.Context, job uint32, index int) error {
	s, err := life.Find(ctx, c.folders().deviceDir(job, index))
	if err != nil || s == nil {
		return err
	}
	return endDeviceServer(ctx, s)
}

// endOldDevices ends the device servers of the job's capsules that this node does not have any
// more. A process that several of them share ends with the last one.
func (j *job) endOldDevices(ctx context.Context) error {
	entries, err := os.ReadDir(j.c.folders().devicesDir())
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, lc := range j.localCapsules() {
		known[capsuleName(j.id, lc.index)] = true
	}
	for _, e := range entries {
		id, index, found := strings.Cut(e.Name(), ".")
		n, err := strconv.Atoi(index)
		if !found || err != nil || id != strconv.FormatUint(uint64(j.id), 10) || known[e.Name()] {
			continue
		}
		if err := j.c.endLeftoverDevices(ctx, j.id, n); err != nil {
			return err
		}
	}
	return nil
}

// deviceEnv returns the variables by which programs find the capsule's devices.
func (c *Conductor) deviceEnv(lc *localCapsule) []string {
	if lc.devices == nil {
		return nil
	}
	env := []string{
		wire.DeviceEnv, filepath.Join(c.Devices.Dir, deviceSocket), wire.NamesEnv, strings.Join(lc.note.GPUs, ","),
		"LD_LIBRARY_PATH", filepath.Join(c.KitDir, records.KitDevices),
	}
	if c.Devices.Kind == kindSoft && c.Devices.Blas != "" {
		// The plugin leaves a variable alone that the program has: steps of a restored script go on as the job began.
		env = append(env, wire.BlasEnv, c.Devices.Blas)
	}
	return env
}

// capsuleKitDir returns the path under which programs of a capsule see their kit.
func (c *Conductor) capsuleKitDir(lc *localCapsule) string {
	if lc.devices == nil {
		return c.KitDir
	}
	return filepath.Join(c.KitDir, records.KitDevices)
}

// Reasons for the loss of a capsule's devices.
var (
	errDevicesDied = errors.New("its device server has died")
	errOutOfMemory = errors.New("the job is out of memory: its device server, for which the job's limit holds too, was killed")
)

// watchDevices ends the run if the capsule's device server dies, because the state of the devices
// is lost. If the server was killed for lack of memory, the next run would fail in the same way,
// so the job is held.
func (lc *localCapsule) watchDevices(ctx context.Context) {
	j := lc.j
	select {
	case <-ctx.Done():
		return
	case <-lc.devices.Died():
	}
	ctx = context.WithoutCancel(ctx)
	why, end := errDevicesDied, j.failed.requeueRun
	if lc.devices.OutOfMemory() {
		why, end = errOutOfMemory, j.failed.giveUpAndHold
	}
	err := fmt.Errorf("node %s: %w", j.c.Node, why)
	j.log.Error("the run is ended: its devices are lost", "capsule", lc.index, "error", err)
	if err := end(ctx, err); err != nil {
		j.log.Error("cannot requeue the job", "error", err)
	}
}

// deviceBytesUsed returns an upper bound of the bytes that a dump of the capsule's devices
// contains.
func (lc *localCapsule) deviceBytesUsed(ctx context.Context) (n uint64, err error) {
	st, err := lc.devices.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("capsule %d: device server: %w", lc.index, err)
	}
	for _, d := range st.Devices {
		n += d.Used
	}
	return n, nil
}

// saveDevices writes the stopped devices of a capsule into the checkpoint, and takes over
// unchanged streams of the base.
func (lc *localCapsule) saveDevices(ctx context.Context, w upload.ShareWriter, on *upload.Base, attempt uint64) (*records.DeviceMeta, error) {
	j := lc.j
	prefix := fmt.Sprintf("%d/%s/", lc.index, records.DevicesFolder)
	r, err := lc.devices.Save(ctx, upload.StreamSink{Writer: w, Prefix: prefix}, server.SaveOptions{Attempt: attempt, Upon: on.DeviceSave(lc.index)})
	if err == nil {
		err = on.CarryStreams(ctx, prefix, r.Kept) // empty without a base
	}
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	j.log.Info("devices saved", "capsule", lc.index, "bytes", r.Bytes, "written", r.Written, "known", r.Known, "took", r.Wrote)
	return &records.DeviceMeta{Kind: j.c.Devices.Kind, Processes: r.Processes, Save: r.ID, Bytes: r.Bytes, Written: r.Written, Known: r.Known, Memory: r.Memory, Needs: r.Needs, Owners: r.Owners}, nil
}

// discardDevices ends the device servers of this node that belong to no known capsule.
func (r restart) discardDevices(ctx context.Context, known []string) error {
	c := r.c
	entries, err := os.ReadDir(c.folders().devicesDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(known, e.Name()) {
			continue
		}
		s, err := life.Find(ctx, filepath.Join(c.folders().devicesDir(), e.Name()))
		if err == nil && s != nil {
			err = endDeviceServer(ctx, s)
		}
		if err != nil {
			c.Log.Error("cannot discard a device server", "devices", e.Name(), "error", err)
		}
	}
	return nil
}

// enterJobCgroup moves a device server and a forwarder into the job's cgroup when the first task comes, if
// they were started before the cgroup existed. Memory that they hold already is not counted.
func (lc *localCapsule) enterJobCgroup(task int) {
	j := lc.j
	outsideOf(lc).moveForwarderToCgroup(processes.ForwardCgroup(processes.JobCgroup(j.c.Cgroups, task), lc.index))
	if lc.devices == nil || lc.devices.Cgroup() != "" {
		return
	}
	index := lc.index
	if dir := lc.devices.Shared(); dir != "" {
		index = sharedDeviceIndex(dir)
	}
	g := processes.DeviceCgroup(processes.JobCgroup(j.c.Cgroups, task), index)
	if g == "" {
		return
	}
	if err := lc.devices.Enter(g); err != nil {
		j.log.Warn("the job's limits do not apply to its device server", "capsule", lc.index, "error", err)
	}
}

// endDeviceServer ends a device server, and removes the job's cgroup if the cgroup is empty.
// A second call is harmless.
func endDeviceServer(ctx context.Context, s *life.Server) error {
	g := s.Cgroup()
	if err := s.End(ctx); err != nil || g == "" {
		return err
	}
	return processes.RemoveEmptyCgroup(filepath.Dir(g))
}

// gpuCounts returns the number of devices of each capsule of a new job that may grow to most GPUs; nil if the job has no
// GPUs.
func (c *Conductor) gpuCounts(ctx context.Context, s *slurm.Job, most int) ([]int, error) {
	if c.Devices.Kind == kindNone {
		return nil, nil
	}
	all, err := c.jobGPUs(ctx, s.String())
	if err != nil || all == nil {
		return nil, err
	}
	if len(all) != len(s.Nodes) {
		return nil, fmt.Errorf("the job has %d nodes, and Slurm shows GPUs of %d", len(s.Nodes), len(all))
	}
	return gpus.CountDevices(all, most), nil
}

// jobGPUs returns the GPUs of a job on each of its nodes. It waits for a slurmctld that is starting
// again.
func (c *Conductor) jobGPUs(ctx context.Context, job string) (all [][]int, err error) {
	silent := func(err error) bool { return errors.Is(err, slurm.ErrSilent) }
	err = retryWhile(ctx, restoreCallTimeout, silent, func() (err error) {
		all, err = c.Slurm.GPUs(ctx, job)
		return err
	})
	return all, err
}

// findGrant returns the GPUs of a capsule on this node; nil if the capsule had none in the first
// run.
func (j *job) findGrant(ctx context.Context, rec *records.Record, where records.Placement, index int) (*gpus.Grant, error) {
	if index >= len(rec.GPUs) || rec.GPUs[index] == 0 {
		return nil, nil
	}
	c := j.c
	if c.Devices.Kind == kindNone {
		return nil, fmt.Errorf("node %s has no devices for jobs (devices.kind in its proxyd.yaml), and the job has %d GPUs", c.Node, rec.GPUs[index])
	}
	all, err := c.jobGPUs(ctx, rec.Slurm)
	if err != nil {
		return nil, err
	}
	return gpus.FindGrant(rec, where, c.Node, index, all, c.Devices.Relative)
}

// hasFewerGPUs tells whether a node of this run has fewer GPUs than its capsules had in the first
// run.
func (j *job) hasFewerGPUs(ctx context.Context) (bool, error) {
	snap := j.run.Snapshot()
	if snap.Record.GPUs == nil {
		return false, nil
	}
	all, err := j.c.jobGPUs(ctx, snap.Record.Slurm)
	if err != nil {
		return false, err
	}
	return gpus.HasFewer(snap.Record, snap.Placement, all)
}

// realGPUs returns the UUIDs of the node's GPUs with these numbers.
func (c *Conductor) realGPUs(ctx context.Context, numbers []int) ([]string, error) {
	all, err := c.Devices.GPUs(ctx)
	if err != nil {
		return nil, fmt.Errorf("GPUs of node %s: %w", c.Node, err)
	}
	return gpus.FindUUIDs(c.Node, all, numbers)
}
