// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A request is a JSON object on a connection of the control socket; the answer is an Answer, with
// the pidfd of the host's first process in the same message for "pidfd". The socket is root's
// alone.
type request struct {
	Verb   string // a key of verbs
	Host   string
	Daemon string
}

// Answer is the answer to a request.
type Answer struct {
	Error  string  `json:",omitempty"`
	Status *Status `json:",omitempty"`
}

// Status is the current state of a cluster.
type Status struct {
	Name  string       `json:"name"`
	Suite string       `json:"suite"`
	Slurm string       `json:"slurm"`
	Nodes int          `json:"nodes"`
	GPUs  int          `json:"gpus"`
	Since time.Time    `json:"since"`
	Hosts []HostStatus `json:"hosts"`
}

// HostStatus is a host's state: "up", "cut" (no network) or "failed" (switched off).
type HostStatus struct {
	Name    string         `json:"name"`
	Addr    string         `json:"addr"`
	State   string         `json:"state"`
	Daemons []DaemonStatus `json:"daemons"`
}

// DaemonStatus is the state of a host's daemon.
type DaemonStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// changeWithin bounds a change of a host.
const changeWithin = 90 * time.Second

// changes are the requests that change a host; they are carried out singly.
var changes = map[string]func(context.Context, *machine, request) error{
	"fail":    func(ctx context.Context, m *machine, _ request) error { return m.powerCut(ctx) },
	"cut":     func(_ context.Context, m *machine, _ request) error { return m.setCut(true) },
	"heal":    func(ctx context.Context, m *machine, _ request) error { return m.healHost(ctx) },
	"restart": func(ctx context.Context, m *machine, r request) error { return m.restartOn(ctx, r.Daemon) },
}

// listenControl opens the control socket. The socket is there from the keeper's first moment, so
// that Kill finds the keeper; all other callers wait until the cluster is up.
func listenControl(s Spec) (*net.UnixListener, error) {
	folder, err := s.clusterFolder()
	if err != nil {
		return nil, err
	}
	defer unix.Umask(unix.Umask(0o077))
	return net.ListenUnix("unix", &net.UnixAddr{Name: folder.Control(), Net: "unix"})
}

// serveRequests answers requests until the keeper is killed.
func (c *cluster) serveRequests(l *net.UnixListener) error {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := c.answerRequest(conn); err != nil {
				fmt.Fprintln(os.Stderr, "minicluster: keeper: control:", err)
			}
		}()
	}
}

func (c *cluster) answerRequest(conn *net.UnixConn) error {
	var r request
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return err
	}
	switch r.Verb {
	case "status":
		return sendReply(conn, Answer{Status: c.clusterStatus()}, nil)
	case "pidfd":
		m, err := c.machineOn(r.Host)
		if err != nil {
			return sendReply(conn, Answer{Error: err.Error()}, nil)
		}
		return m.lendPidfd(conn)
	}
	var a Answer
	if err := c.changeHost(r); err != nil {
		a.Error = err.Error()
	}
	return sendReply(conn, a, nil)
}

func (c *cluster) changeHost(r request) error {
	do, ok := changes[r.Verb]
	if !ok {
		return fmt.Errorf("the running keeper does not know %q", r.Verb)
	}
	m, err := c.machineNamed(r.Host)
	if err != nil {
		return err
	}
	c.change.Lock()
	defer c.change.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), changeWithin)
	defer cancel()
	return do(ctx, m, r)
}

func sendReply(conn *net.UnixConn, a Answer, rights []byte) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, _, err = conn.WriteMsgUnix(data, rights, nil)
	return err
}

// lendPidfd sends the pidfd of the host's first process.
func (m *machine) lendPidfd(conn *net.UnixConn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init == nil {
		return sendReply(conn, Answer{Error: m.offError().Error()}, nil)
	}
	return sendReply(conn, Answer{}, unix.UnixRights(m.pidfd))
}

func (m *machine) offError() error {
	return fmt.Errorf("host %s is off; `minicluster heal %s` switches it on", m.spec.Name, m.spec.Name)
}

func (c *cluster) machineNamed(name string) (*machine, error) {
	i := slices.IndexFunc(c.hosts, func(m *machine) bool { return m.spec.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no host %q in cluster %s (hosts: %s)", name, c.spec.Name, strings.Join(c.spec.slurmCluster().Hosts(), " "))
	}
	return c.hosts[i], nil
}

func (c *cluster) machineOn(name string) (*machine, error) {
	m, err := c.machineNamed(name)
	if err == nil && !m.isOn() {
		err = m.offError()
	}
	return m, err
}

func (m *machine) setCut(cut bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init == nil {
		return m.offError()
	}
	if cut && m.cut {
		return fmt.Errorf("host %s is cut off already", m.spec.Name)
	}
	if err := setPort(m.spec.Name, !cut); err != nil {
		return err
	}
	m.cut = cut
	return nil
}

// healHost brings missing parts of a host back: power, network, daemons.
func (m *machine) healHost(ctx context.Context) error {
	if !m.isOn() {
		if err := m.bootHost(ctx); err != nil {
			return err
		}
	}
	m.mu.Lock()
	cut := m.cut
	m.mu.Unlock()
	if cut {
		if err := m.setCut(false); err != nil {
			return err
		}
	}
	return m.startDaemons(ctx, func(*daemon) error { return nil }, func(*daemon) {})
}

func (m *machine) restartOn(ctx context.Context, daemon string) error {
	if !m.isOn() {
		return m.offError()
	}
	return m.restartDaemon(ctx, daemon)
}

func (c *cluster) clusterStatus() *Status {
	s := &Status{Name: c.spec.Name, Suite: c.spec.Suite, Slurm: c.spec.Slurm, Nodes: c.spec.Nodes, GPUs: c.spec.GPUs, Since: c.since}
	for _, m := range c.hosts {
		s.Hosts = append(s.Hosts, m.hostStatus(c.spec.slurmCluster().Addr(m.index)))
	}
	return s
}

func (m *machine) hostStatus(addr string) HostStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := HostStatus{Name: m.spec.Name, Addr: addr, State: "up"}
	switch {
	case m.init == nil:
		h.State = "failed"
	case m.cut:
		h.State = "cut"
	}
	for _, d := range m.daemons {
		h.Daemons = append(h.Daemons, DaemonStatus{d.name, d.stateText()})
	}
	return h
}
