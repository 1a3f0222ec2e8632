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
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/server"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
)

// A capsule of a job with GPUs has a device server of its own (package life), which holds them:
//
//	raise      it is started before the capsule is made, or built from the checkpoint and stopped
//	cut        all of the job's device servers stand still (cut.go), then its programs are frozen
//	dump       it is saved beside the images
//	restore    each process of a program that came back is given to it again, before the program goes on
//	open       when all programs of the job are back: the servers find each other, and go on
//	drop       it is ended with the capsule
//
// If it dies, what it held is lost: the run is ended, and the job resumes from its newest checkpoint.

// DeviceConfig is what jobs have as GPUs on this node.
type DeviceConfig struct {
	Kind     string // "none" or "soft"
	Memory   uint64 // of each
	Address  string // of this node, for device servers of others; "": as Slurm knows it
	Dir      string // where capsules see their server's socket; an empty folder of the node
	Relative bool   // Slurm counts the GPUs of a job from 0
}

const (
	kindNone     = "none"
	deviceSocket = "device"
)

// DeviceMeta is what a checkpoint says of a capsule's devices.
type DeviceMeta struct {
	Kind      string                `json:"kind"`
	Processes []server.SavedProcess `json:"processes"`
	Bytes     uint64                `json:"bytes"`   // of the devices' memory
	Written   uint64                `json:"written"` // of these
}

func (c *Conductor) deviceDir(job uint32, index int) string {
	return filepath.Join(c.devices(), attachment(job, index))
}

// gpusOf returns how many GPUs each capsule of a job that begins is to have, nil if none has any.
func (c *Conductor) gpusOf(ctx context.Context, s *slurm.Job) ([]int, error) {
	if c.Devices.Kind == kindNone {
		return nil, nil
	}
	all, err := c.Slurm.GPUs(ctx, s.String())
	if err != nil || all == nil {
		return nil, err
	}
	if len(all) != len(s.Nodes) {
		return nil, fmt.Errorf("GPUs of %d nodes are shown, and it has %d", len(all), len(s.Nodes))
	}
	counts := make([]int, len(all))
	for i, gpus := range all {
		counts[i] = len(gpus)
	}
	return counts, nil
}

// grant is what a capsule has of a node's GPUs in this run.
type grant struct {
	names []int // by which Slurm means them
	order []int // which of them is each that the job began with
}

// granted deals out a node's GPUs to its capsules, of which this is the place-th of n. It began with so many. Capsules share one only
// if there are more of them than GPUs; a capsule's own GPUs share one if there are fewer than it began with.
func granted(gpus []int, place, n, began int) grant {
	first, end := place*len(gpus)/n, (place+1)*len(gpus)/n
	names := gpus[first:max(end, first+1)]
	return grant{names, server.Spread(began, min(began, len(names)))}
}

// grant finds out what a capsule of this node has, nil if it began without GPUs.
func (j *job) grant(ctx context.Context, rec *Record, where placement, index int) (*grant, error) {
	if index >= len(rec.GPUs) || rec.GPUs[index] == 0 {
		return nil, nil
	}
	c := j.c
	if c.Devices.Kind == kindNone {
		return nil, fmt.Errorf("node %s gives jobs no devices (devices.kind in its proxyd.yaml), and it has %d", c.Node, rec.GPUs[index])
	}
	all, err := c.Slurm.GPUs(ctx, rec.Slurm)
	if err != nil {
		return nil, err
	}
	here, err := where.on(c.Node)
	if err != nil {
		return nil, err
	}
	at := slices.Index(where.today, c.Node)
	if at >= len(all) || len(all[at]) == 0 {
		return nil, fmt.Errorf("it has no GPUs on %s now, and began with %d", c.Node, rec.GPUs[index])
	}
	gpus := all[at]
	if c.Devices.Relative {
		for i := range gpus {
			gpus[i] = i
		}
	}
	g := granted(gpus, slices.Index(here, index), len(here), rec.GPUs[index])
	return &g, nil
}

// hasFewerGPUs tells whether a node of this run has fewer GPUs than its capsules began with.
func (j *job) hasFewerGPUs(ctx context.Context) (bool, error) {
	j.mu.Lock()
	rec, where := j.rec, j.where
	j.mu.Unlock()
	if rec.GPUs == nil {
		return false, nil
	}
	all, err := j.c.Slurm.GPUs(ctx, rec.Slurm)
	if err != nil {
		return false, err
	}
	for i, node := range where.today {
		here, err := where.on(node)
		if err != nil {
			return false, err
		}
		began, has := 0, 0
		for _, k := range here {
			began += rec.GPUs[k]
		}
		if i < len(all) {
			has = len(all[i])
		}
		if has < began {
			return true, nil
		}
	}
	return false, nil
}

// startDevices starts a capsule's device server if it is to have one, and says where its programs see it.
func (j *job) startDevices(ctx context.Context, h *held, kit string, from *origin, m *CapsuleMeta) ([]capsule.Bind, error) {
	j.mu.Lock()
	rec, where := j.rec, j.where
	j.mu.Unlock()
	g, err := j.grant(ctx, rec, where, h.index)
	if err != nil || g == nil {
		return nil, err
	}
	if !hasDevices(kit) {
		return nil, fmt.Errorf("it has GPUs, and no %s was installed beside the plugin's shim when it began", kitDriver)
	}
	address := j.c.Devices.Address
	if address == "" {
		at, err := j.c.locate(ctx, j.c.Node)
		if err != nil {
			return nil, err
		}
		address = at.String()
	}
	dir := j.c.deviceDir(j.id, h.index)
	// One of a run whose end this node has missed.
	if err := j.c.endDevices(ctx, j.id, h.index); err != nil {
		return nil, err
	}
	spec := life.Spec{
		Dir: dir, UID: rec.UID, GID: rec.GID, Count: len(g.names), Memory: strconv.FormatUint(j.c.Devices.Memory, 10),
		Address: address, Self: h.index, Order: g.order,
	}
	if m != nil && m.Devices != nil {
		if m.Devices.Kind != j.c.Devices.Kind {
			return nil, fmt.Errorf("its devices were of kind %s, node %s has %s", m.Devices.Kind, j.c.Node, j.c.Devices.Kind)
		}
		h.devices, err = life.Restore(ctx, spec, source{from.reader, m, "devices/"})
	} else {
		h.devices, err = life.Start(ctx, spec)
	}
	if err != nil {
		return nil, fmt.Errorf("device server: %w", err)
	}
	for _, n := range g.names {
		h.note.GPUs = append(h.note.GPUs, strconv.Itoa(n))
	}
	return []capsule.Bind{{Source: h.devices.SocketDir(), Target: j.c.Devices.Dir, ReadOnly: true}}, nil
}

// endDevices ends the capsule's device server. It may be called twice.
func (h *held) endDevices(ctx context.Context) error {
	if h.devices == nil {
		return nil
	}
	return h.devices.End(ctx)
}

// endDevices ends what is left of a capsule's device server.
func (c *Conductor) endDevices(ctx context.Context, job uint32, index int) error {
	s, err := life.Find(ctx, c.deviceDir(job, index))
	if err != nil || s == nil {
		return err
	}
	return s.End(ctx)
}

// deviceEnv are the variables by which programs find a capsule's devices.
func (c *Conductor) deviceEnv(h *held) []string {
	if h.devices == nil {
		return nil
	}
	return []string{
		wire.DeviceEnv, filepath.Join(c.Devices.Dir, deviceSocket), wire.NamesEnv, strings.Join(h.note.GPUs, ","),
		"LD_LIBRARY_PATH", filepath.Join(c.KitDir, kitDevices),
	}
}

// kitOf is where programs of a capsule see their kit.
func (c *Conductor) kitOf(h *held) string {
	if h.devices == nil {
		return c.KitDir
	}
	return filepath.Join(c.KitDir, kitDevices)
}

// errDevicesDied is why a capsule's devices are no more.
var errDevicesDied = errors.New("its device server has died")

// watchDevices ends the run if a capsule's device server dies: what it held is lost.
func (j *job) watchDevices(ctx context.Context, h *held) {
	select {
	case <-ctx.Done():
	case <-h.devices.Died():
		err := fmt.Errorf("node %s: %w", j.c.Node, errDevicesDied)
		j.log.Error("the run is ended", "capsule", h.index, "error", err)
		if err := j.rerun(context.WithoutCancel(ctx), err); err != nil {
			j.log.Error("requeue the job", "error", err)
		}
	}
}

// devicesUse returns how many bytes of devices a dump of a capsule may hold.
func (j *job) devicesUse(ctx context.Context, h *held) (n uint64, err error) {
	st, err := h.devices.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("capsule %d: device server: %w", h.index, err)
	}
	for _, d := range st.Devices {
		n += d.Used
	}
	return n, nil
}

// saveDevices writes the devices of a capsule, which stand still, into a checkpoint.
func (j *job) saveDevices(ctx context.Context, h *held, out outlet, attempt uint64) (*DeviceMeta, error) {
	r, err := h.devices.Save(ctx, sink{out, fmt.Sprintf("%d/devices/", h.index)}, server.SaveOptions{Attempt: attempt})
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return &DeviceMeta{j.c.Devices.Kind, r.Processes, r.Bytes, r.Written}, nil
}

// adoptProcesses gives the processes of a program that was restored to the capsule's device server. They are at its gates, or
// will be.
func (j *job) adoptProcesses(ctx context.Context, h *held, m *CapsuleMeta, group string) error {
	if m.Devices == nil {
		return nil
	}
	saved := map[int]server.SavedProcess{}
	for _, p := range m.Devices.Processes {
		saved[p.Capsule] = p
	}
	for _, pid := range processesIn(group) {
		p, ok := saved[innerPID(pid)]
		if !ok {
			continue
		}
		if err := h.takeBack(ctx, p, pid); err != nil {
			return fmt.Errorf("devices of process %d: %w", p.Capsule, err)
		}
	}
	return nil
}

// takeBack gives one process to the device server, with what it shares with it: the server itself may not open that.
func (h *held) takeBack(ctx context.Context, p server.SavedProcess, pid int) error {
	with, err := server.Belongings(pid, p)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range with {
			f.Close()
		}
	}()
	return h.devices.Adopt(ctx, p.ID, pid, with)
}

// resumeDevices lets the devices of a restored capsule work. It may be called twice.
func (h *held) resumeDevices(ctx context.Context) error {
	st, err := h.devices.Status(ctx)
	if err != nil || !st.Stopped {
		return err
	}
	return h.devices.Resume(ctx)
}

// discardDevices ends the device servers of this node whose capsules are not known.
func (c *Conductor) discardDevices(ctx context.Context, known []string) error {
	entries, err := os.ReadDir(c.devices())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(known, e.Name()) {
			continue
		}
		s, err := life.Find(ctx, filepath.Join(c.devices(), e.Name()))
		if err == nil && s != nil {
			err = s.End(ctx)
		}
		if err != nil {
			c.Log.Error("discard", "devices", e.Name(), "error", err)
		}
	}
	return nil
}

// meetBody is the body of phaseMeet: the device servers of a restored job find each other.
type meetBody struct {
	Peers map[int]string `json:"peers,omitempty"` // where each is, by capsule; nil: say where those of this node are
}

// meetHere is this node's part of it.
func (j *job) meetHere(ctx context.Context, _ store.ID, b meetBody) (map[int]string, error) {
	at := map[int]string{}
	for _, h := range j.capsules() {
		if h.devices == nil {
			continue
		}
		var err error
		if b.Peers == nil {
			at[h.index], err = h.devices.Address(ctx)
		} else {
			err = h.devices.Reconnect(ctx, b.Peers)
		}
		if err != nil {
			return nil, fmt.Errorf("capsule %d: %w", h.index, err)
		}
	}
	return at, nil
}

// meet has the device servers of a restored job find each other. They stand still.
func (j *job) meet(ctx context.Context, from *origin, where placement) error {
	if !slices.ContainsFunc(from.meta.Capsules, func(m CapsuleMeta) bool { return m.Devices != nil }) {
		return nil
	}
	peers, err := j.meetThere(ctx, from, where, meetBody{})
	if err == nil {
		_, err = j.meetThere(ctx, from, where, meetBody{peers})
	}
	if err != nil {
		return fmt.Errorf("the device servers do not find each other: %w", err)
	}
	return nil
}

// meetThere has all nodes do their part, side by side, and puts together what they say.
func (j *job) meetThere(ctx context.Context, from *origin, where placement, b meetBody) (map[int]string, error) {
	var mu sync.Mutex
	all := map[int]string{}
	g, ctx := errgroup.WithContext(ctx)
	for node := range from.nodes(where) {
		g.Go(func() error {
			var at map[int]string
			err := j.c.insist(ctx, raiseWithin, node, j.id, phaseMeet, b, &at)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, at)
			return err
		})
	}
	return all, g.Wait()
}
