// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/enter"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/slurmconf"
)

// A recipe describes a daemon, which runs in the foreground with its output in a log.
type recipe struct {
	name  string
	on    func(hostName string) bool
	user  string // "" is root
	argv  []string
	env   []string
	ready func(pid int) bool // does the daemon listen? nil: the program ends, and is ready then
	check []string           // must succeed on the host, too, before the daemon is ready
	dir   string             // made below /run for the user before the start
	only  func(Spec) bool    // nil: of every cluster
}

// recipes are in the order in which a host's daemons are started.
var recipes = []recipe{
	{name: "munged", on: onEveryHost, user: "munge", dir: "munge",
		argv: []string{"munged", "--foreground"}, ready: listensAt("/run/munge/munge.socket.2")},
	{name: "mariadbd", on: hostIsCtl, user: "mysql", dir: "mysqld",
		argv: []string{"mariadbd", "--init-file=/etc/mysql/accounting.sql"}, ready: listensAt("/run/mysqld/mysqld.sock")},
	{name: "slurmdbd", on: hostIsCtl, user: "slurm", dir: "slurm",
		argv: []string{"slurmdbd", "-D"}, ready: listensOn(6819)},
	{name: "accounts", on: hostIsCtl,
		argv: []string{"/usr/local/sbin/minicluster-accounts"}},
	// Once, as an administrator does it, and before slurmctld, for which the nodes' daemons wait.
	{name: "shared folder", on: hostIsCtl, only: func(s Spec) bool { return s.Singularity },
		argv: []string{"sh", "-c", `proxyd init --cluster "$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)"`}},
	// -i, because a controller that is killed young has not saved all of its state yet, and 26.05
	// would not start again without. slurmctld listens before it has read its saved state; only
	// an answer says that it will stay.
	{name: "slurmctld", on: hostIsCtl, user: "slurm", dir: "slurm",
		argv: []string{"slurmctld", "-D", "-i"}, ready: listensOn(6817), check: []string{"sinfo", "-h"}},
	// Two, because a slurmrestd acts for all its callers by a single credential: munge for the
	// callers that it knows by their socket, or their own token.
	{name: "slurmrestd", on: hostIsCtl, user: "slurmrestd", dir: "slurmrestd",
		argv: []string{"slurmrestd", "-a", "rest_auth/local", "unix:/run/slurmrestd/slurmrestd.sock"}, ready: listensAt("/run/slurmrestd/slurmrestd.sock")},
	{name: "slurmrestd-jwt", on: hostIsCtl, user: "slurmrestd", env: []string{"SLURM_JWT=daemon"},
		argv: []string{"slurmrestd", "-a", "rest_auth/jwt", "0.0.0.0:6820"}, ready: listensOn(6820)},
	{name: "proxyd", on: hostIsNode, only: func(s Spec) bool { return s.Singularity },
		argv: []string{"/usr/local/sbin/minicluster-respawn", "proxyd", "daemon"}, ready: listensOn(6830)},
	// The variable lets a test stop preemptd at a step of an action: preemptd/pausing_journal.go.
	{name: "preemptd", on: hostIsCtl, only: func(s Spec) bool { return s.Controller }, env: []string{"SINGULARITY_SLURM_TEST_PAUSE_FILE=/run/preemptd-pause"},
		argv: []string{"/usr/local/sbin/minicluster-respawn", "preemptd"}, ready: listensOn(6831)},
	{name: "slurmd", on: hostIsNode, dir: "slurm",
		argv: []string{"slurmd", "-D"}, ready: listensOn(6818)},
}

func onEveryHost(string) bool     { return true }
func hostIsCtl(name string) bool  { return name == slurmconf.Ctl }
func hostIsNode(name string) bool { return !hostIsCtl(name) }

func (r recipe) endsByItself() bool { return r.ready == nil }

// daemon is a recipe on a host.
type daemon struct {
	recipe
	proc *enter.Process // nil before its first start
	done bool           // a program that is no daemon has ended, with success
}

func (s Spec) daemonsOf(hostName string) []*daemon {
	var ds []*daemon
	for _, r := range recipes {
		if r.on(hostName) && (r.only == nil || r.only(s)) {
			ds = append(ds, &daemon{recipe: r})
		}
	}
	return ds
}

// isRunning says whether the daemon's process is there.
func (d *daemon) isRunning() bool {
	if d.proc == nil {
		return false
	}
	select {
	case <-d.proc.Done():
		return false
	default:
		return true
	}
}

// stateText returns the daemon's state, for people.
func (d *daemon) stateText() string {
	switch {
	case d.done:
		return "done"
	case d.proc == nil:
		return "not started"
	case d.isRunning():
		return "running"
	}
	return fmt.Sprintf("ended (exit code %d)", d.proc.Code())
}

// The kernel's tables are read instead of connecting: Slurm logs a connection without a message as
// an error.

// listensAt finds a listening unix socket in the network namespace of pid.
func listensAt(path string) func(pid int) bool {
	return func(pid int) bool {
		const acceptsConnections = "00010000"
		return anyLine(pid, "unix", func(f []string) bool {
			return len(f) == 8 && f[3] == acceptsConnections && f[7] == path
		})
	}
}

// listensOn finds a listening TCP socket in the network namespace of pid.
func listensOn(port int) func(pid int) bool {
	return func(pid int) bool {
		const listen = "0A"
		suffix := fmt.Sprintf(":%04X", port)
		is := func(f []string) bool { return len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], suffix) }
		return anyLine(pid, "tcp", is) || anyLine(pid, "tcp6", is)
	}
}

func anyLine(pid int, table string, is func(fields []string) bool) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if is(strings.Fields(s.Text())) {
			return true
		}
	}
	return false
}
