// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package config is what an administrator tells proxyd: one struct, filled from one table
// of keys (keys.go). A value comes from the environment, else from the file, else from the
// table. What is not in the table is an error that names what may have been meant.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/viper"
	"golang.org/x/sys/unix"
)

// File is where the configuration is unless told otherwise.
const File = "/etc/singularity-slurm/proxyd.yaml"

// Config is the configuration. keys.go says what each field means.
type Config struct {
	Shared    string
	KeyFile   string
	NodeName  string
	Listen    string
	Operators []string
	RunDir    string
	LibDir    string

	Interval          time.Duration
	KillWaitMargin    time.Duration
	OnTimeLimit       string
	WithoutCheckpoint string
	OnFailure         string
	Keep              int
	KeepFor           time.Duration

	Staging Staging
	Devices Devices
	Network Network

	Scontrol    string
	Srun        string
	MungeSocket string
	Metrics     Metrics
	Log         Log

	origins map[string]origin // by key
}

// Staging is where checkpoints land on this node, before they are in the store.
type Staging struct {
	Folder   string
	Size     uint64
	Rate     uint64 // bytes a second
	Patience time.Duration
}

// Devices are those that jobs of this node have by device servers.
type Devices struct {
	Kind    string // "none", "soft" or "cuda"
	Memory  uint64 // of each
	Address string // of this node, for device servers of others
}

// Metrics is where they are served.
type Metrics struct{ Address string }

// Log is what is logged, and how.
type Log struct {
	Level slog.Level
	JSON  bool
}

// Network of the capsules.
type Network struct {
	Range  netip.Prefix
	Mode   string
	Device string
}

// Port returns the port of Listen.
func (c *Config) Port() string {
	_, port, _ := net.SplitHostPort(c.Listen)
	return port
}

// origin is the value of a key as it was written, and where.
type origin struct{ value, where string }

// Load reads the file and lets the environment, of "NAME=value" as from os.Environ,
// override it: key network.mode by SINGULARITY_SLURM_NETWORK_MODE. All that is wrong is
// reported at once. The file must exist, and nobody but root may be able to write it: it
// names programs that root runs.
func Load(file string, environ []string) (*Config, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	return parse(file, text, environ)
}

// read returns the content of a file that only root can have written.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", file, err)
	}
	if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("configuration: %s: owned by user %d with mode %04o; want root and not writable by others (chown root, chmod 644)",
			file, st.Uid, st.Mode&0o7777)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", file, err)
	}
	return text, nil
}

func parse(file string, text []byte, environ []string) (*Config, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", file, plainer(err))
	}
	var errs []error
	names := v.AllKeys()
	slices.Sort(names)
	for _, name := range names {
		if wrong := unknown(name, v.Get(name)); wrong != "" {
			errs = append(errs, fmt.Errorf("%s: %s: %s", file, name, wrong))
		}
	}
	c := &Config{origins: make(map[string]origin)}
	for _, k := range keys {
		o := origin{k.value, "default"}
		if v.InConfig(k.name) || v.IsSet(k.name) {
			value, err := written(v.Get(k.name), k.list)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", file, k.name, err))
				continue
			}
			o = origin{value, file}
		}
		if value, ok := lookup(environ, environment(k.name)); ok {
			o = origin{value, "environment"}
		}
		c.origins[k.name] = o
		if err := k.set(c, o.value); err != nil {
			where := o.where
			if where == "environment" {
				where = environment(k.name)
			}
			want, _ := asWants(err)
			errs = append(errs, fmt.Errorf("%s: %w", where, invalid(k.name, o.value, want)))
		}
	}
	errs = append(errs, c.complete(file)...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return c, nil
}

// unknown says what is wrong with a name that is in the file, if it is none of a key.
func unknown(name string, value any) string {
	var inside []string // keys, if it is a section
	for _, k := range keys {
		if name == k.name || strings.HasPrefix(name, k.name+".") { // the value of k will be refused
			return ""
		}
		if key, ok := strings.CutPrefix(k.name, name+"."); ok {
			inside = append(inside, key)
		}
	}
	switch {
	case inside == nil:
		return "no such key" + meant(name)
	case value != nil:
		return "want a section, with keys " + strings.Join(inside, ", ")
	}
	return "" // an empty section
}

// complete derives what was left empty, and checks what concerns several keys.
func (c *Config) complete(file string) []error {
	var errs []error
	if c.Shared == "" && c.origins["shared"].value == "" {
		errs = append(errs, fmt.Errorf("%s: shared: missing; name a folder that all nodes share, as in /shared/singularity", file))
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

// written returns a YAML value as one would write it.
func written(v any, list bool) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case []any:
		if !list {
			return "", errors.New("want one value, found a list")
		}
		var items []string
		for _, item := range v {
			s, err := written(item, false)
			if err != nil {
				return "", err
			}
			items = append(items, s)
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		return "", errors.New("want a value, found a section")
	default:
		return fmt.Sprint(v), nil
	}
}

func lookup(environ []string, name string) (string, bool) {
	for _, e := range slices.Backward(environ) {
		if n, value, ok := strings.Cut(e, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}

// plainer takes viper's own words off an error of the YAML parser.
func plainer(err error) error {
	var parse viper.ConfigParseError
	if errors.As(err, &parse) {
		if inner := parse.Unwrap(); inner != nil {
			return inner
		}
	}
	return err
}
