// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package slurmconf turns the description of a cluster into the files that its hosts need. The
// package reads and writes no files.
package slurmconf

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"text/template"
)

// Cluster has the properties of a cluster on which the files depend.
type Cluster struct {
	Name  string
	Slurm string // release, "26.05"
	Nodes int    // n1 … nN
	GPUs  int    // per node

	// Singularity says that singularity-slurm is installed on the hosts, and is configured as its
	// docs describe.
	Singularity bool
	// Controller says that preemptd runs too, on ctl.
	Controller bool
}

// File is a file of every host.
type File struct {
	Path  string // relative to the host's root
	Owner string // user and group of that name; "" is root
	Mode  uint32
	Data  []byte
}

// Ctl is the name of the host that holds the controller and the database.
const Ctl = "ctl"

// prefix begins every address. The network exists in namespaces only, so that each cluster can have
// the same prefix.
const prefix = "10.77.0."

// Hosts lists the hosts in order, ctl first.
func (c Cluster) Hosts() []string {
	hosts := []string{Ctl}
	for i := range c.Nodes {
		hosts = append(hosts, fmt.Sprintf("n%d", i+1))
	}
	return hosts
}

// Addr is the address of the i-th of Hosts.
func (c Cluster) Addr(i int) string { return fmt.Sprintf("%s%d", prefix, i+1) }

// NodeList is Slurm's notation for all nodes.
func (c Cluster) NodeList() string {
	if c.Nodes == 1 {
		return "n1"
	}
	return fmt.Sprintf("n[1-%d]", c.Nodes)
}

// GPUFiles is Slurm's notation for the device files of a node.
func (c Cluster) GPUFiles() string {
	if c.GPUs == 1 {
		return "/dev/sgpu0"
	}
	return fmt.Sprintf("/dev/sgpu[0-%d]", c.GPUs-1)
}

// OldCgroups says that the release has no setting against the use of cgroups.
func (c Cluster) OldCgroups() bool { return c.Slurm == "22.05" }

//go:embed templates
var templates embed.FS

var parsed = template.Must(template.ParseFS(templates, "templates/*"))

type configFile struct {
	template, path, owner string
	mode                  uint32
}

// files has the path of each template's output.
var files = []configFile{
	{"hosts", "etc/hosts", "", 0o644},
	{"slurm.conf", "etc/slurm/slurm.conf", "", 0o644},
	{"gres.conf", "etc/slurm/gres.conf", "", 0o644},
	{"cgroup.conf", "etc/slurm/cgroup.conf", "", 0o644},
	{"slurmdbd.conf", "etc/slurm/slurmdbd.conf", "slurm", 0o600}, // slurmdbd refuses any other mode
	{"accounting.sql", "etc/mysql/accounting.sql", "", 0o644},
	{"accounts.sh", "usr/local/sbin/minicluster-accounts", "", 0o755},
}

// ours are the files of singularity-slurm.
var ours = []configFile{
	{"plugstack.conf", "etc/slurm/plugstack.conf", "", 0o644},
	{"respawn.sh", "usr/local/sbin/minicluster-respawn", "", 0o755},
	{"proxyd.yaml", "etc/singularity-slurm/proxyd.yaml", "", 0o644},
}

// controllers are the files of a cluster with preemptd.
var controllers = []configFile{
	{"preemptd.yaml", "etc/singularity-slurm/preemptd.yaml", "", 0o644},
}

// Files returns every file of the cluster's hosts, but for the keys.
func (c Cluster) Files() ([]File, error) {
	var out []File
	all := files
	if c.Singularity {
		all = slices.Concat(all, ours)
	}
	if c.Controller {
		all = slices.Concat(all, controllers)
	}
	for _, f := range all {
		var b bytes.Buffer
		if err := parsed.ExecuteTemplate(&b, f.template, c); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		out = append(out, File{f.path, f.owner, f.mode, b.Bytes()})
	}
	return out, nil
}
