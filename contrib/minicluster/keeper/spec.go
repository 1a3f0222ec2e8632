// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package keeper is the process on which a running cluster depends: PID 1 of a PID namespace in
// which every other process of the cluster lives, and owner of the mount and network namespaces
// that hold its bridge and its root file systems. When the keeper ends, by any signal, the kernel
// removes all of this.
//
//	up ──spec, lifeline──► keeper ──► host-init ctl   munged mariadbd slurmdbd slurmctld slurmrestd
//	   ◄──events──────────         ──► host-init n1    munged slurmd
//	                               ──► …
//	exec, status, fail … ──control.sock──►
//
// Until the cluster is up, the keeper also ends when `up` does: it reads the lifeline, and end of
// file before the word "stay" ends the keeper.
package keeper

import (
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/slurmconf"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

// Arg is the hidden first argument by which the program is a keeper.
const Arg = "keeper"

// Spec describes the cluster that `up` asks for.
type Spec struct {
	Name    string
	Suite   string
	Slurm   string // release
	Nodes   int
	GPUs    int
	Tree    string // the suite's root file system
	Install string // a `make install DESTDIR=…` tree, or ""

	// Opt are folders by the names that they have in /opt of each host: the software that contrib/cuda-software
	// has fetched.
	Opt map[string]string

	Singularity bool // Install has singularity-slurm: configure it and start its daemons
	Controller  bool // and preemptd
}

func (s Spec) slurmCluster() slurmconf.Cluster {
	return slurmconf.Cluster{Name: s.Name, Slurm: s.Slurm, Nodes: s.Nodes, GPUs: s.GPUs, Singularity: s.Singularity, Controller: s.Controller}
}

func (s Spec) clusterFolder() (state.Folder, error) { return state.At(s.Name) }

// Event is a message of the keeper to `up` while the cluster is raised: a JSON object on a line.
// The last Event has Done or Error set.
type Event struct {
	Host  string `json:",omitempty"`
	What  string `json:",omitempty"` // "network", "boot", or a daemon that is now ready
	Done  bool   `json:",omitempty"`
	Error string `json:",omitempty"`
}

// File descriptors that the keeper starts with.
const (
	lifelineFD = 3 // the Spec as a line of JSON; then "stay", or end of file
	eventsFD   = 4 // Events
	// 5 and 6 are the cluster's lock and the hold on its tree. They are never read: they only have to
	// stay open.
)
