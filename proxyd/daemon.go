// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/api"
	"github.com/singularity-slurm/singularity-slurm/proxyd/capsule"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/outside"
	"github.com/singularity-slurm/singularity-slurm/proxyd/checkpoint/reports"
	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/criu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
	"github.com/singularity-slurm/singularity-slurm/proxyd/metrics"
	"github.com/singularity-slurm/singularity-slurm/proxyd/nodesocket"
	"github.com/singularity-slurm/singularity-slurm/proxyd/overlay"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
	"github.com/singularity-slurm/singularity-slurm/proxyd/slurm"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/stage"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store"
	"github.com/singularity-slurm/singularity-slurm/proxyd/store/posix"
)

// node is a node's daemon while it runs.
type node struct {
	cfg           *config.Config
	loadConfig    func() (*config.Config, error) // as the next start would
	log           *slog.Logger
	cluster       *host.Slurm
	shared        *shared.Folder
	conductorWait *conductorWait
	sockets       func() // ends the answers to Slurm's side of the node
	watch         shared.Watch
	folder        *posix.Backend // of store
	keyPrint      string         // fingerprint of the key that store has
	store         *store.Store
	stage         *stage.Stage // nil: checkpoints go straight into store
	overlay       *overlay.Overlay
	conductor     *checkpoint.Conductor
	peers         *peers
	meter         *meter
}

// runDaemon is the daemon's life, top to bottom. The steps are undone in reverse order at the end.
func runDaemon(ctx context.Context, load func() (*config.Config, error)) error {
	cfg, err := load()
	if err != nil {
		return err
	}
	log := cfg.Log.NewLogger(os.Stderr)
	n := &node{cfg: cfg, loadConfig: load, log: log}
	n.meter = &meter{Metrics: metrics.New(version, reports.Events(), checkpoint.Phases()), n: n}
	for _, step := range []struct {
		name string
		do   func(*node, context.Context) (func(), error)
	}{
		{"folders", (*node).makeFolders},
		{"criu", (*node).probeCRIU},
		{"slurm", (*node).probeSlurm},
		{"gate", (*node).serveNode},
		{"metrics", (*node).serveMetrics},
		{"mark", (*node).openShared},
		{"store", (*node).openStore},
		{"network", (*node).makeNetwork},
		{"conductor", (*node).startConductor},
		{"watch", (*node).watchShared},
		{"listen", (*node).servePeers},
	} {
		undo, err := step.do(n, ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if undo != nil {
			defer undo()
		}
	}
	n.notify(daemon.SdNotifyReady + "\nSTATUS=")
	warnOfInterpretation(cfg.Devices, softgpu.CheckMachineCode, log)
	log.Info("ready", "version", version, "node", cfg.NodeName, "cluster", n.cluster.Cluster)
	<-ctx.Done()
	log.Info("stopping; capsules go on")
	n.notify(daemon.SdNotifyStopping)
	return nil
}

// notify tells systemd of the daemon's state.
func (n *node) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.log.Warn("sd_notify", "error", err)
	}
}

// makeFolders makes the folders of this node.
func (n *node) makeFolders(context.Context) (func(), error) {
	for _, f := range []struct {
		path string
		mode os.FileMode
	}{
		{n.cfg.RunDir, 0o755}, {n.listDir(), 0o755}, {n.kitDir(), 0o755}, {n.deviceDir(), 0o755},
		{n.containersDir(), 0o755}, {n.cfg.LibDir, 0o711},
	} {
		if err := os.Mkdir(f.path, f.mode); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	mark, err := os.OpenFile(n.realScontrol(), os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return nil, err
	}
	mark.Close()
	// There is a single daemon on a node: a second would take over the first daemon's capsules.
	lock, err := os.OpenFile(filepath.Join(n.cfg.LibDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s: another proxyd runs here: %w", lock.Name(), err)
	}
	return func() { lock.Close() }, nil
}

// listDir is the folder where capsules see the list of their files.
func (n *node) listDir() string { return filepath.Join(n.cfg.RunDir, "files") }

// kitDir is the folder where capsules see the shim.
func (n *node) kitDir() string { return filepath.Join(n.cfg.RunDir, "kit") }

// containersDir is the folder where capsules show the roots of containers. Not in RunDir, because
// files that programs write there must be recorded, and files in RunDir are not.
func (n *node) containersDir() string { return filepath.Clean(n.cfg.RunDir) + "-containers" }

// realScontrol is the path of the node's scontrol in capsules; sing-srun knows the path too.
func (n *node) realScontrol() string { return filepath.Join(n.cfg.RunDir, "scontrol") }

// deviceDir is the folder where capsules see the socket of their device server.
func (n *node) deviceDir() string { return filepath.Join(n.cfg.RunDir, "devices") }

// probeCRIU checks whether criu works: without criu no job could be captured.
func (n *node) probeCRIU(ctx context.Context) (func(), error) {
	found, err := criu.Check(ctx)
	if err != nil {
		return nil, err
	}
	n.log.Info("criu", "version", found)
	go prepareReaders(n.log)
	return nil, nil
}

func (n *node) openStore(ctx context.Context) (func(), error) {
	be, err := posix.Open(n.shared.StorePath())
	if err != nil {
		return nil, err
	}
	n.folder = be
	key, err := store.KeyFile(n.cfg.KeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w. Make one, once for the cluster, by `proxyd key %s`, and copy it to all nodes", err, n.cfg.KeyFile)
	}
	if err != nil {
		return nil, err
	}
	n.keyPrint = key.Fingerprint()
	owner, err := store.ThisProcess()
	if err != nil {
		return nil, err
	}
	n.store, err = store.Open(ctx, be, key, store.Options{Owner: owner, OwnerGone: store.ProcessGone})
	if err != nil {
		return nil, err
	}
	if n.cfg.Staging.Folder == "" {
		return n.store.Close, nil
	}
	if err := host.RootOnly(n.cfg.Staging.Folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.store.Close()
		return nil, fmt.Errorf("staging: %w", err)
	}
	// The folder is not made here: where a disk is not mounted yet, an empty folder would mean that
	// all staged checkpoints are lost.
	n.stage, err = stage.Open(n.cfg.Staging.Folder, n.cfg.Staging.Size)
	if err != nil {
		n.store.Close()
		return nil, fmt.Errorf("staging: %w (mount its disk, or mkdir -m 700 %s)", err, n.cfg.Staging.Folder)
	}
	return n.store.Close, nil
}

func (n *node) makeNetwork(ctx context.Context) (func(), error) {
	o, err := overlay.Open(overlay.Config{Range: n.cfg.Network.Range, Mode: n.cfg.Network.Mode, Device: n.cfg.Network.Device, ShortPath: n.cfg.Network.ShortPath})
	if err != nil {
		return nil, err
	}
	for _, note := range o.Notes() {
		n.log.Info("network", "note", note)
	}
	n.overlay = o
	n.logShortPath(o.ShortPath())
	ctx, cancel := context.WithCancel(ctx)
	repaired := make(chan struct{})
	go func() {
		defer close(repaired)
		n.repairShared(ctx)
	}()
	return func() { cancel(); <-repaired; o.Close() }, nil
}

// repairEvery is the longest time that the capsules' network stays broken after an administrator,
// or another daemon, has flushed the firewall. The kernel does not report that.
const repairEvery = 30 * time.Second

func (n *node) repairShared(ctx context.Context) {
	tick := time.NewTicker(repairEvery)
	defer tick.Stop()
	reason := n.overlay.ShortPath()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := n.overlay.Repair(ctx); err != nil && ctx.Err() == nil {
			n.log.Error("cannot repair the network", "error", err)
		}
		if now := n.overlay.ShortPath(); now != reason {
			reason = now
			n.logShortPath(reason)
		}
	}
}

// logShortPath logs whether packets between capsules pass by the node's routing and netfilter, or why not.
func (n *node) logShortPath(reason string) {
	if reason == "" {
		n.log.Info("network", "note", "packets between capsules take the short path")
	} else {
		n.log.Info("network", "note", "packets between capsules take the long way through routing and netfilter: "+reason)
	}
}

func (n *node) startConductor(ctx context.Context) (func(), error) {
	pool, err := overlay.OpenPool(filepath.Join(n.cfg.Shared, "addresses"), n.cfg.Network.Range)
	if err != nil {
		return nil, err
	}
	cgroups, err := capsule.CgroupRoot(ctx)
	if err != nil {
		return nil, err
	}
	scontrol, err := exec.LookPath(n.cfg.Scontrol)
	if err != nil {
		return nil, err
	}
	real, err := exec.LookPath(n.cfg.Srun)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.EvalSymlinks(real); err != nil {
		return nil, err
	}
	seen, err := filepath.EvalSymlinks(scontrol)
	if err != nil {
		return nil, err
	}
	help, err := exec.CommandContext(ctx, real, "--help").Output()
	if err != nil {
		n.log.Warn("srun --help", "error", err)
	}
	s := slurm.New(scontrol)
	devices, err := n.deviceConfig(ctx, s)
	if err != nil {
		return nil, err
	}
	n.peers = newPeers(n, s)
	relay, err := n.dialRelay()
	if err != nil {
		return nil, err
	}
	n.conductor, err = checkpoint.New(checkpoint.Config{
		Node: n.cfg.NodeName, Cluster: n.cluster.Cluster, Lib: n.cfg.LibDir, Shared: n.cfg.Shared,
		SrunPath: real, SrunWrapper: filepath.Join(libexec, "sing-srun"), KitDir: n.kitDir(), ListDir: n.listDir(), Cgroups: cgroups,
		ContainersDir: n.containersDir(),
		Scontrol:      seen, RealScontrol: n.realScontrol(),
		Socket:  filepath.Join(n.cfg.RunDir, nodesocket.SpankSocket),
		Release: host.MajorMinor(n.cluster.Version), Help: help, MPIDefault: n.cluster.MPIDefault,
		Interval: n.cfg.Interval, NodeMTBF: n.cfg.NodeMTBF, ObstacleInterval: n.cfg.ObstacleInterval, OnTimeLimit: n.cfg.OnTimeLimit, OnFailure: n.cfg.OnFailure, WithoutCheckpoint: n.cfg.WithoutCheckpoint,
		RestoreAsRoot: n.cfg.RestoreAsRoot == "allow",
		Outside:       n.cfg.Outside, RelayName: n.cfg.Relay,
		Retention: store.Retention{Count: n.cfg.Keep}, KeepPast: n.cfg.KeepFor,
		Devices: *devices, UploadRate: n.cfg.Staging.Rate, RestorePatience: n.cfg.Staging.Patience,
	}, checkpoint.Deps{Slurm: s, Store: n.store, Stage: n.stage, Overlay: n.overlay, Pool: pool, Remote: n.peers, Relay: relay, Log: n.log, Meter: n.meter, CheckShared: n.checkShared})
	if err != nil {
		return nil, err
	}
	if err := n.conductor.Adopt(ctx); err != nil {
		return nil, err
	}
	return func() { n.conductor.Close(); n.peers.closeAll() }, nil
}

// dialRelay returns the site's relay, or nil if the site has no relay. The first call connects.
func (n *node) dialRelay() (outside.Relay, error) {
	if n.cfg.Relay == "" {
		return nil, nil //nolint:nilnil // no error: there is none
	}
	return rpc.DialRelay(n.cfg.Relay, n.cfg.NodeName, munge.Programs{Socket: n.cfg.MungeSocket})
}

// deviceConfig returns the GPUs that jobs of this node get.
func (n *node) deviceConfig(ctx context.Context, s *slurm.Slurm) (*checkpoint.DeviceConfig, error) {
	c := &checkpoint.DeviceConfig{GPUs: realGPUs, Kind: n.cfg.Devices.Kind, Memory: n.cfg.Devices.Memory, Capability: n.cfg.Devices.Capability, Kernels: n.cfg.Devices.Kernels, Blas: n.cfg.Devices.Blas, Address: n.cfg.Devices.Address, Dir: n.deviceDir()}
	var err error
	if c.Kind != "none" {
		c.Relative, err = s.Constrains(ctx)
	}
	return c, err
}

// realGPUs returns the UUIDs of the node's GPUs, by the program that can open a driver.
func realGPUs(ctx context.Context) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "gpus")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("proxyd gpus: %w: %s", err, strings.TrimSpace(said.String()))
	}
	var found struct {
		Devices []struct{ UUID string }
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("proxyd gpus: %w", err)
	}
	var all []string
	for _, d := range found.Devices {
		all = append(all, d.UUID)
	}
	return all, nil
}

// servePeers answers people and other nodes, and opens the conductorWait. Its undo waits for the answers under way,
// also to Slurm's side of the node, because the conductor is closed next.
func (n *node) servePeers(context.Context) (func(), error) {
	coder := munge.Programs{Socket: n.cfg.MungeSocket}
	grpc := api.NewServer(api.Options{
		Node: n.cfg.NodeName, Version: version, SlurmUser: n.cluster.UID, Operators: n.cfg.Operators, Keep: n.cfg.Keep,
		Conductor: service{n}, Health: n.health, Log: n.log,
		Doctor: n.examineNode,
	}, coder)
	tcp, err := net.Listen("tcp", n.cfg.Listen)
	if err != nil {
		return nil, err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := grpc.Serve(tcp); err != nil {
			n.log.Error("calls are not served any more", "error", err)
		}
	}()
	n.conductorWait.open(n.conductor, n.conductor.SrunRequests())
	return func() {
		grpc.Stop()
		<-served
		n.sockets()
	}, nil
}
