// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package config has the settings of proxyd: a struct, filled from a table of keys
// (keys.go) by package table.
package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// File is where the configuration is unless told otherwise.
const File = "/etc/singularity-slurm/proxyd.yaml"

// Config is the configuration. keys.go has the meaning of each field.
type Config struct {
	Shared    string
	KeyFile   string
	NodeName  string
	Listen    string
	Operators []string
	RunDir    string
	LibDir    string

	Interval          time.Duration // Auto, or 0: never
	NodeMTBF          time.Duration
	ObstacleInterval  time.Duration
	KillWaitMargin    time.Duration
	OnTimeLimit       string
	WithoutCheckpoint string
	OnFailure         string
	RestoreAsRoot     string
	Outside           string
	Relay             string
	Keep              int
	KeepFor           time.Duration

	Staging Staging
	Devices Devices
	Network Network

	Scontrol    string
	Srun        string
	MungeSocket string
	Metrics     Metrics
	Log         table.Log

	values table.Values
}

// Auto is the value of a time that proxyd finds out itself.
const Auto time.Duration = -1

// Staging is where checkpoints land on this node, before they are in the store.
type Staging struct {
	Folder   string
	Size     uint64
	Rate     uint64 // bytes a second
	Patience time.Duration
}

// Devices are the devices that jobs of this node have by device servers.
type Devices struct {
	Kind       string // "none", "soft" or "cuda"
	Memory     uint64 // of each
	Capability string // of software GPUs, as in "10.0"
	Kernels    string // of software GPUs: "compiled" or "interpreted"
	Blas       string // the code for products of matrices on software GPUs: "vendor" or "native"
	Address    string // of this node, for device servers of other nodes
}

// Metrics has the address at which metrics are served.
type Metrics struct{ Address string }

// Network of the capsules.
type Network struct {
	Range     netip.Prefix
	Mode      string
	Device    string
	ShortPath string
}

// Port returns the port of Listen.
func (c *Config) Port() string {
	_, port, _ := net.SplitHostPort(c.Listen)
	return port
}

// Load reads the file and lets the environment, of "NAME=value" as from os.Environ, override it:
// key network.mode by SINGULARITY_SLURM_NETWORK_MODE. All mistakes are reported at once. The file
// must exist, and only root may be able to write the file, which names programs that root runs.
func Load(file string, environ []string) (*Config, error) {
	text, err := table.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return parseConfig(file, text, environ)
}

// NoteEmpty reports whether a configuration's file exists and is empty, and writes a note to w if so.
func NoteEmpty(w io.Writer, file string) bool { return table.NoteEmpty(w, file) }

func parseConfig(file string, text []byte, environ []string) (*Config, error) {
	c := &Config{}
	var errs []error
	c.values, errs = keys.Parse(c, file, text, environ, nil)
	if c.values != nil { // the file is YAML
		errs = append(errs, c.setDerived(file)...)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return c, nil
}

// ownKeys begin keys with values that may differ between nodes.
var ownKeys = []string{"node_name", "devices.", "staging.", "network.device", "network.short_path", "metrics.", "log."}

// Fingerprint returns a hash of the settings that have to be the same on all nodes.
func (c *Config) Fingerprint() string {
	var lines []string
	for name, value := range c.values {
		own := slices.ContainsFunc(ownKeys, func(begin string) bool { return strings.HasPrefix(name, begin) })
		if !own {
			lines = append(lines, name+"="+value.Text)
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return fmt.Sprintf("%x", sum[:6])
}

// ChangedKeys returns the names of the keys that have other values in another configuration. Values of the environment
// count, too.
func (c *Config) ChangedKeys(other *Config) []string { return keys.ChangedKeys(c.values, other.values) }

// setDerived derives settings that were left empty, and checks settings against each other.
func (c *Config) setDerived(file string) []error {
	var errs []error
	if c.Shared == "" && c.values["shared"].Text == "" {
		errs = append(errs, fmt.Errorf("%s: shared: missing; name a folder that all nodes share, as in /shared/singularity", file))
	}
	if c.Outside == "relay" && c.Relay == "" {
		errs = append(errs, fmt.Errorf("%s: outside: relay: there is no relay; name it, as in relay: head1:6833", file))
	}
	if c.NodeMTBF == 0 {
		errs = append(errs, fmt.Errorf("%s: node_mtbf: 0: want at least 1h; interval: 0 switches periodic checkpoints off", file))
	}
	if c.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			errs = append(errs, fmt.Errorf("node_name: %w", err))
		}
		c.NodeName, _, _ = strings.Cut(name, ".")
	}
	return errs
}
