// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package config is the administrator's configuration of preemptd: a struct, filled from a table of keys (keys.go) by
// package table.
package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// File is where the configuration is unless told otherwise.
const File = "/etc/singularity-slurm/preemptd.yaml"

// Config is the configuration. keys.go has the meaning of each field.
type Config struct {
	Slurmrestd  string
	TokenUser   string
	TokenFile   string
	Scontrol    string
	MungeSocket string
	ProxydPort  string
	Listen      string
	Web         Web
	Operators   []string
	Sacctmgr    string
	Journal     string

	Interval   time.Duration
	MaxActions int
	KeepRoom   time.Duration
	Grace      time.Duration
	Retention  time.Duration
	Patience   Patience
	LeaseQOS   string
	Rules      Rules
	Tiers      Tiers
	Promised   PromisedFractions
	Power      Power
	Policies   []string
	Policy     Policy

	Metrics Metrics
	Log     table.Log

	values table.Values
}

// Web is the page for browsers.
type Web struct {
	Address, TLSCert, TLSKey string
	Hosts                    []string
	Racks                    string // file
}

// Patience is how long steps of actions may take.
type Patience struct{ Checkpoint, Leave, Start time.Duration }

// Rules bind the intents of policies.
type Rules struct{ Window, MinRun, CoolDown time.Duration }

// Tiers are the QOS of each tier.
type Tiers struct{ Premium, Standard, Basic []string }

// PromisedFractions is the GPU fraction of each tier, in percent.
type PromisedFractions struct{ Premium, Standard, Basic int }

// Power is how much GPUs may draw, and are taken to draw, in watts.
type Power struct{ Cap, Busy, Idle int }

// Policy has the settings that are the same for all policies.
type Policy struct {
	Folder   string
	Settings string
	Timeout  time.Duration
	Memory   uint64
}

// Metrics is where the metrics are served.
type Metrics struct{ Address string }

// Load reads the file, and lets the environment, of "NAME=value" as from os.Environ, and then
// flags, by key, override the file. All mistakes are reported at once. A file with the name File
// need not exist: every key has a default. Only root may be able to write the file, because the
// file names programs that root runs.
func Load(file string, environ []string, flags map[string]string) (*Config, error) {
	text, err := table.ReadFile(file)
	if err != nil && (!errors.Is(err, os.ErrNotExist) || file != File) {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return parseConfig(file, text, environ, flags)
}

// NoteEmpty says on w that a configuration's file is there and empty, and returns whether that is so.
func NoteEmpty(w io.Writer, file string) bool { return table.NoteEmpty(w, file) }

// Default returns the configuration of a site without a file.
func Default() (*Config, error) { return parseConfig(File, nil, nil, nil) }

func parseConfig(file string, text []byte, environ []string, flags map[string]string) (*Config, error) {
	c := &Config{}
	var errs []error
	c.values, errs = keys.Parse(c, file, text, environ, flags)
	if c.values == nil { // the file is not YAML
		return nil, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	if c.TokenFile == "" && !strings.HasPrefix(c.Slurmrestd, "unix:") {
		errs = append(errs, fmt.Errorf("token.file: missing; slurmrestd at %s wants a token", c.Slurmrestd))
	}
	if (c.Web.TLSCert == "") != (c.Web.TLSKey == "") {
		errs = append(errs, errors.New("web.tls_cert, web.tls_key: one without the other"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return c, nil
}

// ChangedKeys names the keys with different values. Values of the environment and of flags count, too.
func (c *Config) ChangedKeys(other *Config) []string {
	return keys.ChangedKeys(c.values, other.values)
}

// NeedsRestart names the keys with different values that take effect only at a start.
func (c *Config) NeedsRestart(other *Config) []string {
	return keys.NeedsRestart(c.values, other.values)
}
