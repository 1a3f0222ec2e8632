// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/enter"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/host"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/slurmconf"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

// raiseWithin limits the time of raiseCluster, for slow machines and eight nodes.
const raiseWithin = 90 * time.Second

// cluster is a running cluster.
//
// Lock order: change → machine.mu. change is held while a host is failed, cut or healed, or a
// daemon is restarted; status takes only machine.mu.
type cluster struct {
	spec   Spec
	folder state.Folder
	since  time.Time
	hosts  []*machine // ctl first

	change sync.Mutex
}

// raiseCluster raises the cluster, from an empty folder to idle nodes, top to bottom.
func raiseCluster(s Spec, tell func(Event)) (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), raiseWithin)
	defer cancel()
	folder, err := s.clusterFolder()
	if err != nil {
		return nil, err
	}
	c := &cluster{spec: s, folder: folder, since: time.Now()}
	if err := ownMounts(folder.Mounts()); err != nil {
		return nil, err
	}
	if err := c.makeLayer(); err != nil {
		return nil, err
	}
	if err := makeSwitch(); err != nil {
		return nil, err
	}
	tell(Event{What: "network"})
	c.makeMachines()
	if err := c.bootAll(ctx, tell); err != nil {
		return nil, err
	}
	tell(Event{What: "waiting for idle nodes"})
	if err := c.awaitIdle(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// ownMounts makes the mount namespace ours: our mounts stay here, and a mount that the machine
// removes goes away here too. All our data but /shared and the logs is in a tmpfs, which the kernel
// frees with the namespace.
func ownMounts(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("minicluster", dir, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", dir, err)
	}
	return nil
}

func (c *cluster) makeMachines() {
	conf := c.spec.slurmCluster()
	layers := []string{c.layerDir("upper"), c.spec.Tree}
	for i, name := range conf.Hosts() {
		dir := filepath.Join(c.folder.Mounts(), "hosts", name)
		c.hosts = append(c.hosts, &machine{
			index: i,
			label: c.spec.Name + "/" + name,
			spec: host.Spec{
				Name: name, Addr: conf.Addr(i) + "/24", Known: knownNeighbors(conf, i), Lower: layers,
				Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Root: filepath.Join(dir, "root"),
				Shared: c.folder.Shared(), Logs: c.folder.Logs(name), GPUs: c.spec.GPUs, Opt: c.spec.Opt,
			},
			daemons: c.spec.daemonsOf(name),
		})
	}
}

// mostLookedUp is the largest number of hosts that find each other by ARP. The kernel has one table of neighbors for
// all network namespaces of a machine, with room for 1024 unless an administrator has changed that, and drops packets
// when the table is full. Permanent entries do not count.
const mostLookedUp = 24

// knownNeighbors returns the addresses of the other hosts in a cluster that is too large for ARP.
func knownNeighbors(conf slurmconf.Cluster, self int) (addresses []string) {
	hosts := len(conf.Hosts())
	if hosts <= mostLookedUp {
		return nil
	}
	for i := range hosts {
		if i != self {
			addresses = append(addresses, conf.Addr(i))
		}
	}
	return addresses
}

// bootAll boots the hosts side by side. The nodes' slurmd wait for the controller: a controller
// that does not answer at once is asked again only after seconds.
func (c *cluster) bootAll(ctx context.Context, tell func(Event)) error {
	controller := make(chan struct{})
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range c.hosts {
		g.Go(func() error {
			if err := m.bootHost(ctx); err != nil {
				return err
			}
			tell(Event{Host: m.spec.Name, What: "boot"})
			err := m.startDaemons(ctx, func(d *daemon) error {
				if d.name == "slurmd" {
					return awaitSignal(ctx, controller)
				}
				return nil
			}, func(d *daemon) {
				tell(Event{Host: m.spec.Name, What: d.name})
				if d.name == "slurmctld" {
					close(controller)
				}
			})
			return err
		})
	}
	return g.Wait()
}

func awaitSignal(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitIdle waits until Slurm itself says that every node is idle.
func (c *cluster) awaitIdle(ctx context.Context) error {
	var out string
	var err error
	for ctx.Err() == nil {
		out, err = c.hosts[0].runAsRoot("sinfo", "-h", "-N", "-p", "main", "-o", "%N %t %E")
		if err == nil && allIdle(out) {
			return nil
		}
		pauseFor(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("the nodes did not become idle: %w", errors.Join(err, errors.New(strings.ReplaceAll(out, "\n", "; "))))
}

// allIdle looks at lines of "node state reason".
func allIdle(sinfo string) bool {
	for line := range strings.Lines(sinfo) {
		f := strings.Fields(line)
		if len(f) < 2 || f[1] != "idle" {
			return false
		}
	}
	return sinfo != ""
}

// runAsRoot runs a program as root on the host and returns its output.
func (m *machine) runAsRoot(argv ...string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	first, err := m.openFirstProcess()
	if err != nil {
		return "", err
	}
	defer first.closeFiles()
	p, err := enter.Start(first.pidfd, enter.Command{Argv: argv, Files: [3]*os.File{nil, w, w}})
	w.Close()
	if err != nil {
		return "", err
	}
	out := readAll(r)
	if code := p.Code(); code != 0 {
		return out, fmt.Errorf("%s: exit code %d: %s", argv[0], code, strings.TrimSpace(out))
	}
	return out, nil
}
